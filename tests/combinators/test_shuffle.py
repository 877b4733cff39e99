"""`shuffle` draws from a buffer."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest

import energon_nodes as en
from energon_nodes.testing import interleave, on_stream

# Frozen: a change here changes every shuffled order of every user.
GOLDEN = [1, 3, 0, 5, 7, 2, 6, 8, 11, 10, 4, 9]


def test_the_order_is_the_frozen_one() -> None:
    assert list(en.items(range(12)).shuffle(4)) == GOLDEN


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 100])
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_every_element_comes_once(count: int, size: int) -> None:
    node = en.items(range(count)).shuffle(size)
    assert sorted(node) == list(range(count))
    assert len(node) == count


def test_a_buffer_of_one_leaves_the_order_as_it_is() -> None:
    assert list(en.items(range(9)).shuffle(1)) == list(range(9))


def test_an_element_comes_at_most_a_buffer_early() -> None:
    order = list(en.items(range(500)).shuffle(20))
    assert all(value - place < 20 for place, value in enumerate(order))


def test_every_order_of_a_full_buffer_is_as_likely() -> None:
    count, runs = 4, 2400
    seen: dict[tuple[int, ...], int] = {}
    node = en.items(range(count)).shuffle(count)
    for _ in range(runs):
        order = tuple(node)
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    expected = runs / 24
    assert sum((number - expected) ** 2 / expected for number in seen.values()) < 49.7  # 23 degrees, p = 0.001


def test_passes_streams_seeds_and_places_draw_differently() -> None:
    node = en.items(range(30)).shuffle(10)
    orders = {tuple(node), tuple(node), tuple(en.items(range(30)).shuffle(10, seed=4))}
    orders.add(tuple(on_stream(lambda: en.items(range(30)).shuffle(10), 0, 1, seed=1)()))
    orders.add(tuple(en.items(range(30)).shuffle(10).shuffle(10)))
    assert len(orders) == 5


def test_all_streams_together_have_all_elements() -> None:
    elements = [value for _, value in interleave(lambda: en.items(range(23)).shuffle(5), 3)[0]]
    assert sorted(elements) == list(range(23))


@pytest.mark.parametrize(
    "make",
    [
        lambda: en.items(range(60)),
        lambda: en.items(range(60)).batch(2),
        lambda: en.concat(en.items(range(20)), en.items(range(40)).batch(2)),
        lambda: en.wrap(range(60)),
    ],
    ids=["pairs of numbers", "nested keys", "keys that change their shape", "values"],
)
def test_keys_of_any_shape_give_the_same_order(make: Any) -> None:
    count = len(list(make()))
    values = [value for value, _ in make().with_keys()]
    plain = list(en.items(range(count)).shuffle(10))
    assert list(make().shuffle(10)) == [values[place] for place in plain]


def test_keys_follow_their_elements() -> None:
    for source in (en.items(range(60)), en.concat(en.items(range(20)), en.items(range(40)).batch(2))):
        pairs = list(source.shuffle(7).with_keys())
        assert source.restore_many([key for _, key in pairs]) == [value for value, _ in pairs]


def test_after_a_resume_elements_are_rebuilt_when_they_are_about_to_be_drawn() -> None:
    built: list[int] = []

    def build(value: int) -> int:
        built.append(value)
        return value

    node = en.items(range(5000)).map(build).shuffle(1000)
    next(node)
    state = node.state_dict()
    again = en.items(range(5000)).map(build).shuffle(1000)
    again.reset(state)
    assert isinstance(again, en.Shuffle)
    assert again.held.lazy == 1000
    built.clear()
    next(again)
    assert len(built) < 70
    rest = list(again)
    assert again.held.lazy == 0
    assert len(set(rest)) == 4998


def test_a_state_of_a_large_buffer_is_small() -> None:
    node = en.items(range(60_000)).shuffle(10_000)
    list(islice(node, 500))
    assert len(pickle.dumps(node.state_dict())) < 3 * 10_000


@pytest.mark.parametrize("size", [0, -1, 2.5, None])
def test_a_size_that_is_no_count_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=rf"shuffle needs an int size >= 1, got size={size!r}"):
        en.items([1]).shuffle(size)


def test_a_shuffle_of_a_shuffle_goes_further_than_each() -> None:
    order = np.array(list(en.items(range(2000)).shuffle(50).shuffle(50)))
    once = np.array(list(en.items(range(2000)).shuffle(50)))
    assert np.abs(np.diff(order)).mean() > np.abs(np.diff(once)).mean()
