"""`blend` mixes sources by weight."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.testing import interleave, on_stream

A, B, C = (en.items([letter] * 9) for letter in "abc")

# Frozen: independent of the releases of torch and numpy. A change here changes every mixed run of every user.
GOLDEN = "aaaaacaaacbabbbcbbbcccbbccc"


def test_the_order_is_the_frozen_one() -> None:
    assert "".join(en.blend(A, B, C, weights=[3, 2, 1])) == GOLDEN


def test_weights_are_ratios() -> None:
    assert "".join(en.blend(A, B, C, weights=[0.3, 0.2, 0.1])) == GOLDEN


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [5, 1, 2]])
def test_branches_come_as_often_as_their_weights_say(weights: list[float] | None) -> None:
    node = en.blend(*(en.items([number]).repeat() for number in range(3)), weights=weights)
    count = 6000
    seen = [0, 0, 0]
    for number in node.limit(count):
        seen[number] += 1
    shares = [weight / sum(weights or [3]) for weight in weights or [1, 1, 1]]
    expected = [count * share for share in shares]
    assert sum((got - want) ** 2 / want for got, want in zip(seen, expected, strict=True)) < 13.8  # p = 0.001


def test_a_source_that_ends_is_left_out() -> None:
    mixed = list(en.blend(en.items([1]), en.items([2] * 20), weights=[100, 1]))
    assert sorted(mixed) == [1] + [2] * 20


def test_the_blend_can_stop_with_its_first_source() -> None:
    mixed = list(en.blend(en.items(range(5)), en.items(range(100, 200)), on_end="stop"))
    assert mixed[-1] >= 100 or mixed[-1] == 4
    assert [value for value in mixed if value < 100] == list(range(5))
    assert [value for value in mixed if value >= 100] == list(range(100, 100 + len(mixed) - 5))


def test_a_source_that_ends_can_start_its_next_pass() -> None:
    node = en.blend(en.items(range(3), shuffle=True), en.items("xyz"), on_end="repeat", weights=[4, 1])
    first = [value for value in node.limit(60) if isinstance(value, int)]
    passes = [tuple(first[at : at + 3]) for at in range(0, len(first) - 2, 3)]
    assert all(sorted(part) == [0, 1, 2] for part in passes)
    assert len(set(passes)) > 1


def test_repeating_sources_that_are_empty_ends() -> None:
    assert list(en.blend(en.items([]), en.items([]), on_end="repeat")) == []
    assert set(en.blend(en.items([]), en.items([1, 2]), on_end="repeat").limit(10)) == {1, 2}


def test_the_key_has_the_branch_in_front() -> None:
    node = en.blend(en.items("a"), en.items("b"))
    assert dict(node.with_keys()) == {"a": (0, 0, 0), "b": (1, 0, 0)}
    assert node.restore((1, 0, 0)) == "b"


def test_passes_streams_and_seeds_mix_differently() -> None:
    node = en.blend(A, B, C)
    orders = {"".join(node), "".join(node), "".join(en.blend(A, B, C, seed=5))}
    orders |= {"".join(on_stream(lambda: en.blend(A, B, C), 0, 1, seed=seed)()) for seed in (1, 2)}
    assert len(orders) == 5


def test_every_stream_takes_its_part_of_each_source() -> None:
    elements = [value for _, value in interleave(lambda: en.blend(A, B, C), 3)[0]]
    assert sorted(elements) == sorted("a" * 9 + "b" * 9 + "c" * 9)


def test_lengths_follow_from_what_happens_at_the_end() -> None:
    a, b = en.items(range(3)), en.items(range(4))
    assert len(en.blend(a, b)) == 7
    assert en.blend(a, b, on_end="repeat").length(0, 1) == inf
    assert en.blend(a, b, on_end="stop").length(0, 1) is None
    assert en.blend(a, b.filter(bool)).length(0, 1) is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 0], r"blend needs positive, finite weights, got \[1\.0, 0\.0\]; leave out a source with weight 0"),
        ([1, -2], "positive, finite weights"),
        ([1, inf], "positive, finite weights"),
        ([1, float("nan")], "positive, finite weights"),
        ([1], "blend needs one weight for each source, got 1 for 2 sources"),
        ([1, 2, 3], "got 3 for 2 sources"),
        (["a", 1], "could not convert"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        en.blend(A, B, weights=weights)


def test_other_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="blend needs at least one source, got none"):
        en.blend()
    with pytest.raises(ValueError, match='blend needs on_end="drop", "stop" or "repeat", got \'never\''):
        en.blend(A, B, on_end="never")  # type: ignore[arg-type]


def test_a_blend_loads_a_state_from_before_its_first_element() -> None:
    state = en.blend(A, B, C).state_dict()
    node = en.blend(A, B, C)
    node.reset(state)
    assert "".join(node) == "".join(en.blend(A, B, C))
