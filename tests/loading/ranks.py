"""The program of each rank in the tests with torchrun; it is run as a script."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import energon_nodes as en
from tests.loading.pipelines import counted, mixed


def share(folder: Path) -> None:
    """Without a process group and without settings, torchrun's environment says which rank this is."""
    loader = en.items(range(21)).loader()
    (folder / f"share{os.environ['RANK']}.json").write_text(json.dumps(list(loader)))


def gather() -> None:
    """Give the state of both ranks to rank 0, and resume both from it."""
    loader = mixed(200).loader(streams=8)
    got, iterator = counted(loader, 4)
    state = en.gather_state(loader)
    rest = list(iterator)
    assert (state is None) == (dist.get_rank() != 0)
    again = mixed(200).loader()
    en.scatter_state(again, state)
    assert list(again) == rest
    if state is not None:
        alone = mixed(200).loader(rank=0, world_size=1)
        alone.load_state_dict(state)
        expected = list(mixed(200).loader(streams=8, rank=0, world_size=1))
        assert list(alone) == expected[8:]
    assert got

    try:  # a rank that cannot give its state leaves nobody waiting
        broken: Any = loader
        if dist.get_rank() == 1:
            broken.state_dict = lambda: 1 / 0
        en.gather_state(broken)
        problem = ""
    except (en.StateError, ZeroDivisionError) as error:
        problem = str(error)
    assert ("rank 1 of the group could not give" in problem) or dist.get_rank() == 1


def save(folder: Path) -> None:
    """Save under torch.distributed.checkpoint in the middle of a pass."""
    loader = mixed(200).loader(streams=8)
    got, iterator = counted(loader, 4)
    dcp.save({"loader": loader}, checkpoint_id=folder / "dcp")
    (folder / f"saved{dist.get_rank()}.json").write_text(json.dumps([got, list(iterator)]))


def load(folder: Path) -> None:
    """Resume from what another number of ranks has saved."""
    loader = mixed(200).loader(streams=8, num_workers=1)
    dcp.load({"loader": loader}, checkpoint_id=folder / "dcp")
    with loader:
        (folder / f"loaded{dist.get_rank()}.json").write_text(json.dumps(list(loader)))


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "save":
        share(where)
    dist.init_process_group("gloo")
    if sys.argv[1] == "save":
        gather()
        (where / "gathered").touch()
        save(where)
    else:
        load(where)
    dist.destroy_process_group()
