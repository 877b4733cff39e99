"""Random draws belong to elements: neither ranks nor workers nor hash seeds change them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import energon_nodes as en
from tests.loading.pipelines import augment, globally_random, mixed

ROOT = Path(__file__).parents[2]


def crops() -> en.Node[Any]:
    return en.items(range(40), shuffle=True).map(augment, rng=True)


def test_an_element_is_augmented_the_same_in_one_epoch_under_all_ranks_and_workers() -> None:
    reference = crops().loader()
    epochs = [dict(list(reference)) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for streams in (1, 2, 4, 8):
        loader = crops().loader(streams=streams)
        assert [dict(list(loader)), dict(list(loader))] == epochs
    for ranks in (2, 4):
        loaders = [crops().loader(rank=rank, world_size=ranks) for rank in range(ranks)]
        assert [dict(pair for loader in loaders for pair in loader) for _ in range(2)] == epochs
    with crops().loader(num_workers=2) as loader:
        assert [dict(list(loader)), dict(list(loader))] == epochs


def test_random_crops_with_two_workers_differ_in_all_elements_and_epochs_and_repeat_with_the_seed() -> None:
    runs = []
    for seed in (3, 3, 4):
        with crops().loader(num_workers=2, seed=seed) as loader:
            runs.append([list(loader), list(loader)])
    draws = [draw for epoch in runs[0] for _, draw in epoch]
    assert len(set(draws)) == len(draws) == 80
    assert runs[0] == runs[1] != runs[2]
    stateful = StatefulDataLoader(crops().dataset(seed=3), batch_size=None, num_workers=2, collate_fn=tuple)
    assert [list(stateful), list(stateful)] == runs[0]


@pytest.mark.parametrize("persistent", [True, False])
def test_draws_from_global_generators_differ_between_workers_passes_and_ranks(persistent: bool) -> None:
    # A function that does not ask for `rng=` is not reproducible across workers, but must not repeat itself either.
    seen: list[float] = []
    for rank in range(2):
        pipeline = en.items(range(16)).map(globally_random)
        with pipeline.loader(num_workers=2, rank=rank, world_size=2, persistent_workers=persistent) as loader:
            seen += [draw for _ in range(2) for value in loader for draw in value[1:]]
    assert len(set(seen)) == len(seen) == 96


def test_the_order_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tests.loading.pipelines import mixed\n"
        "loader = mixed().loader(num_workers=1, streams=2)\n"
        "print(list(loader), list(loader))"
    )
    texts = set()
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        texts.add(
            subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, check=True).stdout
        )
    here = mixed().loader(streams=2)
    assert texts == {f"{list(here)} {list(here)}\n".encode()}
