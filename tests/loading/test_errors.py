"""Errors of user functions and of outputs, with and without workers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from tests.loading import pipelines
from tests.loading.pipelines import round_trip


def outcome(loader: Any) -> list[Any]:
    """Return all outputs and errors of a pass, an error as its type and message, as a persistent trainer sees them."""
    return outcome_of(iter(loader))


def outcome_of(iterator: Any) -> list[Any]:
    """Return all outputs and errors that an iterator still gives."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append((type(error), str(error)))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_type_and_notes_and_says_which_worker(workers: int) -> None:
    pipeline = en.items(range(12)).map(pipelines.sample).map(pipelines.value_of_sample)
    with (
        pipeline.loader(num_workers=workers, streams=2) as loader,
        pytest.raises(ValueError, match="seven is bad") as caught,
    ):
        list(loader)
    notes = "\n".join(caught.value.__notes__)
    assert "at node Map(fn=value_of_sample)" in notes
    assert "restore key (0, 7), sample 'sample7'" in notes
    if workers:
        assert "raised in worker 1; its traceback:" in notes
        assert "in value_error_at_7" in notes


@pytest.mark.parametrize("deep", [False, True])
def test_the_stream_goes_on_behind_an_error_in_the_same_order_for_any_number_of_workers(deep: bool) -> None:
    pipeline = en.items(range(40)).map(pipelines.value_error_at_7)
    without = en.items([value for value in range(40) if value != 7])
    if deep:
        pipeline, without = (node.shuffle(4).batch(2).batch(2) for node in (pipeline, without))
    reference = pipeline.loader(streams=2)
    found = [outcome(reference), outcome(reference)]
    for workers in (1, 2):
        with pipeline.loader(streams=2, num_workers=workers) as loader:
            assert [outcome(loader), outcome(loader)] == found
    values = [value for value in found[0] if not isinstance(value, tuple)]
    assert len(found[0]) == len(values) + 1
    if not deep:  # the stream of the bad element, without it
        assert [value for value in values if value % 2] == [value for value in range(1, 40, 2) if value != 7]
    assert len(values) == len(list(without.loader(streams=2)))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_after_an_error_resumes_without_loss(workers: int) -> None:
    pipeline = en.items(range(20)).map(pipelines.value_error_at_7)
    expected = outcome(pipeline.loader(streams=2))
    with pipeline.loader(streams=2, num_workers=workers) as loader:
        iterator, got = iter(loader), []
        for _ in range(expected.index((ValueError, "seven is bad"))):
            got.append(next(iterator))
        with pytest.raises(ValueError, match="seven"):
            next(iterator)
        state = round_trip(loader.state_dict())
    again = pipeline.loader()
    again.load_state_dict(state)
    rest = [value for value in outcome(again) if isinstance(value, int)]
    assert got + rest == [value for value in expected if isinstance(value, int)]


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_elements_are_counted_up_to_the_last_output(workers: int) -> None:
    pipeline = en.items(range(20)).map(pipelines.skip_7).map(pipelines.value_error_at_7, on_error="skip")
    failing = en.items(range(20)).map(pipelines.value_error_at_7)
    with pipeline.loader(num_workers=workers, streams=2) as loader:
        counted: list[Any] = [loader.counts()]
        for _ in loader:
            counted.append(loader.counts())
        assert counted[0] == {}
        assert counted[-1] == {"Map(fn=skip_7)": {"skipped": 1, "failed": 0}}
        assert counted[7] == {}  # the seventh output came before the skip, however far the workers are
    with failing.loader(num_workers=workers, streams=2, on_error="skip") as loader:
        assert list(loader) == [0, 1, 2, 3, 4, 5, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18]
        assert sum(count["failed"] for count in loader.counts().values()) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_a_callable_policy_is_asked_where_the_error_is(workers: int) -> None:
    pipeline = en.items(range(20)).map(pipelines.value_error_at_7)
    with pipeline.loader(num_workers=workers, streams=2, on_error=functools.partial(accept_values)) as loader:
        assert sorted(loader) == [value for value in range(20) if value != 7]


def accept_values(error: Exception, key: Any) -> None:
    if not isinstance(error, ValueError):
        raise error


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fatal_error_is_raised_under_every_policy(workers: int) -> None:
    pipeline = en.items(range(20)).map(pipelines.fatal_at_7)
    with pipeline.loader(num_workers=workers, streams=2, on_error="skip") as loader:
        iterator = iter(loader)
        with pytest.raises(en.FatalSampleError, match="the tokenizer is missing"):
            list(iterator)
        assert sorted(iterator)[-1] == 19


@pytest.mark.parametrize("workers", [0, 2])
def test_too_many_failures_in_a_row_stop_the_stream(workers: int) -> None:
    loader = (
        en.items(range(50))
        .map(pipelines.always_fails)
        .loader(num_workers=workers, streams=2, on_error="skip", tolerance=5)
    )
    with loader, pytest.raises(en.FatalSampleError, match="6 elements in a row failed"):
        next(iter(loader))


def test_a_function_that_always_fails_holds_no_turn_for_ever() -> None:
    pipeline = en.items(range(60)).map(pipelines.always_fails)
    found = outcome(pipeline.loader(streams=2))
    assert len(found) == 60
    with pipeline.loader(streams=2, num_workers=2) as loader:
        assert outcome(loader) == found


def test_a_resume_between_the_errors_of_one_turn_keeps_the_order() -> None:
    # Errors of a turn are counted in its stream's entry: after eight the turn is left empty, resumed or not.
    pipeline = en.items(range(60)).map(fails_up_to_40)
    expected = outcome(pipeline.loader(streams=2))
    for taken in range(1, len(expected)):
        loader = pipeline.loader(streams=2)
        iterator = iter(loader)
        for _ in range(taken):
            try:
                next(iterator)
            except ValueError:
                pass
        again = pipeline.loader()
        again.load_state_dict(round_trip(loader.state_dict()))
        assert outcome(again) == expected[taken:], taken


def fails_up_to_40(value: int) -> int:
    if value < 40:
        raise ValueError(f"{value} is bad")
    return value


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (pipelines.local_error_at_7, "worker 1 raised an exception that cannot be pickled: .*Local: seven is local"),
        (pipelines.arguments_error_at_7, "cannot be pickled: WithArguments: 3 and 4"),
    ],
)
def test_an_exception_that_cannot_be_pickled_arrives_as_a_worker_error(function: Any, says: str) -> None:
    with en.items(range(20)).map(function).loader(num_workers=2) as loader:
        iterator = iter(loader)
        with pytest.raises(en.WorkerError, match=says) as caught:
            list(iterator)
        assert "at node Map(fn=" in "".join(caught.value.__notes__)
        assert 19 in list(iterator)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (pipelines.unsendable_at_7, "an output of type Unsendable cannot be sent .*this object stays at home"),
        (pipelines.unreadable_at_7, "cannot be unpickled in the loader: .*this object does not come back"),
    ],
)
@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
def test_an_output_that_cannot_travel_is_an_error_and_no_hang(function: Any, says: str, pin_memory: bool) -> None:
    pipeline = en.items(range(20)).map(function)
    with pipeline.loader(num_workers=2, pin_memory=pin_memory) as loader:
        iterator = iter(loader)
        with pytest.raises(en.WorkerError, match=says) as caught:
            list(iterator)
        assert "raised in worker 1" in "".join(caught.value.__notes__)
        assert loader.state_dict()
        assert list(iterator)[-1] == 19


def test_an_error_while_a_worker_begins_is_raised_each_time_and_loses_no_stream() -> None:
    pipeline = en.items(range(8)).batch(2)
    loader = pipeline.loader(num_workers=2)
    state = loader.state_dict()
    broken = pipeline.loader(num_workers=2)
    broken.load_state_dict(state | {"stream.1": state["stream.1"][:10] + b"\x80\x05)."})  # a body that is no snapshot
    with broken:
        iterator = iter(broken)
        for _ in range(2):
            with pytest.raises(en.StateError, match="cannot be read"):
                list(iterator)


def test_prefetching_and_parallel_stages_raise_in_order_inside_workers() -> None:
    pipeline = en.items(range(20)).parallel_map(pipelines.value_error_at_7, workers=2).prefetch(3)
    expected = outcome(pipeline.loader(streams=2))
    with pipeline.loader(streams=2, num_workers=2) as loader:
        assert outcome(loader) == expected


@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_cannot_be_rebuilt_after_a_resume_is_dropped_on_request(tmp_path: Path, num_workers: int) -> None:
    gone = tmp_path / "gone"

    def read(number: int) -> int:
        if gone.exists() and number == 3:
            raise FileNotFoundError("3 is gone")
        return number

    pipeline = en.items(range(20)).map(read).shuffle(8)
    saved = pipeline.loader()
    before = next(iter(saved))
    gone.touch()
    resumed = pipeline.loader(num_workers=num_workers, on_restore_error="skip")
    resumed.load_state_dict(saved.state_dict())
    assert sorted([before, *resumed]) == [number for number in range(20) if number != 3]
    assert resumed.counts() == {"Shuffle(size=8)": {"skipped": 0, "failed": 1}}
    resumed.close()


def fails_at_3(value: int) -> int:
    if value == 3:
        raise ValueError("three is bad")
    return value


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resume_with_nothing_but_failing_elements_left_ends_the_pass_behind_them(workers: int) -> None:
    pipeline = en.items(range(4)).map(fails_at_3)
    with pipeline.loader(num_workers=workers) as loader:
        iterator = iter(loader)
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        state = round_trip(loader.state_dict())
        rest = [(ValueError, "three is bad")]
        assert outcome_of(iterator) == rest
    with pipeline.loader(num_workers=workers) as again:
        again.load_state_dict(state)
        assert outcome(again) == rest
        assert outcome(again) == [0, 1, 2, *rest]


def object_at_4_then_fatal(value: int) -> Any:
    if value in (5, 6):
        raise en.FatalSampleError(f"{value} is fatal")
    return object() if value == 4 else value


def test_a_turn_left_empty_does_not_take_away_the_state_of_the_last_output() -> None:
    # Behind the error, an object that nothing can encode is left in the batch.
    pipeline = en.items(range(8)).map(object_at_4_then_fatal, pure=False).batch(2)
    with pipeline.loader(num_workers=1) as loader:
        iterator = iter(loader)
        assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
        state = loader.state_dict()
        for _ in range(2):
            with pytest.raises(en.FatalSampleError):
                next(iterator)
            assert loader.state_dict() == state
        assert next(iterator)[1] == 7


def test_an_output_that_leaves_a_buffer_without_an_encoder_behind_is_reported_with_the_state() -> None:
    with en.items(range(4)).map(object_of, pure=False).shuffle(3).map(type).loader(num_workers=1) as loader:
        iterator = iter(loader)
        assert next(iterator) is object
        with pytest.raises(TypeError, match="register_encoder"):
            loader.state_dict()


def object_of(value: int) -> object:
    return object()


@pytest.mark.parametrize("workers", [0, 2])
def test_nodes_that_only_watch_do_not_matter_to_the_counts(workers: int) -> None:
    pipeline = en.items(range(8)).log(1000).map(pipelines.value_error_at_7, on_error="skip").watchdog(60)
    watched = pipeline.batch(2).gc(1000).log(1000).watchdog(60)
    with watched.loader(num_workers=workers, streams=2) as loader:
        assert loader.counts() == {}
        list(loader)
        assert loader.counts() == {"Map(fn=value_error_at_7, on_error='skip')": {"skipped": 0, "failed": 1}}
