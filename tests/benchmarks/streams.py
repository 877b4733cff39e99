"""A pass over data T, timed in the same way for every contender."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import Figures

CHUNK = 500  # items between two looks at the clock


def key_number(sample: Any) -> Iterable[int]:
    """Return the number in the key of one sample dict."""
    return (int(sample["__key__"]),)


@dataclass(frozen=True)
class Stream:
    """A reader of data T: `iterate` starts a pass, `numbers` tells which samples are in an item."""

    iterate: Callable[[], Iterator[Any]]
    numbers: Callable[[Any], Iterable[int]] = key_number
    samples_per_item: int = 1


def timed_pass(make: Callable[..., Stream], root: Path, budget: float, *options: Any) -> Callable[[], Figures]:
    """Return a measurement of `make(root, *options)`: samples per second of a pass, and its mean id step.

    The clock starts before the pass does, so what is read first and the filling of buffers count. Who needs more than
    `budget` seconds for a pass is stopped there.
    """
    stream = make(root, *options)
    step = mean_step(stream, budget)

    def measure() -> Figures:
        started = time.perf_counter()
        passing, items, got, elapsed = stream.iterate(), 0, CHUNK, 0.0
        while got == CHUNK and elapsed < budget:
            got = drained(passing, CHUNK)
            items += got
            elapsed = time.perf_counter() - started
        return {"rate": items * stream.samples_per_item / elapsed, "step": step}

    return measure


def drained(items: Iterator[Any], limit: int) -> int:
    """Take up to `limit` items, drop each at once and return how many there were."""
    counter = count()
    deque(zip(islice(items, limit), counter, strict=False), maxlen=0)
    return next(counter)


def mean_step(stream: Stream, budget: float) -> float:
    """Return the mean distance of two neighbours in the stream: 33,000 in a uniform shuffle of data T, 1 in order."""
    numbers: list[int] = []
    started = time.perf_counter()
    for item in stream.iterate():
        numbers.extend(stream.numbers(item))
        if time.perf_counter() - started > budget:
            break
    return float(np.abs(np.diff(numbers)).mean())
