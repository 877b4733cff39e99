"""The order of a source and its shares: bijections, uniform enough, cut without loss."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest

from energon_nodes.core.checks import check_policy
from energon_nodes.core.share import Context, Order, Permutation, part_of, turns_of


@pytest.mark.parametrize("n", [1, 2, 3, 7, 255, 256, 257, 1000, 4097])
@pytest.mark.parametrize("key", [0, 7, 2**127 + 1])
def test_a_permutation_is_a_bijection_with_its_inverse(n: int, key: int) -> None:
    permutation = Permutation(n, key)
    images = permutation(np.arange(n))
    assert sorted(images.tolist()) == list(range(n))
    assert permutation.inverse(images).tolist() == list(range(n))


def test_a_permutation_of_a_huge_range_needs_no_table() -> None:
    n = 10**15
    positions = np.array([0, 1, n // 2, n - 1])
    images = Permutation(n, 7)(positions)
    assert ((images >= 0) & (images < n)).all()
    assert Permutation(n, 7).inverse(images).tolist() == positions.tolist()


def test_permutations_give_the_frozen_orders() -> None:
    assert Permutation(10, 7)(np.arange(10)).tolist() == [6, 4, 0, 3, 1, 5, 7, 2, 9, 8]
    assert Permutation(1000, 7)(np.arange(5)).tolist() == [95, 946, 421, 723, 673]
    assert Permutation(2**40, 7)(np.arange(3)).tolist() == [189939714118, 489855017558, 638817290825]


def test_a_permutation_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="n >= 1, got n=0"):
        Permutation(0, 7)


def test_every_order_of_three_is_as_likely_as_the_others() -> None:
    count = 3000
    seen = Counter(tuple(Permutation(3, key)(np.arange(3)).tolist()) for key in range(count))
    assert set(seen) == set(permutations(range(3)))
    expected = count / 6
    assert sum((number - expected) ** 2 / expected for number in seen.values()) < 20.5  # 5 degrees, p = 0.001


@pytest.mark.parametrize("n", [5, 16, 37])
def test_every_position_gets_every_element_equally_often(n: int) -> None:
    count = 1500
    seen = np.zeros((n, n))
    for key in range(count):
        seen[np.arange(n), Permutation(n, key)(np.arange(n))] += 1
    expected = count / n
    statistic = ((seen - expected) ** 2 / expected).sum()
    degrees = (n - 1) ** 2
    assert statistic < degrees + 4 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("n", [5, 37, 300])
def test_neighbours_are_torn_apart(n: int) -> None:
    # In a uniform order the chance that b follows a at once is (n - 1) / n of 1 / (n - 1), for any a and b.
    count = 400
    follows = 0
    for key in range(count):
        images = Permutation(n, key)(np.arange(n))
        follows += int((np.diff(images) == 1).sum())
    expected = count * (n - 1) / n
    assert abs(follows - expected) < 4 * expected**0.5


@pytest.mark.parametrize(
    ("n", "length"), [(0, 1), (1, 1), (1, 5), (10, 1), (10, 3), (10, 4), (10, 10), (10, 11), (1000, 7)]
)
@pytest.mark.parametrize("key", [None, 3, 4])
def test_an_order_is_a_bijection(n: int, length: int, key: int | None) -> None:
    assert sorted(Order(n, length, key).indices(0, n).tolist()) == list(range(n))


def test_an_order_without_key_is_the_natural_one() -> None:
    assert Order(7, 3, None).indices(2, 6).tolist() == [2, 3, 4, 5]


def test_an_order_gives_the_frozen_sequences() -> None:
    assert Order(10, 3, 5).indices(0, 10).tolist() == [3, 4, 5, 9, 0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("key", range(6))
def test_the_samples_of_a_sequence_stay_together(key: int) -> None:
    n, length = 23, 5
    order = Order(n, length, key).indices(0, n).tolist()
    begins = [position for position, index in enumerate(order) if index % length == 0]
    for begin in begins:
        size = min(length, n - order[begin])
        assert order[begin : begin + size] == list(range(order[begin], order[begin] + size))


def test_the_short_last_sequence_stands_at_every_place() -> None:
    n, length = 13, 5  # sequences of 5, 5 and 3
    places = Counter(Order(n, length, key).indices(0, n).tolist().index(10) for key in range(300))
    assert set(places) == {0, 5, 10}
    assert min(places.values()) > 60


@pytest.mark.parametrize(("n", "length"), [(10, 3), (23, 5), (9, 9), (40, 1)])
@pytest.mark.parametrize("key", [None, 1, 2])
def test_runs_are_the_indices_as_ranges(n: int, length: int, key: int | None) -> None:
    order = Order(n, length, key)
    for start in range(n):
        for stop in range(start, n + 1):
            sources, sizes = order.runs(start, stop)
            ranges = zip(sources.tolist(), sizes.tolist(), strict=True)
            assert [index for first, size in ranges for index in range(first, first + size)] == order.indices(
                start, stop
            ).tolist()


def test_indices_at_every_third_position_are_those_of_the_whole() -> None:
    order = Order(20, 3, 7)
    assert order.at(range(1, 20, 3)).tolist() == order.indices(0, 20).tolist()[1::3]


@pytest.mark.parametrize(("n", "streams"), [(0, 3), (1, 3), (10, 1), (10, 4), (12, 4), (3, 7)])
def test_parts_are_adjacent_and_equal_up_to_one(n: int, streams: int) -> None:
    parts = [part_of(n, stream, streams) for stream in range(streams)]
    assert parts[0][0] == 0
    assert parts[-1][1] == n
    assert all(left[1] == right[0] for left, right in pairwise(parts))
    sizes = [stop - start for start, stop in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("n", "streams"), [(0, 3), (1, 3), (10, 4), (12, 4), (3, 7)])
def test_turns_are_those_of_a_round_robin(n: int, streams: int) -> None:
    for stream in range(streams):
        assert turns_of(n, stream, streams) == sum(turn % streams == stream for turn in range(n))


@pytest.mark.parametrize(("stream", "streams"), [(-1, 1), (1, 1), (0, 0), (5, 4)])
def test_a_context_refuses_a_stream_out_of_range(stream: int, streams: int) -> None:
    with pytest.raises(ValueError, match=f"got stream={stream}, streams={streams}"):
        Context(stream=stream, streams=streams)


def test_a_context_refuses_a_misspelt_policy() -> None:
    with pytest.raises(ValueError, match=r"a run needs on_error=.*, \"skip\" or a callable.*got 'skp'"):
        Context(on_error="skp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"on_restore_error.*got 3"):
        Context(on_restore_error=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance >= 0, got tolerance=-1"):
        Context(tolerance=-1)


def test_a_policy_may_be_left_to_the_run() -> None:
    check_policy("Map", None)
