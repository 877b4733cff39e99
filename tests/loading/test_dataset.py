"""Pipelines in torchdata's StatefulDataLoader and in torch's plain DataLoader."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import energon_nodes as en
from tests.loading.pipelines import endless, mixed, round_trip

KINDS = [DataLoader, StatefulDataLoader]


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Collect torch's iterators here: a forked worker that finds them among its garbage waits for their workers."""
    yield
    gc.collect()


def make_loader(kind: Any, pipeline: en.Node[Any], workers: int, **settings: Any) -> Any:
    return kind(pipeline.dataset(), batch_size=None, num_workers=workers, collate_fn=list, **settings)


def passes(make: Any, workers: int, count: int) -> list[list[Any]]:
    reference = make().loader(streams=max(1, workers))
    return [list(reference) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [mixed, endless])
@pytest.mark.parametrize("workers", [0, 2])
def test_three_epochs_are_the_first_three_passes(kind: Any, make: Any, workers: int) -> None:
    expected = passes(make, workers, 3)
    for persistent in (False, True)[: 1 + (workers > 0)]:
        loader = make_loader(kind, make(), workers, persistent_workers=persistent)
        assert [list(loader) for _ in range(3)] == expected


@pytest.mark.parametrize(("kind", "persistent"), [(DataLoader, False), (StatefulDataLoader, True)])
def test_spawned_workers_get_the_next_pass(kind: Any, persistent: bool) -> None:
    settings = {"multiprocessing_context": "spawn", "persistent_workers": persistent}
    loader = make_loader(kind, endless(), 1, **settings)
    assert [list(loader) for _ in range(3)] == passes(endless, 1, 3)


@pytest.mark.parametrize("make", [mixed, endless])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("taken", [0, 1, 4, "all", "end"])
def test_a_resume_in_the_second_epoch_is_followed_by_whole_epochs(make: Any, workers: int, taken: Any) -> None:
    expected = passes(make, workers, 5)
    loader = make_loader(StatefulDataLoader, make(), workers)
    assert list(loader) == expected[0]
    iterator = iter(loader)
    count = len(expected[1]) if isinstance(taken, str) else taken
    assert list(islice(iterator, count)) == expected[1][:count]
    if taken == "end":
        assert next(iterator, None) is None
    state = round_trip(loader.state_dict())
    resumed = make_loader(StatefulDataLoader, make(), workers)
    resumed.load_state_dict(state)
    got = [list(resumed) for _ in range(3)]
    if taken == "all" and workers:  # torchdata had not seen the end; a worker cannot know whether others have more
        assert got == [[], *expected[2:4]]
    else:
        rest = [] if isinstance(taken, str) else [expected[1][taken:]]
        assert got == [*rest, *expected[2:]][:3]


@pytest.mark.parametrize("workers", [0, 2])
def test_asking_for_the_state_before_the_first_output_takes_no_pass_away(workers: int) -> None:
    expected = passes(mixed, workers, 2)
    loader = make_loader(StatefulDataLoader, mixed(), workers)
    state = round_trip(loader.state_dict())
    assert [list(loader) for _ in range(2)] == expected
    resumed = make_loader(StatefulDataLoader, mixed(), workers)
    resumed.load_state_dict(state)
    assert [list(resumed) for _ in range(2)] == expected


@pytest.mark.parametrize(("saving", "loading"), [(2, 1), (2, 0)])
def test_another_number_of_workers_is_refused_and_never_gives_wrong_data(saving: int, loading: int) -> None:
    loader = make_loader(StatefulDataLoader, mixed(), saving)
    next(iter(loader))
    state = loader.state_dict()
    resumed = make_loader(StatefulDataLoader, mixed(), loading)
    says = "num_workers" if loading else "State doesn't contain key"  # the second is torchdata's own
    with pytest.raises((en.StateError, AssertionError), match=says):
        _resume(resumed, state)


def _resume(loader: Any, state: dict[str, Any]) -> None:
    loader.load_state_dict(state)
    next(iter(loader))


def test_the_state_is_kept_in_one_place() -> None:
    dataset = mixed().dataset()
    assert not hasattr(dataset, "state_dict")
    iterator = iter(dataset)
    next(iterator)
    loader = StatefulDataLoader(mixed().dataset(), batch_size=None, num_workers=0, collate_fn=list)
    next(iter(loader))
    assert str(loader.state_dict()).count("'graph'") == 1


def test_a_validation_set_of_a_fixed_epoch_repeats_itself() -> None:
    pipeline = en.items(range(20), shuffle=True, fixed_epoch=True).shuffle(4).batch(3)
    for workers in (0, 2):
        loader = make_loader(StatefulDataLoader, pipeline, workers)
        first = list(loader)
        assert list(loader) == first
        assert list(loader) == first


def test_repeats_and_functions_with_a_state_go_on_from_pass_to_pass_in_workers_made_anew() -> None:
    make = lambda: en.items(range(9), shuffle=True).repeat(2).map(Total())  # noqa: E731
    for workers in (0, 2):
        loader = make_loader(DataLoader, make().batch(1), workers)
        reference = make().batch(1).loader(streams=max(1, workers))
        assert [list(loader) for _ in range(3)] == [list(reference) for _ in range(3)]


class Total:
    """Add up what it is called with; a function with a state."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, value: int) -> int:
        self.total += value
        return self.total

    def state_dict(self) -> dict[str, int]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.total = state["total"]


def test_passes_that_are_all_left_early_differ() -> None:
    for workers in (0, 2):
        loader = make_loader(DataLoader, mixed(), workers)
        heads = [list(islice(loader, 2)) for _ in range(3)]
        assert heads == [outputs[:2] for outputs in passes(mixed, workers, 3)]


def test_a_dataset_may_serve_another_number_of_workers_later() -> None:
    dataset = endless().dataset()
    for workers in (0, 2, 0):
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, collate_fn=list)
        assert len(list(loader)) == 9


def test_process_pools_are_refused_in_workers() -> None:
    loader = make_loader(DataLoader, en.items(range(4)).parallel_map(str, method="process").batch(2), 1)
    with pytest.raises(ValueError, match='use method="thread"'):
        list(loader)


def test_ranks_share_the_data() -> None:
    datasets = [en.items(range(12)).dataset(rank=rank, world_size=2) for rank in range(2)]
    loaders = [DataLoader(dataset, batch_size=None, num_workers=2) for dataset in datasets]
    first, second = (list(loader) for loader in loaders)
    assert sorted(first + second) == list(range(12))
    assert len(first) == len(second) == 6
