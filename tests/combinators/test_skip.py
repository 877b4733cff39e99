"""`skip` leaves out the first elements of each pass."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_counts


@pytest.mark.parametrize(("n", "expected"), [(0, [3, 1, 2]), (1, [1, 2]), (3, []), (9, [])])
def test_the_first_n_elements_are_left_out(n: int, expected: list[int]) -> None:
    node = en.items([3, 1, 2]).skip(n)
    assert list(node) == expected
    assert len(node) == len(expected)


def test_each_pass_leaves_them_out_again() -> None:
    assert list(en.items(range(4)).skip(3).repeat(3)) == [3, 3, 3]


@pytest.mark.parametrize("n", [0, 1, 5, 23, 40])
def test_the_count_is_global_under_several_streams(n: int) -> None:
    check_counts(lambda: en.items(range(23)).skip(n), max(0, 23 - n))


def test_skip_and_limit_part_a_stream_in_two() -> None:
    source = en.items(range(50), shuffle=True, fixed_epoch=True)
    assert list(source.limit(10)) + list(source.skip(10)) == list(source)


@pytest.mark.parametrize("n", [-1, 0.5])
def test_what_is_no_count_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=rf"skip needs an int n >= 0, got n={n!r}"):
        en.items([1]).skip(n)
