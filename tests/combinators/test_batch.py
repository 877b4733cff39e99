"""`batch` gathers neighbours."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_resume, interleave


def test_neighbours_are_gathered_and_the_last_batch_is_short() -> None:
    assert list(en.items(range(5)).batch(2)) == [[0, 1], [2, 3], [4]]


def test_a_short_last_batch_can_be_left_out() -> None:
    assert list(en.items(range(5)).batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(en.items(range(4)).batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(en.items(range(1)).batch(2, drop_last=True)) == []


def test_what_was_left_out_does_not_come_back_in_the_next_pass() -> None:
    node = en.items(range(5)).batch(2, drop_last=True)
    assert [list(node), list(node)] == [[[0, 1], [2, 3]]] * 2
    assert list(en.items(range(3)).batch(2, drop_last=True).repeat(2)) == [[0, 1], [0, 1]]


def test_collate_makes_the_batch() -> None:
    assert list(en.items(range(5)).batch(2, collate=sum)) == [1, 5, 4]


def test_the_key_of_a_batch_is_the_tuple_of_its_members_keys() -> None:
    (first, second) = [key for _, key in en.items("abc").batch(2).with_keys()]
    assert (first, second) == (((0, 0), (0, 1)), ((0, 2),))
    assert en.items("abc").batch(2, collate="".join).restore(first) == "ab"


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_is_the_number_of_batches_on_each_stream(count: int, drop_last: bool) -> None:
    node = en.items(range(count)).batch(2, drop_last=drop_last)
    assert len(node) == len(list(node))
    for streams in (2, 3):
        total = sum(node.length(stream, streams) or 0 for stream in range(streams))
        assert total == len(interleave(node.clone, streams)[0])


@pytest.mark.parametrize("size", [0, -1, 2.0, True, None, "2"])
def test_a_size_that_is_no_count_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=rf"batch needs an int size >= 1, got size={size!r}"):
        en.items([1]).batch(size)


def test_a_collate_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="batch needs a callable collate, got 3"):
        en.items([1]).batch(2, collate=3)  # type: ignore[call-overload]


def test_a_batch_that_collate_refuses_is_dropped_whole() -> None:
    def collate(values: list[int]) -> int:
        if 3 in values:
            raise ValueError("three")
        return sum(values)

    node = en.items(range(6)).batch(2, collate=collate, on_error="skip")
    assert list(node) == [1, 9]
    assert node.failed == 1
    node = en.items(range(6)).batch(2, collate=collate)
    assert next(node) == 1
    with pytest.raises(ValueError, match="three") as caught:
        next(node)
    assert caught.value.__notes__[1] == "restore key ((0, 2), (0, 3))"
    assert next(node) == 9


class Numbered:
    """A collate with a state."""

    count = 0

    def __call__(self, values: list[int]) -> tuple[int, int]:
        self.count += 1
        return self.count, sum(values)

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_behind_a_collate_with_a_state_buffers_save_values() -> None:
    node = en.items(range(8)).batch(2, collate=Numbered())
    assert not node.restorable()
    assert en.items(range(8)).batch(2, collate=sum).restorable()
    assert list(node) == [(1, 1), (2, 5), (3, 9), (4, 13)]


def test_an_encoder_that_returns_the_batch_index_goes_on_after_a_resume() -> None:
    def make() -> en.Node[tuple[int, int]]:
        return en.items(range(12)).batch(2, collate=Numbered()).shuffle(3)

    check_resume(make)
    assert sorted(index for index, _ in make()) == [1, 2, 3, 4, 5, 6]
