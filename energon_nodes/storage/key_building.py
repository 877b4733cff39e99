"""Make the file of all sample keys of a dataset from arrays, shard by shard."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage.key_lookup import MAGIC, NAMED_TWICE, PART, RECORD, ROW, UNIT, KeyTable, read_footer
from energon_nodes.storage.key_slots import slots_of

__all__ = ["KeyTableWriter", "table_of", "tie"]

_LEAST_BITS = 8
_COPY = 1 << 20

Integers = NDArray[np.int64] | Sequence[int]


class KeyTableWriter:
    """Write a key table: `add` every shard in order, then `finish`.

    What `add` gets goes to files; an entry for each name of a part stays in memory. `finish` takes about 20 MB for up
    to 16 million keys, and 2 bytes for each beyond.

    Args:
        file: Where it is written, open for reading and writing, empty.
        folder: Where intermediate files lie, None for the system's folder for temporary files.

    Example:
        >>> with tempfile.TemporaryFile() as file:
        ...     writer = KeyTableWriter(file)
        ...     writer.add(0, [b"cat"], [0], [1536], [1], ["jpg"], [0], [512], [900])
        ...     writer.finish(""), KeyTable(file.fileno(), ["0.tar"]).locate("cat", "jpg")
        ([], (0, 512, 900))
    """

    def __init__(self, file: BinaryIO, folder: str | None = None) -> None:
        self._file = file
        self._open = ExitStack()
        file.write(MAGIC)
        self._rows = self._open.enter_context(_unnamed(folder))
        self._hashes = self._open.enter_context(_unnamed(folder))
        self._ids = _Numbered()
        self._count = self._parts = 0
        self._numbers: dict[int, int] = {}

    def add(
        self,
        shard: int,
        keys: Sequence[bytes],
        offsets: Integers,
        sizes: Integers,
        part_counts: Integers = (),
        part_names: Sequence[str] = (),
        part_name_numbers: Integers = (),
        part_offsets: Integers = (),
        part_sizes: Integers = (),
        numbers: Integers | None = None,
    ) -> None:
        """Add samples of a shard, behind those that were added before.

        Args:
            shard: The number of the shard.
            keys: The key of each sample as UTF-8, see `encoded`.
            offsets: The first byte of each sample.
            sizes: The bytes of each sample.
            part_counts: How many parts each sample has; empty for no parts at all.
            part_names: Names of parts.
            part_name_numbers: Which of these names each part has, sample by sample.
            part_offsets: Where the content of each lies in the shard.
            part_sizes: The bytes of its content.
            numbers: The number of each sample in the shard; None counts on from where the last call ended.
        """
        count = len(keys)
        lengths = np.fromiter(map(len, keys), np.int64, count)
        counts = np.asarray(part_counts if len(part_counts) else np.zeros(count), np.int64)
        parts = np.empty(len(part_offsets), PART)
        if int(counts.sum()) != len(parts):
            raise ValueError(f"the samples have {int(counts.sum())} parts together, got {len(parts)}")
        parts["offset"], parts["size"] = part_offsets, part_sizes
        if len(parts):
            ids = np.fromiter(map(self._ids.__getitem__, part_names), np.uint32, len(part_names))
            parts["name"] = ids[np.asarray(part_name_numbers)]
            parts["name"][_named_twice(counts, parts["name"])] |= NAMED_TWICE
        joined = b"".join(keys)
        heads = np.empty(count, RECORD)
        heads["row"], heads["shard"] = np.arange(self._count, self._count + count), shard
        heads["key"], heads["parts"] = lengths, counts
        places, data = _records(heads, joined, parts)
        rows = np.empty(count, ROW)
        rows["offset"], rows["size"], rows["shard"] = offsets, sizes, shard
        rows["record"] = places + self._file.tell()
        first = self._numbers.get(shard, 0)
        rows["number"] = np.arange(first, first + count) if numbers is None else numbers
        self._hashes.write(np.fromiter(map(crc32, keys), np.uint32, count).tobytes())
        self._file.write(data)
        self._rows.write(rows.tobytes())
        self._numbers[shard] = first + count
        self._count += count
        self._parts += len(parts)

    def close(self) -> None:
        """Remove the intermediate files of a table that is not to be finished."""
        self._open.close()

    def finish(self, belongs_to: str, shown: int = 10) -> list[tuple[int, int]]:
        """Write the rest.

        Args:
            belongs_to: What the table was made from, text that tells whether it is up to date.
            shown: How many repeated keys are returned.

        Returns:
            The rows of keys that stand in several places, the first two places of each: none in a prepared dataset.
        """
        if self._file.tell() >= UNIT << 32:
            raise DatasetError(f"{self._count} samples are more than a key table can hold: divide the dataset")
        self._file.flush()
        with self._open:
            return self._finish(belongs_to, shown)

    def _finish(self, belongs_to: str, shown: int) -> list[tuple[int, int]]:
        at = {"rows": self._append(self._rows)}
        at["names"] = self._aligned()
        names = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in self._ids)
        self._file.write(names)
        at["slots"] = self._aligned()
        self._hashes.flush()
        hashes = np.memmap(self._hashes, np.uint32, "r") if self._count else np.empty(0, np.uint32)
        bits = max(_LEAST_BITS, min(32, (2 * self._count - 1).bit_length()))
        slots, suspects = 0, list[NDArray[np.int64]]()
        self._file.flush()
        with closing(mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)) as mapped:
            places = np.frombuffer(mapped, ROW, self._count, at["rows"])["record"]
            for piece in slots_of(hashes, bits, suspects):
                slots += len(piece)
                full = piece > 0
                piece[full] = places[piece[full] - 1] // UNIT
                self._file.write(piece.astype("<u4").tobytes())
            del places  # it would keep the file mapped
        at["repeated"] = self._aligned()
        self._file.flush()
        groups = [group for rows in suspects for group in self._alike(rows, at["rows"])]
        repeated = np.array(sorted(row for group in groups for row in group), "<i8")
        self._file.write(repeated.tobytes())
        footer = {"rows": self._count, "parts": self._parts, "names": len(names), "bits": bits, "slots": slots}
        self._file.write(_footer({**footer, "repeated": len(repeated), "at": at, "belongs_to": belongs_to}))
        self._file.flush()
        return [(group[0], group[1]) for group in sorted(groups)[:shown]]

    def _append(self, intermediate: BinaryIO) -> int:
        place = self._aligned()
        intermediate.seek(0)
        shutil.copyfileobj(intermediate, self._file, _COPY)
        return place

    def _aligned(self) -> int:
        """Fill up to a multiple of 64 bytes and return where the file ends."""
        self._file.write(bytes(-self._file.tell() % 64))
        return self._file.tell()

    def _alike(self, rows: NDArray[np.int64], base: int) -> list[list[int]]:
        """Return the groups of rows with the same key among rows with the same hash."""
        groups: dict[bytes, list[int]] = {}
        fd = self._file.fileno()
        for row in rows.tolist():
            place = int(np.frombuffer(os.pread(fd, ROW.itemsize, base + row * ROW.itemsize), ROW)["record"][0])
            length = int(np.frombuffer(os.pread(fd, RECORD.itemsize, place), RECORD)["key"][0])
            groups.setdefault(os.pread(fd, length, place + RECORD.itemsize), []).append(row)
        return [group for group in groups.values() if len(group) > 1]


def _records(heads: NDArray[Any], keys: bytes, parts: NDArray[Any]) -> tuple[NDArray[np.int64], bytes]:
    """Return where each record begins, and all of them one behind the other."""
    lengths, counts = heads["key"].astype(np.int64), heads["parts"].astype(np.int64)
    sizes = RECORD.itemsize + lengths + counts * PART.itemsize
    sizes += -sizes % UNIT
    places = np.cumsum(sizes) - sizes
    data = np.zeros(int(sizes.sum()) + PART.itemsize, np.uint8)  # a little more, so that views of every kind fit
    _each(data, RECORD)[places] = heads
    behind = places + RECORD.itemsize
    ends = np.cumsum(lengths)
    data[np.repeat(behind - (ends - lengths), lengths) + np.arange(len(keys))] = np.frombuffer(keys, np.uint8)
    ranks = np.arange(len(parts)) - np.repeat(np.cumsum(counts) - counts, counts)
    _each(data, PART)[np.repeat(behind + lengths, counts) + ranks * PART.itemsize] = parts
    return places, data[: -PART.itemsize].tobytes()


def _each(data: NDArray[np.uint8], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array whose element `i` is the value at byte `i`."""
    return np.ndarray(len(data) - kind.itemsize + 1, kind, data, strides=(1,))


def tie(file: BinaryIO, belongs_to: str) -> None:
    """Change what a key table is tied to.

    Example:
        >>> with tempfile.TemporaryFile() as file:
        ...     KeyTableWriter(file).finish("before"), tie(file, "now"), read_footer(file.fileno())["belongs_to"]
        ([], None, 'now')

    Args:
        file: The table, open for reading and writing.
        belongs_to: The text that tells whether it is up to date.
    """
    old = read_footer(file.fileno())
    if old is None:
        raise ValueError("the file is no whole key table")
    file.seek(-16 - old["length"], os.SEEK_END)
    file.write(_footer({**{name: value for name, value in old.items() if name != "length"}, "belongs_to": belongs_to}))
    file.truncate()
    file.flush()


def _footer(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return text + len(text).to_bytes(8, "little") + MAGIC


def _unnamed(folder: str | None) -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


class _Numbered(dict[str, int]):
    """Number names as they come."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


def _named_twice(counts: NDArray[np.int64], names: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Tell which parts have the name of another part of their sample."""
    marks = (np.repeat(np.arange(len(counts)), counts) << 32) | names
    order = np.argsort(marks, kind="stable")
    same = marks[order[1:]] == marks[order[:-1]]
    twice = np.zeros(len(marks), np.bool_)
    twice[order[1:][same]] = twice[order[:-1][same]] = True
    return twice


def table_of(shard_names: Sequence[str], shards: Iterable[tuple[Any, ...]], belongs_to: str = "") -> KeyTable:
    """Make a key table that no other process sees, in a file without a name.

    Example:
        >>> table_of(["0.tar"], [(0, [b"cat"], [0], [1536])]).find("cat")
        0

    Args:
        shard_names: The shards.
        shards: The arguments of `KeyTableWriter.add`, one tuple for each call.
        belongs_to: What the table was made from.

    Returns:
        The table.
    """
    with tempfile.TemporaryFile() as file, closing(KeyTableWriter(file)) as writer:
        for arguments in shards:
            writer.add(*arguments)
        writer.finish(belongs_to)
        return KeyTable(file.fileno(), shard_names)
