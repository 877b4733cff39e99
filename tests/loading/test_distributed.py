"""Real ranks under torchrun: sharing, gathering, and torch.distributed.checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful

import energon_nodes as en
from tests.loading.pipelines import mixed

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch was built without torch.distributed")


def torchrun(ranks: int, command: str, folder: Path) -> None:
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*program, str(ROOT / "tests/loading/ranks.py"), command, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run two ranks that share data, gather and scatter their states, and save a distributed checkpoint."""
    folder = tmp_path_factory.mktemp("ranks")
    torchrun(2, "save", folder)
    return folder


def test_ranks_that_nobody_has_configured_read_disjoint_data_whose_union_is_everything(two_ranks: Path) -> None:
    first, second = (json.loads((two_ranks / f"share{rank}.json").read_text()) for rank in range(2))
    assert sorted(first + second) == list(range(21))


def test_states_are_gathered_on_one_rank_and_scattered_to_all(two_ranks: Path) -> None:
    assert (two_ranks / "gathered").exists()  # the checks are in the ranks' program


@pytest.mark.filterwarnings("ignore")  # torch's own, about checkpoints without a process group
def test_a_distributed_checkpoint_of_two_ranks_loads_on_one_and_on_four(two_ranks: Path) -> None:
    saved = [json.loads((two_ranks / f"saved{rank}.json").read_text()) for rank in range(2)]
    expected = list(mixed(200).loader(streams=8))
    got = [output for step in zip(saved[0][0], saved[1][0], strict=True) for output in step]
    assert got == as_json(expected[:8])

    loader = mixed(200).loader(streams=8)
    assert isinstance(loader, Stateful)
    dcp.load({"loader": loader}, checkpoint_id=two_ranks / "dcp", no_dist=True)
    assert list(loader) == expected[8:]

    torchrun(4, "load", two_ranks)
    loaded = [json.loads((two_ranks / f"loaded{rank}.json").read_text()) for rank in range(4)]
    rest = as_json(expected[8:])
    full_steps = min(map(len, loaded)) - 2  # towards the end streams end at different times
    together = [output for step in zip_longest(*loaded) for output in step if output is not None]
    assert together[: 4 * full_steps] == rest[: 4 * full_steps]
    assert sorted(together) == sorted(rest)


@pytest.mark.filterwarnings("ignore")
def test_a_loader_with_fewer_streams_than_the_checkpoint_is_told_how_to_load_it(tmp_path: Path) -> None:
    dcp.save({"loader": mixed(200).loader(streams=8)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    with pytest.raises(en.StateError, match="build the loader with streams=8 before loading"):
        dcp.load({"loader": mixed(200).loader()}, checkpoint_id=tmp_path / "dcp", no_dist=True)


def test_without_a_process_group_gathering_gives_the_loaders_own_state() -> None:
    loader = mixed().loader(streams=2)
    next(iter(loader))
    state = en.gather_state(loader)
    assert state == loader.state_dict()
    again = mixed().loader()
    en.scatter_state(again, state)
    assert list(again) == list(mixed().loader(streams=2))[1:]
    with pytest.raises(en.StateError, match="got no state on rank 0"):
        en.scatter_state(again)


def test_ranks_of_the_environment_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert list(en.items(range(9)).loader()) == [1, 4, 7]
    assert list(en.items(range(9)).loader(rank=0, world_size=1)) == list(range(9))
