"""`items` gives the elements of a sequence in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import energon_nodes as en
from energon_nodes.testing import interleave, on_stream

# Frozen: a change here changes every shuffled order of every user.
GOLDEN = [8, 1, 0, 7, 6, 2, 9, 5, 4, 3]
GOLDEN_OF_1000 = [683, 827, 921, 20, 858]


class Squares:
    """A map-style dataset."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        if index % 4 == 3:
            raise OSError(f"cannot read {index}")
        return index * index


@pytest.mark.parametrize(
    "sequence", [[3, 1, 2], (3, 1, 2), range(3), "abc", b"abc", np.arange(3), torch.arange(3), []], ids=repr
)
def test_any_sequence_is_delivered_in_order(sequence: Any) -> None:
    node = en.items(sequence)
    assert list(node) == list(sequence)
    assert len(node) == len(sequence)


def test_elements_are_accessed_once_and_when_they_are_due() -> None:
    data = Squares(3)
    node = en.items(data)
    next(node)
    assert data.asked == [0]
    assert list(node) == [1, 4]
    assert data.asked == [0, 1, 2]


def test_a_shuffled_pass_is_a_permutation_and_each_pass_another() -> None:
    node = en.items(range(2000), shuffle=True)
    first, second = list(node), list(node)
    assert sorted(first) == sorted(second) == list(range(2000))
    assert first != second
    places = np.array(first)
    assert np.abs(np.diff(places)).mean() > 500  # about a third of the range


def test_the_shuffled_order_is_the_frozen_one() -> None:
    assert list(en.items(range(10), shuffle=True)) == GOLDEN
    assert list(en.items(range(1000), shuffle=True))[:5] == GOLDEN_OF_1000


def test_a_fixed_epoch_repeats_its_order() -> None:
    node = en.items(range(50), shuffle=True, fixed_epoch=True)
    assert list(node) == list(node)


def test_seeds_decide_the_order() -> None:
    def order(node_seed: int | None, run_seed: int) -> list[int]:
        make = on_stream(lambda: en.items(range(30), shuffle=True, seed=node_seed), 0, 1, seed=run_seed)
        return list(make())

    assert order(None, 0) != order(None, 1)
    assert order(5, 0) == order(5, 1) != order(6, 1)


@pytest.mark.parametrize("streams", [2, 3, 7, 40])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_streams_together_give_the_order_of_one(streams: int, shuffle: bool) -> None:
    (expected,) = interleave(lambda: en.items(range(23), shuffle=shuffle), 1)
    (found,) = interleave(lambda: en.items(range(23), shuffle=shuffle), streams)
    assert [value for _, value in found] == [value for _, value in expected]


def test_the_key_is_the_epoch_and_the_index() -> None:
    node = en.items("abc", shuffle=True)
    pairs = list(node.with_keys().repeat(2))
    assert {key for _, key in pairs} == {(epoch, index) for epoch in (0, 1) for index in range(3)}
    assert all("abc"[index] == value for value, (_, index) in pairs)


def test_an_element_that_cannot_be_read_follows_the_policy() -> None:
    node = en.items(Squares(9))
    assert [next(node) for _ in range(3)] == [0, 1, 4]
    with pytest.raises(OSError, match="cannot read 3") as caught:
        next(node)
    assert caught.value.__notes__ == ["at node Items(9 elements)", "restore key (0, 3)"]
    assert next(node) == 16
    node = en.items(Squares(9), on_error="skip")
    assert list(node) == [0, 1, 4, 16, 25, 36, 64]
    assert node.failed == 2


@pytest.mark.parametrize(
    "wrong", [{1: 2}, {1, 2}, iter([1]), 3, (x for x in [1])], ids=lambda value: type(value).__name__
)
def test_what_is_no_sequence_is_refused_with_the_way_out(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"items needs a sequence with len\(\) and \[index from 0\], got .*: use wrap"):
        en.items(wrong)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"__key__": "a"}, {"x": 1}], r"element 1 has none: give each sample a __key__ of its own.*'1', \.\.\."),
        ([{"__key__": 7}], r"element 0 has 7, which is of the type int: give each sample a __key__.*'7', \.\.\."),
        ([{"__key__": "a"}, {"__key__": "a"}], r"elements 0 and 1 both have the key 'a': give each sample a __key__"),
    ],
)
def test_a_lookup_says_how_samples_get_keys(samples: Any, message: str) -> None:
    with pytest.raises(en.SampleError, match=message):
        en.items(samples).lookup(["a"], [0])
