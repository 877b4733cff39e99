"""The file of all sample keys of a dataset: mapped into memory, asked for one key or for many.

The file holds, one behind the other: the bytes of all keys; a row for each sample (`ROW`), in the order of the
dataset; a record for each part (`PART`); the names of parts; the slots of the hash table, row + 1 or 0; the rows of
keys that stand in several places; a description of all that as JSON, its length, and `MAGIC`. A file that was cut
short has no `MAGIC` at its end. Numbers are little-endian.

The hash is CRC-32: the same in every process and on every machine, 0.1 µs for a key. Its upper bits say at which slot
the search for a key begins; it ends at the key or at an empty slot. At least half of the slots are empty.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError, ShardError

__all__ = ["MAGIC", "NAMED_TWICE", "PART", "ROW", "KeyTable", "encoded", "read_footer"]

MAGIC = b"ENKEYS01"

ROW = np.dtype(
    [("offset", "<i8"), ("size", "<i8"), ("key", "<i8"), ("part", "<i8"), ("shard", "<u4"), ("number", "<u4")]
)
"""A sample: its bytes in the shard, where its key and its parts begin, its shard, its number there.

One more row stands at the end, so that keys and parts end where those of the next row begin.
"""

PART = np.dtype([("offset", "<i8"), ("size", "<i8"), ("name", "<u4")])
"""A part: where its content lies in the shard, and the number of its name."""

NAMED_TWICE = 1 << 31
"""Stands beside the number of a part's name where another part of the sample has that name too."""

_ROW = struct.Struct("<qqqqII16xqq")  # a row, and where keys and parts of the next row begin
_PART = struct.Struct("<qqI")
_TAIL = struct.Struct("<q8s")
_CHUNK = 1 << 16  # keys that are looked up together
_ERRORS = "surrogateescape"


def encoded(key: str) -> bytes:
    r"""Return the bytes of a key as they stand in tars; bytes that are not UTF-8 stand as surrogates in the text.

    Example:
        >>> encoded("größe"), encoded("\udcff")
        (b'gr\xc3\xb6\xc3\x9fe', b'\xff')
    """
    return key.encode("utf-8", _ERRORS)


def read_footer(fd: int) -> dict[str, Any] | None:
    """Return the description at the end of a key table, or None where the file is not a whole one.

    Example:
        >>> read_footer(os.open(os.devnull, os.O_RDONLY)) is None
        True
    """
    end = os.fstat(fd).st_size - _TAIL.size
    if end < 0:
        return None
    length, magic = _TAIL.unpack(os.pread(fd, _TAIL.size, end))
    if magic != MAGIC or not 0 < length <= end:
        return None
    try:
        footer = json.loads(os.pread(fd, length, end - length))
    except ValueError:
        return None
    return {**cast("dict[str, Any]", footer), "length": length} if isinstance(footer, dict) else None


class KeyTable:
    """Find samples of a dataset by their keys; `open_key_table` makes it.

    Nothing is read but the pages that a lookup touches: the file is mapped, and all processes of a machine share it. It
    never changes, and can be used from several threads and after a fork.

    Args:
        fd: The file, open for reading; it may be closed afterwards.
        shard_names: The shards in the order in which rows number them.
        origin: `(function, arguments)` that open an equal table in another process.

    Example:
        >>> from energon_nodes.storage.key_building import table_of
        >>> table = table_of(["0.tar"], [(0, [b"cat", b"dog"], [0, 1536], [1536, 1024])])
        >>> table.find("dog"), table.find("cow"), table.find_many(["cow", "cat"]).tolist()
        (1, -1, [-1, 0])
        >>> int(table.offset[1]), table.key(1), len(table)
        (1536, 'dog', 2)
    """

    def __init__(self, fd: int, shard_names: Sequence[str], origin: tuple[Any, tuple[Any, ...]] | None = None) -> None:
        footer = read_footer(fd)
        if footer is None:
            raise DatasetError("this is not a whole key table; delete the file, and it is made again")
        self.shard_names = tuple(shard_names)
        self.origin = origin
        self.rows_count: int = footer["rows"]
        self.parts_count: int = footer["parts"]
        self._map = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        at: dict[str, int] = footer["at"]
        self._rows_at, self._parts_at = at["rows"], at["part_rows"]
        self._shift: int = 32 - footer["bits"]
        view = memoryview(self._map)
        self._slots = view[at["slots"] : at["slots"] + 4 * footer["slots"]].cast("I")
        names = self._map[at["names"] : at["names"] + footer["names"]]
        self.part_names = tuple(name.decode("utf-8", _ERRORS) for name in names.split(b"\0")[:-1])
        self._ids = {name: number for number, name in enumerate(self.part_names)}
        self._hints = dict.fromkeys(self.part_names, 0)  # where among the parts of a sample each stood the last time
        self.repeated: NDArray[np.int64] = np.frombuffer(self._map, "<i8", footer["repeated"], at["repeated"])

    def __len__(self) -> int:
        return self.rows_count

    def __repr__(self) -> str:
        return f"KeyTable({self.rows_count} samples, {self.parts_count} parts, {len(self.shard_names)} shards)"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError(f"{self!r} was made by hand and cannot be pickled; make it with open_key_table")
        return self.origin

    @cached_property
    def rows(self) -> NDArray[Any]:
        """All rows and one more, a structured array of type `ROW` and shape `(samples + 1,)` over the mapped file."""
        return np.frombuffer(self._map, ROW, self.rows_count + 1, self._rows_at)

    @cached_property
    def part_rows(self) -> NDArray[Any]:
        """The records of all parts, a structured array of type `PART` over the mapped file."""
        return np.frombuffer(self._map, PART, self.parts_count, self._parts_at)

    @property
    def shard(self) -> NDArray[np.uint32]:
        """The number of each sample's shard, uint32 of shape `(samples,)`."""
        return self.rows["shard"][:-1]

    @property
    def number(self) -> NDArray[np.uint32]:
        """The number of each sample in its shard, uint32 of shape `(samples,)`."""
        return self.rows["number"][:-1]

    @property
    def offset(self) -> NDArray[np.int64]:
        """The first byte of each sample in its shard, int64 of shape `(samples,)`."""
        return self.rows["offset"][:-1]

    @property
    def size(self) -> NDArray[np.int64]:
        """The size of each sample in its shard in bytes, int64 of shape `(samples,)`."""
        return self.rows["size"][:-1]

    def key(self, row: int) -> str:
        """Return the key of a row."""
        fields = _ROW.unpack_from(self._map, self._rows_at + row * 40)
        return self._map[fields[2] : fields[6]].decode("utf-8", _ERRORS)

    def keys(self) -> Iterator[str]:
        """Yield all keys, in the order of the dataset."""
        return map(self.key, range(self.rows_count))

    def parts(self, row: int) -> dict[str, tuple[int, int]]:
        """Return the parts of a row by name, in the order of the shard: offset of the content in the shard, and size.

        Of a name that stands twice in the sample the last place is returned.
        """
        first, stop = (int(place) for place in self.rows["part"][row : row + 2])
        found = self.part_rows[first:stop]
        numbers = (found["name"] & (NAMED_TWICE - 1)).tolist()
        listed = zip(found["offset"].tolist(), found["size"].tolist(), numbers, strict=True)
        return {self.part_names[name]: (offset, size) for offset, size, name in sorted(listed)}

    def find(self, key: str) -> int:
        """Return the row of a key, -1 where there is none; the first of several."""
        data = encoded(key)
        unpack, mapped, slots, base = _ROW.unpack_from, self._map, self._slots, self._rows_at
        at = crc32(data) >> self._shift
        while (found := slots[at]) != 0:
            fields = unpack(mapped, base + found * 40 - 40)
            if mapped[fields[2] : fields[6]] == data:
                return found - 1
            at += 1
        return -1

    def locate(self, key: str, part: str) -> tuple[int, int, int] | None:
        """Return shard number, content offset and size of a part, or None; this is what a lookup by name costs.

        Raises:
            ShardError: Two parts of the sample have this name.
        """
        try:
            data = key.encode()
        except UnicodeEncodeError:
            data = encoded(key)
        unpack, mapped, slots, base = _ROW.unpack_from, self._map, self._slots, self._rows_at
        slot = crc32(data) >> self._shift
        while (found := slots[slot]) != 0:
            _, _, key_at, part_at, shard, _, key_end, part_end = unpack(mapped, base + found * 40 - 40)
            if mapped[key_at:key_end] == data:
                break
            slot += 1
        else:
            return None
        number = self._ids.get(part)
        if number is None:
            return None
        at = part_at + self._hints[part]
        if at < part_end:
            offset, size, name = _PART.unpack_from(mapped, self._parts_at + at * 20)
            if name == number:
                return shard, offset, size
        names: list[int] = self.part_rows["name"][part_at:part_end].tolist()
        if number in names:
            self._hints[part] = at = names.index(number)
            offset, size, _ = _PART.unpack_from(mapped, self._parts_at + (part_at + at) * 20)
            return shard, offset, size
        if number | NAMED_TWICE in names:
            raise ShardError(
                f"the file {key}.{part} stands twice in shard {self.shard_names[shard]!r}: write every name once"
            )
        return None

    def find_many(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows of keys, -1 where there is none: int64 of the length of `keys`."""
        found = np.empty(len(keys), np.int64)
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            found[start : start + len(chunk)] = self._find_chunk(chunk)
        return found

    def _find_chunk(self, keys: Sequence[str]) -> NDArray[np.int64]:
        try:
            data = list(map(str.encode, keys))
        except UnicodeEncodeError:
            data = list(map(encoded, keys))
        count = len(data)
        slots: NDArray[np.uint32] = np.frombuffer(self._slots, "<u4")
        at = np.fromiter(map(crc32, data), np.int64, count) >> self._shift
        lengths = np.fromiter(map(len, data), np.int64, count)
        joined = b"".join(data)
        starts = np.cumsum(lengths) - lengths
        result = np.full(count, -1, np.int64)
        open_ = np.arange(count)
        while len(open_):
            rows = slots[at[open_]].astype(np.int64) - 1
            there = rows >= 0
            open_, rows = open_[there], rows[there]
            same = self._same(rows, joined, starts[open_], lengths[open_])
            result[open_[same]] = rows[same]
            open_ = open_[~same]
            at[open_] += 1
        return result

    def _same(
        self, rows: NDArray[np.int64], joined: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Compare the keys of rows with pieces of `joined`."""
        places = self.rows["key"]
        begins = places[rows]
        same = places[rows + 1] - begins == lengths
        candidates = np.flatnonzero(same)
        for length in np.unique(lengths[candidates]).tolist():
            if not length:
                continue
            chosen = candidates[lengths[candidates] == length]
            # Overlapping views: element i is the text of this length at byte i, so one index takes all of them out.
            ours = np.ndarray(len(self._map) - length + 1, f"S{length}", self._map, strides=(1,))[begins[chosen]]
            theirs = np.ndarray(len(joined) - length + 1, f"S{length}", joined, strides=(1,))[starts[chosen]]
            same[chosen] = ours == theirs
        return same
