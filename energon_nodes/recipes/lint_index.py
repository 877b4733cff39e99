"""Whether the indices of a shard agree with what is in it: `.tar.idx`, and the rows of `index.sqlite`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

import numpy as np

from energon_nodes.recipes.problems import Problem
from energon_nodes.storage import paths
from energon_nodes.storage.index import index_path
from energon_nodes.storage.runs import Run

__all__ = ["check_index", "check_sqlite", "connect"]

_MISSING = object()


def connect(path: str) -> sqlite3.Connection:
    """Open an `index.sqlite` for reading; it is not changed, and no lock is taken.

    Example:
        >>> connect("/no/such/file")
        Traceback (most recent call last):
        ...
        sqlite3.OperationalError: unable to open database file

    Args:
        path: The local path of the file.

    Returns:
        The connection. Text that is not UTF-8 comes with surrogates, as the names of members do.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def check_index(root: str, shard: str, offsets: Sequence[int]) -> Iterator[Problem]:
    """Compare the index file of a shard with where its samples lie.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/stale/0.tar.idx", np.array([0, 1024], "<u8").tobytes())
        >>> [problem.what for problem in check_index("memory://stale", "0.tar", [0, 2048])]
        ['0.tar.idx says that sample 0 ends at byte 1024, and it ends at 2048']

    Args:
        root: The folder of the dataset.
        shard: The shard, relative to it.
        offsets: The first byte of each sample, and the end of the last one.

    Yields:
        One problem at most.
    """
    name = index_path(shard)
    try:
        data = paths.read_bytes(paths.join(root, name))
    except FileNotFoundError:
        yield Problem("missing-index", f"{name} does not exist", shard)
        return
    except OSError as error:
        yield Problem("stale-index", f"{name} cannot be read: {error}", shard)
        return
    if len(data) % 8 or len(data) // 8 != len(offsets):
        text = f"{name} has {len(data) / 8:g} entries, and {len(offsets) - 1} samples need {len(offsets)}"
        yield Problem("stale-index", text, shard)
        return
    stored = np.frombuffer(data, "<u8")
    # Readers begin at byte 0, whatever the first entry says.
    wrong = np.flatnonzero(stored[1:] != np.asarray(offsets, np.uint64)[1:])
    if len(wrong):
        first = int(wrong[0])
        ends = f"sample {first} ends at byte {stored[first + 1]}, and it ends at {offsets[first + 1]}"
        more = f" ({len(wrong)} entries are wrong)" if len(wrong) > 1 else ""
        yield Problem("stale-index", f"{name} says that {ends}{more}", shard, offset=offsets[first])


def check_sqlite(path: str, number: int, shard: str, runs: Sequence[Run], end: int) -> Iterator[Problem]:
    """Compare the rows of one shard in `index.sqlite` with its samples.

    Example:
        >>> [problem.code for problem in check_sqlite("/no/such/file", 0, "0.tar", [], 0)]
        ['stale-sqlite']

    Args:
        path: The local path of `index.sqlite`.
        number: The number of the shard in the info file.
        shard: The shard, for messages.
        runs: Its samples.
        end: The byte after the last one.

    Yields:
        One problem at most: the first difference, and how many there are.
    """
    starts = [run.start for run in runs]
    samples = [
        (run.key, place, start, stop - start)
        for place, (run, start, stop) in enumerate(zip(runs, starts, [*starts[1:], end], strict=False))
    ]
    parts = [(place, *part) for place, run in enumerate(runs) for part in sorted(run.parts, key=lambda part: part[1])]
    try:
        with closing(connect(path)) as connection:
            found = _difference(
                connection.execute(
                    "SELECT sample_key, sample_index, byte_offset, byte_size FROM samples WHERE tar_file_id = ? "
                    "ORDER BY sample_index",
                    (number,),
                ),
                samples,
            )
            found = found or _difference(
                connection.execute(
                    "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
                    "WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset",
                    (number,),
                ),
                parts,
            )
    except sqlite3.Error as error:
        found = f"it cannot be read: {error}"
    if found is not None:
        yield Problem("stale-sqlite", f"index.sqlite: {found}", shard)


def _difference(rows: Any, expected: Sequence[tuple[Any, ...]]) -> str | None:
    first: str | None = None
    count = 0
    for row, wanted in zip_longest(rows, expected, fillvalue=_MISSING):
        if row == wanted:
            continue
        count += 1
        if first is None:
            has = "no row" if row is _MISSING else f"the row {row}"
            needs = "no such sample" if wanted is _MISSING else f"{wanted}"
            first = f"it has {has} where the shard has {needs}"
    return None if first is None else f"{first} ({count} rows differ)" if count > 1 else first
