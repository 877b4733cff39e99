"""Joining two datasets by key, and blending 100 small ones.

The join reads data T and a copy of it with the same keys. The small datasets have 1,000 samples each, in one shard; the
dataset they are compared with has the same samples in 100 shards.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete, in_new_process
from tests.benchmarks.startup import energon_first_sample
from tests.benchmarks.streams import drained
from tests.benchmarks.table import Bound, Row

BOTH = "reading both datasets one after the other"
JOINS = {"a joiner of the user": "function", "one dict with the parts of both": "dict"}
FIRST_JOIN, FIRST_READ = "first sample of a join", "first sample of one of its datasets"
FIRST, ENERGON = "first sample of a blend of 100 datasets", "Megatron-Energon, first sample of one dataset"
BLEND, ONE = "a blend of 100 datasets", "one dataset of the same samples"
NODE, PLAIN = "a blend of 100 sources in memory", "one source in memory"
FILES = "files open at most, in a blend of 100 datasets"
SMALL, SAMPLES = 100, 1000


def rows(settings: Settings) -> list[Row]:
    """Measure joins and blends."""
    root = settings.root
    data.copy_of_text(root), data.hundred(root), data.one_of_hundred(root)
    contenders = [Contender(BOTH, reading_both, (root,))]
    contenders += [Contender(f"join: {name}", joining, (root, kind)) for name, kind in JOINS.items()]
    contenders += [
        Contender(FIRST_JOIN, in_new_process, (first_joined, root)),
        Contender(FIRST_READ, in_new_process, (first_read, root)),
        Contender(FIRST, in_new_process, (first_blended, root)),
        Contender(ENERGON, in_new_process, (energon_first_sample, root)),
        Contender(FILES, in_new_process, (open_files, root)),
        Contender(BLEND, blending, (root,)),
        Contender(ONE, reading_one, (root,)),
        Contender(NODE, blending_memory, (SMALL,)),
        Contender(PLAIN, blending_memory, (1,)),
    ]
    results = compete(contenders, settings.rounds)
    table = [results.row(BOTH, [BOTH], lambda: Row(BOTH, results.median(BOTH, "rate"), "samples/s"))]
    table += [join_row(results, f"join: {name}") for name in JOINS]
    table += [
        results.row(FIRST_JOIN, [FIRST_JOIN, FIRST_READ], lambda: above_row(results, FIRST_JOIN, FIRST_READ, "ms", 10)),
        results.row(FIRST, [FIRST], lambda: Row(FIRST, results.median(FIRST, "ms"), "ms", bound=Bound("≤", 50))),
        results.row(ENERGON, [ENERGON], lambda: Row(ENERGON, results.median(ENERGON, "ms"), "ms")),
        results.row(FILES, [FILES], lambda: Row(FILES, results.median(FILES, "files"), "files", bound=Bound("≤", 128))),
        results.row(BLEND, [BLEND, ONE], lambda: above_row(results, BLEND, ONE, "µs", 1)),
        results.row(NODE, [NODE, PLAIN], lambda: above_row(results, NODE, PLAIN, "µs", 1)),
    ]
    return table


def join_row(results: Results, name: str) -> Row:
    def make() -> Row:
        # A joined sample is two samples that were read.
        ratio = 2 * results.ratio(name, BOTH)
        return Row(name, results.median(name, "rate"), "samples/s", ratio, "both, one after the other", Bound("≥", 0.4))

    return results.row(name, [name, BOTH], make)


def above_row(results: Results, name: str, base: str, unit: str, most: float) -> Row:
    above = sorted(a[unit] - b[unit] for a, b in zip(results.figures[name], results.figures[base], strict=True))
    note = f"{results.median(name, unit):.3g} {unit}, and {results.median(base, unit):.3g} for {base}"
    return Row(f"{name}: above {base}", above[len(above) // 2], unit, bound=Bound("≤", most), note=note)


def timed(make: Callable[[], Iterator[Any]], count: int | None = None) -> Callable[[], Figures]:
    def measure() -> Figures:
        started = time.perf_counter()
        taken = 0
        items = make()
        while got := drained(items, 500 if count is None else min(500, count - taken)):
            taken += got
        elapsed = time.perf_counter() - started
        return {"rate": taken / elapsed, "µs": 1e6 * elapsed / taken}

    return measure


def warm(pipeline: Any) -> Callable[[], Iterator[Any]]:
    """Return what gives one running iterator again and again: its buffers are full when the clock starts."""
    running = iter(pipeline)
    deque(islice(running, 50_000), maxlen=0)
    return lambda: running


def reading_both(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    first, second = en.shards(data.text(root)), en.shards(data.copy_of_text(root))
    return timed(lambda: iter(en.concat(first, second)))


def pair(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


def joining(root: Path, kind: str) -> Callable[[], Figures]:
    import energon_nodes as en

    first, second = data.text(root), data.copy_of_text(root)
    if kind == "function":
        return timed(lambda: iter(en.shards(first).join(en.shards(second), joiner=pair)))
    texts, numbers = en.shards(first, parts=["txt"]), en.shards(second, parts=["json"])
    return timed(lambda: iter(texts.join(numbers)))


def first_joined(root: Path) -> Figures:
    import energon_nodes as en
    import energon_nodes.sources.shards
    import energon_nodes.storage.key_search  # imports are not part of the figure

    started = time.perf_counter()
    next(en.shards(data.text(root)).join(en.shards(data.copy_of_text(root)), joiner=pair))
    return {"ms": 1e3 * (time.perf_counter() - started)}


def first_read(root: Path) -> Figures:
    import energon_nodes as en
    import energon_nodes.sources.shards  # imports are not part of the figure

    started = time.perf_counter()
    next(en.shards(data.text(root)))
    return {"ms": 1e3 * (time.perf_counter() - started)}


def blend(root: Path) -> Any:
    import energon_nodes as en

    folders = sorted(data.hundred(root).iterdir())
    sources = [en.shards(folder, shuffle=True, sequence_length=100) for folder in folders]
    return en.blend(*sources, weights=[1 + number % 7 for number in range(SMALL)], on_end="repeat")


def first_blended(root: Path) -> Figures:
    import energon_nodes.sources.shards  # noqa: F401 - imports are not part of the figure

    started = time.perf_counter()
    next(blend(root))
    return {"ms": 1e3 * (time.perf_counter() - started)}


def open_files(root: Path) -> Figures:

    before, most = len(os.listdir("/proc/self/fd")), 0
    for number, _ in enumerate(islice(blend(root), 20_000)):
        if number % 100 == 0:
            most = max(most, len(os.listdir("/proc/self/fd")) - before)
    return {"files": most}


def blending(root: Path) -> Callable[[], Figures]:
    return timed(warm(blend(root)), 100_000)


def reading_one(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    return timed(warm(en.shards(data.one_of_hundred(root), shuffle=True, sequence_length=100).repeat()), 100_000)


def blending_memory(count: int) -> Callable[[], Figures]:
    import energon_nodes as en

    sources = [en.items(range(10_000)).repeat() for _ in range(count)]
    return timed(warm(sources[0] if count == 1 else en.blend(*sources, weights=list(range(1, count + 1)))), 100_000)
