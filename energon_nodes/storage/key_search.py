"""Find the samples of a split by their keys: through the key table of the dataset, or by reading the headers."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import metadata, paths
from energon_nodes.storage.headers import NAME, are_regular, has_prefix
from energon_nodes.storage.key_building import KeyTableWriter, table_of
from energon_nodes.storage.key_lookup import KeyTable, encoded
from energon_nodes.storage.key_table import cached_key_table, open_key_table
from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name
from energon_nodes.storage.window import Window

if TYPE_CHECKING:
    from energon_nodes.storage.shard_set import ShardSet

__all__ = ["KeySearch"]

_CACHED_FROM = 10_000  # samples whose headers were read; fewer are read again in less time than a file is worth
_TOGETHER = 4096  # headers
_REPORT_AFTER = 5.0  # seconds
_log = logging.getLogger("energon_nodes.storage")


class KeySearch:
    """Find samples by their keys; `ShardSet.find_many` makes it.

    A prepared dataset has a table of its keys. The keys of shards that were never prepared are read from their headers
    once; where there are 10,000 or more the table stays in the user's cache folder, until the shards change.

    Args:
        shards: The samples.
        excluded: Keys that are not delivered, by shard.

    Example:
        >>> import io, tarfile, tempfile
        >>> from energon_nodes.storage.open_shards import open_shards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as archive:
        ...         for name in ("a.txt", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     KeySearch(open_shards(folder), {}).find_many(["b", "c"]).tolist()
        [1, -1]
    """

    def __init__(self, shards: ShardSet, excluded: dict[str, frozenset[str]]) -> None:
        self._shards = shards
        starts: dict[str, int] = {}
        start = 0
        for name, count in zip(shards.names, shards.counts, strict=True):
            starts.setdefault(name, start)
            start += count
        self.table = _prepared_table(shards) or _scanned_table(shards, list(starts))
        self._starts = np.array([starts.get(name, -1) for name in self.table.shard_names], np.int64)
        # The table knows shards that are not in the split; their samples are not here. Excluded ones are left out too.
        left_out = [(shard, sorted(keys)) for shard, keys in excluded.items()]
        gone = [self._indices(self.table.find_many(keys), starts.get(shard)) for shard, keys in left_out]
        self._excluded = np.concatenate([np.empty(0, np.int64), *gone])

    def find_many(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the indices of samples in the split: see `ShardSet.find_many`."""
        rows = self.table.find_many(keys)
        if len(self.table.repeated):
            self._refuse_ambiguous(keys, rows)
        found = self._indices(rows)
        if len(self._excluded):
            found[np.isin(found, self._excluded)] = -1
        return found

    def _indices(self, rows: NDArray[np.int64], only: int | None = None) -> NDArray[np.int64]:
        """Return the indices of rows in the split, of all shards or of that which starts at `only`."""
        found = np.full(len(rows), -1, np.int64)
        there = np.flatnonzero(rows >= 0)
        starts = self._starts[self.table.shard[rows[there]]]
        inside = starts >= 0 if only is None else starts == only
        there, starts = there[inside], starts[inside]
        found[there] = starts + self.table.number[rows[there]]
        return found if only is None else found[there]

    def _refuse_ambiguous(self, keys: Sequence[str], rows: NDArray[np.int64]) -> None:
        places = np.flatnonzero(np.isin(rows, self.table.repeated))
        if not len(places):
            return
        key = keys[int(places[0])]
        several = [row for row in self.table.repeated.tolist() if self.table.key(row) == key]
        shards = [self.table.shard_names[int(self.table.shard[row])] for row in several]
        raise DatasetError(
            f"the key {key!r} stands in {len(several)} places of {self._shards.root}: "
            f"{', '.join(dict.fromkeys(shards))}; lookup by key needs keys that stand once. Rename the files (such as "
            f"by a folder for each shard), or leave a shard out; {len(places)} of the keys asked for are ambiguous"
        )


def _prepared_table(shards: ShardSet) -> KeyTable | None:
    """Return the key table of a prepared dataset if it fits the shards."""
    if not shards.root or not metadata.is_prepared(shards.root):
        return None
    if not paths.exists(paths.join(shards.root, f"{metadata.META_FOLDER}/index.sqlite")):
        return None
    counts = metadata.read_info(shards.root).shard_counts
    if any(counts.get(name) != count for name, count in zip(shards.names, shards.counts, strict=True)):
        return None
    return open_key_table(shards.root)


def _scanned_table(shards: ShardSet, names: list[str]) -> KeyTable:
    """Return a table of the keys that the headers say."""
    if shards.count < _CACHED_FROM:
        return table_of(names, _keys_of(shards, names))
    state = hashlib.blake2b(digest_size=12)
    for name in names:
        state.update(f"{name}\0{paths.identity(paths.join(shards.root, name))}\0".encode("utf-8", "surrogateescape"))
    owner = state.hexdigest()

    def make(path: str) -> None:
        with open(path, "wb+") as file, closing(KeyTableWriter(file)) as writer:
            for arguments in _keys_of(shards, names):
                writer.add(*arguments)
            writer.finish(owner)

    return cached_key_table(f"{shards.root}/{shards.fingerprint}", owner, tuple(names), None, make)


def _keys_of(shards: ShardSet, names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield what `KeyTableWriter.add` takes, shard by shard."""
    started = reported = time.monotonic()
    for place, name in enumerate(names):
        number = shards.names.index(name)
        count = shards.counts[number]
        path = paths.join(shards.root, name)
        for first in range(0, count, _TOGETHER):
            begins, ends = shards.offsets.neighbours(number, first, min(count, first + _TOGETHER))
            problems = shards.offsets.problems(number)
            keys = _first_keys(path, begins)
            whole = [at for at, key in enumerate(keys) if key is not None and first + at not in problems]
            found = [encoded(key) for key in (keys[at] for at in whole) if key is not None]
            chosen = np.array(whole, np.int64)
            yield place, found, begins[chosen], (ends - begins)[chosen], (), (), (), (), (), first + chosen
        if time.monotonic() - reported > _REPORT_AFTER:
            reported = time.monotonic()
            done = f"{place + 1} of {len(names)} shards in {reported - started:.0f} s"
            _log.warning("reading the keys of %s: %s; a prepared dataset has a table", shards.root, done)


def _first_keys(path: str, offsets: NDArray[np.int64]) -> list[str | None]:
    """Return the key of the sample that begins at each offset, None where none can be read."""
    if not len(offsets):
        return []
    buffer = paths.gather([paths.Ranges(path, offsets.tolist(), (offsets + BLOCK).tolist())])
    blocks = np.frombuffer(buffer, np.uint8).reshape(-1, BLOCK)
    plain = (are_regular(blocks) & ~has_prefix(blocks)).tolist()
    names: list[bytes] = np.frombuffer(buffer, NAME)["name"].tolist()
    keys: list[str | None] = []
    window: Window | None = None
    for name, usual, offset in zip(names, plain, offsets.tolist(), strict=True):
        pair = split_name(name.partition(b"\0")[0].decode("utf-8", "surrogateescape")) if usual else None
        if pair is None:
            window = window or Window(path)
            keys.append(_exact_key(window, offset))
        else:
            keys.append(pair[0])
    return keys


def _exact_key(window: Window, offset: int) -> str | None:
    try:
        while (member := next_member(window.read, offset)).kind != "end":
            pair = split_name(member.name) if member.kind != "other" else None
            if pair is not None:
                return pair[0]
            offset = member.stop
    except TarError:
        pass
    return None
