"""Start-up on 2,000 prepared shards of 5 samples, open files, memory, and the cost of the import.

What happens once in the life of a process is measured in a process of its own each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete, in_new_process
from tests.benchmarks.table import Bound, Row

OURS, ENERGON, FLOOR = "first sample of 2,000 shards", "Megatron-Energon", "an index file and one read"
FILES, MEMORY = "files open at most, in a pass over 2,000 shards", "memory for each further sample"
IMPORT, TORCH = "import energon_nodes", "import torch"
READ = 20_000  # samples read while memory is watched


def rows(settings: Settings) -> list[Row]:
    """Measure start-up, files, memory and imports."""
    root = settings.root
    data.many_shards(root)
    data.deep(root)
    contenders = [
        Contender(OURS, in_new_process, (our_first_sample, root)),
        Contender(ENERGON, in_new_process, (energon_first_sample, root)),
        Contender(FLOOR, in_new_process, (floor_first_sample, root)),
        Contender(FILES, in_new_process, (open_files, root)),
        Contender(MEMORY, in_new_process, (memory, root)),
        Contender(IMPORT, importing, ("energon_nodes",)),
        Contender(TORCH, importing, ("torch",)),
    ]
    results = compete(contenders, settings.rounds)
    return [
        results.row(OURS, [OURS], lambda: figure_row(results, OURS, "ms", Bound("≤", 30))),
        results.row(ENERGON, [ENERGON], lambda: figure_row(results, ENERGON, "ms")),
        results.row(FLOOR, [FLOOR], lambda: figure_row(results, FLOOR, "ms")),
        results.row(FILES, [FILES], lambda: figure_row(results, FILES, "files", Bound("≤", 128))),
        results.row(
            MEMORY, [MEMORY], lambda: figure_row(results, MEMORY, "bytes", Bound("≤", 1), "2,000,000 against 100,000")
        ),
        results.row(IMPORT, [IMPORT, TORCH], lambda: import_row(results)),
    ]


def figure_row(results: Results, name: str, figure: str, bound: Bound | None = None, note: str = "") -> Row:
    return Row(name, results.median(name, figure), figure, bound=bound, note=note)


def import_row(results: Results) -> Row:
    ratio = results.ratio(IMPORT, TORCH, "ms")
    return Row(IMPORT, results.median(IMPORT, "ms"), "ms", ratio, TORCH, Bound("≤", 1.05))


def our_first_sample(root: Path) -> Figures:
    from energon_nodes import shards  # imports are not part of the figure, here as for the others

    return timed(lambda: next(iter(shards(data.many_shards(root), split="train", shuffle=True))))


def energon_first_sample(root: Path) -> Figures:
    import megatron.energon as me

    from tests.benchmarks.energon_task import ListBatches

    def first() -> Any:
        dataset = me.get_train_dataset(
            str(data.many_shards(root)),
            worker_config=me.WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=None,
            shuffle_buffer_size=None,
            max_samples_per_sequence=100,
            task_encoder=ListBatches(),
        )
        return next(iter(me.get_loader(dataset)))

    return timed(first)


def floor_first_sample(root: Path) -> Figures:
    """Read the counts, one index and one sample: what any reader of this format has to do."""
    folder = data.many_shards(root)

    def first() -> bytes:
        counts = json.loads((folder / ".nv-meta" / ".info.json").read_text())["shard_counts"]
        shard = folder / list(counts)[len(counts) // 2]
        start, end = np.fromfile(shard.with_suffix(".tar.idx"), dtype="<u8")[:2].tolist()
        with shard.open("rb") as file:
            return os.pread(file.fileno(), end - start, start)

    return timed(first)


def timed(action: Callable[[], Any]) -> Figures:
    started = time.perf_counter()
    action()
    return {"ms": (time.perf_counter() - started) * 1e3}


def open_files(root: Path) -> Figures:
    """Return the most descriptors that a shuffled pass holds beyond those of the process before it."""
    import energon_nodes as en

    before, most = descriptors(), 0
    for number, _ in enumerate(en.shards(data.many_shards(root), shuffle=True, sequence_length=1)):
        if number % 50 == 0:
            most = max(most, descriptors())
    return {"files": most - before}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory(root: Path) -> Figures:
    """Return the bytes that 1,900,000 further samples cost at the peak, each."""
    import energon_nodes as en

    def peak(folder: Path) -> int:
        tracemalloc.start()
        deque(islice(en.shards(folder, shuffle=True, sequence_length=100), READ), maxlen=0)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    few, many = data.text(root), data.deep(root)
    peak(few)
    further = data.TEXT_SAMPLES * (data.DEEP_COPIES - 1)
    return {"bytes": median(peak(many) - peak(few) for _ in range(3)) / further}


def importing(package: str) -> Callable[[], Figures]:
    return lambda: import_time(package)


def import_time(package: str) -> Figures:
    """Return the time of an import in an interpreter that has imported nothing yet."""
    code = f"import time; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    output = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return {"ms": float(output.stdout) * 1e3}
