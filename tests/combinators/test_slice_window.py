"""`slice_window` gives windows that slide over the stream."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from more_itertools import sliding_window

import energon_nodes as en
from energon_nodes.testing.runs import resumed
from tests.contract import functions as f


def windows(values: list[int], size: int, step: int, drop_last: bool) -> list[tuple[int, ...]]:
    """Say what must come: slices, and a short one at the end if it has an element that no window had."""
    found = [tuple(values[start : start + size]) for start in range(0, len(values) - size + 1, step)]
    start, covered = len(found) * step, (len(found) - 1) * step + size if found else 0
    rest = tuple(values[start:])
    return found if drop_last or len(values) <= covered or not rest else [*found, rest]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 12), st.booleans(), st.integers(0, 30))
def test_windows_are_slices_before_and_behind_a_resume(
    count: int, size: int, step: int, drop_last: bool, cut: int
) -> None:
    def make() -> en.Node[tuple[int, ...]]:
        return en.items(range(count)).slice_window(size, step, drop_last=drop_last)

    expected = windows(list(range(count)), size, step, drop_last)
    node = make()
    assert list(node) == expected
    assert len(node) == len(expected)
    node = make()
    taken = [next(node) for _ in range(min(cut, len(expected)))]
    assert taken + list(resumed(make, node.state_dict())) == expected


@given(st.integers(0, 30), st.integers(1, 9))
def test_a_step_of_one_is_the_sliding_window_of_more_itertools(count: int, size: int) -> None:
    assert list(en.items(range(count)).slice_window(size)) == list(sliding_window(range(count), size))


def test_the_key_is_that_of_the_members_and_rebuilds_the_window() -> None:
    node = en.items("abcd").map(str.upper).slice_window(2, 2)
    assert list(node.with_keys()) == [(("A", "B"), ((0, 0), (0, 1))), (("C", "D"), ((0, 2), (0, 3)))]
    assert node.restore(((0, 2), (0, 3))) == ("C", "D")


def test_each_member_is_read_once_however_many_windows_it_is_in() -> None:
    calls: list[int] = []
    node = en.items(range(9)).map(lambda value: calls.append(value) or value).slice_window(4)
    keys = [key for _, key in node.clone().with_keys()]
    calls.clear()
    assert node.restore_many(keys) == [tuple(range(n, n + 4)) for n in range(6)]
    assert sorted(calls) == list(range(9))


def test_a_stream_without_end_has_windows_without_end() -> None:
    node = en.items(range(3)).repeat().slice_window(4, 3)
    assert node.length(0, 1) == math.inf
    assert [next(node), next(node)] == [(0, 1, 2, 0), (0, 1, 2, 0)]
    assert en.items(range(3)).filter(f.odd).slice_window(2).length(0, 1) is None


def test_sizes_and_steps_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="slice_window needs an int size >= 1, got size=0"):
        en.items([1]).slice_window(0)
    with pytest.raises(ValueError, match="slice_window needs an int step >= 1, got step=-1"):
        en.items([1]).slice_window(2, -1)
