"""`tap` looks at the elements as they pass."""

from __future__ import annotations

import pytest

import energon_nodes as en


def test_elements_pass_unchanged_whatever_the_function_returns() -> None:
    seen: list[int] = []
    assert list(en.items([1, 2]).tap(lambda x: seen.append(x) or 3)) == [1, 2]
    assert seen == [1, 2]


def test_a_rebuilt_element_is_not_shown_again() -> None:
    seen: list[int] = []
    node = en.items(range(9)).tap(seen.append).shuffle(4)
    taken = [next(node), next(node)]
    state, before = node.state_dict(), len(seen)
    node.reset(state)
    taken += list(node)
    assert sorted(taken) == list(range(9))
    assert seen[before:] == list(range(before, 9))


def test_an_error_follows_the_policy() -> None:
    def fail(value: int) -> None:
        if value == 1:
            raise ValueError("one")

    node = en.items(range(3)).tap(fail)
    node.bind(en.Context(on_error="skip"))
    assert list(node) == [0, 2]
    assert node.failed == 1


def test_too_many_errors_in_a_row_end_the_stream() -> None:
    def fail(value: int) -> None:
        raise ValueError("always")

    node = en.items(range(100)).tap(fail)
    node.bind(en.Context(on_error="skip", tolerance=5))
    with pytest.raises(en.FatalSampleError, match="6 elements in a row failed at Tap"):
        list(node)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="tap needs a callable fn, got 3"):
        en.items([1]).tap(3)  # type: ignore[arg-type]
