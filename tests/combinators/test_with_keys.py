"""`with_keys` shows where elements came from."""

from __future__ import annotations

from typing import Any

import energon_nodes as en


def plus_one(value: int) -> int:
    return value + 1


def test_every_key_gives_its_element_again() -> None:
    pipelines: list[en.Node[Any]] = [
        en.items(range(9), shuffle=True).map(plus_one),
        en.items(range(9)).batch(2).shuffle(3).batch(2).unbatch(),
        en.blend(en.items(range(4)), en.zip(en.items("ab"), en.items("cd"))).with_keys().repeat(2),
    ]
    for pipeline in pipelines:
        pairs = list(pipeline.with_keys())
        assert pairs
        assert pipeline.restore_many([key for _, key in pairs]) == [value for value, _ in pairs]


def test_the_key_of_the_pair_is_the_key() -> None:
    node = en.items("ab").with_keys()
    assert list(node.clone().with_keys()) == [(("a", (0, 0)), (0, 0)), (("b", (0, 1)), (0, 1))]
    assert node.restore((0, 1)) == ("b", (0, 1))


def test_keys_have_the_pass_in_front() -> None:
    assert [key for _, key in en.items("a").repeat(3).with_keys()] == [(0, 0), (1, 0), (2, 0)]


def test_the_length_is_that_of_the_source() -> None:
    assert len(en.items("abc").with_keys()) == 3
