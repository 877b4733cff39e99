"""`flat_map` gives any number of elements for each one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import energon_nodes as en


def copies(value: int) -> Iterator[tuple[int, int]]:
    for number in range(value):
        yield value, number


def test_the_elements_of_each_result_come_in_order() -> None:
    assert list(en.items([2, 0, 1]).flat_map(copies)) == [(2, 0), (2, 1), (1, 0)]


def test_the_key_has_the_position_added() -> None:
    node = en.items([2, 0, 1]).flat_map(copies)
    assert [key for _, key in node.with_keys()] == [(0, 0, 0), (0, 0, 1), (0, 2, 0)]


def test_rebuilding_many_calls_the_function_once_for_each_parent() -> None:
    calls: list[int] = []

    def counted(value: int) -> Iterator[tuple[int, int]]:
        calls.append(value)
        return copies(value)

    node = en.items([5, 3]).flat_map(counted)
    node.bind()
    keys = [(0, 0, 4), (0, 1, 2), (0, 0, 0), (0, 0, 4), (0, 1, 0)]
    assert node.restore_many(keys) == [(5, 4), (3, 2), (5, 0), (5, 4), (3, 0)]
    assert sorted(calls) == [3, 5]


def test_a_function_that_gives_fewer_elements_than_before_is_named() -> None:
    node = en.items([2]).flat_map(copies)
    with pytest.raises(en.SampleError, match=r"gave element 7 for the restore key \(0, 0\) before, and fewer now"):
        node.restore((0, 0, 7))


def test_a_result_may_be_endless() -> None:
    def count(value: int) -> Iterator[int]:
        while True:
            yield value
            value += 1

    assert list(en.items([3]).flat_map(count).limit(4)) == [3, 4, 5, 6]


def test_a_generator_may_use_its_random_numbers_until_it_ends() -> None:
    def scatter(value: int, rng: np.random.Generator) -> Iterator[tuple[int, float]]:
        for _ in range(3):
            yield value, float(rng.random())

    pipeline = en.items(range(4)).flat_map(scatter, rng=True)
    elements = list(pipeline)
    keys = [key for _, key in pipeline.clone().with_keys()]
    assert [pipeline.clone().restore(key) for key in reversed(keys)] == elements[::-1]
    assert len({draw for _, draw in elements}) == 12


def broken_behind_two(value: int) -> Iterator[int]:
    for number in range(3):
        if value == 1 and number == 2:
            raise ValueError("broken")
        yield 10 * value + number


def test_what_was_given_before_an_error_stands_and_the_rest_is_dropped() -> None:
    node = en.items(range(3)).flat_map(broken_behind_two, on_error="skip")
    assert list(node) == [0, 1, 2, 10, 11, 20, 21, 22]
    assert node.failed == 1


def test_a_skip_in_the_middle_drops_the_rest() -> None:
    def some(value: int) -> Iterator[int]:
        yield value
        if value == 1:
            raise en.SkipSample
        yield -value

    node = en.items([1, 2]).flat_map(some)
    assert list(node) == [1, 2, -2]
    assert node.skipped == 1


def test_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match="flat_map needs a callable fn, got 3"):
        en.items([1]).flat_map(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r'flat_map cannot seed the global generators.*map\(rng="global"\)'):
        en.items([1]).flat_map(copies, rng="global")  # type: ignore[call-overload]


def test_the_length_is_not_known() -> None:
    assert en.items([1]).flat_map(copies).length(0, 1) is None


def test_a_parent_is_not_pulled_before_it_is_due() -> None:
    pulled: list[Any] = []
    node = en.items([1, 1]).tap(pulled.append).flat_map(copies)
    next(node)
    assert pulled == [1]


class Numbering:
    """Yield two elements for each, and number all that were yielded."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: int) -> Iterator[tuple[int, int]]:
        for _ in range(2):
            self.count += 1
            if value == 13 and self.count % 2 == 0:
                raise KeyboardInterrupt
            yield value, self.count

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_a_function_with_a_state_is_called_again_from_the_state_before_its_call() -> None:
    node = en.items(range(3)).flat_map(Numbering())
    taken = [next(node) for _ in range(3)]
    again = node.clone()
    again.reset(node.state_dict())
    assert list(again) == list(node) == [(1, 4), (2, 5), (2, 6)]
    assert taken == [(0, 1), (0, 2), (1, 3)]


def test_a_call_that_was_interrupted_begins_anew_from_the_state_before() -> None:
    numbering = Numbering()
    node = en.items([1, 13, 2]).flat_map(numbering)
    assert [next(node), next(node), next(node)] == [(1, 1), (1, 2), (13, 3)]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            next(node)
        assert node.live("fn").count == 4
    state = node.state_dict()
    assert state["nodes"][1]["fn"] == {"count": 2}
