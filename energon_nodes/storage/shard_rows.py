"""Index shards for a prepared dataset: the rows of each, compact enough to be sent from one machine to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage import paths
from energon_nodes.storage.index_sqlite import Rows
from energon_nodes.storage.scan import ShardContents, read_contents

__all__ = ["IndexedShard", "Trouble", "index_shards"]

_MOST = 20
"""So many places of a shard are named where something is wrong; more are counted."""

Integers = NDArray[np.unsignedinteger]


class Trouble(NamedTuple):
    """Say what keeps a shard from being prepared.

    Example:
        >>> str(Trouble("0.tar", 512, "not a tar header"))
        'shard 0.tar at byte 512: not a tar header'

    Args:
        shard: The shard, relative to the dataset.
        offset: The byte where it is wrong, or None where that cannot be said.
        reason: What is wrong.
    """

    shard: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"shard {self.shard}{place}: {self.reason}"


class IndexedShard(NamedTuple):
    """Hold what an index has to say about one shard.

    Args:
        name: The shard, relative to the dataset.
        version: Its size and time of change, see `paths.identity`.
        keys: The keys of the samples, as UTF-8, each closed by a zero byte.
        offsets: Where each sample begins, and where the last one ends, uint64 of shape `(n + 1,)`.
        part_counts: How many parts each sample has, shape `(n,)`.
        part_names: The names of parts.
        names: Which of these each part has, shape `(p,)`.
        starts: The first byte of the data of each part, uint64 of shape `(p,)`.
        sizes: The bytes of its data, shape `(p,)`.
        troubles: What is wrong; with anything here the rest is of no use.
        more: How many further places are wrong.

    Example:
        >>> IndexedShard.failed("0.tar", Trouble("0.tar", None, "no permission")).troubles[0].reason
        'no permission'
    """

    name: str
    version: tuple[int, int]
    keys: bytes
    offsets: Integers
    part_counts: Integers
    part_names: tuple[str, ...]
    names: Integers
    starts: Integers
    sizes: Integers
    troubles: tuple[Trouble, ...] = ()
    more: int = 0

    @classmethod
    def failed(cls, name: str, *troubles: Trouble) -> IndexedShard:
        """Return the result for a shard that cannot be prepared."""
        none = np.zeros(0, np.uint8)
        shown = troubles[:_MOST]
        return cls(name, (0, 0), b"", none, none, (), none, none, none, shown, len(troubles) - len(shown))

    def __len__(self) -> int:
        return len(self.part_counts)

    def rows(self) -> Rows:
        """Return the samples as an index takes them."""
        keys = self.keys.decode().split("\0")
        del keys[-1]
        offsets, names, starts, sizes = (
            column.astype(np.int64) for column in (self.offsets, self.names, self.starts, self.sizes)
        )
        part_starts = np.concatenate(([0], np.cumsum(self.part_counts, dtype=np.int64)))
        return Rows(keys, offsets, part_starts, self.part_names, names, starts, sizes)


def index_shards(root: str, names: Sequence[str]) -> list[IndexedShard]:
    """Index some shards of a dataset; this is what runs in other processes and on other machines.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", mode="w") as archive:
        ...         for name in ("a.txt", "a.cls", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     [shard] = index_shards(folder, ["0.tar"])
        >>> shard.rows().keys, shard.offsets.tolist(), shard.troubles
        (['a', 'b'], [0, 1024, 1536], ())

    Args:
        root: The folder or URL of the dataset.
        names: The shards, relative to it.

    Returns:
        The rows of each; what is wrong, whatever it is, stands in them.
    """
    return [_index_shard(root, name) for name in names]


def _index_shard(root: str, name: str) -> IndexedShard:
    path = paths.join(root, name)
    try:
        version = paths.identity(path)
        contents = read_contents(path)
        if paths.identity(path) != version:
            return IndexedShard.failed(name, Trouble(name, None, "it changes while it is read; wait for its writer"))
    except FileNotFoundError:
        return IndexedShard.failed(name, Trouble(name, None, "it does not exist"))
    except OSError as error:
        return IndexedShard.failed(name, Trouble(name, None, f"it cannot be read: {error}"))
    troubles = [Trouble(name, *contents.index.problems[number]) for number in sorted(contents.index.problems)]
    troubles += [Trouble(name, offset, reason) for offset, reason in _odd_parts(contents)]
    if troubles:
        return IndexedShard.failed(name, *troubles)
    text = "\0".join([*contents.keys, ""])
    part_counts = np.diff(contents.part_starts)
    return IndexedShard(
        name,
        version,
        text.encode(),
        contents.index.offsets.astype(np.uint64),
        _smallest(part_counts),
        contents.part_names,
        _smallest(contents.names),
        contents.starts.astype(np.uint64),
        _smallest(contents.sizes),
    )


def _odd_parts(contents: ShardContents) -> list[tuple[int, str]]:
    """Return what only reading would notice, or what an index cannot hold."""
    found = [
        (offset, f"the file {file!r} is stored sparse, which readers refuse: write it without `tar --sparse`")
        for offset, file in contents.sparse
    ]
    owners = np.repeat(np.arange(len(contents.keys)), np.diff(contents.part_starts))
    marks = owners * (len(contents.part_names) + 1) + contents.names
    if len(np.unique(marks)) < len(marks):
        order = np.argsort(marks, kind="stable")
        again = np.sort(order[1:][marks[order[1:]] == marks[order[:-1]]])
        for number in again.tolist():
            part, key = contents.part_names[contents.names[number]], contents.keys[owners[number]]
            found.append(
                (
                    int(contents.index.offsets[owners[number]]),
                    f"sample {key!r} has the part {part!r} twice: remove one of the files, or rename it",
                )
            )
    bad = [number for number, key in enumerate(contents.keys) if not _is_text(key)] if not _are_text(contents) else []
    found += [
        (int(contents.index.offsets[number]), f"the key {contents.keys[number]!r} is no UTF-8 text: rename its files")
        for number in bad
    ]
    found += [
        (0, f"a part is named {part!r}, which is no UTF-8 text: rename such files")
        for part in contents.part_names
        if not _is_text(part)
    ]
    return found


def _are_text(contents: ShardContents) -> bool:
    text = "\0".join([*contents.keys, *contents.part_names])
    return text.isascii() and text.count("\0") == max(0, len(contents.keys) + len(contents.part_names) - 1)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _smallest(column: NDArray[np.int64]) -> Integers:
    return column.astype(np.min_scalar_type(int(column.max(initial=0))))
