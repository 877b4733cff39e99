"""Open JSON Lines files as one numbered range of records, with index files or without."""

from __future__ import annotations

import logging
import os
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import index_cache, paths
from energon_nodes.storage.discovery import Found, PathLike, find_shards
from energon_nodes.storage.fork_lock import ForkLock
from energon_nodes.storage.index import IndexFiles, MemoryIndex, Offsets
from energon_nodes.storage.json_lines import LineCounter, read_lines
from energon_nodes.storage.jsonl_index import RecordScan, count_records, line_index_path, scan_records
from energon_nodes.storage.reading import Read
from energon_nodes.storage.scan import Problem, ShardIndex
from energon_nodes.storage.shard_set import Plan, ShardSet

__all__ = ["IndexSource", "LineSet", "find_line_files", "open_lines"]

IndexSource = Literal["auto", "file", "scan"]
"""Where the index of JSON Lines comes from: the file beside them if there is one, always that file, or a scan."""

_log = logging.getLogger("energon_nodes.storage")
_lock = ForkLock()
_sets: WeakValueDictionary[tuple[Any, ...], LineSet] = WeakValueDictionary()


class LineSet(ShardSet):
    r"""Number the records of JSON Lines files from 0 to `count - 1` and read any of them; see `ShardSet`.

    Args:
        root: The folder that all files are in.
        names: The files, relative to it.
        counts: The number of records of each.
        offsets: Where they lie.
        origin: `(function, arguments)` that make an equal set in another process.
        parse: Whether samples hold parsed objects; otherwise the bytes of the lines.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/set.jsonl", b'{"a": 1}\n{"b": 2}')
        >>> lines = open_lines("memory://set.jsonl")
        >>> lines.count, lines.read([1])[0]["json"]
        (2, {'b': 2})
    """

    def __init__(
        self,
        root: str,
        names: Sequence[str],
        counts: Sequence[int],
        offsets: Offsets,
        origin: tuple[Any, tuple[Any, ...]],
        *,
        parse: bool = True,
    ) -> None:
        super().__init__(root, names, counts, offsets, None, origin)
        self._parse = parse
        self._lines = LineCounter()

    def __repr__(self) -> str:
        return f"LineSet({self.root!r}, {len(self.names)} files, {self.count} records)"

    def find_many(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Find records by their keys, which are their indices as text; -1 where there is none."""
        found = np.full(len(keys), -1, np.int64)
        for place, key in enumerate(keys):
            if key.isascii() and key.isdecimal() and (key[0] != "0" or key == "0") and len(key) < 19:
                number = int(key)
                found[place] = number if number < self.count else -1
        return found

    def fetch(self, plan: Plan) -> Read:
        """Read the records of a plan."""
        return read_lines(plan.group, plan.order, self._lines.line_at, parse=self._parse)


def find_line_files(path: PathLike | Iterable[PathLike]) -> Found:
    """Find the files behind a path, a folder of `*.jsonl`, a brace or glob pattern, or a list of these.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe({"/lines/b.jsonl": b"", "/lines/a.jsonl": b"", "/lines/a.jsonl.idx": b""})
        >>> find_line_files("memory://lines")
        Found(root='memory://lines', names=('a.jsonl', 'b.jsonl'))

    Args:
        path: Where they are.

    Returns:
        Their common folder, and their names in order.

    Raises:
        DatasetError: Nothing is there.
    """
    return find_shards(path, (".jsonl",))


def open_lines(
    path: PathLike | Iterable[PathLike],
    *,
    index: IndexSource = "auto",
    cache: PathLike | None = None,
    parse: bool = True,
) -> LineSet:
    r"""Open JSON Lines files; the same files again in a process give the same object, so that clones share it.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/open.jsonl", b'{"a": 1}\n')
        >>> open_lines("memory://open.jsonl").locate(0)
        Place(shard='open.jsonl', number=0, offset=0)

    Args:
        path: A file, a folder, a pattern, a URL of these, or a list of them.
        index: Where the index comes from, see `IndexSource`.
        cache: A folder that keeps the index of files that have none beside them.
        parse: Whether samples hold parsed objects; otherwise the bytes of the lines.

    Returns:
        The records as one numbered range.

    Raises:
        DatasetError: There is nothing to read, or an index does not fit its file.
        OSError: A store cannot be reached.
    """
    root, names = find_line_files(path)
    files = [paths.join(root, name) for name in names]
    folder = None if cache is None else os.fspath(cache)
    try:
        versions = [paths.identity(file) for file in files]
        indexed = [index != "scan" and paths.exists(line_index_path(file)) for file in files]
        beside = [
            paths.identity(line_index_path(file)) if has else None for file, has in zip(files, indexed, strict=True)
        ]
    except FileNotFoundError as error:
        raise DatasetError(f"a file does not exist: {error}; correct the path or pattern") from None
    if index == "file" and not all(indexed):
        missing = files[indexed.index(False)]
        raise DatasetError(
            f"{missing} has no index {line_index_path(missing)}: write it with energon_nodes.prepare, or say "
            "index='auto'"
        )
    with _lock():
        key = (root, names, tuple(versions), tuple(beside), folder, parse)
        known = _sets.get(key)
        if known is None:
            found = [_index_of(*each, folder) for each in zip(files, versions, indexed, strict=True)]
            known = _sets[key] = _make(root, names, found, parse)
    empty = [name for name, count in zip(names, known.counts, strict=True) if not count]
    if empty:
        _log.warning("%d of %d files of %s have no records: %s", len(empty), len(names), root, ", ".join(empty[:3]))
    return known


class _Found(NamedTuple):
    """The index of one file: the path of an index file with so many records, or offsets in memory."""

    path: str | None
    records: int
    trailer: bool = False
    offsets: NDArray[np.int64] | None = None

    def opened(self) -> Offsets:
        if self.path is not None:
            return IndexFiles([self.path], [self.records], trailer=self.trailer)
        assert self.offsets is not None
        return MemoryIndex([ShardIndex(self.offsets)])


def _index_of(file: str, version: tuple[int, int], indexed: bool, cache: str | None) -> _Found:
    if indexed:
        return _Found(line_index_path(file), count_records(file))
    entry = None if cache is None else index_cache.entry_path(cache, file, version)
    if entry is not None and os.path.exists(entry):
        return _Found(entry, index_cache.read_entry(entry)[0], trailer=True)
    started, scan = time.monotonic(), RecordScan()
    offsets = np.concatenate(list(scan_records(file, scan)))
    if time.monotonic() - started > 5.0:
        _log.warning("indexed %s; energon_nodes.prepare keeps the index beside it, cache= in a folder", file)
    if cache is None or entry is None:
        return _Found(None, scan.records, offsets=offsets)
    os.makedirs(cache, exist_ok=True)
    index_cache.write_entry(entry, ShardIndex(offsets))
    return _Found(entry, scan.records, trailer=True)


def _make(root: str, names: Sequence[str], found: Sequence[_Found], parse: bool) -> LineSet:
    each = _Each([one.opened() for one in found])
    origin = (_from_pickle, (root, tuple(names), _Packed(found), parse))
    return LineSet(root, names, [one.records for one in found], each, origin, parse=parse)


class _Each:
    """The offsets of files, each with an index of its own kind."""

    def __init__(self, parts: Sequence[Offsets]) -> None:
        self._parts = parts

    def entries(self, shard: int, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._parts[shard].entries(0, numbers)

    def neighbours(self, shard: int, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._parts[shard].neighbours(0, start, stop)

    def problems(self, shard: int) -> dict[int, Problem]:
        return self._parts[shard].problems(0)


class _Packed:
    """Pack the indices when the set is pickled, not before: most sets never are."""

    def __init__(self, found: Sequence[_Found]) -> None:
        self._found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, ([_pack(one) for one in self._found],)


def _pack(found: _Found) -> tuple[Any, ...]:
    if found.offsets is None:
        return tuple(found)
    sizes = np.diff(found.offsets, prepend=0)
    kind = np.min_scalar_type(int(sizes.max(initial=0)))
    return (None, found.records, kind.str, zlib.compress(sizes.astype(kind).tobytes(), 1))


def _unpack(packed: list[tuple[Any, ...]]) -> list[_Found]:
    return [
        _Found(*one)
        if one[0] is not None
        else _Found(None, one[1], offsets=np.cumsum(np.frombuffer(zlib.decompress(one[3]), one[2]).astype(np.int64)))
        for one in packed
    ]


def _from_pickle(root: str, names: tuple[str, ...], found: list[_Found], parse: bool) -> LineSet:
    contents = [one.path if one.offsets is None else zlib.crc32(one.offsets.tobytes()) for one in found]
    with _lock():
        key = (root, names, tuple(contents), parse)
        known = _sets.get(key)
        if known is None:
            known = _sets[key] = _make(root, names, found, parse)
        return known
