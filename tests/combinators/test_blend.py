"""`blend` mixes sources by weight."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("streams", [1, 3])
def test_smooth_mixing_keeps_the_share_of_every_branch_in_every_stretch(streams: int) -> None:
    weights = [5, 2.5, 1]

    def build() -> en.Node[int]:
        return en.blend(*(en.items([number] * 24).repeat() for number in range(3)), weights=weights, mixing="smooth")

    for stream in range(streams):
        taken = [next(node) for node in [on_stream(build, stream, streams)()] for _ in range(800)]
        for start, stop in ((0, 40), (300, 400), (700, 800)):
            for number, weight in enumerate(weights):
                want = (stop - start) * weight / sum(weights)
                assert abs(taken[start:stop].count(number) - want) < 3


@pytest.mark.parametrize("streams", [8, 12])
def test_one_output_of_every_stream_has_the_smooth_mixture(streams: int) -> None:
    def build() -> en.Node[int]:
        return en.blend(*(en.items([number] * 24).repeat() for number in range(2)), weights=[3, 1], mixing="smooth")

    runs = [
        [next(node) for node in [on_stream(build, stream, streams)()] for _ in range(50)] for stream in range(streams)
    ]
    for turn in zip(*runs, strict=True):
        assert abs(turn.count(1) - streams / 4) <= 1
        assert sum(turn[: streams // 2]) in range(streams // 8, streams // 8 + 3)  # neighbours differ too


def test_by_length_every_source_gives_all_its_elements_over_the_whole_pass() -> None:
    long, short = en.items(["long"] * 900), en.items(["short"] * 100)
    mixed = list(en.blend(long, short, weights="length"))
    assert (mixed.count("long"), mixed.count("short")) == (900, 100)
    for start in range(0, 1000, 250):
        assert 10 <= mixed[start : start + 250].count("short") <= 42  # 25 in the mean; p < 1e-4 outside


def test_blend_epochized_has_exact_counts_in_every_pass_under_any_number_of_streams() -> None:
    a, b, c = (en.items([f"{name}{number}" for number in range(6)], shuffle=True) for name in "abc")
    for streams in (1, 2, 4, 12, 20):  # more streams than samples too
        elements = interleave(lambda: en.blend_epochized({a: 5, b: 2.5, c: 1}), streams, passes=2)
        for values in ([value for _, value in part] for part in elements):
            counts = {name: [value for value in values if value[0] == name] for name in "abc"}
            assert {name: len(found) for name, found in counts.items()} == {"a": 30, "b": 15, "c": 6}
            assert all(counts["a"].count(value) == 5 for value in counts["a"])
            assert all(counts["b"].count(value) in (2, 3) for value in counts["b"])
            assert len(set(counts["c"])) == 6


def test_fractional_repetitions_are_exact_over_several_passes() -> None:
    pipeline = en.blend_epochized([(en.items("abcd"), 0.25), (en.items("xy"), 1)])
    seen = [value for _ in range(4) for value in pipeline]
    assert sorted(seen) == sorted("abcd" + "xy" * 4)


def test_a_blend_by_length_needs_lengths() -> None:
    with pytest.raises(ValueError, match=r"needs sources of known length, and .* has no end"):
        en.blend(A.repeat(), B, weights="length")
    with pytest.raises(ValueError, match=r"needs sources of known length, and .* has no known length"):
        en.blend(A.filter(bool), B, weights="length")
    with pytest.raises(ValueError, match="needs on_end=\"drop\", got 'stop'"):
        en.blend(A, B, weights="length", on_end="stop")
    with pytest.raises(ValueError, match="positive, finite repetitions, got 0"):
        en.blend_epochized({A: 0})
    with pytest.raises(TypeError, match="needs a sequence of weights, one for each source, got 3"):
        en.blend(A, B, weights=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='mixing="random" or "smooth", got \'even\''):
        en.blend(A, B, mixing="even")  # type: ignore[arg-type]


@pytest.mark.parametrize("on_end", ["drop", "stop", "repeat"])
def test_a_branch_with_fewer_samples_than_streams_neither_hangs_nor_fails(on_end: Any) -> None:
    blend = en.blend(en.items(["rare"]), en.items(range(40)), weights=[1, 1], on_end=on_end).limit(100)
    values = list(blend.loader(streams=8))
    assert "rare" in values
    if on_end == "drop":
        assert len(values) == 41


def test_a_new_pass_is_the_next_pass_of_every_branch() -> None:
    branches = en.blend(en.items(range(50), shuffle=True), en.items(range(50, 90), shuffle=True)).with_keys()
    passes = [list(branches), list(branches)]
    for number, pairs in enumerate(passes):
        assert {key[1] for _, key in pairs} == {number}
    orders = [[[value for value, key in pairs if key[0] == branch] for branch in (0, 1)] for pairs in passes]
    assert orders[0][0] != orders[1][0]
    assert orders[0][1] != orders[1][1]


def test_the_same_dataset_in_two_branches_draws_independently() -> None:
    data = en.items(range(200), shuffle=True)
    mixed = list(en.blend(data, data.map(float)))
    first = [value for value in mixed if isinstance(value, int)]
    second = [value for value in mixed if isinstance(value, float)]
    assert sorted(first) == sorted(second) == list(range(200))
    assert first != second


def test_mixed_batches_have_elements_of_one_source_each() -> None:
    batches = list(en.items("a" * 10).mix_batches(en.items("b" * 7), size=3, weights=[2, 1]))
    assert all(len(set(batch)) == 1 for batch in batches)
    assert sorted(map(len, batches)) == [1, 1, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("weights", [[None, 1], ["1", "2"], ["a", 1], [True, 1], [[1, 2], 1]])
def test_weights_are_numbers(weights: Any) -> None:
    with pytest.raises(TypeError, match="blend needs a number as weight of each source, got"):
        en.blend(A, B, weights=weights)


def test_numbers_of_numpy_are_weights_and_repetitions() -> None:
    assert "".join(en.blend(A, B, C, weights=np.array([3, 2, 1]))) == GOLDEN  # pyright: ignore[reportArgumentType]
    assert len(en.blend_epochized([(A, np.int64(2)), (B, np.float64(1))])) == 27  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("repetitions", [[A, B], A, 5, "ab", [(A,)], [(1, 2)], {5: 2}, [(A, 1), (2, B)]])
def test_repetitions_stand_beside_nodes(repetitions: Any) -> None:
    with pytest.raises(TypeError, match=r"a dict of nodes and repetitions such as \{node: 2\}, or pairs"):
        en.blend_epochized(repetitions)
