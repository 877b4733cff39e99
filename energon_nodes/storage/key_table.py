"""The table of all sample keys of a prepared dataset: written when it is prepared, or when it is first needed."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from weakref import WeakValueDictionary

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import metadata, paths
from energon_nodes.storage.fork_lock import ForkLock
from energon_nodes.storage.index_rows import index_rows
from energon_nodes.storage.key_building import KeyTableWriter, tie
from energon_nodes.storage.key_files import cached_file, local_copy
from energon_nodes.storage.key_lookup import KeyTable, read_footer
from energon_nodes.storage.prepared_record import check_in_step
from energon_nodes.storage.remote import ask
from energon_nodes.storage.writing import replacing

__all__ = [
    "KEYS_FILE",
    "KeyTable",
    "belongs_to",
    "cached_key_table",
    "describe_index",
    "open_key_table",
    "retie_key_table",
    "write_key_table",
]

KEYS_FILE = "keys.table"
"""The name of the table in `.nv-meta`. It is ours alone: Megatron-Energon looks things up in `index.sqlite`."""

_log = logging.getLogger("energon_nodes.storage")
_lock = ForkLock()
_tables: WeakValueDictionary[tuple[str, str], KeyTable] = WeakValueDictionary()


def write_key_table(root: str) -> str:
    """Write the table of all keys from `index.sqlite` to `.nv-meta/keys.table`, whole or not at all.

    Rows are read some thousand at a time, and `KeyTableWriter` keeps nothing of a key in memory: about 50 MB for 10
    million keys, beside pages of files that the system can drop. The table has about 110 bytes for a sample of two
    parts with keys of 8 bytes; reading it takes no memory of its own, the pages are shared.

    Example:
        >>> write_key_table("/no/such/dataset")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: /no/such/dataset is not a prepared dataset: ...

    Args:
        root: A prepared dataset with `index.sqlite`, a local folder or a URL.

    Returns:
        The path of the table.

    Raises:
        DatasetError: There is no `index.sqlite`, or it does not belong to the other metadata.
        OSError: The table cannot be written.
    """
    root = paths.folder(root)
    info = metadata.read_info(root)
    owner = belongs_to(root, info)
    path = paths.join(root, f"{metadata.META_FOLDER}/{KEYS_FILE}")
    with replacing(path) as partial:
        _build(root, info, owner, partial)
    return path


def open_key_table(root: str) -> KeyTable:
    """Open the table of all keys of a prepared dataset, and make it where there is none that is up to date.

    It is made beside the dataset, or in the user's cache folder (`ENERGON_NODES_CACHE` names another) where the dataset
    is remote or cannot be written to. All who open the same dataset in a process share one table.

    Example:
        >>> open_key_table("/no/such/dataset")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: /no/such/dataset is not a prepared dataset: ...

    Args:
        root: A prepared dataset with `index.sqlite`, a local folder or a URL.

    Returns:
        The table.

    Raises:
        DatasetError: There is no `index.sqlite`, or it does not belong to the other metadata.
        OSError: The dataset cannot be read.
    """
    root = paths.folder(root)
    info = metadata.read_info(root)
    owner = belongs_to(root, info)
    with _lock():
        known = _tables.get((root, owner))
        if known is None:
            known = _tables[root, owner] = _open(root, info, owner)
        return known


def belongs_to(root: str, info: metadata.Info) -> str:
    """Return what a table is tied to: text that changes when a dataset is prepared again.

    It holds `index.uuid`, the names and sample counts of the shards, the size of `index.sqlite`, and SQLite's counter
    of changes in it. All of these survive a copy of the dataset, which the time of change does not; that stands in
    for the first where there is no `index.uuid`.

    Example:
        >>> belongs_to("memory://no/such/dataset", metadata.Info({}))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: memory://no/such/dataset has no .nv-meta/index.sqlite, ...

    Args:
        root: A prepared dataset.
        info: What its info file says.

    Returns:
        The text.

    Raises:
        DatasetError: There is no `index.sqlite`.
    """
    try:
        uuid = paths.read_text(paths.join(root, f"{metadata.META_FOLDER}/index.uuid")).strip()
    except FileNotFoundError:
        uuid = None
    check_in_step(root, info, uuid or "")
    try:
        return describe_index(paths.join(root, f"{metadata.META_FOLDER}/index.sqlite"), uuid, info)
    except FileNotFoundError:
        raise DatasetError(
            f"{root} has no {metadata.META_FOLDER}/index.sqlite, which lookup by key needs: prepare the dataset again. "
            "None is written while a key stands in several places, because it would be ambiguous"
        ) from None


def describe_index(database: str, uuid: str | None, info: metadata.Info) -> str:
    """Return the text of `belongs_to` for an index that may not be in its place yet.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as made:
        ...     describe_index(made.name, "7a", metadata.Info({"0.tar": 1})).split()[:3]
        ['2', '7a', '0']

    Args:
        database: The file `index.sqlite`.
        uuid: What `index.uuid` holds, None where there is no such file.
        info: What the info file says.

    Returns:
        The text.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    size, changed = paths.identity(database)
    head = paths.read_once(database, [24, 92], [28, 100])
    shards = hashlib.blake2b(digest_size=12)
    for name, count in info.shard_counts.items():
        shards.update(f"{name}\0{count}\0".encode("utf-8", "surrogateescape"))
    return f"2 {uuid or f'changed {changed}'} {size} {head[0].hex()} {head[1].hex()} {shards.hexdigest()}"


def _open(root: str, info: metadata.Info, owner: str) -> KeyTable:
    names = tuple(info.shard_counts)
    beside = paths.join(root, f"{metadata.META_FOLDER}/{KEYS_FILE}")
    origin = (open_key_table, (root,))
    if not paths.is_url(root):
        table = _fresh(beside, owner, names, origin)
        if table is not None:
            return table
        try:
            write_key_table(root)
        except OSError as error:
            _log.info("no key table beside %s (%s); it is kept in the cache folder", root, error)
        else:
            table = _fresh(beside, owner, names, origin)
            if table is not None:
                return table
    return cached_key_table(root, owner, names, origin, lambda path: _make(root, beside, info, owner, path))


def cached_key_table(
    root: str,
    owner: str,
    names: tuple[str, ...],
    origin: tuple[Any, tuple[Any, ...]] | None,
    make: Callable[[str], None],
) -> KeyTable:
    """Open a table in the user's cache folder, and make it where it is not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.environ["ENERGON_NODES_CACHE"] = folder
        ...
        ...     def make(path: str) -> None:
        ...         with open(path, "wb+") as file:
        ...             KeyTableWriter(file).finish("version 1")
        ...
        ...     cached_key_table("memory://data", "version 1", (), None, make)
        KeyTable(0 samples, 0 parts, 0 shards)
        >>> del os.environ["ENERGON_NODES_CACHE"]

    Args:
        root: The dataset.
        owner: What the table is tied to.
        names: The shards.
        origin: `(function, arguments)` that open an equal table in another process.
        make: Writes it to a path.

    Returns:
        The table.

    Raises:
        OSError: It cannot be written.
    """
    for _ in range(2):  # once more if what lies there is damaged
        with cached_file(root, owner, ".table", make) as path:
            table = _fresh(path, owner, names, origin)
            if table is not None:
                return table
            os.unlink(path)
    raise OSError(f"the key table of {root} cannot be kept in the cache folder: what is written there is not read back")


def retie_key_table(root: str, before: str) -> None:
    """Tie the table beside a dataset to an index that holds other tables now, but the same samples.

    Example:
        >>> retie_key_table("memory://no/such/dataset", "")

    Args:
        root: The dataset.
        before: What `belongs_to` gave before the index was changed. A table that did not belong to that stays as it is.

    Raises:
        OSError: The table cannot be written.
    """
    path = paths.join(root, f"{metadata.META_FOLDER}/{KEYS_FILE}")
    if not paths.exists(path):
        return
    with local_copy(path) as old:
        table = _fresh(old, before, (), None)
        if table is None:
            return
        with replacing(path) as partial:
            shutil.copyfile(old, partial)
            with open(partial, "rb+") as file:
                tie(file, belongs_to(root, metadata.read_info(root)))


def _fresh(path: str, owner: str, names: tuple[str, ...], origin: Any) -> KeyTable | None:
    """Open a table if it is there, whole, and made from the dataset as it is now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        footer = read_footer(fd)
        return KeyTable(fd, names, origin) if footer is not None and footer.get("belongs_to") == owner else None
    except OSError:  # something that is no file stands there, or it cannot be mapped
        return None
    finally:
        os.close(fd)


def _make(root: str, beside: str, info: metadata.Info, owner: str, path: str) -> None:
    """Write a table to a file in the cache folder: a copy of a remote one that is up to date, or a new one."""
    if paths.is_url(root) and paths.exists(beside):
        ask(beside, "copy", lambda fs, name: fs.get_file(name, path))
        if _fresh(path, owner, (), None) is not None:
            return
    _build(root, info, owner, path)


def _build(root: str, info: metadata.Info, owner: str, path: str) -> None:
    with local_copy(paths.join(root, f"{metadata.META_FOLDER}/index.sqlite")) as database, open(path, "wb+") as file:
        with closing(KeyTableWriter(file, os.path.dirname(path) or ".")) as writer:
            try:
                for arguments in index_rows(database, info):
                    writer.add(*arguments)
            except sqlite3.DatabaseError as error:
                message = f"{root}: index.sqlite cannot be read ({error}); prepare the dataset again"
                raise DatasetError(message) from error
            repeated = writer.finish(owner)
        if repeated:
            raise DatasetError(f"{root}: index.sqlite holds keys twice; prepare the dataset again")
