"""Saving and resuming one loader, at every point of its passes."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from tests.loading.pipelines import counted, endless, mixed, round_trip


def resumed(make: Any, state: dict[str, Any], **settings: Any) -> en.Loader[Any]:
    loader = make().loader(**settings)
    loader.load_state_dict(round_trip(state))
    return loader


@pytest.mark.parametrize("make", [mixed, endless])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_at_every_output_resumes_there(make: Any, workers: int) -> None:
    reference = make().loader(streams=4)
    first, second, third = list(reference), list(reference), list(reference)
    with make().loader(streams=4, num_workers=workers) as loader:
        states = [loader.state_dict()]
        for _ in loader:
            states.append(loader.state_dict())
    assert len(states) == len(first) + 1
    for number, state in enumerate(states):
        expected = [first[number:], second] if number < len(first) else [second, third]
        again = resumed(make, state)
        assert [list(again), list(again)] == expected, number
    for number in (0, 1, len(first) // 2, len(first) - 1, len(first)):
        expected = [first[number:], second] if number < len(first) else [second, third]
        with resumed(make, states[number], num_workers=2) as again:
            assert [list(again), list(again)] == expected, number


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_after_the_end_of_a_pass_resumes_with_a_whole_pass(workers: int) -> None:
    reference = mixed().loader(streams=2)
    passes = [list(reference) for _ in range(4)]
    with mixed().loader(streams=2, num_workers=workers) as loader:
        list(loader)
        list(loader)
        state = loader.state_dict()
    with resumed(mixed, state, num_workers=workers) as again:
        assert again.state_dict() == round_trip(state)
        assert [list(again), list(again)] == passes[2:]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_pass_is_left_by_the_next_for_and_resumed_by_its_state(workers: int) -> None:
    reference = mixed().loader(streams=2)
    first, second = list(reference), list(reference)
    with mixed().loader(streams=2, num_workers=workers) as loader:
        counted(loader, 3)
        state = loader.state_dict()
        assert list(loader) == second
    assert list(resumed(mixed, state)) == first[3:]


@pytest.mark.parametrize("workers", [0, 2])
def test_interrupting_each_pass_gives_pass_after_pass(workers: int) -> None:
    reference = mixed().loader(streams=2)
    heads = [list(reference)[:2] for _ in range(4)]
    for persistent in (True, False):
        with mixed().loader(streams=2, num_workers=workers, persistent_workers=persistent) as loader:
            assert [counted(loader, 2)[0] for _ in range(4)] == heads


@pytest.mark.parametrize("workers", [0, 2])
def test_two_resumes_in_a_row_without_an_output_between_change_nothing(workers: int) -> None:
    with mixed().loader(streams=2, num_workers=workers) as loader:
        seen, iterator = counted(loader, 4)
        state = loader.state_dict()
        rest = list(iterator)
    once = resumed(mixed, state, num_workers=workers)
    twice = resumed(mixed, once.state_dict(), num_workers=workers)
    assert list(twice) == rest
    assert len(seen) == 4
    twice.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_made_before_the_load_begins_at_the_loaded_point(workers: int) -> None:
    with mixed().loader(streams=2) as loader:
        _, iterator = counted(loader, 3)
        state = loader.state_dict()
        rest = list(iterator)
    with mixed().loader(streams=2, num_workers=workers) as loader:
        early = iter(loader)
        loader.load_state_dict(state)
        assert list(early) == rest


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_in_the_middle_goes_back_to_a_state(workers: int) -> None:
    with mixed().loader(streams=2, num_workers=workers) as loader:
        _, iterator = counted(loader, 3)
        state = loader.state_dict()
        rest = list(iterator)
        counted(loader, 2)
        loader.load_state_dict(state)
        assert list(loader) == rest
        loader.load_state_dict(state)
        assert list(loader) == rest


@pytest.mark.parametrize("workers", [0, 2])
def test_stale_iterators_are_refused(workers: int) -> None:
    with mixed().loader(streams=2, num_workers=workers) as loader:
        _, one = counted(loader, 1)
        two = iter(loader)
        with pytest.raises(RuntimeError, match="out of date"):
            next(one)
        next(two)
        loader.load_state_dict(loader.state_dict())
        with pytest.raises(RuntimeError, match="out of date"):
            next(two)
        three = iter(loader)
        next(three)
        loader.close()
        with pytest.raises(RuntimeError, match="out of date"):
            next(three)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_loader_goes_on_where_it_stood(workers: int) -> None:
    reference = mixed().loader(streams=2)
    first, second = list(reference), list(reference)
    loader = mixed().loader(streams=2, num_workers=workers)
    assert counted(loader, 4)[0] == first[:4]
    loader.close()
    loader.close()
    state = loader.state_dict()
    assert list(loader) == first[4:]
    loader.close()
    assert list(loader) == second
    loader.close()
    assert list(resumed(mixed, state)) == first[4:]


@pytest.mark.parametrize("workers", [0, 2])
def test_outputs_that_workers_have_made_ahead_are_neither_lost_nor_repeated(workers: int) -> None:
    make = lambda: en.items(range(40)).batch(1)  # noqa: E731
    with make().loader(num_workers=workers, streams=2, prefetch_factor=4) as loader:
        seen, iterator = counted(loader, 7)
        state = loader.state_dict()
        rest = list(iterator)
        assert seen + rest == [[value] for value in range(40)]
    assert list(resumed(make, state)) == rest
    assert len(rest) == 33


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_between_iter_and_the_first_next_is_the_beginning_of_that_pass(workers: int) -> None:
    reference = mixed().loader(streams=2)
    _, second = list(reference), list(reference)
    with mixed().loader(streams=2, num_workers=workers) as loader:
        counted(loader, 3)
        later = iter(loader)
        state = loader.state_dict()
        assert list(later) == second
    assert list(resumed(mixed, state)) == second


def test_a_fresh_loader_takes_the_number_of_streams_of_the_state() -> None:
    loader = mixed().loader(streams=6)
    seen, iterator = counted(loader, 5)
    state = loader.state_dict()
    assert list(resumed(mixed, state)) == list(iterator)
    assert seen
    with pytest.raises(en.StateError, match="the checkpoint has 6 streams, this loader was built with streams=4"):
        resumed(mixed, state, streams=4)
    with pytest.raises(en.StateError, match="cannot be spread evenly over 4 ranks"):
        resumed(mixed, state, rank=0, world_size=4)


@pytest.mark.parametrize("workers", [0, 2])
def test_restoring_by_key_gives_the_output_and_leaves_the_streams_alone(workers: int) -> None:
    make = lambda: mixed().with_keys()  # noqa: E731
    expected = list(make().loader(streams=2))
    with make().loader(streams=2, num_workers=workers) as loader:
        got = []
        for value, key in loader:
            got.append((value, key))
            assert mixed().loader(streams=2).restore(key) == value
            assert loader.restore(key)[0] == value
        assert got == expected


def test_a_state_that_cannot_be_saved_stops_saving_and_nothing_else() -> None:
    make = lambda: en.wrap(object_factory).shuffle(3)  # noqa: E731
    for workers in (0, 1):
        with make().loader(num_workers=workers) as loader:
            iterator = iter(loader)
            next(iterator)
            with pytest.raises(TypeError, match="register_encoder"):
                loader.state_dict()
            assert len(list(iterator)) == 5
            loader.state_dict()  # at the end the buffer is empty
            counted(loader, 1)
        with pytest.raises(TypeError, match="register_encoder"):
            next(iter(loader))


def object_factory(stream: int, streams: int) -> list[Any]:
    return [Opaque() for _ in range(6)]


class Opaque:
    pass
