"""`filter` keeps what a predicate accepts."""

from __future__ import annotations

import pytest

import energon_nodes as en


def test_the_truth_of_the_predicate_decides() -> None:
    assert list(en.items([0, 1, "", "a", None]).filter(lambda x: x)) == [1, "a"]
    assert list(en.items([None, 1]).filter(lambda x: x is None)) == [None]


def test_keys_pass_through() -> None:
    node = en.items("abc").filter(lambda x: x != "b")
    assert [key for _, key in node.with_keys()] == [(0, 0), (0, 2)]


def test_the_predicate_is_not_asked_again_when_an_element_is_rebuilt() -> None:
    asked: list[int] = []

    def accept(value: int) -> bool:
        asked.append(value)
        return True

    node = en.items(range(9)).filter(accept)
    assert node.restore((0, 3)) == 3
    assert asked == []


def test_an_error_of_the_predicate_is_that_of_the_element() -> None:
    node = en.items([1, 0, 2]).filter(lambda x: 1 / x)
    assert next(node) == 1
    with pytest.raises(ZeroDivisionError) as caught:
        next(node)
    assert "restore key (0, 1)" in caught.value.__notes__
    assert next(node) == 2
    node = en.items([1, 0, 2]).filter(lambda x: 1 / x, on_error="skip")
    assert list(node) == [1, 2]
    assert node.failed == 1


def test_rejected_elements_are_no_failures() -> None:
    node = en.items(range(1000)).filter(lambda x: x == 999)
    node.bind(en.Context(on_error="skip", tolerance=3))
    assert list(node) == [999]
    assert (node.failed, node.skipped) == (0, 0)


def test_the_length_is_not_known() -> None:
    assert en.items([1]).filter(bool).length(0, 1) is None


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="filter needs a callable predicate, got None"):
        en.items([1]).filter(None)  # type: ignore[arg-type]
