"""`gc` collects garbage at chosen elements, and leaves the collector as it was."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import energon_nodes as en


class Ring:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def ring(value: int) -> Ring:
    return Ring()


def settings(value: Any) -> tuple[bool, bool]:
    return gc.isenabled(), gc.get_freeze_count() > 0


def test_cycles_are_freed_every_so_many_elements() -> None:
    alive: list[weakref.ref[Ring]] = []
    counts: list[int] = []
    was = gc.isenabled()
    gc.disable()
    try:
        for element in en.items(range(10)).map(ring).gc(every=4):
            counts.append(sum(each() is not None for each in alive))
            alive.append(weakref.ref(element))
            del element
    finally:
        if was:
            gc.enable()
    assert counts == [0, 1, 2, 3, 1, 2, 3, 4, 1, 2]  # the map still knows the last one that it returned


def test_the_settings_of_this_process_stay_as_they_are() -> None:
    before = settings(None)
    node = en.items(range(4)).map(settings).gc(every=3)
    assert list(node) == [before] * 4
    assert settings(None) == before


def test_in_a_worker_the_collector_is_quiet_during_the_pass_alone() -> None:
    node = en.items(range(6)).map(settings).gc(every=2)
    loader = node.loader(num_workers=1, streams=2)
    for _ in range(2):  # the worker lives on, and begins a second pass as it did the first
        assert list(loader) == [(False, True)] * 6


def test_in_a_worker_settings_are_put_back_when_the_pass_ends() -> None:
    parts = en.concat(en.items(range(3)).gc(every=2), en.items(range(2))).map(settings)
    assert list(parts.loader(num_workers=1)) == [(False, True)] * 3 + [(True, False)] * 2


def test_it_counts_from_one() -> None:
    with pytest.raises(ValueError, match="gc needs an int every >= 1, got every=0"):
        en.items([1]).gc(0)
