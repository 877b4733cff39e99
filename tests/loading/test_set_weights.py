"""`loader.set_weights` changes a blend at one output, in every worker and rank alike, and is part of the state."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

import energon_nodes as en

STREAMS = 4
A, B = [0] * 4000, [1] * 4000


def pipeline(**options: Any) -> en.Node[int]:
    return en.blend(en.items(A), en.items(B), weights=[999, 1], **options).map(float).map(int)


def changed(num_workers: int, at: int | None, after: int, **options: Any) -> list[int]:
    """Return outputs of a loader whose weights are set after some outputs."""
    loader = pipeline().loader(streams=STREAMS, num_workers=num_workers, **options)
    outputs = iter(loader)
    first = list(islice(outputs, after))
    loader.set_weights([1, 999], at_output=at)
    rest = list(islice(outputs, 120 - after))
    loader.close()
    return first + rest


def test_the_new_weights_begin_at_the_chosen_output() -> None:
    outputs = changed(0, 60, 10)
    assert sum(outputs[:60]) < 4
    assert sum(outputs[60:]) > 56


def test_without_an_output_they_begin_with_the_next_one() -> None:
    outputs = changed(0, None, 10)
    assert sum(outputs[:10]) < 2
    assert sum(outputs[10:]) > 106


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("at", [None, 31, 60])
def test_workers_that_are_ahead_change_at_the_same_output(workers: int, at: int | None) -> None:
    assert changed(workers, at, 30, prefetch_factor=5) == changed(0, at, 30)


@pytest.mark.parametrize("at", [30, 33, 50])
def test_ranks_change_at_the_same_global_output(at: int) -> None:
    ranks = [iter(()), iter(())]
    loaders = [pipeline().loader(streams=STREAMS, rank=rank, world_size=2) for rank in range(2)]
    ranks = [iter(loader) for loader in loaders]
    got = [next(ranks[number % 2]) for number in range(30)]
    for loader in loaders:
        loader.set_weights([1, 999], at_output=at)
    got += [next(ranks[number % 2]) for number in range(90)]
    assert got == changed(0, at, 30)


@pytest.mark.parametrize("taken", [0, 5, 25, 45])
@pytest.mark.parametrize("workers", [0, 2])
def test_planned_and_made_changes_are_saved(taken: int, workers: int) -> None:
    loader = pipeline().loader(streams=STREAMS)
    outputs = iter(loader)
    list(islice(outputs, 10))
    loader.set_weights([1, 999], at_output=30)
    list(islice(outputs, taken))
    state = loader.state_dict()
    rest = list(islice(outputs, 60))
    resumed = pipeline().loader(num_workers=workers, streams=STREAMS)
    resumed.load_state_dict(state)
    assert list(islice(resumed, 60)) == rest
    resumed.close()


def test_weights_can_be_set_before_anything_is_taken_and_behind_a_loaded_state() -> None:
    fresh = pipeline().loader(streams=STREAMS)
    fresh.set_weights([1, 999])
    assert sum(islice(fresh, 60)) > 56

    half = pipeline().loader(streams=STREAMS)
    list(islice(half, 20))
    loaded = pipeline().loader(streams=STREAMS)
    loaded.load_state_dict(half.state_dict())
    loaded.set_weights([1, 999])
    assert loaded.state_dict()["turn"] == 20
    assert sum(islice(loaded, 60)) > 56


def test_later_passes_keep_the_weights() -> None:
    loader = pipeline().limit(40).loader(streams=STREAMS)
    list(islice(loader, 4))
    loader.set_weights([1, 999], at_output=36)
    assert sum(list(loader)) > 36  # a new pass: the change was not reached, so it is made now
    assert sum(list(loader)) > 36


@pytest.mark.parametrize("at", [3, 7, 20])
def test_a_thread_that_pulls_ahead_goes_back(at: int) -> None:
    def run(ahead: bool) -> list[int]:
        blend = pipeline().prefetch(9) if ahead else pipeline()
        loader = blend.loader(streams=2)
        outputs = iter(loader)
        got = [next(outputs)]
        loader.set_weights([1, 999], at_output=at)
        got += islice(outputs, 50)
        loader.close()
        return got

    got = run(True)
    assert sum(got[:at]) < 3
    assert sum(got[at + 2 * 9 :]) > 50 - at - 18 - 3


def test_a_shuffle_behind_the_blend_keeps_every_element_once() -> None:
    numbers = en.blend(en.items(range(100)), en.items(range(100, 200)), weights=[1, 1]).shuffle(20)
    loader = numbers.loader(streams=2, num_workers=1)
    outputs = iter(loader)
    got = list(islice(outputs, 30))
    loader.set_weights([9, 1])
    got += outputs
    loader.close()
    assert sorted(got) == list(range(200))


def test_padded_passes_begin_with_the_new_weights_too() -> None:
    blend = en.blend(en.items(A[:41]), en.items(B[:41]), weights=[999, 1])
    loader = blend.loader(streams=3, uneven="pad")
    list(loader)
    loader.set_weights([1, 999])
    assert sum(islice(loader, 30)) > 26


def test_one_blend_of_several_is_named() -> None:
    inner = en.blend(en.items("a" * 500), en.items("b" * 500), name="inner", weights=[999, 1])
    loader = en.blend(inner, en.items("c" * 500), name="outer").loader()
    loader.set_weights([1, 999], blend="inner")
    first = "".join(islice(loader, 50))
    assert first.count("a") < 3 < first.count("b")
    with pytest.raises(ValueError, match=r"has 2 blends that could be meant \(their names: 'outer', 'inner'\)"):
        loader.set_weights([1, 2])
    with pytest.raises(ValueError, match=r"has not the blend 'other' .* the names of its blends: 'outer', 'inner'"):
        loader.set_weights([1, 2], blend="other")


def test_what_cannot_be_set_is_refused() -> None:
    loader = pipeline().loader(streams=STREAMS)
    list(islice(loader, 12))
    with pytest.raises(ValueError, match="still to come, at_output >= 12, got at_output=11"):
        loader.set_weights([1, 1], at_output=11)
    with pytest.raises(ValueError, match="one weight for each source, got 3 for 2"):
        loader.set_weights([1, 1, 1])
    with pytest.raises(TypeError, match="int at_output"):
        loader.set_weights([1, 1], at_output=20.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has not a blend whose weights can be set"):
        en.items("ab").loader().set_weights([1])
    with pytest.raises(ValueError, match="has not a blend whose weights can be set"):
        en.blend_epochized({en.items("ab"): 2}).loader().set_weights([1])


def test_the_state_with_a_planned_change_is_plain(tmp_path: Any) -> None:
    loader = pipeline().loader(streams=2)
    loader.set_weights([2, 1], at_output=9)
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    again = pipeline().loader()
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert list(islice(again, 99)) == list(islice(loader, 99))
