"""The file of all sample keys of a dataset, mapped into memory.

The file holds, one behind the other: `MAGIC`; a record for each sample in the order of the dataset (`RECORD`, the
bytes of its key, a `PART` for each part, filled up to a multiple of 8 bytes); a row for each sample (`ROW`); the names
of parts, each closed by a zero byte; the slots of the hash table, each the place of a record in units of 8 bytes, or
0; the rows of keys that stand in several places; a description of all that as JSON, its length, and `MAGIC` again. A
file that was cut short has no `MAGIC` at its end. Numbers are little-endian.

The hash is CRC-32: the same in every process and on every machine, 0.1 µs for a key. Its upper bits say at which slot
the search for a key begins; it ends at the key or at an empty slot. At least half of the slots are empty. A search
touches a slot and a record: memory is what it waits for, so all it needs lies together. The rows hold again what
lookups of many keys take as columns.
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

__all__ = ["MAGIC", "NAMED_TWICE", "PART", "RECORD", "ROW", "UNIT", "KeyTable", "encoded", "read_footer"]

MAGIC = b"ENKEYS01"

RECORD = np.dtype([("row", "<u4"), ("shard", "<u4"), ("key", "<u4"), ("parts", "<u4")])
"""How a record begins: the row, the number of the shard, the bytes of the key, the number of parts."""

PART = np.dtype([("offset", "<i8"), ("size", "<i8"), ("name", "<u4")])
"""A part: where its content lies in the shard, and the number of its name."""

ROW = np.dtype([("offset", "<i8"), ("size", "<i8"), ("record", "<i8"), ("shard", "<u4"), ("number", "<u4")])
"""A sample: its bytes in the shard, where its record begins, its shard, its number there."""

NAMED_TWICE = 1 << 31
"""Stands beside the number of a part's name where another part of the sample has that name too."""

UNIT = 8
"""Records begin at multiples of so many bytes: slots of 32 bits reach 32 GB of them, some 400 million samples."""

_RECORD = struct.Struct("<IIII")
_PART = struct.Struct("<qqI")
_TAIL = struct.Struct("<q8s")
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
        self.mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        self.shift: int = 32 - footer["bits"]
        at: dict[str, int] = footer["at"]
        self._rows_at = at["rows"]
        view = memoryview(self.mapped)
        self.slots = view[at["slots"] : at["slots"] + 4 * footer["slots"]].cast("I")
        names = self.mapped[at["names"] : at["names"] + footer["names"]]
        self.part_names = tuple(name.decode("utf-8", _ERRORS) for name in names.split(b"\0")[:-1])
        self.part_ids = {name: number for number, name in enumerate(self.part_names)}
        # Where among the parts of a sample each stood the last time, in bytes behind the key; samples are often alike.
        self.hints = dict.fromkeys(self.part_names, 0)
        self.repeated: NDArray[np.int64] = np.frombuffer(self.mapped, "<i8", footer["repeated"], at["repeated"])

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
        """All rows, a structured array of type `ROW` over the mapped file."""
        return np.frombuffer(self.mapped, ROW, self.rows_count, self._rows_at)

    @property
    def shard(self) -> NDArray[np.uint32]:
        """The number of each sample's shard, uint32 of shape `(samples,)`."""
        return self.rows["shard"]

    @property
    def number(self) -> NDArray[np.uint32]:
        """The number of each sample in its shard, uint32 of shape `(samples,)`."""
        return self.rows["number"]

    @property
    def offset(self) -> NDArray[np.int64]:
        """The first byte of each sample in its shard, int64 of shape `(samples,)`."""
        return self.rows["offset"]

    @property
    def size(self) -> NDArray[np.int64]:
        """The size of each sample in its shard in bytes, int64 of shape `(samples,)`."""
        return self.rows["size"]

    def key(self, row: int) -> str:
        """Return the key of a row."""
        begin = int(self.rows["record"][row])
        length = _RECORD.unpack_from(self.mapped, begin)[2]
        begin += _RECORD.size
        return self.mapped[begin : begin + length].decode("utf-8", _ERRORS)

    def keys(self) -> Iterator[str]:
        """Yield all keys, in the order of the dataset."""
        return map(self.key, range(self.rows_count))

    def parts(self, row: int) -> dict[str, tuple[int, int]]:
        """Return the parts of a row by name, in the order of the shard: offset of the content in the shard, and size.

        Of a name that stands twice in the sample the last place is returned.
        """
        begin = int(self.rows["record"][row])
        _, _, length, count = _RECORD.unpack_from(self.mapped, begin)
        found = self._records_of_parts(begin + _RECORD.size + length, count)
        return {self.part_names[name & ~NAMED_TWICE]: (offset, size) for offset, size, name in sorted(found)}

    def find(self, key: str) -> int:
        """Return the row of a key, -1 where there is none; the first of several."""
        data = encoded(key)
        mapped, slots = self.mapped, self.slots
        slot = crc32(data) >> self.shift
        while found := slots[slot]:
            begin = found * UNIT
            row, _, length, _ = _RECORD.unpack_from(mapped, begin)
            begin += 16
            if mapped[begin : begin + length] == data:
                return row
            slot += 1
        return -1

    def find_many(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows of keys, -1 where there is none: int64 of the length of `keys`."""
        from energon_nodes.storage.key_batches import find_many

        return find_many(self, keys)

    def locate(self, key: str, part: str) -> tuple[int, int, int] | None:
        """Return shard number, content offset and size of a part, or None; this is what a lookup by name costs.

        Raises:
            ShardError: Two parts of the sample have this name.
        """
        try:
            data = key.encode()
        except UnicodeEncodeError:
            data = encoded(key)
        mapped, slots = self.mapped, self.slots
        slot = crc32(data) >> self.shift
        while found := slots[slot]:
            begin = found * 8
            _, shard, length, count = _RECORD.unpack_from(mapped, begin)
            begin += 16
            if mapped[begin : begin + length] == data:
                break
            slot += 1
        else:
            return None
        number = self.part_ids.get(part)
        if number is None:
            return None
        begin += length
        hint = self.hints[part]
        if hint < count * 20:
            offset, size, name = _PART.unpack_from(mapped, begin + hint)
            if name == number:
                return shard, offset, size
        for place, (offset, size, name) in enumerate(self._records_of_parts(begin, count)):
            if name == number:
                self.hints[part] = place * 20
                return shard, offset, size
            if name == number | NAMED_TWICE:
                raise ShardError(
                    f"the file {key}.{part} stands twice in shard {self.shard_names[shard]!r}: write every name once"
                )
        return None

    def _records_of_parts(self, begin: int, count: int) -> Iterator[tuple[int, int, int]]:
        return _PART.iter_unpack(self.mapped[begin : begin + count * _PART.size])
