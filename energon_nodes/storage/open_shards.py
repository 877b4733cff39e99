"""Open the shards of a dataset: prepared, never prepared, or indexed in a cache folder."""

from __future__ import annotations

import hashlib
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import index_cache, metadata, paths
from energon_nodes.storage.discovery import PathLike, find_shards
from energon_nodes.storage.fork_lock import ForkLock
from energon_nodes.storage.index import IndexFiles, MemoryIndex, index_path
from energon_nodes.storage.scan import ShardIndex, scan_shard
from energon_nodes.storage.shard_set import ShardSet

__all__ = ["open_shards"]

_THREADS = 16
_REPORT_AFTER = 5.0  # seconds of scanning
_log = logging.getLogger("energon_nodes.storage")
_lock = ForkLock()
_sets: WeakValueDictionary[tuple[Any, ...], ShardSet] = WeakValueDictionary()
_scanned: WeakValueDictionary[tuple[Any, ...], ShardIndex] = WeakValueDictionary()


def open_shards(
    path: PathLike | Iterable[PathLike],
    *,
    split: str | None = None,
    split_config: str | None = None,
    cache: PathLike | None = None,
) -> ShardSet:
    """Open a dataset: a prepared folder, or shards that were never prepared.

    Opening the same data again in a process gives the same object, so that clones and streams share it.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as archive:
        ...         for name in ("a.txt", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     shards = open_shards(folder)
        ...     shards.count, [sample["__key__"] for sample in shards.read([1, 0])]
        (2, ['b', 'a'])

    Args:
        path: A folder, a tar, a brace or glob pattern, a URL of these, or a list of them.
        split: The split part of a prepared dataset, by default "train"; for other data leave it out.
        split_config: The split file in `.nv-meta`, by default `split.yaml` or `split.json`.
        cache: A folder that keeps the index of shards that were never prepared.

    Returns:
        The samples as one numbered range.

    Raises:
        DatasetError: There is nothing to read, or the metadata are wrong.
        OSError: A store cannot be reached.
    """
    if isinstance(path, str | os.PathLike):
        root = paths.folder(path)
        if root and metadata.is_prepared(root):
            return _open_prepared(root, "train" if split is None else split, split_config)
    if split is not None or split_config is not None:
        raise DatasetError(
            f"{path} has no splits, because it was never prepared: leave out split={split!r}, or prepare it first"
        )
    return _open_scanned(path, None if cache is None else os.fspath(cache))


def _open_prepared(root: str, split: str, config: str | None) -> ShardSet:
    split_file = metadata.split_file(root, config)
    try:
        versions = (paths.identity(metadata.info_file(root)), paths.identity(split_file))
    except FileNotFoundError:
        versions = ()
    key = (root, split, config, versions)
    with _lock():
        known = _sets.get(key)
        if known is not None:
            return known
        info = metadata.read_info(root)
        part = metadata.read_split(root, info, split, config)
        counts = [info.shard_counts[name] for name in part.shards]
        index = IndexFiles([paths.join(root, index_path(name)) for name in part.shards], counts)
        shards = ShardSet(root, part.shards, counts, index, part.excluded, (_open_prepared, (root, split, config)))
        _sets[key] = shards
        return shards


def _open_scanned(path: PathLike | Iterable[PathLike], cache: str | None) -> ShardSet:
    found = find_shards(path)
    files = [paths.join(found.root, name) for name in found.names]
    with _lock():
        versions = _each(files, paths.identity)
        key = (found, cache, tuple(versions))
        known = _sets.get(key)
        if known is not None:
            return known
        if cache is not None:
            shards = _open_cached(found.root, found.names, files, versions, cache)
        else:
            shards = _in_memory(found.root, found.names, _scan_all(files, versions))
        _sets[key] = shards
    _warn_of_empty(shards)
    return shards


def _in_memory(root: str, names: Sequence[str], indices: Sequence[ShardIndex]) -> ShardSet:
    shards = ShardSet(root, names, [len(index) for index in indices], MemoryIndex(indices))
    shards.origin = (_from_pickle, (root, tuple(names), _Packed(indices)))
    return shards


class _Packed:
    """Pack the indices when the set is pickled, not before: most sets never are."""

    def __init__(self, indices: Sequence[ShardIndex]) -> None:
        self._indices = indices

    def __reduce__(self) -> tuple[Any, ...]:
        blocks = np.concatenate([np.diff(index.offsets, prepend=0) >> 9 for index in self._indices])
        kind = np.min_scalar_type(int(blocks.max(initial=0)))
        problems = [index.problems for index in self._indices]
        sizes = [len(index) for index in self._indices]
        tails = [int(index.offsets[-1]) for index in self._indices]
        return _unpack, (zlib.compress(blocks.astype(kind).tobytes(), 1), kind.str, sizes, tails, problems)


def _unpack(data: bytes, kind: str, sizes: list[int], tails: list[int], problems: list[Any]) -> list[ShardIndex]:
    blocks = np.frombuffer(zlib.decompress(data), kind).astype(np.int64)
    indices: list[ShardIndex] = []
    at = 0
    for size, tail, problem in zip(sizes, tails, problems, strict=True):
        offsets = np.cumsum(blocks[at : at + size + 1]) << 9
        offsets[-1] = tail  # a damaged shard may end anywhere
        indices.append(ShardIndex(offsets, problem))
        at += size + 1
    return indices


def _from_pickle(root: str, names: tuple[str, ...], indices: list[ShardIndex]) -> ShardSet:
    key = (root, names, tuple(hashlib.blake2b(index.offsets.tobytes(), digest_size=16).digest() for index in indices))
    with _lock():
        known = _sets.get(key)
        if known is None:
            known = _sets[key] = _in_memory(root, names, indices)
        return known


def _open_cached(
    root: str, names: Sequence[str], files: list[str], versions: Sequence[tuple[int, int]], cache: str
) -> ShardSet:
    os.makedirs(cache, exist_ok=True)
    entries = [index_cache.entry_path(cache, file, version) for file, version in zip(files, versions, strict=True)]
    missing = [number for number, entry in enumerate(entries) if not os.path.exists(entry)]
    for number, index in zip(
        missing,
        _scan_all([files[number] for number in missing], [versions[number] for number in missing]),
        strict=True,
    ):
        index_cache.write_entry(entries[number], index)
    return _from_cache(root, tuple(names), tuple(entries))


def _from_cache(root: str, names: tuple[str, ...], entries: tuple[str, ...]) -> ShardSet:
    with _lock():
        key = (root, names, entries)
        known = _sets.get(key)
        if known is not None:
            return known
        read = _each(list(entries), index_cache.read_entry)
        counts = [count for count, _ in read]
        problems = {number: found for number, (_, found) in enumerate(read) if found}
        index = IndexFiles(entries, counts, problems, trailer=True)
        known = _sets[key] = ShardSet(root, names, counts, index, None, (_from_cache, key))
        return known


def _scan_all(files: Sequence[str], versions: Sequence[tuple[int, int]]) -> list[ShardIndex]:
    """Return the index of each shard, those of shards that are known in this process without reading them."""
    started = reported = time.monotonic()
    indices: list[ShardIndex] = []
    with ThreadPoolExecutor(min(_THREADS, len(files) or 1), "energon_nodes-scan") as pool:
        for number, index in enumerate(pool.map(_scan_one, files, versions), 1):
            indices.append(index)
            now = time.monotonic()
            if now - reported > _REPORT_AFTER and number < len(files):
                reported = now
                _log.warning("indexed %d of %d shards in %.0f s", number, len(files), now - started)
    if reported > started:
        _log.warning("indexed %d shards; cache= keeps the index, and a prepared dataset needs none", len(files))
    return indices


def _scan_one(file: str, version: tuple[int, int]) -> ShardIndex:
    key = (file, *version)
    index = _scanned.get(key)
    if index is None:
        try:
            index = scan_shard(file)
        except FileNotFoundError:
            raise DatasetError(f"the shard {file} does not exist; correct the path or pattern") from None
        _scanned[key] = index
    return index


def _each(items: list[str], call: Callable[[str], Any]) -> list[Any]:
    """Call a function for every file, remote ones side by side: each call waits for an answer."""
    try:
        if len(items) > 1 and paths.is_url(items[0]):
            with ThreadPoolExecutor(min(_THREADS, len(items)), "energon_nodes-look") as pool:
                return list(pool.map(call, items))
        return [call(item) for item in items]
    except FileNotFoundError as error:
        raise DatasetError(f"a shard does not exist: {error}; correct the path or pattern") from None


def _warn_of_empty(shards: ShardSet) -> None:
    empty = [name for name, count in zip(shards.names, shards.counts, strict=True) if count == 0]
    if empty:
        shown = ", ".join(empty[:3]) + (f" and {len(empty) - 3} more" if len(empty) > 3 else "")
        _log.warning("%d of %d shards of %s have no samples: %s", len(empty), len(shards.names), shards.root, shown)
