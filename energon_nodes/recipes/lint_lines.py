"""Check a JSON lines file: every record, and the index beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.problems import Problem
from energon_nodes.storage import paths
from energon_nodes.storage.json_lines import parse_line
from energon_nodes.storage.jsonl_index import BOM, RecordScan, line_index_path, scan_records

__all__ = ["check_lines"]


def check_lines(path: str) -> Iterator[Problem]:
    r"""Check a JSON lines file.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/lint.jsonl", b'{"a": 1}\n{"b": \n')
        >>> [(problem.code, problem.line, problem.offset) for problem in check_lines("memory://lint.jsonl")]
        [('bad-line', 2, 9)]

    Args:
        path: The file, a path or URL.

    Yields:
        What is wrong. A record is in memory at a time.

    Raises:
        OSError: The file cannot be read.
    """
    index = _Index(line_index_path(path))
    scan = RecordScan()
    line, last, records = 1, 0, 0
    try:
        for entries in scan_records(path, scan):
            index.compare(entries)
            for begin, end in pairwise([last, *entries.tolist()]):
                # An entry is where a record begins, and so where the one before it ends.
                if end == begin:
                    continue
                data = paths.read_range(path, begin, end)
                if data.strip() not in (b"", BOM):
                    records += 1
                    yield from _check_record(data, line, begin)
                line += data.count(b"\n")
            if len(entries):
                last = int(entries[-1])
    except DatasetError as error:
        yield Problem("bad-line", str(error))
        return
    if not records:
        yield Problem("empty-file", f"{path} has no record")
    yield from index.problems()


def _check_record(data: bytes, line: int, begin: int) -> Iterator[Problem]:
    skipped = len(data) - len(data.lstrip())
    line += data[:skipped].count(b"\n")
    try:
        parse_line(data.strip().removeprefix(BOM))
    except ValueError as error:
        yield Problem("bad-line", str(error), line=line, offset=begin + skipped)


class _Index:
    """Compare an index file with the entries that it should have, piece by piece."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = paths.size(path) if paths.exists(path) else None
        self._count = 0
        self._wrong: tuple[int, int, int] | None = None

    def compare(self, entries: np.typing.NDArray[np.int64]) -> None:
        """Take the next entries that the file should have."""
        if self._size is not None and self._wrong is None and len(entries):
            data = paths.read_range(self._path, 8 * self._count, 8 * (self._count + len(entries)))
            stored = np.frombuffer(data[: len(data) // 8 * 8], "<u8").astype(np.int64)
            differ = np.flatnonzero(stored != entries[: len(stored)])
            if len(differ):
                first = int(differ[0])
                self._wrong = (self._count + first, int(stored[first]), int(entries[first]))
        self._count += len(entries)

    def problems(self) -> Iterator[Problem]:
        """Tell what is wrong, when all entries are known."""
        if self._size is None:
            return
        if self._size != 8 * self._count:
            text = f"{self._path} has {self._size / 8:g} entries, and the file needs {self._count}"
            yield Problem("stale-index", text)
        elif self._wrong is not None:
            number, stored, right = self._wrong
            yield Problem("stale-index", f"{self._path} has {stored} as entry {number}, and should have {right}")
