"""One bounded cache of open files for the whole process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["FILES", "OpenFiles"]


class _Entry:
    """An open file: closed when it is out of the cache and nobody reads from it."""

    __slots__ = ("cached", "fd", "identity", "users")

    def __init__(self, fd: int, identity: tuple[int, int]) -> None:
        self.fd = fd
        self.identity = identity
        self.users = 0
        self.cached = True


class OpenFiles:
    """Keep the most recently used files open, at most `limit` of them when idle.

    A descriptor is never closed while a reader holds it: closing it under a reader would let the
    number be given to another file, and the reader would get that file's bytes. A path whose file
    was replaced on disk is opened again. After a fork the child starts with an empty cache.

    Example:
        >>> import os, tempfile
        >>> files = OpenFiles(limit=8)
        >>> with tempfile.NamedTemporaryFile() as made:
        ...     _ = made.write(b"0123456789"), made.flush()
        ...     with files.hold(made.name) as fd:
        ...         os.pread(fd, 4, 3)
        b'3456'

    Args:
        limit: How many files stay open between reads.
    """

    def __init__(self, limit: int = 64) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        os.register_at_fork(after_in_child=self._forget_parent)

    @contextmanager
    def hold(self, path: str) -> Generator[int]:
        """Give a descriptor of a file that stays open until the block ends.

        Args:
            path: A local file.

        Returns:
            A context manager whose value is the descriptor, for `os.pread` only: its position is shared.

        Raises:
            OSError: The file cannot be opened.
        """
        entry = self._acquire(path)
        try:
            yield entry.fd
        finally:
            self._release(entry)

    def open_count(self) -> int:
        """Count the files that are open now.

        Returns:
            The number of cached descriptors.
        """
        return len(self._entries)

    def close_idle(self) -> None:
        """Close all files that nobody reads from."""
        with self._lock:
            closing = [(path, entry) for path, entry in self._entries.items() if not entry.users]
            for path, entry in closing:
                del self._entries[path]
                entry.cached = False
        for _, entry in closing:
            os.close(entry.fd)

    def _acquire(self, path: str) -> _Entry:
        # The system calls stand outside the lock: a file server that hangs must not stop readers of other files.
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        with self._lock:
            entry = self._entries.get(path)
            if entry is not None and entry.identity == identity:
                entry.users += 1
                self._entries.move_to_end(path)
                return entry
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        status = os.fstat(fd)
        fresh = _Entry(fd, (status.st_dev, status.st_ino))
        fresh.users = 1
        with self._lock:
            replaced = self._entries.pop(path, None)
            self._entries[path] = fresh
            closing = self._over_limit()
            if replaced is not None:
                replaced.cached = False
                if not replaced.users:
                    closing.append(replaced)
        for old in closing:
            os.close(old.fd)
        return fresh

    def _over_limit(self) -> list[_Entry]:
        excess = len(self._entries) - self.limit
        if excess <= 0:
            return []
        idle = [path for path, entry in self._entries.items() if not entry.users][:excess]
        closing = [self._entries.pop(path) for path in idle]
        for entry in closing:
            entry.cached = False
        return closing

    def _release(self, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            closing = self._over_limit()
            if not entry.users and not entry.cached and entry not in closing:
                closing.append(entry)
        for old in closing:
            os.close(old.fd)

    def _forget_parent(self) -> None:
        # Another thread may have held the lock when the process forked; in the child nobody would release it.
        entries = list(self._entries.values())
        self._lock = threading.Lock()
        self._entries = OrderedDict()
        for entry in entries:
            os.close(entry.fd)


FILES = OpenFiles()
