"""Named files behind a path: in a prepared dataset, a folder, a remote prefix, or a JSON Lines file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import metadata, paths
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.folder_entries import FolderEntries
from energon_nodes.storage.fork_lock import ForkLock
from energon_nodes.storage.key_table import open_key_table
from energon_nodes.storage.line_entries import LineEntries
from energon_nodes.storage.shard_entries import ShardEntries

__all__ = ["Entries", "open_entries"]

_lock = ForkLock()
_shards: WeakValueDictionary[str, ShardEntries] = WeakValueDictionary()


class Entries(Protocol):
    """Give the bytes of named files; they can be used from several threads and after a fork."""

    root: str

    def __len__(self) -> int:
        """Return the number of files."""
        ...

    def __contains__(self, name: str, /) -> bool:
        """Tell whether there is a file of this name."""
        ...

    def names(self) -> Iterator[str]:
        """Yield all names."""
        ...

    def split(self, name: str) -> tuple[str, str]:
        """Return the two pieces of a name: what it belongs to, and what kind of file it is."""
        ...

    def shard_of(self, name: str) -> str:
        """Return what holds the file."""
        ...

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        ...

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Return the bytes of many files."""
        ...


def open_entries(path: PathLike) -> Entries:
    """Open the named files behind a path.

    `filesystem://P` and `filesystem+PROTOCOL://P` always mean the plain files below P, prepared or not, as in
    Megatron-Energon's metadatasets.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/open_entries/a.txt", b"a cat")
        >>> open_entries("memory://open_entries").read("a.txt")
        b'a cat'

    Args:
        path: A folder, a `.jsonl` file, or a URL of these.

    Returns:
        The files.

    Raises:
        DatasetError: There is nothing, or something of another kind.
        OSError: The store cannot be reached.
    """
    text = os.fspath(path)
    plain = text.startswith(("filesystem://", "filesystem+"))
    if plain:
        text = text[13:] if text.startswith("filesystem://") else text[11:]
    root = paths.folder(text)
    if not root:
        raise DatasetError("a store needs a path, got an empty one")
    if root.endswith(".jsonl") and not paths.is_dir(root):
        return LineEntries(root)
    if not plain and metadata.is_prepared(root):
        return _open_shards(root)
    if not paths.is_dir(root):
        what = "is a file" if paths.exists(root) else "does not exist"
        raise DatasetError(f"the store {root} {what}; a store is a folder, a prepared dataset, or a .jsonl file")
    return FolderEntries(root)


def _open_shards(root: str) -> ShardEntries:
    table = open_key_table(root)
    with _lock():
        known = _shards.get(root)
        if known is None or known.table is not table:
            known = _shards[root] = ShardEntries(root, table)
        return known
