"""`epochize` cuts a long stream into epochs."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_counts


def epochs(node: en.Node[Any], count: int) -> list[list[Any]]:
    return [list(node) for _ in range(count)]


def test_each_epoch_goes_on_where_the_last_one_stopped() -> None:
    assert epochs(en.items("abc").repeat().epochize(4), 3) == [list("abca"), list("bcab"), list("cabc")]


def test_an_epoch_that_was_left_early_is_not_made_up_for() -> None:
    node = en.items(range(20)).epochize(5)
    assert [next(node), next(node)] == [0, 1]
    node.reset()
    assert list(node) == [2, 3, 4, 5, 6]


def test_a_source_that_ends_makes_a_short_epoch_and_begins_its_next_pass() -> None:
    assert epochs(en.items(range(5)).epochize(3), 4) == [[0, 1, 2], [3, 4], [0, 1, 2], [3, 4]]
    assert epochs(en.items(range(4)).epochize(2), 3) == [[0, 1], [2, 3], [0, 1]]
    assert epochs(en.items(range(3)).epochize(7), 2) == [[0, 1, 2]] * 2


def test_an_empty_source_ends() -> None:
    assert epochs(en.items([]).epochize(3), 2) == [[], []]


def test_the_next_pass_of_the_source_has_another_order() -> None:
    first, second = epochs(en.items(range(9), shuffle=True).epochize(9), 2)
    assert sorted(first) == sorted(second) == list(range(9))
    assert first != second


@pytest.mark.parametrize("n", [1, 5, 7])
def test_the_count_is_global_under_several_streams(n: int) -> None:
    check_counts(lambda: en.items(range(100)).repeat().epochize(n), n)


def test_the_length_is_known_where_the_source_has_no_end() -> None:
    assert len(en.items("abc").repeat().epochize(4)) == 4
    assert en.items("abc").repeat().epochize(4).length(1, 3) == 1
    assert en.items("abc").epochize(2).length(0, 1) is None


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_what_is_no_count_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=rf"epochize needs an int n >= 1, got n={n!r}"):
        en.items([1]).epochize(n)


def test_streams_without_elements_have_epochs_of_length_zero() -> None:
    loader = en.items([5]).repeat().epochize(10).loader(streams=4)
    assert len(loader) == len(list(loader)) == 3
