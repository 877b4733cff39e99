"""States that do not belong to a loader are refused by name."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.loading.entries import Header, entry, header_of
from tests.loading.pipelines import counted, mixed, round_trip


@pytest.fixture
def state() -> dict[str, Any]:
    loader = mixed().loader(streams=2)
    counted(loader, 3)
    return loader.state_dict()


def refused(state: Any, says: str, pipeline: en.Node[Any] | None = None, **settings: Any) -> None:
    loader = (mixed() if pipeline is None else pipeline).loader(**settings)
    with pytest.raises(en.StateError, match=says):
        loader.load_state_dict(state)
    assert len(list(loader)) > 3  # the loader is as it was


def test_a_state_is_flat_and_plain(state: dict[str, Any]) -> None:
    assert round_trip(state) == state
    assert {name: type(value) for name, value in state.items()} == {
        "format": int,
        "graph": bytes,
        "seed": int,
        "uneven": str,
        "streams": int,
        "world_size": int,
        "pass": int,
        "step": int,
        "turn": int,
        "stream.0": bytes,
        "stream.1": bytes,
    }
    assert (state["pass"], state["step"], state["turn"]) == (0, 3, 3)


def test_another_pipeline_seed_or_number_of_streams_is_refused(state: dict[str, Any]) -> None:
    refused(state, "seed=0, this loader has seed=5", seed=5)
    refused(state, "2 streams, this loader was built with streams=4", streams=4)
    refused(state, "Batch where this pipeline has a Shuffle", en.items(range(57)).shuffle(3))
    refused(state, "size=2 where this pipeline has size=3", mixed().source.batch(3))
    refused(state, "elements=57 where this pipeline has elements=58", mixed(58))


def test_shuffling_switched_off_between_save_and_load_shows_both_configurations() -> None:
    state = en.items(range(20), shuffle=True).batch(2).loader().state_dict()
    refused(
        state, r"shuffled=True where this pipeline has shuffled=False \(Items at source\)", en.items(range(20)).batch(2)
    )


@pytest.mark.parametrize("other", [None, 3, {}, {"a": 1}, [1], mixed().state_dict()])
def test_what_is_no_state_of_a_loader_is_refused(other: Any) -> None:
    refused(other, "no state of a loader|the checkpoint's '.*' is")


def test_damaged_states_are_refused(state: dict[str, Any]) -> None:
    refused(state | {"format": 99}, "format 99")
    for name in state:
        lacking = {other: value for other, value in state.items() if other != name}
        refused(lacking, "damaged|lacks the streams|no state of a loader")
        refused(state | {name: None}, "damaged|no state of a loader")
        if isinstance(state[name], bytes):
            refused(state | {name: b""}, "damaged")
            refused(state | {name: state[name][:-2]}, "damaged")
            refused(state | {name: b"X" + state[name][1:]}, "damaged")
    for name in ("streams", "world_size", "pass", "step", "turn"):
        refused(state | {name: -1}, "damaged")
        refused(state | {name: "1"}, "damaged")


def test_entries_of_another_shape_are_refused_at_the_first_output(state: dict[str, Any]) -> None:
    for body in (None, (), (1, 2, 3), ((1, 2), None), (((0, 0, 0), {}, ()), None)):
        loader = mixed().loader()
        loader.load_state_dict(state | {"stream.1": entry(Header(b"R", 1, 0), body)})
        for _ in range(2):
            with pytest.raises(en.StateError):
                list(loader)


def test_a_pickle_that_asks_for_a_class_is_refused_and_runs_nothing(state: dict[str, Any]) -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return (os.abort, ())

    header = state["stream.0"][: len(entry(Header(b"R", 0, 0), None)) - len(pickle.dumps(None, protocol=5))]
    assert header_of(header + b".") == header_of(state["stream.0"])
    refused(state | {"stream.0": header + pickle.dumps(Harmful())}, "asks for .*abort, but it may hold plain data only")
    refused(state | {"graph": pickle.dumps(Harmful())}, "plain data only")


def test_one_rank_of_several_is_refused_where_its_streams_are_missing() -> None:
    ranks = [mixed().loader(rank=rank, world_size=2).state_dict() for rank in range(2)]
    refused(ranks[0], r"lacks the streams 1 of 2.*merge_states")
    loader = mixed().loader(rank=1, world_size=2)
    with pytest.raises(en.StateError, match="lacks the streams 1"):
        loader.load_state_dict(ranks[0])
    loader.load_state_dict(ranks[1])


def test_files_of_other_runs_steps_and_numbers_of_ranks_cannot_be_mixed_in() -> None:
    def states(world_size: int, step: int, **settings: Any) -> list[dict[str, Any]]:
        found = []
        for rank in range(world_size):
            loader = mixed(200).loader(rank=rank, world_size=world_size, streams=8, **settings)
            counted(loader, step)
            found.append(round_trip(loader.state_dict()))
        return found

    two, four = states(2, 4), states(4, 2)
    assert en.merge_states(two)["step"] == 4
    later = states(2, 5)
    for mixture, says in [
        ([*two, *four[2:]], "differ in world_size: 2 and 4"),
        ([two[0], four[1], four[3]], "differ in world_size: 2 and 4"),
        ([two[0], later[1]], "state 0 was taken after 4 outputs of its rank in this pass, state 1 after 5"),
        ([two[0], later[0], two[1]], "different entries for stream.0"),
        ([two[0], states(2, 4, seed=1)[1]], "differ in seed: 0 and 1"),
        ([two[0]], "lack the streams 1, 3, 5, 7 of 8"),
        ([], "needs the states of all ranks"),
        ([two[0], {}], "no state of a loader"),
    ]:
        with pytest.raises(en.StateError, match=says):
            en.merge_states(mixture)
    assert en.merge_states([two[0], two[0], two[1]]) == en.merge_states(two)  # ranks that read the same data


def test_a_step_of_another_pass_cannot_be_mixed_in() -> None:
    loaders = [mixed().loader(rank=rank, world_size=2) for rank in range(2)]
    list(loaders[0])
    for loader in loaders:
        counted(loader, 3)
    with pytest.raises(en.StateError, match="differ in pass: 1 and 0"):
        en.merge_states([loader.state_dict() for loader in loaders])


def test_a_round_of_ranks_that_is_not_full_is_refused(state: dict[str, Any]) -> None:
    loader = mixed(200).loader(streams=4)
    counted(loader, 3)
    with pytest.raises(en.StateError, match="turn 3, in the middle of a round of 2 ranks"):
        mixed(200).loader(rank=0, world_size=2).load_state_dict(loader.state_dict())


def test_workers_callables_and_policies_may_change(state: dict[str, Any]) -> None:
    expected = list(mixed().loader(streams=2))[3:]
    with mixed().loader(num_workers=1, prefetch_factor=4, on_error="skip", tolerance=3) as loader:
        loader.load_state_dict(state)
        assert list(loader) == expected
