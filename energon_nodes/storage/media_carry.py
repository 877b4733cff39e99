"""Take media metadata of an older index over into a new one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection
from contextlib import closing
from typing import NamedTuple
from urllib.parse import quote

from energon_nodes.storage.media_table import MEDIA_TABLES

__all__ = ["Carried", "carry_media"]


class Carried(NamedTuple):
    """Say how many entries were taken over.

    Example:
        >>> Carried(0, 0).lost
        0

    Args:
        kept: Entries of files that are as they were.
        lost: Entries of files that are gone, or may be others now.
    """

    kept: int
    lost: int


def carry_media(old: str, new: str, shards: Collection[int]) -> Carried:
    """Copy the media metadata of files that are in shards which did not change.

    Example:
        >>> import tempfile
        >>> from energon_nodes.storage.index_sqlite import IndexWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("old", "new"):
        ...         IndexWriter(f"{folder}/{name}").__exit__(None, None, None)
        ...     carry_media(f"{folder}/old", f"{folder}/new", [0])
        Carried(kept=0, lost=0)

    Args:
        old: The older index, a local file.
        new: The new one, a local file that nobody reads yet, with the rows of all samples.
        shards: The numbers that unchanged shards have in the new one.

    Returns:
        How many entries were copied, and how many were not.

    Raises:
        sqlite3.DatabaseError: The older one is damaged.
    """
    with closing(sqlite3.connect(f"file:{quote(os.path.abspath(new))}", isolation_level=None, uri=True)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("ATTACH ? AS old", (f"file:{quote(os.path.abspath(old))}?mode=ro&immutable=1",))
        tables = "SELECT count(*) FROM old.sqlite_master WHERE name IN ('media_metadata', 'media_filters')"
        if database.execute(tables).fetchone()[0] < 2:
            return Carried(0, 0)
        database.execute("CREATE TEMP TABLE unchanged (number INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO temp.unchanged VALUES (?)", ((number,) for number in shards))
        database.execute("BEGIN")
        for table in MEDIA_TABLES:
            database.execute(table)
        database.execute(
            "INSERT OR IGNORE INTO main.media_metadata SELECT before.* FROM main.samples "
            "JOIN temp.unchanged ON tar_file_id = number JOIN main.sample_parts USING (tar_file_id, sample_index) "
            "JOIN old.media_metadata AS before ON entry_key = sample_key || '.' || part_name"
        )
        database.execute(
            "INSERT OR IGNORE INTO main.media_filters (strategy, patterns, created_at_utc) "
            "SELECT strategy, patterns, created_at_utc FROM old.media_filters ORDER BY filter_id"
        )
        database.execute("COMMIT")
        kept, total = (
            database.execute(f"SELECT count(*) FROM {schema}.media_metadata").fetchone()[0]
            for schema in ("main", "old")
        )
        return Carried(kept, total - kept)
