"""Write prepared datasets by hand, from the description of the format alone."""

import io
import json
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image


def prepare(root: Path, shards: Mapping[str, Mapping[str, Mapping[str, bytes]]], dataset: str, **files: str) -> Path:
    """Write shards (name to key to part to bytes), their index, and the metadata files.

    Args:
        root: The folder to make.
        shards: The samples; all are in the split part "train", those of the last shard in "val" as well.
        dataset: The text of `dataset.yaml`.
        **files: Other files in the metadata folder; `_` in a name stands for its last dot.
    """
    meta = root / ".nv-meta"
    meta.mkdir(parents=True)
    for name, samples in shards.items():
        offsets = [0]
        with tarfile.open(root / name, "w", format=tarfile.USTAR_FORMAT) as archive:
            for key, parts in samples.items():
                end = offsets[-1]
                for part, payload in parts.items():
                    member = tarfile.TarInfo(f"{key}.{part}")
                    member.size = len(payload)
                    archive.addfile(member, io.BytesIO(payload))
                    end += 512 + -(-len(payload) // 512) * 512
                offsets.append(end)
        index = (root / name).with_suffix(".tar.idx")
        index.write_bytes(struct.pack(f"<{len(offsets)}Q", *offsets))
    counts = {name: len(samples) for name, samples in shards.items()}
    (meta / ".info.json").write_text(json.dumps({"energon_version": "7.4.1", "shard_counts": counts}))
    split = {"split_parts": {"train": list(shards), "val": list(shards)[-1:]}, "exclude": []}
    (meta / "split.yaml").write_text(json.dumps(split))
    (meta / "dataset.yaml").write_text(dataset)
    for name, text in files.items():
        (meta / ".".join(name.rsplit("_", 1))).write_text(text)
    return root


def png(color: tuple[int, int, int], size: tuple[int, int] = (4, 2)) -> bytes:
    """Return a picture of one color; `size` is width and height."""
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()
