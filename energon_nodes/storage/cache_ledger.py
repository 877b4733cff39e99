"""The ledger of a cache folder: how much lies in it, and what was done, counted over all processes that share it."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import astuple, dataclass

__all__ = ["Counts", "Ledger"]


@dataclass
class Counts:
    """Say what lies in a cache folder now, and what was done since it was made.

    Args:
        bytes: The bytes of all files in it.
        files: How many files there are.
        fetched: Files that were put into it.
        hits: Values that were read from it.
        direct: Values that were read from where they come from, since they were not in it.
        evicted: Files that were removed to make room.
    """

    bytes: int = 0
    files: int = 0
    fetched: int = 0
    hits: int = 0
    direct: int = 0
    evicted: int = 0


_LAYOUT = struct.Struct(f"<{len(astuple(Counts()))}q")


class Ledger:
    """Keep counts in a file that one process, and one thread in it, changes at a time.

    A process that dies while it changes them lets go of the lock, and loses its change at most.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine, other = Ledger(f"{folder}/ledger"), Ledger(f"{folder}/ledger")
        ...     with mine.changing() as counts:
        ...         counts.hits += 1
        ...     other.read().hits
        ...     mine.close(), other.close()
        1
        (None, None)

    Args:
        path: The file; it is made if it does not exist.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._threads = threading.Lock()  # those of one process share the lock on the file

    @contextmanager
    def changing(self) -> Generator[Counts]:
        """Give the counts to change, while nobody else does."""
        with self._threads:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                before = self._load()
                counts = Counts(*before)
                try:
                    yield counts
                finally:
                    after = astuple(counts)
                    if after != before:
                        os.pwrite(self._file, _LAYOUT.pack(*after), 0)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self) -> Counts:
        """Return the counts."""
        with self.changing() as counts:
            return counts

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _load(self) -> tuple[int, ...]:
        data = os.pread(self._file, _LAYOUT.size, 0)
        return _LAYOUT.unpack(data) if len(data) == _LAYOUT.size else (0,) * (_LAYOUT.size // 8)
