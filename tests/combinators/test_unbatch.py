"""`unbatch` is the inverse of `batch`."""

from __future__ import annotations

import pytest

import energon_nodes as en


def test_members_come_in_their_order() -> None:
    assert list(en.items([[1, 2], [], (3,), "ab"]).unbatch()) == [1, 2, 3, "a", "b"]


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_it_undoes_batch(size: int) -> None:
    assert list(en.items(range(9)).batch(size).unbatch()) == list(range(9))


def test_the_key_of_a_member_has_its_position_added() -> None:
    node = en.items(["ab", "c"]).unbatch()
    assert [key for _, key in node.with_keys()] == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
    assert node.restore((0, 0, 1)) == "b"


def test_members_are_shuffled_apart_from_their_batch() -> None:
    node = en.items(range(40)).batch(10).unbatch().shuffle(20)
    order = list(node)
    assert sorted(order) == list(range(40))
    assert order != list(range(40))


def test_an_element_that_is_not_iterable_is_an_error_with_its_key() -> None:
    node = en.items([[1], 2, [3]]).unbatch()
    assert next(node) == 1
    with pytest.raises(TypeError, match="not iterable") as caught:
        next(node)
    assert "restore key (0, 1)" in caught.value.__notes__
    assert next(node) == 3
