"""Find where the records of a JSON Lines file begin: `.jsonl.idx` files, made in bounded memory and read back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.tar import compression_of
from energon_nodes.storage.writing import replacing

__all__ = ["BOM", "Odd", "RecordScan", "count_records", "line_index_path", "scan_records", "write_line_index"]

BOM = b"\xef\xbb\xbf"
"""The mark that some editors put in front of UTF-8 text; it belongs to no record."""

_BLOCK = 4 << 20
_ODD = 100
_REPORT_AFTER = 5.0  # seconds
_log = logging.getLogger("energon_nodes.storage")

_BLANK = np.zeros(256, np.bool_)
_BLANK[list(b" \t\n\r\x0b\x0c")] = True  # what bytes.strip() takes away
_NONE = np.zeros(0, np.int64)


class Odd(NamedTuple):
    """Say where a record lies that does not look like a JSON object: it begins or ends with no brace.

    Example:
        >>> Odd(0, 3, 17).line
        3

    Args:
        record: Its number, from 0.
        line: The number of its line, from 1.
        offset: The first byte of that line.
    """

    record: int
    line: int
    offset: int


class RecordScan:
    r"""Find the records in the bytes of a file, which are given block by block.

    A record is a line that is not blank; lines end with a line feed alone. No line is kept: one of any length takes no
    memory.

    Example:
        >>> scan = RecordScan()
        >>> [scan.feed(block).tolist() for block in (b'{"a": 1}\n\n{"b"', b": 2}\n")], scan.finish().tolist()
        ([[0], [10]], [19])
    """

    def __init__(self) -> None:
        self.records = 0
        """How many records have been found."""
        self.odd: list[Odd] = []
        """The first hundred records that do not look like objects."""
        self.odd_count = 0
        """How many there are in all."""
        self.bytes = 0
        """How many bytes have been looked through."""
        self._lines = 0
        self._begin = 0  # of the line that the next block goes on with
        self._first = self._last = -1  # the first and last byte of it that are not blank

    def feed(self, data: bytes) -> NDArray[np.int64]:
        """Take the next bytes of the file.

        Args:
            data: The bytes.

        Returns:
            The index entries of the records whose lines end in them, int64 of shape `(records,)`: the offset of the
            line, 0 for the first record of the file.
        """
        if not self.bytes and data.startswith(BOM):
            data = b"   " + data[3:]
        codes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(codes == 10)
        if not len(ends):
            self._go_on(data)
            self.bytes += len(data)
            return _NONE
        self._go_on(data[: int(ends[0])])
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        filled = ~_BLANK[codes[starts]]
        for line in np.flatnonzero(~filled & (ends > starts)).tolist():
            filled[line] = not data[int(starts[line]) : int(ends[line])].isspace()
        filled[0] = self._first >= 0
        begins = starts + self.bytes
        begins[0] = self._begin
        self._note_odd(data, codes, begins, ends, np.flatnonzero(filled))
        after = int(ends[-1]) + 1
        self._lines += len(ends)
        self._begin = self.bytes + after
        self._first = self._last = -1
        self._go_on(data[after:])
        self.bytes += len(data)
        return self._taken(begins[filled])

    def finish(self) -> NDArray[np.int64]:
        """Take the end of the file.

        Returns:
            The entry of a last line that no line feed ends, if there is one, and the size of the file.
        """
        last = _NONE
        if self._first >= 0:
            if (self._first, self._last) != (123, 125):
                self._add_odd(self.records, self._lines, self._begin)
            last = self._taken(np.array([self._begin]))
        return np.append(last, self.bytes)

    def _taken(self, begins: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.records and len(begins):
            begins[0] = 0  # blank lines at the start belong to the first record
        self.records += len(begins)
        return begins

    def _go_on(self, piece: bytes) -> None:
        """Note the first and last byte of the line that a piece belongs to."""
        text = piece.strip()
        if text:
            self._first = self._first if self._first >= 0 else text[0]
            self._last = text[-1]

    def _note_odd(
        self,
        data: bytes,
        codes: NDArray[np.uint8],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
        lines: NDArray[np.int64],
    ) -> None:
        if not len(lines):
            return
        starts = np.maximum(begins[lines] - self.bytes, 0)
        lasts = np.maximum(ends[lines] - 1, 0)
        lasts -= (codes[lasts] == 13) & (lasts > 0)
        plain = (codes[starts] == 123) & (codes[lasts] == 125)
        plain[0] &= lines[0] > 0  # the first line may have begun in an earlier block
        for number in np.flatnonzero(~plain).tolist():
            line = int(lines[number])
            if line == 0:
                first, last = self._first, self._last
            else:
                text = data[int(starts[number]) : int(ends[line])].strip()
                first, last = text[0], text[-1]
            if (first, last) != (123, 125):
                self._add_odd(self.records + number, self._lines + line, int(begins[line]))

    def _add_odd(self, record: int, line: int, offset: int) -> None:
        self.odd_count += 1
        if len(self.odd) < _ODD:
            self.odd.append(Odd(record, line + 1, offset))


def scan_records(path: str, scan: RecordScan) -> Iterator[NDArray[np.int64]]:
    r"""Read a file from one end to the other and find its records.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/scan.jsonl", b'{"a": 1}\n{"b": 2}')
        >>> scan = RecordScan()
        >>> np.concatenate(list(scan_records("memory://scan.jsonl", scan))).tolist(), scan.records
        ([0, 9, 17], 2)

    Args:
        path: The file, a path or URL.
        scan: Counts what is found.

    Yields:
        The entries of the index, int64, in order: one for each record, and the size of the file.

    Raises:
        DatasetError: The file is compressed, or was cut while it was read.
        OSError: It does not exist or cannot be read.
    """
    size = paths.size(path)
    reported = time.monotonic()
    for start in range(0, size, _BLOCK):
        data = paths.read_range(path, start, min(size, start + _BLOCK))
        if start == 0:
            _refuse_compressed(path, data)
        if len(data) < min(size, start + _BLOCK) - start:
            raise DatasetError(f"{path} became shorter while it was read: wait until it is written, and try again")
        yield scan.feed(data)
        if time.monotonic() - reported > _REPORT_AFTER:
            reported = time.monotonic()
            _log.warning("found %d records in %.1f of %.1f GB of %s", scan.records, start / 1e9, size / 1e9, path)
    yield scan.finish()


def _refuse_compressed(path: str, head: bytes) -> None:
    kind = compression_of(head)
    if kind is not None:
        raise DatasetError(
            f"{path} is compressed ({kind}), and records inside cannot be read at random: unpack it into a plain .jsonl"
        )


def line_index_path(path: str) -> str:
    """Return where the index of a file lies: beside it.

    Example:
        >>> line_index_path("texts/a.jsonl")
        'texts/a.jsonl.idx'

    Args:
        path: The file.

    Returns:
        The path of its index.
    """
    return f"{path}.idx"


def write_line_index(path: str, advance: Callable[[int], object] | None = None) -> RecordScan:
    r"""Write the index of a file beside it: all of it or nothing, and in the same memory for any size.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/write.jsonl", b'{"a": 1}\n{"b": 2}')
        >>> write_line_index("memory://write.jsonl").records
        2
        >>> np.frombuffer(paths.read_bytes("memory://write.jsonl.idx"), "<u8").tolist()
        [0, 9, 17]

    Args:
        path: The file, a path or URL.
        advance: Is told how many more bytes have been looked through.

    Returns:
        What was found.

    Raises:
        DatasetError: The file is compressed, or was cut while it was read.
        OSError: It cannot be read, or the index not be written.
    """
    scan = RecordScan()
    with replacing(line_index_path(path)) as partial, open(partial, "wb") as file:
        done = 0
        for entries in scan_records(path, scan):
            file.write(entries.astype("<u8").tobytes())
            if advance is not None:
                advance(scan.bytes - done)
                done = scan.bytes
    return scan


def count_records(path: str, index: str | None = None) -> int:
    r"""Return how many records the index of a file has, after a look whether it fits the file.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/count.jsonl", b'{"a": 1}\n{"b": 2}')
        >>> _ = write_line_index("memory://count.jsonl")
        >>> count_records("memory://count.jsonl")
        2
        >>> filesystem("memory://")[0].pipe("/count.jsonl", b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
        >>> count_records("memory://count.jsonl")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: the index memory://count.jsonl.idx is out of step with its file: ...

    Args:
        path: The file, a path or URL.
        index: Its index; by default the one beside it.

    Returns:
        The number of records.

    Raises:
        DatasetError: The index is damaged or belongs to other content.
        OSError: One of the two does not exist or cannot be read.
    """
    index = line_index_path(path) if index is None else index
    length, size = paths.size(index), paths.size(path)
    remedy = "write it anew with energon_nodes.prepare, or read without it with index='scan'"
    if length % 8 or not length:
        raise DatasetError(f"the index {index} has {length} bytes, which is no whole number of entries: {remedy}")
    last = int.from_bytes(paths.read_once(index, [length - 8], [length])[0], "little")
    if last != size:
        raise DatasetError(
            f"the index {index} is out of step with its file: it was made when {path} had {last} bytes, and it has "
            f"{size} now: {remedy}"
        )
    return length // 8 - 1
