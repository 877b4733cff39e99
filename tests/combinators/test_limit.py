"""`limit` delivers the first elements of each pass."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_counts


@pytest.mark.parametrize(("n", "expected"), [(0, []), (2, [3, 1]), (3, [3, 1, 2]), (9, [3, 1, 2])])
def test_at_most_n_elements_come(n: int, expected: list[int]) -> None:
    node = en.items([3, 1, 2]).limit(n)
    assert list(node) == expected
    assert len(node) == len(expected)


def test_no_element_too_many_is_pulled() -> None:
    pulled: list[int] = []
    assert list(en.items(range(9)).tap(pulled.append).limit(3)) == [0, 1, 2]
    assert pulled == [0, 1, 2]


def test_each_pass_takes_new_ones_of_a_shuffled_source() -> None:
    node = en.items(range(100), shuffle=True).limit(5).repeat(20)
    passes = [frozenset(list(node)[at : at + 5]) for at in range(0, 100, 5)]
    assert len(set(passes)) > 15


def test_elements_that_were_skipped_do_not_count() -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise en.SkipSample
        return value

    assert list(en.items(range(9)).map(odd).limit(3)) == [1, 3, 5]


@pytest.mark.parametrize("n", [0, 1, 5, 23, 40])
def test_the_count_is_global_under_several_streams(n: int) -> None:
    check_counts(lambda: en.items(range(23)).limit(n), min(n, 23))


def test_the_length_is_known_where_that_of_the_source_is() -> None:
    assert en.items(range(9)).repeat().limit(4).length(1, 3) == 1
    assert en.items(range(9)).filter(bool).limit(4).length(0, 1) is None


@pytest.mark.parametrize("n", [-2, 1.0, None])
def test_what_is_no_count_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=rf"limit needs an int n >= 0, got n={n!r}"):
        en.items([1]).limit(n)
