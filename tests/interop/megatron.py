"""The other side: prepare datasets with the real `energon prepare`, and read them with the real Megatron-Energon."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

energon = pytest.importorskip("megatron.energon", reason="these tests compare with the real Megatron-Energon")

RATIO = ("--split-ratio", "1,0,0")


def prepare(folder: Path, *options: str) -> Path:
    """Run `energon prepare` as a user does, and declare the dataset as crude; return the folder."""
    command = [Path(sys.executable).with_name("energon"), "prepare", "--non-interactive", "--no-progress"]
    declared = ["--num-workers", "2", "--sample-type", "CrudeWebdataset"]
    done = subprocess.run([*command, *declared, *(options or RATIO), folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def read(folder: Path, split: str = "train", **decoding: Any) -> list[dict[str, Any]]:
    """Read a split in its order; parts stay bytes unless `decoding` holds settings of Energon's SampleDecoder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of its own, and pinned memory on machines without a GPU
        dataset = energon.get_val_dataset(
            folder,
            split_part=split,
            worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=None,
            task_encoder=task_encoder(energon.SampleDecoder(**decoding) if decoding else None),
        )
        return [sample.parts for sample in energon.get_loader(dataset)]


@energon.edataclass
class Held(energon.Sample):
    """A crude sample in a wrapper: torch's DataLoader would turn the arrays of a plain dict into tensors."""

    parts: dict[str, Any]


def task_encoder(decoder: Any) -> Any:
    """Return a task encoder that hands out crude samples as they are read."""

    @energon.stateless
    def cook(sample: dict[str, Any]) -> Any:
        return Held(**energon.basic_sample_keys(sample), parts=sample)

    class Raw(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(cook)]  # noqa: RUF012

    Raw.decoder = decoder
    return Raw()
