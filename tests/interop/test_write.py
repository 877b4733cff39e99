"""Megatron-Energon reads the datasets that `write` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import energon_nodes as en
from tests.interop import megatron


def sample(number: int) -> dict[str, Any]:
    key = f"d.{number % 3}/{'long' * 40 if number == 5 else 'größe'}{number:03d}"
    pixels = np.full((4, 5, 3), number, np.uint8)
    return {"__key__": key, "txt": f"grün {number}", "json": {"n": number}, "left.PNG": pixels, "bin": bytes(number)}


def test_both_read_the_same_samples(tmp_path: Path) -> None:
    en.write(en.items(range(40)).map(sample), tmp_path / "out", max_samples=7, split="4,1,1")
    counts = []
    for split in ("train", "val", "test"):
        ours = list(en.shards(tmp_path / "out", split=split))
        theirs = megatron.read(tmp_path / "out", split)
        counts.append(len(ours))
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert {name: mine[name] for name in ("__key__", "__shard__", "txt", "json", "left.PNG", "bin")} == {
                name: other[name] for name in ("__key__", "__shard__", "txt", "json", "left.PNG", "bin")
            }
    assert sum(counts) == 40
    assert min(counts) > 0
