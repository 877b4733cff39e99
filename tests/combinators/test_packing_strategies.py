"""Packs of lengths: all strategies keep the rules, and fill packs as well as they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energon_nodes import pack_lengths
from energon_nodes.combinators.packing_strategies import STRATEGIES, choose

CAPACITY = 20
SOME = st.lists(st.integers(0, CAPACITY), max_size=60)


@settings(deadline=None, max_examples=200)
@given(SOME, st.sampled_from(STRATEGIES), st.none() | st.integers(1, 5), st.none() | st.integers(1, 15))
def test_every_length_is_in_one_pack_that_is_not_too_large(
    lengths: list[int], strategy: Any, most: int | None, buffer: int | None
) -> None:
    settings: dict[str, Any] = {"strategy": strategy, "max_per_pack": most, "buffer_size": buffer}
    packs = pack_lengths(lengths, CAPACITY, **settings)
    assert sorted(member for pack in packs for member in pack) == list(range(len(lengths)))
    assert all(pack == sorted(pack) and pack for pack in packs)
    assert all(sum(lengths[member] for member in pack) <= CAPACITY for pack in packs)
    assert most is None or all(len(pack) <= most for pack in packs)
    assert pack_lengths(np.array(lengths, np.int32), CAPACITY, **settings) == packs


@settings(deadline=None, max_examples=200)
@given(SOME)
def test_strategies_need_at_most_so_many_more_packs_than_possible(lengths: list[int]) -> None:
    least = -(-sum(lengths) // CAPACITY)  # no way of packing needs fewer
    over_half = sum(2 * length > CAPACITY for length in lengths)
    bound = max(least, over_half, len(lengths) > 0)
    used = {name: len(pack_lengths(lengths, CAPACITY, strategy=name)) for name in STRATEGIES}
    assert all(bound <= count for count in used.values())
    assert used["sequential"] <= 2 * max(least, 1)
    assert used["first_fit"] <= max(2 * least, bound)  # at most one pack is half empty
    # The best possible is at least `bound`, at most what any strategy needs.
    best = min(used.values())
    assert all(used[name] <= 11 / 9 * best + 1 for name in ("best_fit", "knapsack"))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, CAPACITY), min_size=1, max_size=30), st.data())
def test_longest_first_finds_packs_that_are_known_to_be_full(lengths: list[int], data: st.DataObject) -> None:
    """Cut full packs into pieces: then the fewest packs possible are known."""
    packs = len(lengths)
    pieces: list[int] = []
    for length in lengths:
        pieces += [length, CAPACITY - length]
    shuffled = data.draw(st.permutations(pieces))
    for name in ("best_fit", "knapsack"):
        assert len(pack_lengths(shuffled, CAPACITY, strategy=name)) == packs  # pairs that fill a pack find each other


def reference(lengths: list[int], strategy: str) -> list[list[int]]:
    """Pack by trying all packs for each length: slow, and plain to see."""
    order = list(range(len(lengths)))
    if strategy != "first_fit":
        order.sort(key=lambda member: -lengths[member])
    packs: list[list[int]] = []
    for member in order:
        loads = [sum(lengths[other] for other in pack) for pack in packs]
        fitting = [number for number, load in enumerate(loads) if load + lengths[member] <= CAPACITY]
        if not fitting:
            packs.append([member])
        elif strategy == "best_fit":
            packs[max(fitting, key=lambda number: (loads[number], -number))].append(member)
        else:
            packs[fitting[0]].append(member)
    return sorted(map(sorted, packs))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, CAPACITY), max_size=40))
def test_the_quick_algorithms_find_what_plain_ones_find(lengths: list[int]) -> None:
    assert pack_lengths(lengths, CAPACITY, strategy="first_fit") == reference(lengths, "first_fit")
    # First fit by falling length is the same as filling one pack after the other with the longest that fits.
    assert pack_lengths(lengths, CAPACITY, strategy="knapsack") == reference(lengths, "knapsack")
    assert pack_lengths(lengths, CAPACITY, strategy="best_fit") == reference(lengths, "best_fit")


def lognormal(count: int) -> np.ndarray[Any, Any]:
    drawn = np.random.default_rng(0).lognormal(np.log(199), np.sqrt(2 * np.log(296 / 199)), count)
    return np.clip(drawn, 1, 2048).astype(np.int64)


@pytest.mark.parametrize(
    ("strategy", "least"), [("best_fit", 0.997), ("knapsack", 0.997), ("first_fit", 0.994), ("sequential", 0.85)]
)
def test_packs_of_many_documents_are_almost_full(strategy: Any, least: float) -> None:
    lengths = lognormal(20_000)
    packs = pack_lengths(lengths, 2048, strategy=strategy, buffer_size=1000)
    assert lengths.sum() / (2048 * len(packs)) > least


def test_keeping_back_what_is_not_full_raises_the_utilisation() -> None:
    lengths = lognormal(20_000)
    alone = sum(len(pack_lengths(lengths[start : start + 1000], 2048)) for start in range(0, 20_000, 1000))
    assert len(pack_lengths(lengths, 2048, buffer_size=1000)) < alone


def test_nothing_waits_for_more_than_two_choices() -> None:
    lengths = np.array([15, 15, 15, 15, 3, 15])
    first = choose(lengths, CAPACITY, "best_fit", None, final=False)
    assert first.rest.tolist() == [1]
    again = choose(lengths, CAPACITY, "best_fit", None, kept=6, final=False)
    assert again.rest.tolist() == []


@pytest.mark.parametrize("strategy", ["best_fit", "knapsack"])
@pytest.mark.parametrize(("buffer_size", "least"), [(50, 0.985), (100, 0.99), (200, 0.99)])
def test_small_buffers_give_no_nearly_empty_packs_before_the_end(strategy: Any, buffer_size: int, least: float) -> None:
    lengths = np.random.default_rng(0).integers(20, 140, 6000)
    packs = pack_lengths(lengths, 1024, strategy=strategy, buffer_size=buffer_size)
    loads = [int(lengths[pack].sum()) for pack in packs]
    assert sum(loads) / 1024 / len(packs) > least
    assert min(loads[:-8]) > 512


def test_packs_come_in_the_order_of_their_first_members() -> None:
    packs = pack_lengths(lognormal(500), 2048)
    assert [pack[0] for pack in packs] == sorted(pack[0] for pack in packs)


def test_what_is_too_long_makes_a_pack_of_its_own_in_a_choice() -> None:
    choice = choose(np.array([3, 30, 4, 25, 5]), CAPACITY, "best_fit", None)
    assert (choice.order.tolist(), choice.sizes.tolist()) == ([0, 2, 4, 1, 3], [3, 1, 1])
    choice = choose(np.array([30, 25]), CAPACITY, "knapsack", None)
    assert choice.sizes.tolist() == [1, 1]


def test_no_lengths_make_no_packs() -> None:
    assert pack_lengths([], 5) == []
    assert pack_lengths([0, 0], 5) == [[0, 1]]


@pytest.mark.parametrize(
    ("lengths", "options", "message"),
    [
        ([1, 6], {}, "lengths from 0 to capacity=5, got 6 at position 1"),
        ([-1], {}, "lengths from 0 to capacity=5, got -1 at position 0"),
        ([1], {"strategy": "worst_fit"}, "needs a strategy of 'best_fit', .*, got 'worst_fit'"),
        ([1], {"max_per_pack": 0}, "max_per_pack >= 1, got max_per_pack=0"),
        ([1], {"buffer_size": 0}, "buffer_size >= 1, got buffer_size=0"),
    ],
)
def test_settings_and_lengths_out_of_range_are_refused(lengths: list[int], options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack_lengths(lengths, 5, **options)


def test_what_are_no_lengths_is_refused() -> None:
    with pytest.raises(TypeError, match="a sequence of ints"):
        pack_lengths([0.5], 5)
    with pytest.raises(ValueError, match=r"needs capacity < 2\*\*"):
        pack_lengths([1, 2], 1 << 61)
