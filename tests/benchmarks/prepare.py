"""Turn a folder of tars into a dataset prepared as Megatron-Energon does it.

The real `energon prepare` is used where it is installed. Elsewhere `write_metadata` writes the same files, except for
`index.sqlite` and `index.uuid`, which only lookup by name needs: `.tar.idx` beside each shard holds the offset of each
sample's first header and the end of the data as unsigned 64-bit integers; `.nv-meta` holds the counts, the split and
the kind of the dataset.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np

DATASET_YAML = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def prepare(folder: Path, index_exists: bool = False) -> None:
    """Write the metadata of the tars in `folder`, all of them in the split `train`."""
    command = energon_command()
    if command is None or index_exists:
        write_metadata(folder)
    else:
        options = [
            "--non-interactive",
            "--split-ratio",
            "1,0,0",
            "--num-workers",
            "2",
            "--no-progress",
            "--skip-dataset-yaml",
        ]
        subprocess.run([command, "prepare", *options, folder], check=True, stdout=subprocess.DEVNULL)
    (folder / ".nv-meta" / "dataset.yaml").write_text(DATASET_YAML)


def energon_command() -> str | None:
    """Return the `energon` command of the environment that runs this, if it has one."""
    command = Path(sys.executable).with_name("energon")
    return str(command) if command.exists() else None


def write_metadata(folder: Path) -> None:
    counts = {tar.name: samples_in_index(tar) for tar in sorted(folder.glob("*.tar"))}
    meta = folder / ".nv-meta"
    meta.mkdir(exist_ok=True)
    (meta / ".info.json").write_text(json.dumps({"energon_version": "7.4.1", "shard_counts": counts}, indent=2))
    shards = "".join(f"\n  - {name}" for name in counts)
    (meta / "split.yaml").write_text(f"split_parts:\n  train:{shards}\n  val: []\n  test: []\nexclude: []\n")


def samples_in_index(tar: Path) -> int:
    index = tar.with_suffix(".tar.idx")
    if not index.exists():
        offsets = sample_offsets(tar)
        index.write_bytes(np.asarray(offsets, dtype="<u8").tobytes())
    return index.stat().st_size // 8 - 1


def sample_offsets(tar: Path) -> list[int]:
    offsets: list[int] = []
    last_key, end = None, 0
    with tarfile.open(tar) as archive:
        for member in archive:
            key = member.name.partition(".")[0]
            if key != last_key:
                offsets.append(member.offset)
                last_key = key
            end = member.offset_data + (member.size + 511) // 512 * 512
    return [*offsets, end]
