"""`group_by` gathers elements that belong together."""

from __future__ import annotations

import enum
import logging
from typing import Any

import pytest
import torch

import energon_nodes as en
from energon_nodes.testing import check_resume


def last_digit(value: int) -> int:
    return value % 10


def shape(value: int) -> tuple[str, int]:
    return ("wide" if value % 2 else "tall"), 1 + value % 2


def test_a_batch_holds_elements_of_one_group_in_their_order() -> None:
    node = en.items([1, 11, 2, 21, 12, 31, 3]).group_by(last_digit, 2)
    assert list(node) == [[1, 11], [2, 12], [21, 31], [3]]


def test_the_criterion_can_give_the_size() -> None:
    assert list(en.items(range(5)).group_by(shape)) == [[0], [2], [1, 3], [4]]


def test_with_a_batch_size_a_pair_is_a_key_like_others() -> None:
    assert list(en.items(range(4)).group_by(shape, 2)) == [[0, 2], [1, 3]]


def test_leftovers_come_at_the_end_or_are_dropped_and_counted() -> None:
    source = en.items([1, 2, 3, 11, 13, 23, 4])
    assert list(source.group_by(last_digit, 2)) == [[1, 11], [3, 13], [2], [23], [4]]
    node = source.group_by(last_digit, 2, leftovers="drop")
    assert list(node) == [[1, 11], [3, 13]]
    assert node.skipped == 3


def test_leftovers_come_in_the_order_of_their_last_members() -> None:
    assert list(en.items([1, 2, 3, 12, 11]).group_by(last_digit, 3)) == [[3], [2, 12], [1, 11]]


def test_a_bound_on_open_groups_closes_the_one_that_waited_longest(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "energon_nodes"):
        node = en.items([1, 2, 11, 3, 13, 12]).group_by(last_digit, 3, max_open=2)
        assert list(node) == [[2], [1, 11], [3, 13], [12]]
    assert "closes groups that are not full: more than max_open=2 are open" in caplog.text
    dropping = en.items([1, 2, 11, 3, 13, 21, 33]).group_by(last_digit, 3, max_open=2, leftovers="drop")
    assert list(dropping) == [[1, 11, 21], [3, 13, 33]]
    assert dropping.skipped == 1


def test_memory_is_bounded_by_default() -> None:
    node = en.items(range(3000)).group_by(lambda value: value, 2)
    assert next(node) == [0]
    assert len(node.held) == 1000
    assert len(list(en.items(range(3000)).group_by(lambda value: value, 2, max_open=None))) == 3000


def test_a_hook_runs_for_grouped_batches_too() -> None:
    assert list(en.items(range(6)).group_by(lambda x: x % 2, 2).map(sum)) == [2, 4, 4, 5]
    assert list(en.items(range(6)).group_by(lambda x: x % 2, 2, collate=sum)) == [2, 4, 4, 5]


def test_an_element_that_the_criterion_refuses_is_in_no_group() -> None:
    def criterion(value: int) -> int:
        if value == 2:
            raise ValueError("two")
        return 0

    node = en.items(range(5)).group_by(criterion, 2, on_error="skip")
    assert list(node) == [[0, 1], [3, 4]]
    assert node.failed == 1
    node = en.items(range(5)).group_by(criterion, 3)
    with pytest.raises(ValueError, match="two") as caught:
        next(node)
    assert caught.value.__notes__[1] == "restore key (0, 2)"
    assert list(node) == [[0, 1, 3], [4]]


def test_a_criterion_can_ask_to_skip_from_the_first_element_on() -> None:
    def criterion(value: int) -> int:
        if value % 2 == 0:
            raise en.SkipSample
        return 0

    node = en.items(range(5)).group_by(criterion, 2)
    assert list(node) == [[1, 3]]
    assert node.skipped == 3


def test_a_batch_that_collate_refuses_is_dropped_whole() -> None:
    def collate(values: list[int]) -> int:
        if 3 in values:
            raise ValueError("three")
        return sum(values)

    node = en.items(range(6)).group_by(lambda x: x % 2, 2, collate=collate, on_error="skip")
    assert list(node) == [2, 4, 5]
    assert node.failed == 1


def test_an_interrupt_loses_nothing() -> None:
    calls: list[Any] = []

    def stop_once(value: Any) -> Any:
        calls.append(value)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return value

    for pipeline in (
        en.items(range(4)).group_by(lambda value: stop_once(value) and 0, 2),
        en.items(range(8)).group_by(lambda value: 0, 2, collate=stop_once),
    ):
        calls.clear()
        got: list[Any] = []
        with pytest.raises(KeyboardInterrupt):
            got += [next(pipeline), next(pipeline), next(pipeline)]
        state = pipeline.state_dict()
        rest = list(pipeline)
        assert [member for batch in got + rest for member in batch][-2:] in ([2, 3], [6, 7])
        pipeline.reset(state)
        assert list(pipeline) == rest


class Shape(enum.Enum):
    WIDE = 1


@pytest.mark.parametrize(
    "key", [torch.tensor(3), [1], Shape.WIDE, float("nan"), object()], ids=["tensor", "list", "enum", "nan", "object"]
)
def test_keys_that_cannot_be_found_again_are_refused(key: Any) -> None:
    with pytest.raises(en.SampleError, match="keys that are compared by value and that checkpoints can hold"):
        next(en.items([1]).group_by(lambda value: key, 2))


@pytest.mark.parametrize("given", [3, ("a", 0), ("a", None), ("a", 2.0), ("a", 1, 2), ["a", 1]])
def test_without_a_size_from_anywhere_an_element_is_refused(given: Any) -> None:
    with pytest.raises(en.SampleError, match=r"needs a criterion that returns \(key, size\).*batch_size"):
        next(en.items([1]).group_by(lambda value: given))


def test_two_sizes_for_one_key_are_refused() -> None:
    node = en.items([2, 3]).group_by(lambda value: ("a", value))
    with pytest.raises(en.SampleError, match="the size 3 for the key 'a', whose open group has the size 2"):
        next(node)
    assert list(node) == [[2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size >= 1, got batch_size=0"),
        ({"max_open": 0}, "max_open >= 1"),
        ({"leftovers": "keep"}, 'leftovers="emit" or "drop", got \'keep\''),
    ],
)
def test_settings_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        en.items([1]).group_by(last_digit, **options)
    with pytest.raises(TypeError, match="callable criterion"):
        en.items([1]).group_by(None, 2)  # type: ignore[call-overload]


def test_the_key_of_a_batch_rebuilds_it() -> None:
    node = en.items(range(6)).group_by(lambda x: x % 2, 2, collate=tuple)
    keys = [key for _, key in node.with_keys()]
    assert keys == [((0, 0), (0, 2)), ((0, 1), (0, 3)), ((0, 4),), ((0, 5),)]
    assert node.restore_many(keys[::-1]) == [(5,), (4,), (1, 3), (0, 2)]


def test_keys_of_any_kind_that_a_checkpoint_holds_go_on_after_a_resume() -> None:
    kinds = ["a", ("b", 2), 3, b"d", frozenset({1, 2})]
    check_resume(lambda: en.items(range(23)).group_by(lambda value: kinds[value % 5], 3))


def test_the_criterion_is_not_asked_again_after_a_resume() -> None:
    asked: list[int] = []

    def criterion(value: int) -> int:
        asked.append(value)
        return value % 3

    node = en.items(range(12)).group_by(criterion, 3)
    next(node)
    state = node.state_dict()
    expected = list(node)
    asked.clear()
    node.reset(state)
    assert list(node) == expected
    assert asked == list(range(7, 12))
