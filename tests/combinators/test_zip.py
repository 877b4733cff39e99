"""`zip` gives the elements of several sources side by side."""

from __future__ import annotations

import pytest

import energon_nodes as en


def fail_at_one(value: int) -> int:
    if value == 1:
        raise ValueError("one")
    return value


def test_it_ends_with_the_shortest_source() -> None:
    assert list(en.zip(en.items([1, 2, 3]), en.items("ab"))) == [(1, "a"), (2, "b")]
    assert list(en.zip(en.items("ab"), en.items([1, 2, 3]))) == [("a", 1), ("b", 2)]
    assert list(en.items([1]).zip(en.items([]), en.items([2]))) == []
    assert list(en.zip(en.items([1, 2]))) == [(1,), (2,)]


def test_none_is_an_element_like_others() -> None:
    assert list(en.zip(en.items([None, None]), en.items([None, 1]))) == [(None, None), (None, 1)]


def test_the_key_is_the_tuple_of_the_sides_keys() -> None:
    node = en.zip(en.items("ab"), en.items("cd").batch(1))
    assert [key for _, key in node.with_keys()] == [((0, 0), ((0, 0),)), ((0, 1), ((0, 1),))]
    assert node.restore(((0, 1), ((0, 0),))) == ("b", ["c"])


def test_the_call_after_an_error_in_one_side_keeps_what_the_others_gave() -> None:
    node = en.zip(en.items("abcd"), en.items(range(4)).map(fail_at_one), en.items("wxyz"))
    assert next(node) == ("a", 0, "w")
    with pytest.raises(ValueError, match="one"):
        next(node)
    state = node.state_dict()
    assert list(node) == [("b", 2, "x"), ("c", 3, "y")]
    node.reset(state)
    assert list(node) == [("b", 2, "x"), ("c", 3, "y")]


def test_the_next_pass_pairs_anew() -> None:
    node = en.zip(en.items("abc"), en.items([1, 2]))
    assert [list(node), list(node)] == [[("a", 1), ("b", 2)]] * 2


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [(3, 2, "source 1 ended before source 0"), (2, 3, "source 0 ended before source 1"), (0, 1, "source 0 ended")],
)
def test_strict_refuses_sources_of_different_lengths(left: int, right: int, message: str) -> None:
    node = en.zip(en.items(range(left)), en.items([None] * right), strict=True)
    with pytest.raises(ValueError, match=rf"zip\(strict=True\): {message}.*strict=False"):
        list(node)


def test_strict_accepts_sources_of_one_length() -> None:
    assert len(list(en.zip(en.items(range(3)), en.items(range(3)), strict=True))) == 3


def test_the_length_is_the_least() -> None:
    assert len(en.zip(en.items(range(3)), en.items(range(5)))) == 3
    assert len(en.zip(en.items(range(3)), en.items(range(5)).repeat())) == 3
    assert en.zip(en.items(range(3)), en.items(range(5)).filter(bool)).length(0, 1) is None


def test_no_source_is_refused() -> None:
    with pytest.raises(ValueError, match="zip needs at least one source, got none"):
        en.zip()
