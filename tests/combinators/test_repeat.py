"""`repeat` goes through the source several times."""

from __future__ import annotations

import logging
from collections import Counter
from math import floor, inf
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_counts, interleave


@pytest.mark.parametrize(("n", "expected"), [(0, ""), (1, "ab"), (2, "abab"), (2.5, "ababa"), (0.5, "a"), (1.4, "ab")])
def test_elements_come_again(n: float, expected: str) -> None:
    node = en.items("ab").repeat(n)
    assert "".join(node) == expected
    assert len(node) == len(expected)


def test_without_a_number_there_is_no_end() -> None:
    node = en.items("ab").repeat()
    assert "".join(node.limit(7)) == "abababa"
    assert node.length(0, 1) == inf


def test_every_repetition_is_the_next_pass() -> None:
    elements = list(en.items(range(9), shuffle=True).repeat(3))
    passes = [elements[at : at + 9] for at in (0, 9, 18)]
    assert all(sorted(part) == list(range(9)) for part in passes)
    assert len({tuple(part) for part in passes}) == 3


def test_the_next_pass_repeats_passes_that_have_not_been() -> None:
    node = en.items(range(9), shuffle=True).repeat(2)
    first, second = list(node), list(node)
    assert len({tuple(part) for part in (first[:9], first[9:], second[:9], second[9:])}) == 4


def test_repeating_a_shuffle_drains_it_and_shuffling_a_repetition_mixes_passes() -> None:
    drained = list(en.items(range(10)).shuffle(20).repeat(2))
    assert sorted(drained[:10]) == list(range(10))
    mixed = list(en.items(range(10)).repeat(2).shuffle(20))
    assert sorted(mixed) == sorted([*range(10), *range(10)])
    assert sorted(mixed[:10]) != list(range(10))


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 9, 12])
def test_one_and_a_half_passes_over_nine_samples_are_thirteen_in_every_epoch(streams: int) -> None:
    for elements in interleave(lambda: en.items(range(9), shuffle=True).repeat(1.5), streams, passes=3):
        seen = Counter(value for _, value in elements)
        assert set(seen) == set(range(9))
        assert set(seen.values()) <= {1, 2}
        assert sum(seen.values()) == 13


@pytest.mark.parametrize(("count", "n"), [(9, 0.5), (10, 2.3), (7, 1 / 3), (100, 0.29), (9, 3), (9, 4 / 3)])
def test_the_count_is_global_under_several_streams(count: int, n: float) -> None:
    check_counts(lambda: en.items(range(count)).repeat(n), floor(round(count * n, 6)))


def test_a_fraction_of_an_unknown_number_is_that_of_the_first_pass() -> None:
    assert list(en.items(range(10)).filter(lambda x: x % 2).repeat(1.5)) == [1, 3, 5, 7, 9, 1, 3]


def test_a_source_that_gives_nothing_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "energon_nodes"):
        assert list(en.items([]).repeat()) == []
        assert not caplog.records
        assert list(en.items([1]).filter(lambda x: False).repeat()) == []
    assert "100 passes in a row over Filter" in caplog.text


def test_a_pass_that_is_empty_by_chance_does_not_end_the_repetition() -> None:
    delivered: list[int] = []
    for stream in range(2):  # in each pass the one element that the filter keeps is in one of the two
        node = en.items(range(2), shuffle=True, seed=2).filter(lambda x: x % 3).repeat(6)
        node.bind(en.Context(stream=stream, streams=2))
        delivered += node
    assert delivered == [1] * 6


@pytest.mark.parametrize("n", [-1, -0.5, float("nan"), inf, True, "2"])
def test_what_is_no_number_of_passes_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match="repeat needs a finite n >= 0, or None for without end, got n="):
        en.items([1]).repeat(n)


def test_less_than_a_pass_of_unknown_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"repeat\(0\.5\) needs a source of known length; Filter.*use limit"):
        en.items([1]).filter(bool).repeat(0.5)


def test_a_part_of_an_epoch_that_goes_on_by_itself_comes_from_where_the_stream_stands() -> None:
    node = en.items(range(100)).epochize(3).repeat(1.5)
    assert [list(node) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("count", "n", "streams"), [(10, 0.3, 4), (100, 0.1, 64), (10, 1.25, 3), (9, 1.5, 3), (7, 0.5, 12)]
)
def test_every_element_comes_equally_often_under_any_number_of_streams(count: int, n: float, streams: int) -> None:
    loader = en.items(range(count)).repeat(n).loader(streams=streams)
    seen: Counter[int] = Counter()
    passes = 4 * count
    for _ in range(passes):
        values = list(loader)
        assert len(values) == int(n * count)
        seen.update(values)
    assert max(seen.values()) - min(seen[number] for number in range(count)) <= 1 + streams // count


def test_a_fraction_that_is_no_element_is_refused() -> None:
    with pytest.raises(ValueError, match=r"repeat\(0.05\) of the 10 elements of .* is not one element"):
        en.items(range(10)).repeat(0.05)
    with pytest.raises(ValueError, match="is not one element"):
        en.blend_epochized({en.items(range(6)): 0.01, en.items("ab"): 1})
    assert list(en.items([]).repeat(0.05)) == []
