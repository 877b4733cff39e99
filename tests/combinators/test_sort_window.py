"""`sort_window` sorts what comes in windows of the stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from more_itertools import chunked

import energon_nodes as en
from energon_nodes.testing.runs import resumed
from tests.contract import functions as f


def remainder(value: int) -> int:
    return value % 5


@given(st.lists(st.integers(0, 99), max_size=40), st.integers(1, 12), st.booleans(), st.integers(0, 40))
def test_it_is_the_sorted_of_each_chunk_before_and_behind_a_resume(
    values: list[int], size: int, reverse: bool, cut: int
) -> None:
    def make() -> en.Node[int]:
        return en.items(values).sort_window(size, remainder, reverse=reverse)

    expected = [value for chunk in chunked(values, size) for value in sorted(chunk, key=remainder, reverse=reverse)]
    node = make()
    assert list(node) == expected
    node = make()
    taken = [next(node) for _ in range(min(cut, len(values)))]
    assert taken + list(resumed(make, node.state_dict())) == expected


def test_batches_behind_it_need_less_padding() -> None:
    texts = en.items([n * 37 % 101 for n in range(1000)])

    def padding(node: en.Node[list[int]]) -> int:
        return sum(max(batch) * len(batch) - sum(batch) for batch in node)

    assert padding(texts.sort_window(200, f.itself).batch(8)) < padding(texts.batch(8)) / 5


def test_an_element_without_a_key_is_dropped_and_the_window_filled_with_the_next() -> None:
    node = en.items([3, "x", 1, 2]).sort_window(3, int, on_error="skip")
    assert list(node) == [1, 2, 3]
    assert node.failed == 1

    def few(value: int) -> int:
        if value == 2:
            raise en.SkipSample
        return -value

    node = en.items(range(4)).sort_window(3, few)
    assert list(node) == [3, 1, 0]
    assert node.skipped == 1


def test_keys_that_cannot_be_compared_are_named() -> None:
    node: en.Node[Any] = en.items([1, "a"]).sort_window(2, f.itself)
    with pytest.raises(
        en.FatalSampleError, match=r"cannot be compared .* types \['int', 'str'\]; let the key function"
    ):
        next(node)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="sort_window needs an int size >= 1, got size=0"):
        en.items([1]).sort_window(0, f.itself)
    with pytest.raises(TypeError, match="sort_window needs a callable key, got 3"):
        en.items([1]).sort_window(2, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"needs a key without a state.*put a map that adds the rank in front"):
        en.items([1]).sort_window(2, f.Counter())


def test_the_length_is_that_of_the_source() -> None:
    assert len(en.items(range(9)).sort_window(4, f.itself)) == 9
