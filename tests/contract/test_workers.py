"""Resumes through worker processes: what the table of cases runs in one process, with real workers."""

from __future__ import annotations

from typing import Any

import pytest

import energon_nodes as en
from energon_nodes import testing
from tests.contract import functions as f


def training() -> en.Node[Any]:
    return en.items(range(30), shuffle=True).shuffle(4).map(f.jitter, rng=True).filter(f.not_third).batch(2)


def epochs() -> en.Node[Any]:
    return en.blend(en.items(range(9)), en.items(range(7), shuffle=True), on_end="repeat").batch(2).epochize(9)


def impure() -> en.Node[Any]:
    return en.wrap(f.letters).map(f.Counter()).shuffle(4)


PIPELINES = [training, epochs, impure]


@pytest.mark.parametrize("make", PIPELINES)
def test_stateful_dataloader_resumes_with_two_workers(make: Any) -> None:
    testing.check_stateful_dataloader(make, num_workers=[2], cuts=3)


@pytest.mark.parametrize("make", PIPELINES)
def test_loader_resumes_with_workers(make: Any) -> None:
    testing.check_loader(make, streams=[4], num_workers=[2], cuts=3)


def test_splits_into_ranks_and_real_workers_resume_each_other() -> None:
    testing.check_topologies(training, streams=2, num_workers=[0, 1, 2], cuts=1)
