"""One order for a number of streams, however they are split into ranks and workers."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest

import energon_nodes as en
from tests.loading.pipelines import endless, mixed, round_trip

V = 12


def passes_of(loader: Any, count: int = 3) -> list[list[Any]]:
    return [list(loader) for _ in range(count)]


def split(make: Any, ranks: int, state: Any = None, **settings: Any) -> list[en.Loader[Any]]:
    loaders = [make().loader(rank=rank, world_size=ranks, **settings) for rank in range(ranks)]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    return loaders


def interleaved(loaders: list[en.Loader[Any]], steps: int) -> list[Any]:
    """Take some outputs of each rank, turn by turn."""
    iterators = [iter(loader) for loader in loaders]
    return [next(iterator) for _ in range(steps) for iterator in iterators]


@pytest.mark.parametrize("make", [mixed, endless])
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_nothing_in_three_passes(make: Any, workers: int, persistent: bool) -> None:
    expected = passes_of(make().loader(streams=4))
    with make().loader(streams=4, num_workers=workers, persistent_workers=persistent) as loader:
        assert passes_of(loader) == expected


def test_passes_differ_from_each_other_and_each_holds_every_element_once() -> None:
    loader = en.items(range(50), shuffle=True).shuffle(7).loader(streams=4)
    first, second, third = passes_of(loader)
    assert first != second != third
    assert sorted(first) == sorted(second) == sorted(third) == list(range(50))


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 12])
def test_all_splits_into_ranks_give_the_same_global_batches(ranks: int) -> None:
    alone = list(mixed(400).loader(streams=V))
    steps = 24 // ranks  # before the first stream ends
    assert interleaved(split(lambda: mixed(400), ranks, streams=V), steps) == alone[: steps * ranks]


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 12])
def test_ranks_share_a_pass_whose_streams_end_at_different_times(ranks: int) -> None:
    alone = list(mixed().loader(streams=V))
    together = [batch for loader in split(mixed, ranks, streams=V) for batch in loader]
    assert sorted(together) == sorted(alone)


def test_a_checkpoint_under_each_split_resumes_under_each_other() -> None:
    make, taken = lambda: mixed(400), 24
    reference = make().loader(streams=V)
    expected, following = list(reference), list(reference)
    for saving in (1, 2, 3, 4, 6, 12):
        loaders = split(make, saving, streams=V)
        assert interleaved(loaders, taken // saving) == expected[:taken]
        state = round_trip(en.merge_states([round_trip(loader.state_dict()) for loader in loaders]))
        for loading in (1, 2, 3, 4, 6, 12):
            resumed = split(make, loading, state)
            got = interleaved(resumed, 12 // loading)
            assert got == expected[taken : taken + 12], (saving, loading)
        whole = make().loader()
        whole.load_state_dict(state)
        assert [list(whole), list(whole)] == [expected[taken:], following], saving


@pytest.mark.parametrize("make", [mixed, endless])
def test_real_workers_resume_what_other_numbers_of_workers_saved(make: Any) -> None:
    reference = make().loader(streams=4)
    first, second = list(reference), list(reference)
    for saving, loading in ((0, 4), (2, 0), (4, 2), (1, 2), (2, 1)):
        with make().loader(streams=4, num_workers=saving) as loader:
            iterator = iter(loader)
            assert [next(iterator) for _ in range(5)] == first[:5]
            state = round_trip(loader.state_dict())
        with make().loader(num_workers=loading) as resumed:
            resumed.load_state_dict(state)
            assert [list(resumed), list(resumed)] == [first[5:], second], (saving, loading)


def test_ranks_that_stand_at_different_turns_at_the_end_of_a_pass_can_be_merged() -> None:
    # Where a stream has ended its turns are left out, so equal steps are different turns.
    make = lambda: mixed(40)  # noqa: E731
    reference = make().loader(streams=6)
    expected, following = list(reference), list(reference)
    steps = [list(loader) for loader in split(make, 3, streams=6)]
    for step in range(max(map(len, steps)) + 1):
        loaders, got = split(make, 3, streams=6), []
        for loader, outputs in zip(loaders, steps, strict=True):
            iterator = iter(loader)
            got += [next(iterator) for _ in range(min(step, len(outputs)))]
            if step >= len(outputs):
                assert next(iterator, None) is None
        state = round_trip(en.merge_states([loader.state_dict() for loader in loaders]))
        resumed = make().loader()
        resumed.load_state_dict(state)
        rest = list(resumed)
        if len(got) < len(expected):
            assert sorted(got + rest) == sorted(expected), step
            assert list(resumed) == following
        else:
            assert rest == following, step


def test_outputs_of_workers_are_interleaved_by_turns_and_holes_are_left_out() -> None:
    streams = [list(range(start, 11, 4)) for start in range(4)]
    expected = [value for row in zip_longest(*streams) for value in row if value is not None]
    with en.items(range(11)).loader(streams=4, num_workers=2) as loader:
        assert list(loader) == expected


def test_the_length_is_that_of_a_rank() -> None:
    loaders = split(lambda: en.items(range(50)).batch(3), 2, streams=6)
    assert [len(loader) for loader in loaders] == [len(list(loader)) for loader in loaders]
    with pytest.raises(TypeError, match="not known"):
        len(mixed().loader())
    with pytest.raises(TypeError, match="no end"):
        len(en.items(range(3)).repeat().loader())


def test_the_plan_names_streams_buffers_and_short_batches() -> None:
    plan = en.items(range(50)).shuffle(10).batch(4).loader(num_workers=2, streams=8, rank=1, world_size=2).plan()
    assert "8 streams on 2 ranks; rank 1 hosts 4, 2 in each of 2 workers" in plan
    assert "8 outputs of this rank in a pass; the streams give 2 each" in plan
    assert "Shuffle(size=10): one for each stream, 2 in each worker" in plan
    assert "each may end with a short one" in plan


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"streams": 5, "num_workers": 2}, "use streams=4 or streams=6"),
        ({"num_workers": -1}, "num_workers >= 0"),
        ({"streams": 0}, "streams >= 1"),
        ({"rank": 2, "world_size": 2}, "rank < world_size"),
        ({"rank": 0}, "both rank and world_size"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor >= 1"),
        ({"timeout": -1}, "timeout >= 0"),
        ({"mp_context": "thread"}, "mp_context="),
        ({"tolerance": -1}, "tolerance >= 0"),
        ({"on_error": "ignore"}, "on_error="),
        ({"uneven": "cut"}, "uneven="),
    ],
)
def test_settings_that_do_not_fit_are_refused_when_the_loader_is_made(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        en.items(range(8)).loader(**settings)
