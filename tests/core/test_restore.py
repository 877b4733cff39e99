"""Buffers save keys, and rebuild values when they are wanted."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from energon_nodes.core.errors import StateError
from energon_nodes.core.restore import DROPPED, LAZY, Buffer, ColumnBuffer, Key

FLAT = [(0, 3), (0, 5), (1, 2**40), (1, 0)]
SHAPES: dict[str, list[Key]] = {
    "none": [],
    "flat": FLAT,
    "one number": [(7,), (8,)],
    "negative": [(-1, 3), (5, -(2**40))],
    "too large for columns": [(2**70, 0), (1, 1)],
    "text": [("a.tar", 3), ("b.tar", 4)],
    "nested": [((0, 1), (0, 2)), ((0, 3),)],
    "widths": [(0, 1), (0, 1, 2)],
    "booleans": [(True, 1), (False, 2)],
    "empty": [()],
}


def named(keys: Sequence[Key]) -> list[str]:
    return [f"element {key}" for key in keys]


def without_five(keys: Sequence[Key]) -> list[Any]:
    return [DROPPED if key == (0, 5) else f"element {key}" for key in keys]


@pytest.mark.parametrize("keys", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("kind", [Buffer, ColumnBuffer])
def test_keys_of_any_shape_come_back(kind: type[Buffer | ColumnBuffer], keys: list[Key]) -> None:
    held = kind()
    held.extend(zip(named(keys), keys, strict=True))
    again = kind.load(held.snapshot(values=False))
    assert list(again) == [(LAZY, key) for key in keys]
    again.rebuild(named)
    assert list(again) == list(zip(named(keys), keys, strict=True))
    assert list(kind.load(held.snapshot(values=True))) == list(held)


@pytest.mark.parametrize("keys", SHAPES.values(), ids=list(SHAPES))
def test_both_buffers_save_the_same(keys: list[Key]) -> None:
    held, columns = Buffer(), ColumnBuffer()
    held.extend(zip(keys, keys, strict=True))
    columns.extend(zip(keys, keys, strict=True))
    if keys:
        assert columns.snapshot(values=False) == held.snapshot(values=False)


def test_the_state_of_a_large_buffer_has_few_bytes_for_each_element() -> None:
    held = ColumnBuffer()
    held.extend((None, (3, 70_000 + number)) for number in range(10_000))
    assert len(pickle.dumps(held.snapshot(values=False))) < 4.2 * 10_000


def test_a_snapshot_does_not_change_with_the_buffer() -> None:
    held = ColumnBuffer()
    held.extend(zip("abcd", FLAT, strict=True))
    before = held.snapshot(values=False)
    copied = pickle.dumps(before)
    held.swap(0, ("x", (9, 9)))
    held.remove(1)
    assert pickle.dumps(before) == copied


@pytest.mark.parametrize("key", [(0, 9), ("text", 9), ((1, 2), 3), (0, 1, 2)], ids=repr)
def test_swapping_and_removing_are_those_of_a_list(key: Key) -> None:
    held = ColumnBuffer()
    held.extend(zip("abcd", FLAT, strict=True))
    plain = list(held)
    assert held.swap(1, ("x", key)) == plain[1]
    plain[1] = ("x", key)
    assert list(held) == plain
    for number in (3, 0, 0, 0):
        expected, plain[number] = plain[number], plain[-1]
        del plain[-1]
        assert held.remove(number) == expected
        assert list(held) == plain
    held.extend([("e", (4, 4))])
    assert list(held) == [("e", (4, 4))]


def test_an_error_while_pulling_keeps_what_was_pulled_before() -> None:
    def pull() -> Any:
        yield "a", (0, 1)
        raise OSError

    held = ColumnBuffer()
    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        held.extend(pull())
    assert list(held) == [("a", (0, 1))]


def test_only_the_wanted_values_are_rebuilt_and_each_once() -> None:
    held = ColumnBuffer.load(Buffer(zip("abcd", FLAT, strict=True)).snapshot(values=False))
    asked: list[Key] = []

    def rebuild(keys: Sequence[Key]) -> list[str]:
        asked.extend(keys)
        return named(keys)

    held.rebuild(rebuild, [2, 0, 2])
    assert asked == [FLAT[2], FLAT[0]]
    assert held.lazy == 2
    held.rebuild(rebuild)
    assert asked == [FLAT[2], FLAT[0], FLAT[1], FLAT[3]]
    assert held.lazy == 0


@pytest.mark.parametrize("kind", [Buffer, ColumnBuffer])
def test_values_that_are_dropped_leave_a_buffer_that_is_rebuilt_whole(kind: type[Buffer | ColumnBuffer]) -> None:
    held = kind.load(Buffer(zip("abcd", FLAT, strict=True)).snapshot(values=False))
    held.rebuild(without_five)
    assert list(held) == [(f"element {key}", key) for key in FLAT if key != (0, 5)]


def test_values_that_are_dropped_keep_their_places_until_they_are_taken_out() -> None:
    held = ColumnBuffer.load(Buffer(zip("abcd", FLAT, strict=True)).snapshot(values=False))
    held.rebuild(without_five, [0, 1])
    assert [value for value, _ in held] == ["element (0, 3)", DROPPED, LAZY, LAZY]
    assert held.lazy == 3
    assert held.swap(1, ("x", (0, 6))) == (DROPPED, (0, 5))
    assert held.lazy == 2


def test_values_that_were_not_rebuilt_are_lazy_again_where_values_are_saved() -> None:
    held = ColumnBuffer.load(Buffer(zip("abcd", FLAT, strict=True)).snapshot(values=False))
    held.rebuild(without_five, [0, 1])
    again = ColumnBuffer.load(held.snapshot(values=True))
    assert [value for value, _ in again] == ["element (0, 3)", LAZY, LAZY, LAZY]
    assert again.lazy == 3


def test_the_marks_are_one_object_in_each_process() -> None:
    assert pickle.loads(pickle.dumps([LAZY, DROPPED])) == [LAZY, DROPPED]


@pytest.mark.parametrize("damaged", [(3, [5, ("<u1", b"\x00")]), (1, [("<u9", b"\x00")]), 7], ids=repr)
def test_damaged_keys_are_a_named_error(damaged: Any) -> None:
    with pytest.raises(StateError, match="keys cannot be read; the file is damaged"):
        ColumnBuffer.load((damaged,))


def test_columns_are_saved_in_the_smallest_type() -> None:
    held = ColumnBuffer()
    held.extend((None, (4, number, -number, 2**33 + number)) for number in range(3))
    (count, columns) = held.snapshot(values=False)[0]
    assert count == 3
    assert columns[0] == 4
    assert [column[0] for column in columns[1:]] == ["<u1", "<i1", "<i8"]
    assert np.frombuffer(columns[2][1], "<i1").tolist() == [0, -1, -2]
