"""`subset` cuts the data that a pipeline reads."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import energon_nodes as en
from energon_nodes.sources.subset import resolve_sections
from energon_nodes.testing import on_stream
from tests.contract import functions as f


def test_the_source_is_cut_before_it_is_shuffled() -> None:
    part = en.items(range(100), shuffle=True).subset("0%", "20%")
    first, second = list(part), list(part)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second


def test_halves_have_every_sample_once() -> None:
    halves = [en.shards(f.tars(), shuffle=True).subset(*bounds) for bounds in (("0%", "50%"), ("50%", "100%"))]
    keys = [sample["__key__"] for half in halves for sample in half]
    assert sorted(keys) == [f"{number:04}" for number in range(23)]
    assert [len(half) for half in halves] == [11, 12]


def test_a_half_of_a_half_is_the_second_quarter() -> None:
    assert list(en.items(range(100)).subset("0%", "50%").subset("50%", "100%")) == list(range(25, 50))
    assert list(en.items(range(100), subset=(0.0, 0.5)).subset(0.5, 1.0)) == list(range(25, 50))


def test_numbers_count_what_the_source_has() -> None:
    numbers = en.items(range(100))
    assert list(numbers.subset(10, 40).subset(10, "end")) == list(range(20, 40))
    assert list(numbers.subset(10, 40).subset("50%", "100%")) == list(range(25, 40))
    assert list(numbers.subset("50%", "100%").subset(0, 3)) == [50, 51, 52]


def test_fractions_are_those_that_were_written() -> None:
    assert len(en.items(range(100)).subset("0%", "29%")) == len(en.items(range(100)).subset(0.0, 0.29)) == 29


@given(st.integers(1, 400), st.lists(st.lists(st.integers(0, 100), min_size=2, max_size=4, unique=True), max_size=3))
def test_parts_that_meet_miss_nothing_and_have_nothing_twice(count: int, levels: list[list[int]]) -> None:
    parts: list[list[tuple[str, str]]] = [[]]
    for cuts in levels:
        marks = sorted({0, *cuts, 100})
        parts = [[*part, (f"{a}%", f"{b}%")] for part in parts for a, b in itertools.pairwise(marks)]
    seen: list[int] = []
    for part in parts:
        with contextlib.suppress(ValueError):  # a part without samples is refused
            seen += range(*resolve_sections(part, count))
    assert seen == list(range(count))


@given(st.data(), st.integers(1, 300))
def test_nested_subsets_are_slices_of_slices_in_numbers(data: st.DataObject, count: int) -> None:
    sections: list[tuple[int, int]] = []
    model = range(count)
    for _ in range(3):
        first = data.draw(st.integers(0, len(model) - 1))
        last = data.draw(st.integers(first + 1, len(model)))
        sections.append((first, last))
        model = model[first:last]
    assert range(*resolve_sections(sections, count)) == model


def test_it_goes_through_what_gives_one_element_for_each_sample() -> None:
    node = (
        en.items(range(20))
        .map(f.double)
        .tap(f.itself)
        .log(100)
        .shuffle(4)
        .sort_window(30, f.itself)
        .parallel_map(f.text)
        .prefetch(2)
        .watchdog(60)
    )
    assert list(node.subset(5, 8)) == ["10", "12", "14"]
    assert list(node) == [str(2 * number) for number in range(20)]


def test_a_share_is_cut_in_front_of_filters_and_in_every_branch() -> None:
    assert list(en.items(range(20)).filter(f.odd).subset("50%", "100%")) == [11, 13, 15, 17, 19]
    assert list(en.items([1, 2, 3, 4]).flat_map(f.twice).subset(0.0, 0.5)) == [1, 1, 2, 2]
    both = en.concat(en.items(range(10)), en.items("abcd", shuffle=True)).subset("0%", "50%")
    assert sorted(map(str, both)) == ["0", "1", "2", "3", "4", "a", "b"]
    mixed = en.blend(en.items(range(10)), en.items("abcd")).subset("50%", "100%")
    assert sorted(map(str, mixed)) == ["5", "6", "7", "8", "9", "c", "d"]


def test_of_a_join_the_rows_are_cut() -> None:
    def side(part: str, keys: str) -> en.Node[dict[str, str]]:
        return en.items([{"__key__": key, part: key + part} for key in keys])

    rows = side("a", "pqrs").join(side("b", "srqp")).subset("50%", "100%")
    assert [(row["a"], row["b"]) for row in rows] == [("ra", "rb"), ("sa", "sb")]


def test_the_cut_pipeline_is_another_one() -> None:
    whole = en.items(range(6)).map(f.double)
    next(whole)
    assert list(whole.subset(3, "end")) == [6, 8, 10]
    assert list(whole) == [2, 4, 6, 8, 10]


def test_keys_stand_for_the_same_samples_as_in_the_whole() -> None:
    whole = en.items("abcdef").map(str.upper)
    pairs = list(whole.subset(2, 4).with_keys())
    assert pairs == [("C", (0, 2)), ("D", (0, 3))]
    assert [whole.restore(key) for _, key in pairs] == ["C", "D"]


@pytest.mark.parametrize("streams", [2, 3, 7])
def test_streams_share_the_part(streams: int) -> None:
    def make() -> en.Node[int]:
        return en.items(range(40), shuffle=True).subset("25%", "75%")

    got = [value for stream in range(streams) for value in on_stream(make, stream, streams)()]
    assert sorted(got) == list(range(10, 30))
    assert sorted(make().loader(streams=streams)) == list(range(10, 30))


def test_a_state_of_another_part_is_refused() -> None:
    numbers = en.items(range(10))
    state = numbers.subset("0%", "50%").state_dict()
    with pytest.raises(en.StateError, match=r"subset=\('0%', '50%'\) where this pipeline has subset=\('50%', '100%'\)"):
        numbers.subset("50%", "100%").reset(state)
    with pytest.raises(en.StateError, match="subset"):
        numbers.reset(state)
    with pytest.raises(en.StateError, match="subset"):
        numbers.subset("0%", "50%").reset(numbers.state_dict())


REFUSED: list[tuple[Any, Any, str]] = [
    (en.wrap([1, 2, 3]), (0, 2), r"a foreign iterable has no access by number; skip\(n\) and limit\(n\)"),
    (en.wrap([1, 2, 3]).map(f.double), ("0%", "50%"), "a foreign iterable"),
    (en.items(range(9)).batch(2), ("0%", "50%"), r"cannot cut Batch\(size=2\): write subset in front of it"),
    (en.items(range(9)).repeat(2), ("0%", "50%"), "write subset in front of it"),
    (en.items(range(9)).limit(5), (0, 2), "write subset in front of it"),
    (en.items(range(9)).filter(f.odd), (0, 2), "what sample numbers mean behind it depends on the data"),
    (en.concat(en.items([1]), en.items([2])), (0, 1), "give fractions or percentages"),
    (en.items(range(9)), (0, 20), "0 <= first <= last <= 9 samples"),
    (en.items(range(9)), ("50%", "end"), "two relative bounds or two sample numbers"),
    (en.items(range(9)).batch(2), (0.5, 3), "two relative bounds or two sample numbers"),
    (en.items(range(9)), (3, 3), "leaves none of the 9 samples"),
    (en.items(range(9)).subset(0.0, 0.5), ("0%", "1%"), r"subset \('0%', '1%'\) of \(0.0, 0.5\) leaves none"),
]


@pytest.mark.parametrize(("node", "bounds", "message"), REFUSED)
def test_what_cannot_be_cut_is_refused(node: en.Node[Any], bounds: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        node.subset(*bounds)


def test_items_take_a_subset_themselves() -> None:
    assert list(en.items("abcd", subset=(1, 3))) == ["b", "c"]
    assert repr(en.items("abcd", subset=(1, 3))) == "Items(4 elements, subset=(1, 3))"
    with pytest.raises(ValueError, match="0 <= first <= last <= 4"):
        en.items("abcd", subset=(1, 30))


def test_a_node_of_a_user_says_what_a_part_of_it_is() -> None:
    class Letters(en.Node[str]):
        text: str

        def run(self) -> Any:
            yield from ((letter, (self.epoch, number)) for number, letter in enumerate(self.text))

        def narrowed(self, first: Any, last: Any) -> en.Node[str]:
            return Letters(self.text[first:last])

    assert list(Letters("abcdef").map(str.upper).subset(1, 3)) == ["B", "C"]


def test_integers_of_numpy_are_sample_numbers() -> None:
    node = en.items(range(5)).subset(np.int64(1), np.int64(3))
    assert list(node) == list(en.items(range(5), subset=(np.int32(1), np.int64(3)))) == [1, 2]
    assert repr(node) == "Items(5 elements, subset=(1, 3))"
    node.reset(en.items(range(5)).subset(1, 3).state_dict())
    half = en.shards(f.tars()).subset(np.float64(0.0), np.float64(0.5))
    assert "np.float64" not in repr(half.state_dict())
