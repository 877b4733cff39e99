"""`pack` delivers what a function chooses from a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import check_resume


def threes(values: list[Any]) -> list[list[Any]]:
    """Choose as many packs of three as there are."""
    return [values[at : at + 3] for at in range(0, len(values) - 2, 3)]


def all_of(values: list[Any]) -> list[list[Any]]:
    return [values]


def none_of(values: list[Any]) -> list[list[Any]]:
    return []


def test_select_gets_the_buffer_and_its_packs_are_delivered() -> None:
    asked: list[list[int]] = []

    def halves(values: list[int]) -> list[list[int]]:
        asked.append(list(values))
        return [values[0::2], [], values[1::2]]

    assert list(en.items(range(6)).pack(select=halves, buffer_size=4)) == [[0, 2], [1, 3], [4], [5]]
    assert asked == [[0, 1, 2, 3], [4, 5]]


def test_the_buffer_fills_up_again_while_packs_are_delivered() -> None:
    pulled: list[int] = []
    node = en.items(range(20)).tap(pulled.append).pack(select=threes, buffer_size=6)
    assert [next(node), len(pulled), next(node), len(pulled), next(node), len(pulled)] == [
        [0, 1, 2],
        6,
        [3, 4, 5],
        9,
        [6, 7, 8],
        12,
    ]
    held = [len(node.waiting) + len(node.due) for _ in zip(range(3), node, strict=False)]
    assert max(held) <= 6


def test_three_in_a_pack_saved_in_the_middle_of_a_buffer_repeat_and_lose_nothing() -> None:
    def make() -> en.Node[Any]:
        return en.items(range(22), shuffle=True).pack(select=threes, buffer_size=8).shuffle(2)

    check_resume(make)
    node = en.items(range(22), shuffle=True).pack(select=threes, buffer_size=8)
    first = [next(node), next(node)]
    again = en.items(range(22), shuffle=True).pack(select=threes, buffer_size=8)
    again.reset(node.state_dict())
    seen = [member for pack in [*first, *again] for member in pack]
    assert len(seen) == len(set(seen)) == 21
    assert again.skipped == 1  # no pack of three is left for the last one


def test_a_source_that_ends_in_the_middle_of_a_buffer_is_delivered_to_its_end() -> None:
    assert list(en.items(range(5)).pack(select=all_of, buffer_size=100)) == [[0, 1, 2, 3, 4]]
    assert list(en.items([]).pack(select=all_of, buffer_size=4)) == []


def test_what_is_not_selected_waits_or_is_dropped() -> None:
    def first_two(values: list[int]) -> list[list[int]]:
        return [values[:2]]

    assert list(en.items(range(7)).pack(select=first_two, buffer_size=3)) == [[0, 1], [2, 3], [4, 5], [6]]
    node = en.items(range(7)).pack(select=first_two, buffer_size=3, unselected="drop")
    assert list(node) == [[0, 1], [3, 4], [6]]
    assert node.skipped == 2


def test_a_select_that_chooses_nothing_is_an_error_and_no_endless_loop() -> None:
    node = en.items(range(5)).pack(select=none_of, buffer_size=3)
    for oldest in (0, 1, 2):
        with pytest.raises(
            en.SampleError, match=r"chose nothing from a full buffer of 3 elements.*the oldest is left out"
        ) as caught:
            next(node)
        assert caught.value.__notes__[1] == f"restore key ((0, {oldest}),)"
    assert list(node) == []
    assert node.skipped == 2  # those left at the end, where the buffer is not full
    for unselected in ("keep", "drop"):
        endless = (
            en.items(range(5)).repeat().pack(select=none_of, buffer_size=3, unselected=unselected, on_error="skip")
        )
        with pytest.raises(en.FatalSampleError, match="101 elements in a row failed"):
            next(endless)


def test_combine_makes_the_pack_and_a_generator_any_number() -> None:
    def parts(values: list[int]) -> Iterator[int]:
        yield from values[1:]

    assert list(en.items(range(7)).pack(select=threes, combine=sum, buffer_size=6)) == [3, 12]
    node = en.items(range(7)).pack(select=threes, combine=parts, buffer_size=6)
    keys = [key for _, key in node.with_keys()]
    assert keys[1] == ((0, 0), (0, 1), (0, 2), 1)
    assert list(node) == [1, 2, 4, 5]
    assert node.restore(keys[1]) == 2


def test_encode_runs_when_a_pack_is_due() -> None:
    encoded: list[int] = []

    def encode(value: int) -> int:
        encoded.append(value)
        return -value

    node = en.items(range(9)).pack(select=threes, encode=encode, buffer_size=9)
    assert next(node) == [0, -1, -2]
    assert encoded == [0, 1, 2]


def test_random_encoding_depends_on_the_element_alone() -> None:
    def draw(value: int, rng: Any) -> tuple[int, int]:
        return value, int(rng.integers(10**9))

    def drawn(buffer: int) -> dict[int, int]:
        node = en.items(range(12)).pack(select=threes, encode=draw, rng=True, buffer_size=buffer)
        return dict(member for pack in node for member in pack)

    assert drawn(3) == drawn(12)
    assert len(set(drawn(3).values())) == 12


def test_a_member_that_cannot_be_encoded_is_left_out_and_the_others_stay() -> None:
    def encode(value: int) -> int:
        if value == 1:
            raise ValueError("one")
        return value

    node = en.items(range(6)).pack(select=threes, encode=encode, buffer_size=6, on_error="skip")
    assert list(node) == [[0, 2], [3, 4, 5]]
    assert node.failed == 1
    keys = [key for _, key in node.with_keys()]
    assert keys[0] == ((1, 0), (1, 2)) or keys[0] == ((0, 0), (0, 2))
    node = en.items(range(6)).pack(select=threes, encode=encode, buffer_size=6)
    with pytest.raises(ValueError, match="one") as caught:
        next(node)
    assert caught.value.__notes__[1] == "restore key (0, 1)"
    assert list(node) == [[0, 2], [3, 4, 5]]


def test_a_pack_that_combine_refuses_is_left_out_as_a_whole() -> None:
    def combine(values: list[int]) -> int:
        if 1 in values:
            raise ValueError("one")
        return sum(values)

    node = en.items(range(6)).pack(select=threes, combine=combine, buffer_size=6, on_error="skip")
    assert list(node) == [12]
    assert node.failed == 1


def test_a_buffer_that_select_refuses_is_left_out_as_a_whole() -> None:
    def select(values: list[int]) -> list[list[int]]:
        if 1 in values:
            raise ValueError("one")
        return [values]

    node = en.items(range(6)).pack(select=select, buffer_size=3, on_error="skip")
    assert list(node) == [[3, 4, 5]]


def test_objects_that_come_twice_are_as_many_elements() -> None:
    one = ["same"]
    node = en.items([one, one, one]).pack(select=lambda values: [[values[0]], [values[1], values[2]]], buffer_size=3)
    assert [key for _, key in node.with_keys()] == [((0, 0),), ((0, 1), (0, 2))]


def test_foreign_and_repeated_objects_are_named() -> None:
    def copies(values: list[list[int]]) -> list[list[list[int]]]:
        return [[list(value) for value in values]]

    def twice(values: list[list[int]]) -> list[list[list[int]]]:
        return [values, values[:1]]

    source = en.items([[1], [2]])
    with pytest.raises(
        en.SampleError, match=r"the value \[1\] which is none of the 2.*no copies, or use by=\"position\""
    ):
        next(source.pack(select=copies, buffer_size=2))
    with pytest.raises(en.SampleError, match=r"the value \[1\] more often than it was given"):
        next(source.pack(select=twice, buffer_size=2))
    with pytest.raises(en.SampleError, match="the position 2 which is none of the 2"):
        next(source.pack(select=lambda values: [[2]], by="position", buffer_size=2))
    with pytest.raises(en.SampleError, match="the position 0 more often"):
        next(source.pack(select=lambda values: [[0], [0]], by="position", buffer_size=2))


def test_select_may_sort_its_list() -> None:
    def select(values: list[int]) -> list[list[int]]:
        values.sort()
        return [values]

    assert list(en.items([3, 1, 2]).pack(select=select, buffer_size=3)) == [[1, 2, 3]]


def test_an_interrupt_loses_nothing() -> None:
    for name in ("select", "encode", "combine"):
        calls: list[Any] = []

        def stop_once(value: Any, calls: list[Any] = calls) -> Any:
            calls.append(value)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return value

        functions: dict[str, Any] = {"select": lambda values, stop=stop_once: threes(stop(values))}
        functions = functions if name == "select" else {"select": threes, name: stop_once}
        node = en.items(range(9)).pack(**functions, buffer_size=3)
        got = [next(node)] if name != "encode" else []
        with pytest.raises(KeyboardInterrupt):
            next(node)
        assert got + list(node) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer_size": 0}, "buffer_size >= 1"),
        ({"unselected": "wait"}, "unselected=.*got 'wait'"),
        ({"by": "key"}, "by=.*got 'key'"),
        ({"rng": True}, "rng=True without encode has no meaning"),
    ],
)
def test_settings_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        en.items([1]).pack(**{"select": threes, "buffer_size": 3} | options)
    with pytest.raises(TypeError, match="callable select"):
        en.items([1]).pack(select=3, buffer_size=3)  # type: ignore[call-overload]


def test_an_element_that_cannot_be_rebuilt_is_left_out_of_its_pack() -> None:
    broken: list[int] = []

    def check(value: int) -> int:
        if value in broken:
            raise ValueError("broken")
        return value

    def make() -> Any:
        return en.items(range(12)).map(check).pack(select=threes, buffer_size=9)

    node = make()
    assert [next(node), next(node)] == [[0, 1, 2], [3, 4, 5]]
    state = node.state_dict()
    broken += [7, 10]  # a member of a chosen pack, and one that waits
    node = make()
    node.bind(en.Context(on_restore_error="skip"))
    node.reset(state)
    assert list(node) == [[6, 8]]
    assert (node.failed, node.skipped) == (2, 2)


@pytest.mark.parametrize(
    ("select", "by", "shown"),
    [
        (lambda values: None, "value", "its result is None"),
        (lambda values: 5, "value", "its result is 5"),
        (lambda values: [values[0]], "value", "one of its packs is {'a': 1}"),
        (lambda values: "ab", "value", "its result is 'ab'"),
        (lambda values: [0, 1], "position", "positions in the list.*one of its packs is 0"),
    ],
)
def test_what_select_returns_is_lists(select: Any, by: Any, shown: str) -> None:
    node = en.items([{"a": 1}, {"a": 2}]).pack(select=select, by=by, buffer_size=2)
    with pytest.raises(en.SampleError, match=rf"select must return a list of packs.*{shown}: return \[\]"):
        next(node)


def test_a_position_is_an_int() -> None:
    node = en.items([1, 2]).pack(select=lambda values: [[[0]]], by="position", buffer_size=2)
    with pytest.raises(en.SampleError, match=r"select returned the position \[0\]"):
        next(node)
