"""Streams and ranks that would give different numbers of outputs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import energon_nodes as en
from tests.loading.pipelines import augment, mixed, round_trip, skip_7


def batches(size: int = 50) -> en.Node[Any]:
    """Return a pipeline of known length; under 6 streams they give 5, 5, 4, 4, 4, 4 outputs."""
    return en.items(range(size), shuffle=True).shuffle(5).map(augment, rng=True).batch(2)


def of_ranks(make: Any, ranks: int, state: Any = None, **settings: Any) -> list[en.Loader[Any]]:
    loaders = [make().loader(rank=rank, world_size=ranks, **settings) for rank in range(ranks)]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    return loaders


@pytest.mark.parametrize(("uneven", "each"), [("drop", 4), ("pad", 5)])
def test_every_stream_gives_the_same_number_of_outputs_and_a_pass_is_the_same_under_all_splits(
    uneven: Any, each: int
) -> None:
    reference = batches().loader(streams=6, uneven=uneven)
    passes = [list(reference) for _ in range(3)]
    assert [len(outputs) for outputs in passes] == [6 * each] * 3
    assert len(reference) == 6 * each
    for ranks in (2, 3, 6):
        loaders = of_ranks(batches, ranks, streams=6, uneven=uneven)
        assert {len(loader) for loader in loaders} == {6 * each // ranks}
        for outputs in passes:
            got = zip(*[list(loader) for loader in loaders], strict=True)
            assert [output for step in got for output in step] == outputs
    for workers in (1, 2, 3):
        with batches().loader(streams=6, uneven=uneven, num_workers=workers) as loader:
            assert [list(loader) for _ in range(3)] == passes


def test_dropping_cuts_each_pass_and_padding_begins_the_next_pass_anew() -> None:
    allowed, dropped, padded = (batches().loader(streams=6, uneven=uneven) for uneven in ("allow", "drop", "pad"))
    for number in range(3):
        whole, cut, filled = list(allowed), list(dropped), list(padded)
        assert cut == whole[:24]
        assert filled[:26] == whole, number
        assert len(filled) == 30
    following = list(allowed)
    assert (
        filled[26:] == following[2:6]
    )  # the four streams that were short go on with the first outputs of their next pass


def test_each_pass_of_padded_streams_holds_every_element() -> None:
    loader = en.items(range(11)).shuffle(3).loader(streams=4, uneven="pad")
    for _ in range(3):
        outputs = list(loader)
        assert len(outputs) == 12
        assert set(outputs) == set(range(11))


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_point_of_a_pass_resumes_under_every_split(uneven: Any, workers: int) -> None:
    reference = batches(26).loader(streams=4, uneven=uneven)
    first, second = list(reference), list(reference)
    with batches(26).loader(streams=4, uneven=uneven, num_workers=workers) as loader:
        states = [loader.state_dict(), *(loader.state_dict() for _ in loader)]
    for number, state in enumerate(states):
        rest = first[number:] if number < len(first) else second
        for ranks in (1, 2, 4):
            if number % ranks == 0:
                loaders = of_ranks(lambda: batches(26), ranks, round_trip(state), uneven=uneven)
                got = zip(*[list(loader) for loader in loaders], strict=True)
                assert [output for step in got for output in step] == rest, (number, ranks)
                if number < len(first):
                    got = zip(*[list(loader) for loader in loaders], strict=True)
                    assert [output for step in got for output in step] == second, (number, ranks)


def test_ranks_that_have_finished_a_pass_can_be_merged() -> None:
    for uneven in ("allow", "drop", "pad"):
        reference = batches().loader(streams=6, uneven=uneven)
        list(reference)
        following = list(reference)
        loaders = of_ranks(batches, 3, streams=6, uneven=uneven)
        for loader in loaders:
            list(loader)
        state = en.merge_states([loader.state_dict() for loader in loaders])
        again = batches().loader(uneven=uneven)
        again.load_state_dict(round_trip(state))
        assert list(again) == following, uneven


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_streams_that_lose_elements_to_skips_are_filled_up(uneven: Any) -> None:
    make = lambda: en.items(range(12)).map(skip_7)  # noqa: E731
    loaders = of_ranks(make, 2, uneven=uneven)
    for _ in range(2):
        first, second = (list(loader) for loader in loaders)
        assert len(first) == len(second) == 6
        assert sorted(first + second) == sorted([*range(7), *range(8, 12), 1])


def test_padding_goes_on_in_the_source_of_an_epoch() -> None:
    # Under 4 streams an epoch of 10 is 3, 3, 2, 2.
    make = lambda: en.items(range(40)).repeat().shuffle(4).epochize(10)  # noqa: E731
    reference, padded = make().loader(streams=4), make().loader(streams=4, uneven="pad")
    for _ in range(3):
        expected, got = list(reference), list(padded)
        assert got[:10] == expected
        assert len(got) == 12
        state = padded.state_dict()
    again = make().loader(uneven="pad")
    again.load_state_dict(round_trip(state))
    assert list(again)[:10] == list(reference)


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_what_cannot_be_made_even_is_refused_with_the_way_out(uneven: Any) -> None:
    with pytest.raises(ValueError, match=r"\.repeat\(\)\.epochize\(n\)"):
        mixed().loader(streams=4, uneven=uneven)
    with pytest.raises(ValueError, match="stream 3 has none: use fewer streams"):
        en.items(range(3)).loader(streams=4, uneven=uneven)
    endless = mixed().repeat().epochize(12).loader(streams=4, uneven=uneven)
    assert len(list(endless)) == 12
    assert next(iter(en.items(range(5)).repeat().loader(streams=2, uneven=uneven))) == 0


def test_the_way_out_gives_all_ranks_the_same_number() -> None:
    for loader in of_ranks(lambda: mixed().repeat().epochize(12), 3, streams=6):
        assert len(loader) == 4
        assert [len(list(loader)) for _ in range(3)] == [4, 4, 4]


def test_another_choice_than_the_checkpoints_is_refused() -> None:
    state = batches().loader(streams=6, uneven="drop").state_dict()
    with pytest.raises(en.StateError, match="saved with uneven='drop', this loader has uneven='pad'"):
        batches().loader(uneven="pad").load_state_dict(state)


def test_ranks_whose_numbers_differ_say_so_in_the_log_of_the_first(caplog: pytest.LogCaptureFixture) -> None:
    def warnings_of(pipeline: en.Node[Any], rank: int = 0, **settings: Any) -> str:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "energon_nodes"):
            pipeline.loader(rank=rank, world_size=2, **settings)
        return caplog.text

    assert "the 2 ranks give from 5 to 6 outputs in a pass" in warnings_of(en.items(range(11)))
    assert "may give different numbers" in warnings_of(mixed())
    assert warnings_of(en.items(range(11)), rank=1) == ""
    assert warnings_of(en.items(range(12))) == ""
    assert warnings_of(en.items(range(11)), uneven="pad") == ""
    assert warnings_of(mixed().repeat()) == ""
    assert warnings_of(mixed().repeat().epochize(12)) == ""
    caplog.clear()
    mixed().loader()
    assert caplog.text == ""


def test_a_pipeline_that_gives_nothing_cannot_be_padded_and_says_so() -> None:
    loader = en.items(range(2)).map(skip_all).loader(uneven="pad")
    with pytest.raises(en.FatalSampleError, match="a whole pass of a stream gave no output"):
        list(loader)


def skip_all(value: int) -> int:
    raise en.SkipSample
