"""`gc`: collect Python's garbage at chosen elements."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Iterator
from typing import TypeVar

from energon_nodes.combinators.watching import Meter, Watching
from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import shared, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["CollectGarbage"]

X = TypeVar("X")


class CollectGarbage(Watching[X], Node[X], verb="gc"):
    """Run `gc.collect()` once for every `every` elements, when the next one is asked for.

    Samples that hang in reference cycles (exceptions with their frames, objects that know their parents) keep their
    memory until Python's collector finds them, which it does at its own time and by the number of objects, not by
    their size. This bounds how many there are. The streams of one process count together.

    In a worker process of a loader, which belongs to the pipeline alone, the collector is also kept from running by
    itself, and what the process had in memory at the first element (torch, the program) is left out of the
    collections by `gc.freeze`: they look at the data alone, which takes well under a millisecond in place of nearly
    a hundred, and pages that are shared with the parent process stay shared. Both are undone when the pass ends. In
    your own process the settings of the collector are yours, and stay as they are.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(5)).batch(2).gc(every=2))
        [[0, 1], [2, 3], [4]]

    Args:
        source: The node to read from.
        every: How many elements lie between two collections, at least 1. In your own process a collection takes
            nearly 0.1 s once torch is loaded, so choose a number whose elements take seconds.

    Raises:
        ValueError: If `every` is less than 1.
    """

    source: Node[X]
    every: int = tuning()
    meter: Meter = shared()

    def check(self) -> None:
        check_size("gc", "every", self.every, 1)
        self.meter = Meter()

    def run(self) -> Iterator[tuple[X, Key]]:
        meter, every, pairs = self.meter, self.every, self.source.pairs()
        own_process = multiprocessing.parent_process() is not None
        meter.enter()
        if own_process:
            _quiet.enter()
        try:
            for pair in pairs:
                meter.count += 1
                yield pair
                if meter.count >= every:
                    meter.count = 0
                    del pair  # what was delivered is the consumer's to keep or to drop
                    gc.collect()
        finally:
            meter.leave()
            if own_process:
                _quiet.leave()


class _Quiet:
    """Keep the collector of this process quiet while any stream runs, and put it back then."""

    def __init__(self) -> None:
        self._streams = 0
        self._collected = self._enabled = self._frozen = False

    def enter(self) -> None:
        if not self._streams:
            if not self._collected:  # garbage must not be frozen; later there is little
                gc.collect()
                self._collected = True
            self._enabled = gc.isenabled()
            self._frozen = gc.get_freeze_count() == 0  # what another has frozen is for them to free
            gc.disable()
            if self._frozen:
                gc.freeze()
        self._streams += 1

    def leave(self) -> None:
        self._streams -= 1
        if not self._streams:
            if self._frozen:
                gc.unfreeze()
            if self._enabled:
                gc.enable()


_quiet = _Quiet()


def _begin_anew() -> None:
    global _quiet
    _quiet = _Quiet()  # a generator of the parent may still call `leave` of the old one: it only gives back more


os.register_at_fork(after_in_child=_begin_anew)
