"""What a node costs for each element, beside torchdata's Mapper, and what two threads of parallel_map reach."""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.table import Bound, Row

NODES = 5
OURS, MAPPER = "a map of the identity", "a torchdata Mapper of the identity"
PARALLEL, THREADS = "parallel_map, two threads, JPEG decoding", "two bare threads, JPEG decoding"


def rows(settings: Settings) -> list[Row]:
    """Measure chains of five nodes, and JPEG decoding in two threads."""
    elements = 100_000 if settings.quick else 300_000
    images = 96 if settings.quick else 384
    contenders = [
        Contender(OURS, cost_of_node, (our_chain, elements)),
        Contender(MAPPER, cost_of_node, (torchdata_chain, elements)),
        Contender(PARALLEL, parallel_map, (settings.root, images)),
        Contender(THREADS, bare_threads, (settings.root, images)),
    ]
    results = compete(contenders, settings.rounds)
    return [
        results.row(OURS, [OURS], lambda: cost_row(results, OURS, Bound("≤", 100))),
        results.row(f"{OURS}, relative", [OURS, MAPPER], lambda: relative_row(results)),
        results.row(MAPPER, [MAPPER], lambda: cost_row(results, MAPPER, None)),
        results.row(PARALLEL, [PARALLEL, THREADS], lambda: threads_row(results)),
    ]


def cost_row(results: Results, name: str, bound: Bound | None) -> Row:
    return Row(name, results.median(name, "cost"), "ns per element and node", bound=bound)


def relative_row(results: Results) -> Row:
    return Row(f"{OURS}, relative", None, "", results.ratio(OURS, MAPPER, "cost"), MAPPER, Bound("≤", 0.4))


def threads_row(results: Results) -> Row:
    ratio = results.ratio(PARALLEL, THREADS)
    return Row(PARALLEL, results.median(PARALLEL, "rate"), "images/s", ratio, THREADS, Bound("≥", 0.95))


def cost_of_node(chain: Callable[[int, int], Iterator[Any]], elements: int) -> Callable[[], Figures]:
    """Return a measurement of the time that each node of a chain adds for each element."""

    def seconds(nodes: int) -> float:
        stream = chain(nodes, elements)
        started = time.perf_counter()
        deque(stream, maxlen=0)
        return time.perf_counter() - started

    def measure() -> Figures:
        bare = seconds(0)
        return {"cost": (seconds(NODES) - bare) / NODES / elements * 1e9}

    return measure


def our_chain(nodes: int, elements: int) -> Iterator[Any]:
    import energon_nodes as en

    pipeline = en.items(range(elements))
    for _ in range(nodes):
        pipeline = pipeline.map(identity)
    return iter(pipeline)


def torchdata_chain(nodes: int, elements: int) -> Iterator[Any]:
    from torchdata.nodes import IterableWrapper, Mapper

    node = IterableWrapper(range(elements))
    for _ in range(nodes):
        node = Mapper(node, identity)
    node.reset()
    return iter(node)


def identity(value: Any) -> Any:
    return value


def parallel_map(root: Path, images: int) -> Callable[[], Figures]:
    import energon_nodes as en

    payloads = data.payloads(data.images(root), "jpg", images)

    def measure() -> Figures:
        pipeline = en.items(payloads).parallel_map(decoded, workers=2)
        started = time.perf_counter()
        deque(pipeline, maxlen=0)
        return {"rate": images / (time.perf_counter() - started)}

    return measure


def bare_threads(root: Path, images: int) -> Callable[[], Figures]:
    payloads = data.payloads(data.images(root), "jpg", images)

    def measure() -> Figures:
        threads = [threading.Thread(target=decode_all, args=(payloads[part::2],)) for part in range(2)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"rate": images / (time.perf_counter() - started)}

    return measure


def decode_all(payloads: list[bytes]) -> None:
    for payload in payloads:
        decoded(payload)


def decoded(payload: bytes) -> Image.Image:
    return Image.open(io.BytesIO(payload)).convert("RGB")
