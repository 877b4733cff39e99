"""`concat` gives one source after the other."""

from __future__ import annotations

from math import inf

import pytest

import energon_nodes as en
from energon_nodes.testing import interleave


def test_sources_come_one_after_the_other() -> None:
    assert list(en.concat(en.items([1, 2]), en.items([]), en.items([3]))) == [1, 2, 3]
    assert list(en.items([1]).concat(en.items([2]), en.items([3]))) == [1, 2, 3]


def test_one_source_is_itself() -> None:
    assert list(en.concat(en.items([1, 2]))) == [1, 2]


def test_the_key_has_the_branch_in_front() -> None:
    node = en.concat(en.items("ab"), en.items("c"))
    assert [key for _, key in node.with_keys()] == [(0, 0, 0), (0, 0, 1), (1, 0, 0)]
    assert node.restore_many([(1, 0, 0), (0, 0, 1)]) == ["c", "b"]


def test_the_next_pass_is_the_next_one_of_each_source() -> None:
    node = en.concat(en.items(range(9), shuffle=True), en.items(range(9), shuffle=True))
    first, second = list(node), list(node)
    assert first[:9] != second[:9]
    assert first[9:] != second[9:]
    assert first[:9] != first[9:]  # two branches draw independently


def test_the_length_is_the_sum() -> None:
    a, b = en.items(range(3)), en.items(range(4))
    assert len(en.concat(a, b)) == 7
    assert en.concat(a, b.filter(bool)).length(0, 1) is None
    assert en.concat(a, b.repeat()).length(0, 1) == inf


def test_all_streams_together_have_all_elements() -> None:
    elements = [value for _, value in interleave(lambda: en.concat(en.items("abcd"), en.items("ef")), 3)[0]]
    assert sorted(elements) == list("abcdef")


def test_no_source_is_refused() -> None:
    with pytest.raises(ValueError, match="concat needs at least one source, got none"):
        en.concat()
