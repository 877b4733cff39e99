"""Find the samples of a shard that has no index, by walking its headers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage import paths
from energon_nodes.storage.tar import BLOCK, NO_END, TarError, compression_of, next_member, split_name
from energon_nodes.storage.window import Window

__all__ = ["Problem", "ShardIndex", "refuse_compressed", "scan_shard"]

Problem = tuple[int, str]
"""The byte where something is wrong, and what."""

_COMPRESSED = (
    "the file is compressed ({kind}), and samples inside cannot be read at random: "
    "decompress it (`{tool} -d`) into a plain .tar"
)
_TOOLS = {
    "gzip": "gzip",
    "bzip2": "bzip2",
    "xz": "xz",
    "zstd": "zstd",
    "lz4": "lz4",
    "zip": "unzip and tar instead of zip",
}


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """Say where the samples of one shard lie.

    A stretch of bytes that holds no whole sample stands in the index as a sample with a problem, so that
    reading meets it in its place and the error policy applies to it.

    Args:
        offsets: The first byte of each sample and, as last entry, the end of the last one: int64 of shape `(n + 1,)`.
        problems: What is wrong, by sample number.

    Example:
        >>> len(ShardIndex(np.array([0, 1024, 3072])))
        2
    """

    offsets: NDArray[np.int64]
    problems: dict[int, Problem] = field(default_factory=dict[int, Problem])

    def __len__(self) -> int:
        return len(self.offsets) - 1


def scan_shard(path: str) -> ShardIndex:
    """Walk the headers of a shard and return where its samples lie.

    Samples before a damaged place stay usable; the rest of the shard is one sample with a problem. Keys that
    come back later in the shard are problems too: their parts would be two halves of one sample.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        ...     with tarfile.open(fileobj=made, mode="w") as archive:
        ...         for name in ("a.txt", "a.cls", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     made.flush()
        ...     scan_shard(made.name).offsets.tolist()
        [0, 1024, 1536]

    Args:
        path: The shard, a path or URL.

    Returns:
        The index.

    Raises:
        OSError: The shard does not exist or cannot be read.
    """
    size = paths.size(path)
    window = Window(path)
    starts: list[int] = []
    keys: list[str] = []
    parts: list[str] = []  # of the sample that is being read
    before: list[str] = []  # of the sample in front of it
    offset = 0
    problem: Problem | None = None
    half: bool | None = None  # whether the last sample is known to lack a part
    try:
        refuse_compressed(window.read(0, BLOCK))
        while True:
            member = next_member(window.read, offset)
            if member.kind == "end":
                break
            found = split_name(member.name) if member.kind != "other" else None
            if member.payload + member.size > size:
                half = found is not None and bool(keys) and found[0] == keys[-1]
                raise TarError(
                    member.payload, f"the file ends at byte {size}, inside {member.name!r} of {member.size} bytes"
                )
            if found is not None:
                if not keys or found[0] != keys[-1]:
                    starts.append(member.start)
                    keys.append(found[0])
                    before, parts = parts, []
                parts.append(found[1])
            offset = member.stop
            if offset > size:
                raise TarError(size, NO_END)
    except TarError as error:
        problem = (error.offset, error.reason)
        if half is None:
            # Nobody can tell whether the last sample had more parts; it counts as whole if it looks like its neighbour.
            half = len(keys) > 1 and sorted(parts) != sorted(before)
        if half:
            keys.pop()
            offset = starts.pop()
    problems = _repeated(starts, keys)
    if problem is None:
        return ShardIndex(np.array([*starts, offset], np.int64), problems)
    problems[len(starts)] = problem
    return ShardIndex(np.array([*starts, offset, max(size, offset)], np.int64), problems)


def _repeated(starts: list[int], keys: list[str]) -> dict[int, Problem]:
    if len(set(keys)) == len(keys):
        return {}
    counts = Counter(keys)
    return {
        number: (
            starts[number],
            f"the key {key!r} stands in {counts[key]} places of the shard, with other samples in between "
            "(interleaved or repeated files); write the files sorted by key, each key once",
        )
        for number, key in enumerate(keys)
        if counts[key] > 1
    }


def refuse_compressed(head: bytes) -> None:
    """Raise if the first bytes of a shard show that it is compressed.

    Example:
        >>> import gzip
        >>> refuse_compressed(gzip.compress(b"x"))
        Traceback (most recent call last):
        ...
        energon_nodes.storage.tar.TarError: byte 0: the file is compressed (gzip), ...

    Args:
        head: The first bytes of the file, whatever its name says.

    Raises:
        TarError: It is compressed; the message says how to convert it.
    """
    kind = compression_of(head)
    if kind is not None:
        raise TarError(0, _COMPRESSED.format(kind=kind, tool=_TOOLS[kind]))
