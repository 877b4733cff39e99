"""Tars for tests, written by `tarfile`, and an independent reading of them to compare with."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Members = Iterable[tuple[str, bytes]]

# The key rule as a pattern, written apart from the library: folders, a base up to its first dot, the rest.
_NAME = re.compile(r"(?s)(?P<key>(?:[^/]*/)*[^/.]+|(?:[^/]*/)*[^/.]*/)\.(?P<part>[^/]*)")


def write_tar(path: Path, members: Members, format: int = tarfile.USTAR_FORMAT, **fields: Any) -> Path:
    """Write files of the given names and contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return path


def samples_of(first: int, last: int, size: int = 20) -> list[tuple[str, bytes]]:
    """Return the members of samples `first` to `last - 1`: a text of growing length, and a class."""
    members: list[tuple[str, bytes]] = []
    for number in range(first, last):
        members.append((f"{number:06d}.txt", f"text {number} ".encode() * (1 + number % size)))
        members.append((f"{number:06d}.cls", str(number % 10).encode()))
    return members


def split_by_pattern(name: str) -> tuple[str, str] | None:
    """Split a member's name into key and part."""
    if re.match(r"__(?:[^/]*[^/])?__(?:/|$)", name) and len(name.split("/")[0]) >= 4:
        return None
    found = _NAME.fullmatch(name)
    return (found["key"], found["part"]) if found else None


def read_by_tarfile(path: Path) -> list[tuple[str, dict[str, bytes]]]:
    """Return key and parts of every sample, in order."""
    samples: list[tuple[str, dict[str, bytes]]] = []
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            pair = split_by_pattern(member.name) if member.isreg() else None
            if pair is None:
                continue
            if not samples or samples[-1][0] != pair[0]:
                samples.append((pair[0], {}))
            samples[-1][1][pair[1]] = archive.extractfile(member).read()  # pyright: ignore[reportOptionalMemberAccess]
    return samples


def plain(sample: Any) -> tuple[str, dict[str, bytes]]:
    """Return key and parts of a sample that the library read."""
    return sample["__key__"], {name: value for name, value in sample.items() if not name.startswith("__")}


def prepare_by_hand(root: Path, split: dict[str, list[str]] | None = None, exclude: Iterable[str] = ()) -> Path:
    """Write the metadata of a prepared dataset beside existing tars, without the library."""
    counts: dict[str, int] = {}
    for tar in sorted(root.rglob("*.tar")):
        offsets = offsets_by_tarfile(tar)
        counts[tar.relative_to(root).as_posix()] = len(offsets) - 1
        tar.with_suffix(".tar.idx").write_bytes(np.array(offsets, "<u8").tobytes())
    meta = root / ".nv-meta"
    meta.mkdir(exist_ok=True)
    (meta / ".info.json").write_text(json.dumps({"energon_version": "7.4.1", "shard_counts": counts}))
    parts = {"train": list(counts)} if split is None else split
    (meta / "split.yaml").write_text(json.dumps({"split_parts": parts, "exclude": list(exclude)}))
    return root


def offsets_by_tarfile(path: Path) -> list[int]:
    """Return what `.tar.idx` holds, as `tarfile` sees the archive."""
    offsets: list[int] = []
    last = None
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            pair = split_by_pattern(member.name) if member.isreg() else None
            if pair is not None and pair[0] != last:
                offsets.append(member.offset)
                last = pair[0]
        return [*offsets, archive.offset]
