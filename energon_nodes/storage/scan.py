"""Find the samples of a shard that has no index, by walking its headers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import ne

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage import paths
from energon_nodes.storage.tar import BLOCK, NO_END, Member, TarError, compression_of, split_name
from energon_nodes.storage.walk import Members, split_names, walk
from energon_nodes.storage.window import Window

__all__ = ["Problem", "ShardContents", "ShardIndex", "read_contents", "refuse_compressed", "scan_shard"]

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


@dataclass(frozen=True, eq=False)
class ShardContents:
    """Say what samples a shard has, with all their parts.

    Args:
        index: Where the samples lie, and what is wrong.
        keys: The key of each whole sample.
        part_starts: For each whole sample the number of its first part, and at last that of all parts: int64 of shape
            `(k + 1,)`.
        part_names: The names that parts have in this shard.
        names: For each part which of these is its name: int64 of shape `(p,)`.
        starts: The first byte of its data, int64 of shape `(p,)`.
        sizes: The number of bytes of its data, int64 of shape `(p,)`.
        sparse: Parts that are stored sparse, and cannot be read: header and file name.

    Example:
        >>> none = np.zeros(0, np.int64)
        >>> ShardContents(ShardIndex(np.array([0])), [], np.array([0]), (), none, none, none).keys
        []
    """

    index: ShardIndex
    keys: list[str]
    part_starts: NDArray[np.int64]
    part_names: tuple[str, ...]
    names: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    sparse: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


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
    return read_contents(path).index


def read_contents(path: str) -> ShardContents:
    """Walk the headers of a shard and return its samples with their parts.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        ...     with tarfile.open(fileobj=made, mode="w") as archive:
        ...         for name in ("a.txt", "a.cls", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     made.flush()
        ...     contents = read_contents(made.name)
        >>> contents.keys, contents.part_starts.tolist(), [contents.part_names[name] for name in contents.names]
        (['a', 'b'], [0, 2, 3], ['txt', 'cls', 'txt'])

    Args:
        path: The shard, a path or URL.

    Returns:
        Its contents; what is wrong stands in the index.

    Raises:
        OSError: The shard does not exist or cannot be read.
    """
    size = paths.size(path)
    window = Window(path)
    found = _Found()
    problem: Problem | None = None
    half: bool | None = None  # whether the last sample is known to lack a part
    try:
        refuse_compressed(window.read(0, BLOCK))
        for entry in walk(window, size):
            if isinstance(entry, Members):
                found.add_group(entry)
                continue
            if entry.kind == "end":
                break
            if entry.payload + entry.size > size:
                pair = split_name(entry.name) if entry.kind != "other" else None
                half = pair is not None and found.last_key == pair[0]
                where = f"inside {entry.name!r} of {entry.size} bytes"
                raise TarError(entry.payload, f"the file ends at byte {size}, {where}")
            found.add(entry)
            if entry.stop > size:
                raise TarError(size, NO_END)
    except TarError as error:
        problem = (error.offset, error.reason)
        if half is None:
            # Nobody can tell whether the last sample had more parts; it counts as whole if it looks like its neighbour.
            half = found.differs_at_the_end()
    return found.contents(problem, half is True, size)


class _Found:
    """Gather what a walk gives, in arrays that are put together at its end."""

    def __init__(self) -> None:
        self.last_key: str | None = None
        self._keys: list[str] = []
        self._offsets: list[NDArray[np.int64]] = []
        self._part_starts: list[NDArray[np.int64]] = []
        self._numbers: dict[str, int] = {}
        self._parts = 0
        self._names: list[NDArray[np.int64]] = []
        self._starts: list[NDArray[np.int64]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._sparse: list[tuple[int, str]] = []
        self._stop = 0

    def add(self, member: Member) -> None:
        """Add one entry."""
        self._stop = member.stop
        if member.kind == "other":
            return
        place = [np.array([number]) for number in (member.start, member.payload, member.size)]
        if member.kind == "sparse" and split_name(member.name) is not None:
            self._sparse.append((member.start, member.name))
        self.add_group(Members([member.name], place[0], place[1], place[2], member.stop))

    def add_group(self, group: Members) -> None:
        """Add files."""
        names, starts, payloads, sizes, self._stop = group
        split = split_names(names)
        if split is None:
            pairs = [split_name(name) for name in names]
            keys, parts = [pair[0] for pair in pairs if pair], [pair[1] for pair in pairs if pair]
            if not keys:
                return
            if len(keys) < len(names):
                chosen = np.array([pair is not None for pair in pairs])
                starts, payloads, sizes = starts[chosen], payloads[chosen], sizes[chosen]
        else:
            keys, parts = split
        begins = np.fromiter(map(ne, keys, chain((self.last_key,), keys)), np.bool_, len(keys))
        self.last_key = keys[-1]
        self._keys += compress(keys, begins.tolist())
        firsts = np.flatnonzero(begins)
        self._offsets.append(starts[firsts])
        self._part_starts.append(firsts + self._parts)
        self._parts += len(keys)
        known = self._numbers
        for part in [part for part in dict.fromkeys(parts) if part not in known]:
            known[part] = len(known)
        self._names.append(np.fromiter(map(known.__getitem__, parts), np.int64, len(parts)))
        self._starts.append(payloads)
        self._sizes.append(sizes)

    def differs_at_the_end(self) -> bool:
        """Tell whether the last sample has other parts than the one before it."""
        if len(self._keys) < 2:
            return False
        bounds = np.concatenate(self._part_starts)[-2:].tolist()
        names = np.concatenate(self._names)
        return sorted(names[bounds[0] : bounds[1]].tolist()) != sorted(names[bounds[1] :].tolist())

    def contents(self, problem: Problem | None, half: bool, size: int) -> ShardContents:
        """Return all of it, the last sample left out if it is only half there."""
        offsets, part_starts = _joined(self._offsets), _joined(self._part_starts)
        names, starts, sizes = _joined(self._names), _joined(self._starts), _joined(self._sizes)
        stop, parts = self._stop, self._parts
        if half:
            del self._keys[-1]
            stop, parts = int(offsets[-1]), int(part_starts[-1])
            offsets, part_starts = offsets[:-1], part_starts[:-1]
            names, starts, sizes = names[:parts], starts[:parts], sizes[:parts]
        problems = _repeated(offsets, self._keys)
        tail = [stop] if problem is None else [stop, max(size, stop)]
        if problem is not None:
            problems[len(self._keys)] = problem
        index = ShardIndex(np.append(offsets, tail), problems)
        part_starts = np.append(part_starts, parts)
        known = tuple(self._numbers)
        return ShardContents(index, self._keys, part_starts, known, names, starts, sizes, self._sparse)


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _repeated(starts: NDArray[np.int64], keys: list[str]) -> dict[int, Problem]:
    if len(set(keys)) == len(keys):
        return {}
    counts = Counter(keys)
    return {
        number: (
            int(starts[number]),
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
