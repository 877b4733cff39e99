"""The tables of media metadata in `index.sqlite`: read one entry, or add many."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from typing import Any
from urllib.parse import quote

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.key_files import cached_file
from energon_nodes.storage.metadata import META_FOLDER
from energon_nodes.storage.remote import ask

__all__ = ["MEDIA_TABLES", "MediaTable", "add_media", "media_filters"]

MEDIA_TABLES = (
    "CREATE TABLE IF NOT EXISTS media_metadata (entry_key TEXT PRIMARY KEY, metadata_type TEXT NOT NULL, "
    "metadata_json TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS media_filters (filter_id INTEGER PRIMARY KEY AUTOINCREMENT, strategy TEXT NOT NULL, "
    "patterns TEXT, created_at_utc TEXT DEFAULT CURRENT_TIMESTAMP, UNIQUE (strategy, patterns))",
)
"""What makes the tables, where they are not there yet."""
_FIND = "SELECT metadata_json FROM media_metadata WHERE entry_key = ?"


class MediaTable:
    """Look up what is known about media files.

    The database is opened at the first call, in each process anew: a connection must not go through a fork.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.mkdir(f"{folder}/.nv-meta")
        ...     _ = add_media(f"{folder}/.nv-meta/index.sqlite", [("a.png", "image", '{"width":4}')], ("EXTENSION", ""))
        ...     MediaTable(folder).get("a.png"), MediaTable(folder).get("b.png")
        ({'width': 4}, None)

    Args:
        root: The dataset or folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._connection: sqlite3.Connection | None = None
        self._process = -1
        self._inherited: list[sqlite3.Connection | None] = []

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the metadata of a file.

        Args:
            name: Its name.

        Returns:
            The fields, or None where there are none.

        Raises:
            DatasetError: The database is damaged.
            OSError: It cannot be fetched.
        """
        if self._process != os.getpid():
            # What came through a fork is kept, not closed: closing takes locks that another thread may have held.
            self._inherited.append(self._connection)
            self._connection, self._process = self._connect(), os.getpid()
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(_FIND, (name,)).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise self._damaged(error) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        return None if row is None else json.loads(row[0])

    def _connect(self) -> sqlite3.Connection | None:
        path = paths.join(self._root, f"{META_FOLDER}/index.sqlite")
        if not paths.exists(path):
            return None
        if not paths.is_url(path):
            return _opened(path)
        size, version = paths.identity(path)

        def make(copy: str) -> None:
            ask(path, "copy", lambda fs, name: fs.get_file(name, copy))

        with cached_file(self._root, f"{size} {version}", ".sqlite", make) as copy:
            return _opened(copy)

    def _damaged(self, error: Exception) -> DatasetError:
        return DatasetError(f"{self._root}: index.sqlite cannot be read ({error}); prepare it again")


def add_media(
    database: str,
    rows: Iterable[tuple[str, str, str]],
    filter_used: tuple[str, str],
    existing: Collection[str] | None = None,
) -> int:
    """Add rows to the tables of media metadata; an entry that is there is replaced.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     add_media(f"{folder}/index.sqlite", [("a.png", "image", "{}")], ("GLOB", "*.png"))
        ...     media_filters(f"{folder}/index.sqlite")
        1
        [('GLOB', '*.png')]

    Args:
        database: A local file that nobody reads yet; it is made if need be.
        rows: Name, "image" or "av", and JSON of each file.
        filter_used: The strategy, and its patterns joined by commas.
        existing: All names that there are, to remove the entries of others; None to remove none.

    Returns:
        The number of rows.
    """
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")  # the file is a copy that is thrown away after a crash
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for table in MEDIA_TABLES:
            connection.execute(table)
        if existing is not None:
            connection.execute("CREATE TEMPORARY TABLE existing (name TEXT PRIMARY KEY)")
            connection.executemany("INSERT OR IGNORE INTO existing VALUES (?)", ((name,) for name in existing))
            connection.execute("DELETE FROM media_metadata WHERE entry_key NOT IN existing")
        before = connection.total_changes
        connection.executemany("INSERT OR REPLACE INTO media_metadata VALUES (?, ?, ?)", rows)
        added = connection.total_changes - before
        connection.execute("INSERT OR IGNORE INTO media_filters (strategy, patterns) VALUES (?, ?)", filter_used)
        connection.execute("COMMIT")
    return added


def media_filters(database: str) -> list[tuple[str, str]]:
    """Return the filters that media metadata were stored with, the first one first.

    Example:
        >>> media_filters("/no/such/file")
        []

    Args:
        database: A local file.

    Returns:
        Strategy and patterns of each; nothing where there are no such tables.
    """
    if not os.path.exists(database):
        return []
    with closing(_opened(database)) as connection:
        try:
            return connection.execute("SELECT strategy, patterns FROM media_filters ORDER BY filter_id").fetchall()
        except sqlite3.OperationalError:
            return []


def _opened(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
    connection.execute("PRAGMA schema_version")  # opens the file now
    return connection
