"""`map` applies a function, with random numbers that belong to the element."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import energon_nodes as en
from energon_nodes.testing import interleave, on_stream


def draw(value: Any, rng: np.random.Generator) -> tuple[Any, float]:
    return value, float(rng.random())


def draw_globally(value: Any) -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.random()), random.random()


def test_the_function_sees_each_value_once() -> None:
    seen: list[int] = []
    assert list(en.items([1, None, 3]).map(lambda x: seen.append(x) or x)) == [1, None, 3]
    assert seen == [1, None, 3]


def test_the_key_passes_through() -> None:
    node = en.items("ab").map(str.upper)
    assert [key for _, key in node.with_keys()] == [(0, 0), (0, 1)]
    assert node.restore((0, 1)) == "B"


def test_a_function_that_raises_skip_drops_the_element() -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise en.SkipSample
        return value

    node = en.items(range(5)).map(odd)
    assert list(node) == [1, 3]
    assert node.skipped == 3


def test_every_element_has_draws_of_its_own_and_every_pass_others() -> None:
    node = en.items(range(50)).map(draw, rng=True)
    first, second = list(node), list(node)
    assert len({number for _, number in first + second}) == 100


def test_an_element_has_the_same_draws_in_any_order_and_on_any_stream() -> None:
    expected = set(en.items(range(20)).map(draw, rng=True))
    assert set(en.items(range(20)).shuffle(5).map(draw, rng=True).shuffle(4)) != expected  # one random node more below
    assert set(en.items(range(20)).map(draw, rng=True).shuffle(5)) == expected
    for streams in (2, 3):
        turns = interleave(lambda: en.items(range(20)).map(draw, rng=True), streams)[0]
        assert {value for _, value in turns} == expected


def test_the_seed_of_the_run_and_a_seed_of_the_node_decide() -> None:
    def draws(node_seed: int | None, run_seed: int) -> list[Any]:
        return list(on_stream(lambda: en.items([0]).map(draw, rng=True, seed=node_seed), 0, 1, seed=run_seed)())

    assert draws(None, 0) != draws(None, 1)
    assert draws(7, 0) == draws(7, 1)
    assert draws(7, 0) != draws(8, 0)


def test_a_fixed_epoch_repeats_the_draws() -> None:
    node = en.items(range(5), fixed_epoch=True).map(draw, rng=True)
    assert list(node) == list(node)


def test_global_generators_are_seeded_for_the_element_and_left_alone_otherwise() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    node = en.items(range(3)).map(draw_globally, rng="global")
    first = list(node)
    assert torch.equal(torch.rand(3), expected)
    assert first == list(en.items(range(3)).map(draw_globally, rng="global"))
    assert len({draw for draws in first for draw in draws}) == 9


def test_a_rebuilt_element_has_the_same_draws() -> None:
    for node in (en.items(range(9)).map(draw, rng=True), en.items(range(9)).map(draw_globally, rng="global")):
        elements = list(node.clone().with_keys())
        assert [node.restore(key) for _, key in reversed(elements)] == [value for value, _ in reversed(elements)]


def test_a_generator_that_is_kept_does_not_change_the_draws_of_others() -> None:
    kept: list[np.random.Generator] = []

    def keep(value: int, rng: np.random.Generator) -> float:
        kept.append(rng)
        return float(rng.random() + kept[0].random() * 0)

    assert [round(value, 9) for value in en.items(range(5)).map(keep, rng=True)] == [
        round(value, 9) for _, value in en.items(range(5)).map(draw, rng=True)
    ]


def test_purity_says_whether_elements_can_be_rebuilt() -> None:
    assert en.items([1]).map(str).restorable()
    assert not en.items([1]).map(str, pure=False).restorable()
    assert not en.items([1]).map(str, pure=False).map(str).restorable()


def test_the_length_is_that_of_the_source() -> None:
    assert len(en.items(range(7)).map(str)) == 7
    assert en.items(range(7)).map(str).length(0, 2) == 4


def test_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match="map needs a callable fn, got 'str'"):
        en.items([1]).map("str")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="map needs rng=False, True or \"global\", got 'yes'"):
        en.items([1]).map(str, rng="yes")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unexpected keyword argument 'rgn'"):
        en.items([1]).map(str, rgn=True)  # type: ignore[call-overload]


def words(text: str) -> Iterator[str]:
    yield from text.split()


class Words:
    """A generator function as an object."""

    def __call__(self, text: str) -> Iterator[str]:
        yield from text.split()

    def split(self, text: str) -> Iterator[str]:
        yield from text.split()


def of_length(length: int, text: str) -> Iterator[str]:
    yield from (word for word in text.split() if len(word) == length)


@pytest.mark.parametrize("function", [words, Words(), Words().split, partial(of_length, 1)])
def test_a_generator_function_gives_any_number_of_elements(function: Any) -> None:
    node = en.items(["a b", "", "c"]).map(function)
    assert list(node.with_keys()) == [("a", (0, 0, 0)), ("b", (0, 0, 1)), ("c", (0, 2, 0))]
    assert node.restore((0, 2, 0)) == "c"


def test_a_function_that_returns_an_iterator_gives_that() -> None:
    (only,) = en.items(["a b"]).map(lambda text: iter(text.split()))
    assert list(only) == ["a", "b"]


def test_a_generator_function_cannot_run_under_global_seeds_or_in_a_node_that_wants_a_result() -> None:
    texts = en.items(["a b"])
    with pytest.raises(ValueError, match="cannot seed the global generators around a generator"):
        texts.map(words, rng="global")
    with pytest.raises(
        TypeError, match=r"Map needs a fn that returns, got the generator function .*words.*: the verb map"
    ):
        en.Map(texts, words)
    with pytest.raises(TypeError, match=r"tap needs a fn that returns.*its code would never run"):
        texts.tap(words)
    with pytest.raises(TypeError, match=r"filter needs a predicate that returns.*a generator is always true"):
        texts.filter(words)
    with pytest.raises(TypeError, match=r"batch needs a collate that returns.*write .batch\(...\).map\(...\)"):
        texts.batch(2, collate=words)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"parallel_map needs a fn that returns.*put unbatch behind it"):
        texts.parallel_map(words)
