"""Look up many keys at a time in a key table: a fraction of the work for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.key_lookup import PART, RECORD, UNIT, KeyTable, encoded

__all__ = ["find_many", "locate_many"]

_CHUNK = 1 << 16  # keys
_SHARD, _KEY, _PARTS = 1, 2, 3  # words of a record


def find_many(table: KeyTable, keys: Sequence[str]) -> NDArray[np.int64]:
    """Find the rows of keys.

    Example:
        >>> from energon_nodes.storage.key_building import table_of
        >>> find_many(table_of(["0.tar"], [(0, [b"cat", b"dog"], [0, 1536], [1536, 1024])]), ["dog", "cow"]).tolist()
        [1, -1]

    Args:
        table: The table.
        keys: The keys.

    Returns:
        The row of each, int64 of the length of `keys`: -1 where there is none, the first of several.
    """
    places = _records(table, keys)
    rows = np.full(len(places), -1, np.int64)
    there = np.flatnonzero(places >= 0)
    rows[there] = _words(table)[places[there] // 4]
    return rows


def locate_many(table: KeyTable, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Find the content of many parts.

    Example:
        >>> from energon_nodes.storage.key_building import table_of
        >>> table = table_of(["0.tar"], [(0, [b"cat"], [0], [1536], [1], ["jpg"], [0], [512], [900])])
        >>> locate_many(table, [("cat", "jpg"), ("cat", "txt")]).tolist()
        [[0, 512, 900], [-1, -1, -1]]

    Args:
        table: The table.
        pairs: Key and part of each.

    Returns:
        Shard number, content offset and size, int64 of shape `(len(pairs), 3)`; -1 where there is no such part.

    Raises:
        ShardError: Two parts of a sample have the name of one.
    """
    places = _records(table, [key for key, _ in pairs])
    ids = np.fromiter((table.part_ids.get(part, -1) for _, part in pairs), np.int64, len(pairs))
    found = np.full((len(pairs), 3), -1, np.int64)
    there = np.flatnonzero((places >= 0) & (ids >= 0))
    if not len(there):
        return found
    words, at = _words(table), places[there] // 4
    hints = np.fromiter(table.hints.values(), np.int64, len(table.hints))[ids[there]]
    # The guess may lie behind the parts of a sample with fewer; it stays in the file, and what is there does not count.
    begins = places[there] + RECORD.itemsize + words[at + _KEY] + hints
    parts = _each(table.mapped, np.dtype(f"V{PART.itemsize}"))[begins].view(PART)
    right = (parts["name"] == ids[there]) & (hints < words[at + _PARTS].astype(np.int64) * PART.itemsize)
    chosen = there[right]
    found[chosen, 0] = words[at + _SHARD][right]
    found[chosen, 1] = parts["offset"][right]
    found[chosen, 2] = parts["size"][right]
    for number in cast("list[int]", there[~right].tolist()):
        place = table.locate(*pairs[number])
        if place is not None:
            found[number] = place
    return found


def _records(table: KeyTable, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return where the records of keys begin, -1 where there is none."""
    found = np.empty(len(keys), np.int64)
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        found[start : start + len(chunk)] = _records_of_chunk(table, chunk)
    return found


def _records_of_chunk(table: KeyTable, keys: Sequence[str]) -> NDArray[np.int64]:
    try:
        data = list(map(str.encode, keys))
    except UnicodeEncodeError:
        data = list(map(encoded, keys))
    count = len(data)
    slots: NDArray[np.uint32] = np.frombuffer(table.slots, "<u4")
    at = np.fromiter(map(crc32, data), np.int64, count) >> table.shift
    lengths = np.fromiter(map(len, data), np.int64, count)
    joined = b"".join(data)
    starts = np.cumsum(lengths) - lengths
    result = np.full(count, -1, np.int64)
    searching = np.arange(count)
    while len(searching):
        places = slots[at[searching]].astype(np.int64) * UNIT
        there = places > 0
        searching, places = searching[there], places[there]
        same = _same(table, places, joined, starts[searching], lengths[searching])
        result[searching[same]] = places[same]
        searching = searching[~same]
        at[searching] += 1
    return result


def _same(
    table: KeyTable, places: NDArray[np.int64], joined: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Compare the keys of records with pieces of `joined`."""
    same = _words(table)[places // 4 + _KEY] == lengths
    candidates = np.flatnonzero(same)
    for length in np.unique(lengths[candidates]).tolist():
        if not length:
            continue
        chosen = candidates[lengths[candidates] == length]
        kind = np.dtype(f"S{length}")
        ours = _each(table.mapped, kind)[places[chosen] + RECORD.itemsize]
        same[chosen] = ours == _each(joined, kind)[starts[chosen]]
    return same


def _words(table: KeyTable) -> NDArray[np.uint32]:
    """Return the file as words of 32 bits: a record is four of them, then bytes."""
    return np.frombuffer(table.mapped, "<u4", len(table.mapped) // 4)


def _each(data: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array whose element `i` is the value at byte `i`; one index takes many of these out."""
    return np.ndarray(len(data) - kind.itemsize + 1, kind, data, strides=(1,))
