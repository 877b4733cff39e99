import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.core.share import Order, part_of
from energon_nodes.sources import reading_order
from energon_nodes.sources.reading_order import ReadingOrder
from energon_nodes.sources.subset import Bound, resolve_subset


def side_by_side(indices: list[int], length: int, parallel: int) -> list[int]:
    """Read blocks of sequences in turn, one element at a time: slow, and plainly right."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] + 1 == index and runs[-1][-1] // length == index // length:
            runs[-1].append(index)
        else:
            runs.append([index])
    found: list[int] = []
    for start in range(0, len(runs), parallel):
        block = [list(run) for run in runs[start : start + parallel]]
        while any(block):
            found += [run.pop(0) for run in block if run]
    return found


cases = {
    "n": st.integers(0, 120),
    "length": st.integers(1, 20),
    "key": st.one_of(st.none(), st.integers(0, 2**128 - 1)),
    "parallel": st.integers(1, 6),
    "streams": st.integers(1, 6),
    "seed": st.integers(0, 2**32),
}


@pytest.mark.parametrize("small_block", [0, 1 << 15])
@given(**cases)
def test_sequences_are_read_side_by_side_and_can_be_entered_anywhere(
    small_block: int, n: int, length: int, key: int | None, parallel: int, streams: int, seed: int
):
    reading_order._SMALL_BLOCK = small_block
    generator = random.Random(seed)
    stream = generator.randrange(streams)
    order = ReadingOrder(n, length, key, parallel, stream, streams)
    start, stop = part_of(n, stream, streams)
    plain = Order(n, length, key).indices(start, stop).tolist()
    expected = side_by_side(plain, length, parallel if length > 1 else 1)
    assert order.count == stop - start
    assert order.indices(0, order.count).tolist() == expected
    first, last = sorted(generator.randint(0, order.count + 3) for _ in range(2))
    assert order.indices(first, last).tolist() == expected[first:last]


@given(n=cases["n"], length=cases["length"], key=cases["key"], parallel=cases["parallel"], streams=cases["streams"])
def test_all_streams_together_read_every_sample_once(n: int, length: int, key: int | None, parallel: int, streams: int):
    orders = [ReadingOrder(n, length, key, parallel, stream, streams) for stream in range(streams)]
    assert max(order.count for order in orders) - min(order.count for order in orders) <= 1
    assert sorted(index for order in orders for index in order.indices(0, order.count).tolist()) == list(range(n))


def test_start_up_and_memory_do_not_grow_with_the_dataset():
    order = ReadingOrder(10**15, 1000, 7, 16, 3, 64)
    assert len(set(order.indices(10**12, 10**12 + 5000).tolist())) == 5000
    assert len(order.indices(order.count - 100, order.count)) == 100
    long = ReadingOrder(10**15, 10**9, 7, 16, 3, 64)
    assert len(set((long.indices(10**12, 10**12 + 160) // 10**9).tolist())) == 16


@pytest.mark.parametrize(
    ("subset", "samples"),
    [
        ((0.0, 0.5), (0, 5)),
        ((0.25, 1.0), (2, 10)),
        (("25%", "50%"), (2, 5)),
        (("0%", "100%"), (0, 10)),
        ((3, 7), (3, 7)),
        ((3, "end"), (3, 10)),
        ((0, 10), (0, 10)),
        (("33%", 0.5), (3, 5)),
    ],
)
def test_a_subset_is_relative_or_in_sample_numbers(subset: tuple[Bound, Bound], samples: tuple[int, int]):
    assert resolve_subset(subset, 10) == samples


@pytest.mark.parametrize(
    ("subset", "message"),
    [
        ((0.0, 5), "two relative bounds or two sample numbers"),
        (("50%", "end"), "two relative bounds or two sample numbers"),
        (("end", 5), "only the second bound"),
        ((0, 11), "0 <= first <= last <= 10"),
        ((7, 3), "0 <= first <= last <= 10"),
        ((-1, 3), "0 <= first <= last <= 10"),
        ((0.0, 1.5), "between 0.0 and 1.0"),
        (("0%", "101%"), 'from "0%" to "100%"'),
        (("a", "b"), 'from "0%" to "100%"'),
        ((3, 3), "leaves none"),
        ((0.0, 0.05), "leaves none"),
        ((True, 3), "a float, an int or text"),
        ((None, 3), "a float, an int or text"),
        ((1, 2, 3), "two bounds"),
        (5, "two bounds"),
    ],
)
def test_a_subset_of_another_form_is_refused(subset: tuple[Bound, Bound], message: str):
    with pytest.raises(ValueError, match=message):
        resolve_subset(subset, 10)


def test_any_subset_of_nothing_is_nothing():
    assert resolve_subset((0.0, 1.0), 0) == resolve_subset((0, "end"), 0) == (0, 0)
