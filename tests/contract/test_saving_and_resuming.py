"""The cases of saving and resuming that broke loaders in public use, one test for each.

Each runs through every way to iterate: the pipeline itself, torchdata's `Loader`, ours without and with workers, and
`StatefulDataLoader`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torchdata.nodes
from torchdata.stateful_dataloader import StatefulDataLoader

import energon_nodes as en
from energon_nodes.testing.runs import dump, load
from tests.contract import functions as f


class Direct:
    """A pipeline with the interface of a loader."""

    def __init__(self, node: en.Node[Any]) -> None:
        self.node = node

    def __iter__(self) -> Iterator[Any]:
        return iter(self.node)

    def state_dict(self) -> Any:
        return self.node.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self.node.reset(state)


def as_it_is(value: Any) -> Any:
    return value


Way = Callable[[en.Node[Any]], Any]
WAYS: dict[str, Way] = {
    "pipeline": Direct,
    "torchdata Loader": torchdata.nodes.Loader,
    "loader": lambda node: node.loader(streams=2),
    "loader with workers": lambda node: node.loader(num_workers=2, streams=2),
    "StatefulDataLoader": lambda node: StatefulDataLoader(node.dataset(), batch_size=None, collate_fn=as_it_is),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
without_workers = pytest.mark.parametrize(
    "way",
    [way for name, way in WAYS.items() if "workers" not in name],
    ids=[name for name in WAYS if "workers" not in name],
)


def saved(loader: Any) -> Any:
    return load(dump(loader.state_dict()))


def make() -> en.Node[Any]:
    return en.items(range(22), shuffle=True).shuffle(5).map(f.jitter, rng=True).batch(3)


@every_way
def test_state_taken_right_after_the_last_element_loses_no_epoch_and_gives_none_empty(way: Way) -> None:
    whole = way(make())
    epochs = [list(whole) for _ in range(3)]
    stopped = way(make())
    iterator = iter(stopped)
    for _ in epochs[0]:
        next(iterator)
    state = saved(stopped)  # the end of the epoch was not seen
    resumed = way(make())
    resumed.load_state_dict(state)
    following = [list(resumed) for _ in range(3)]
    if following[0] == []:  # a pipeline by itself ends the pass that it stands in
        assert isinstance(resumed, Direct)
        del following[0]
    assert following[:2] == epochs[1:]


@every_way
def test_resume_in_the_middle_is_followed_by_whole_epochs(way: Way) -> None:
    whole = way(make())
    epochs = [list(whole) for _ in range(3)]
    stopped = way(make())
    iterator = iter(stopped)
    start = [next(iterator) for _ in range(4)]
    resumed = way(make())
    resumed.load_state_dict(saved(stopped))
    assert start + list(resumed) == epochs[0]
    assert [list(resumed), list(resumed)] == epochs[1:]


@every_way
def test_state_before_the_first_element_is_the_start_of_the_stream(way: Way) -> None:
    state = saved(way(make()))
    resumed = way(make())
    resumed.load_state_dict(state)
    assert list(resumed) == list(way(make()))


@every_way
def test_counters_agree_with_what_was_seen_after_a_load(way: Way) -> None:
    numbered = en.items(range(10)).map(f.Counter())
    stopped = way(numbered.clone())
    iterator = iter(stopped)
    seen = [next(iterator) for _ in range(3)]
    resumed = way(numbered.clone())
    resumed.load_state_dict(saved(stopped))
    rest = list(resumed)
    assert [value for value, _ in seen + rest] == list(range(10))
    assert seen + rest == list(way(numbered.clone()))


def test_loader_counts_the_outputs_that_were_received() -> None:
    stopped = en.items(range(10)).loader()
    list(islice(stopped, 3))
    assert stopped.state_dict()["step"] == 3
    resumed = en.items(range(10)).loader()
    resumed.load_state_dict(saved(stopped))
    assert resumed.state_dict()["step"] == 3
    assert len(list(resumed)) == 7


@every_way
def test_exhausted_state_is_followed_by_a_full_epoch(way: Way) -> None:
    whole = way(make())
    epochs = [list(whole), list(whole)]
    ended = way(make())
    assert list(ended) == epochs[0]
    resumed = way(make())
    resumed.load_state_dict(saved(ended))
    assert list(resumed) == epochs[1]


def test_exhausted_state_then_reset_gives_a_full_epoch() -> None:
    ended = make()
    assert len(list(ended)) == 8
    resumed = make()
    resumed.reset(load(dump(ended.state_dict())))
    resumed.reset(None)
    assert resumed.epoch == 1
    assert len(list(resumed)) == 8


def sleeps_unevenly(value: int) -> int:
    time.sleep(random.Random(value).random() / 500)
    return value


@without_workers
def test_out_of_order_parallel_map_gives_every_element_once_across_the_save(way: Way) -> None:
    uneven = en.items(range(30)).parallel_map(sleeps_unevenly, workers=3, in_order=False, ahead=7)
    for taken in (0, 1, 11, 29):
        stopped = way(uneven.clone())
        seen = list(islice(stopped, taken))
        resumed = way(uneven.clone())
        resumed.load_state_dict(saved(stopped))
        assert sorted(seen + list(resumed)) == list(range(30))


@without_workers
def test_encoder_that_returns_the_batch_index_goes_on_counting(way: Way) -> None:
    encoder = f.Counter()  # as user code has it: a callable that numbers what it encodes
    numbered = en.items(range(20)).batch(3).map(encoder)
    whole = list(way(numbered.clone()))
    for taken in range(1, 7):
        stopped = way(numbered.clone())
        seen = list(islice(stopped, taken))
        resumed = way(numbered.clone())
        resumed.load_state_dict(saved(stopped))
        assert seen + list(resumed) == whole
    assert encoder.count == 0  # every stream has a copy of its own


def test_stale_state_files_of_more_ranks_cannot_be_mixed_in() -> None:
    def run(world_size: int, steps: int) -> list[Any]:
        ranks = [make().loader(streams=4, rank=rank, world_size=world_size) for rank in range(world_size)]
        for loader in ranks:
            list(islice(loader, steps))
        return [saved(loader) for loader in ranks]

    folder = dict(enumerate(run(4, 1)))  # an older run left rank0 to rank3
    folder |= dict(enumerate(run(2, 2)))  # a newer one with two ranks writes over two of them, at the same turn
    with pytest.raises(en.StateError, match="differ in world_size: 2 and 4"):
        en.merge_states(folder.values())
    assert en.merge_states([folder[0], folder[1]])["world_size"] == 2


@every_way
def test_iterator_made_before_the_load_goes_on_from_the_loaded_point_or_is_refused(way: Way) -> None:
    whole = list(way(make()))
    stopped = way(make())
    iterator = iter(stopped)
    for _ in range(3):
        next(iterator)
    state = saved(stopped)
    late = way(make())
    iterator = iter(late)
    late.load_state_dict(state)
    try:
        rest = list(iterator)
    except RuntimeError:  # refused
        rest = whole[3:]
    if isinstance(late, (torchdata.nodes.Loader, StatefulDataLoader)):
        return  # foreign loaders: they load at the next `for`, which the other tests look at
    assert rest == whole[3:]


@pytest.mark.parametrize("way", [Direct, lambda node: node.loader()], ids=["pipeline", "loader"])
def test_shuffle_switched_off_between_save_and_load_is_an_error_that_shows_both(way: Way) -> None:
    state = saved(way(en.items(range(9), shuffle=True).batch(2)))
    with pytest.raises(en.StateError, match=r"(?s)shuffled=True .*shuffled=False.*at source"):
        way(en.items(range(9)).batch(2)).load_state_dict(state)
    state = saved(way(en.items(range(9)).shuffle(4).batch(2)))
    with pytest.raises(en.StateError, match=r"holds a Shuffle where this pipeline has a Items \(at source\)"):
        way(en.items(range(9)).batch(2)).load_state_dict(state)
    with pytest.raises(en.StateError, match=r"size=4 .*size=5"):
        way(en.items(range(9)).shuffle(5).batch(2)).load_state_dict(state)


@every_way
def test_save_in_the_middle_of_a_buffer_repeats_and_loses_nothing(way: Way) -> None:
    packed = en.items(range(20)).batch(3).unbatch().filter(f.not_third).batch(3).unbatch()
    whole = list(way(packed.clone()))
    for taken in range(1, len(whole), 3):
        stopped = way(packed.clone())
        seen = list(islice(iter(stopped), taken))
        resumed = way(packed.clone())
        resumed.load_state_dict(saved(stopped))
        assert seen + list(resumed) == whole


@every_way
def test_blend_is_loaded_before_any_iteration(way: Way) -> None:
    def mixed() -> en.Node[Any]:
        return en.blend(en.items(range(9)), en.items("abcdefghijkl", shuffle=True), weights=[1, 2])

    whole = list(way(mixed()))
    stopped = way(mixed())
    seen = list(islice(iter(stopped), 7))
    resumed = way(mixed())
    resumed.load_state_dict(saved(stopped))  # the first thing that is done with it
    assert Counter(seen + list(resumed)) == Counter(whole)
    assert seen == whole[:7]


@every_way
def test_window_of_five_over_ten_saved_at_step_zero_gives_the_same_ten(way: Way) -> None:
    def window() -> en.Node[int]:
        return en.items(range(10)).shuffle(5)

    first = way(window())
    state = saved(first)
    whole = list(first)
    assert sorted(whole) == list(range(10))
    resumed = way(window())
    resumed.load_state_dict(state)
    assert list(resumed) == whole


def test_random_crops_of_two_workers_differ_in_two_epochs_and_come_again_with_the_seed() -> None:
    def crops(seed: int) -> list[list[Any]]:
        loader = en.items(range(12)).map(f.jitter, rng=True).loader(num_workers=2, streams=2, seed=seed)
        epochs = [list(loader), list(loader)]
        loader.close()
        return epochs

    first, second = crops(1)
    draws = [draw for _, draw in first + second]
    assert len(set(draws)) == len(draws)
    assert crops(1) == [first, second]
    assert crops(2) != [first, second]
