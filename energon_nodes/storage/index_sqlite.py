"""Write `index.sqlite`: where every sample and every part of a dataset lies, for lookup by name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

__all__ = ["IndexWriter", "Rows"]

_TABLES = (
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, "
    "sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)",
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER, content_byte_size INTEGER)",
)
_INDICES = (
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples (tar_file_id, sample_index)",
    "CREATE INDEX idx_sample_parts_seq ON sample_parts (tar_file_id, sample_index, content_byte_offset)",
    "CREATE INDEX idx_sample_parts_full ON sample_parts (tar_file_id, sample_index, part_name, content_byte_offset, "
    "content_byte_size)",
)
_SETTINGS = (
    # Nobody reads the file before it is whole, and a crash leaves a temporary one: no journal, no waiting for the disk.
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA cache_size = -65536",  # 64 MB, whatever the size of the dataset
)
_SAMPLE = "INSERT OR IGNORE INTO samples VALUES "
_PART = "INSERT INTO sample_parts VALUES "
_ROW = "(?, ?, ?, ?, ?)"
_AT_ONCE = 64  # rows of one statement: twice as fast as one by one


class Rows(NamedTuple):
    """Hold the samples of one shard.

    Args:
        keys: The key of each sample.
        offsets: Where each begins, and where the last one ends: int64 of shape `(n + 1,)`.
        part_starts: The number of the first part of each, and the number of all parts: int64 of shape `(n + 1,)`.
        part_names: The names of parts.
        names: Which of these each part has, int64 of shape `(p,)`.
        starts: The first byte of the data of each part, int64 of shape `(p,)`.
        sizes: The bytes of its data, int64 of shape `(p,)`.

    Example:
        >>> numbers = np.array([0, 1])
        >>> Rows(["a"], numbers * 1024, numbers, ("txt",), numbers[:1], numbers[:1] + 512, numbers[:1]).keys
        ['a']
    """

    keys: Sequence[str]
    offsets: NDArray[np.int64]
    part_starts: NDArray[np.int64]
    part_names: Sequence[str]
    names: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


class IndexWriter:
    """Fill the tables of a new index, shard by shard; the file is whole when the block ends.

    Args:
        path: A local file that does not exist, or is empty.

    Example:
        >>> import tempfile
        >>> numbers = np.array([0, 1])
        >>> rows = Rows(["a"], numbers * 1024, numbers, ("txt",), numbers[:1], numbers[:1] + 512, numbers[:1] + 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with IndexWriter(f"{folder}/index.sqlite") as index:
        ...         index.add(0, rows), index.add(1, rows)
        ...     list(sqlite3.connect(f"{folder}/index.sqlite").execute("SELECT * FROM samples"))
        ([], [('a', 0)])
        [(0, 'a', 0, 0, 1024)]
    """

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(f"file:{quote(os.path.abspath(path))}", isolation_level=None, uri=True)
        for setting in _SETTINGS:
            self._database.execute(setting)
        for table in _TABLES:
            self._database.execute(table)
        self._database.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            # One pass over all rows is much less work than keeping an index in order while rows come. It sorts as many
            # of them in memory as the cache has room for.
            self._database.execute("PRAGMA cache_size = -16384")
            for index in _INDICES:
                self._database.execute(index)
            self._database.execute("COMMIT")
        self._database.close()

    def add(self, shard: int, rows: Rows) -> list[tuple[str, int]]:
        """Add the samples of a shard.

        Args:
            shard: The number of the shard.
            rows: Its samples; their keys are all different.

        Returns:
            The keys that other shards have too, each with the number of the first such shard. The samples with these
            keys are not added.
        """
        count, database = len(rows.keys), self._database
        before = database.total_changes
        offsets = rows.offsets[:count].tolist()
        sizes = np.diff(rows.offsets).tolist()
        self._insert(_SAMPLE, count, zip(repeat(shard), rows.keys, range(count), offsets, sizes, strict=False))
        added = database.total_changes - before
        numbers = np.repeat(np.arange(count), np.diff(rows.part_starts)).tolist()
        names = map(rows.part_names.__getitem__, rows.names.tolist())
        parts = zip(repeat(shard), numbers, names, rows.starts.tolist(), rows.sizes.tolist(), strict=False)
        self._insert(_PART, len(numbers), parts)
        return [] if added == count else self._others(shard, rows.keys)

    def _insert(self, statement: str, count: int, rows: Iterator[tuple[Any, ...]]) -> None:
        values = chain.from_iterable(islice(rows, count - count % _AT_ONCE))
        several = zip(*[values] * (5 * _AT_ONCE), strict=True)
        self._database.executemany(statement + ", ".join([_ROW] * _AT_ONCE), several)
        self._database.executemany(statement + _ROW, rows)

    def copy(self, path: str, numbers: Mapping[int, int]) -> dict[int, int]:
        """Add samples of an older index, before any other.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     IndexWriter(f"{folder}/old").__exit__(None, None, None)
            ...     with IndexWriter(f"{folder}/new") as index:
            ...         index.copy(f"{folder}/old", {0: 1})
            {}

        Args:
            path: The older index, a local file.
            numbers: The new number of each shard to take, by the number it has there.

        Returns:
            How many samples each shard had, by its new number.

        Raises:
            sqlite3.DatabaseError: It is damaged.
        """
        database = self._database
        database.execute("COMMIT")  # a database is attached outside of transactions
        database.execute("ATTACH ? AS old", (f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1",))
        database.execute("CREATE TEMP TABLE renumbered (before INTEGER PRIMARY KEY, after INTEGER)")
        database.executemany("INSERT INTO temp.renumbered VALUES (?, ?)", numbers.items())
        database.execute("BEGIN")
        database.execute(
            "INSERT OR IGNORE INTO main.samples SELECT after, sample_key, sample_index, byte_offset, byte_size "
            "FROM old.samples JOIN temp.renumbered ON before = tar_file_id"
        )
        database.execute(
            "INSERT INTO main.sample_parts SELECT after, sample_index, part_name, content_byte_offset, "
            "content_byte_size FROM old.sample_parts JOIN temp.renumbered ON before = tar_file_id"
        )
        counts = dict(database.execute("SELECT tar_file_id, count(*) FROM main.samples GROUP BY tar_file_id"))
        database.execute("COMMIT")
        database.execute("DETACH old")
        database.execute("DROP TABLE temp.renumbered")
        database.execute("BEGIN")
        return counts

    def part_counts(self) -> dict[str, int]:
        """Return how many of the samples that were added so far have each part, of 2,000 parts at most."""
        query = "SELECT part_name, count(*) FROM sample_parts GROUP BY part_name LIMIT 2000"
        return dict(self._database.execute(query))

    def _others(self, shard: int, keys: Sequence[str]) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for key in keys:
            (first,) = self._database.execute("SELECT tar_file_id FROM samples WHERE sample_key = ?", (key,)).fetchone()
            if first != shard:
                found.append((key, first))
        return found
