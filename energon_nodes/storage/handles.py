"""Open files for single reads: a bounded number for the whole process, taken without a lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

__all__ = ["HANDLES", "Handle", "Handles"]


class Handle:
    r"""Hold an open file, and close it when nobody holds the handle any more.

    A reader has the handle in a variable while it reads, so the number of the descriptor cannot be given to another
    file under it.

    Example:
        >>> handle = Handle("/dev/zero")
        >>> os.pread(handle.fd, 3, 0)
        b'\x00\x00\x00'

    Args:
        path: A local file.
    """

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Handles:
    """Keep files open for those who read one small piece at a time, without looking at the file before each read.

    `FILES` looks whether a file was replaced whenever it is asked, which takes longer than a small read. Here whoever
    opens a dataset calls `forget` once instead. A child process goes on with the files of its parent: reads have no
    position that they could share.

    Example:
        >>> handles = Handles(limit=8)
        >>> handles.opened.get("/dev/zero") is None, handles.open("/dev/zero") is handles.opened["/dev/zero"]
        (True, True)

    Args:
        limit: How many files stay open; the one that was opened first is closed for the next.
    """

    def __init__(self, limit: int = 128) -> None:
        self.limit = limit
        self.opened: dict[str, Handle] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def open(self, path: str) -> Handle:
        """Open a file that is not in `opened`.

        Args:
            path: A local file.

        Returns:
            Its handle.

        Raises:
            OSError: It cannot be opened.
        """
        handle = Handle(path)
        with self._lock:
            self.opened[path] = handle
            while len(self.opened) > self.limit:
                del self.opened[next(iter(self.opened))]
        return handle

    def forget(self, paths: Iterable[str]) -> None:
        """Let go of files that may have been replaced.

        Args:
            paths: Their paths.
        """
        with self._lock:
            for path in paths:
                self.opened.pop(path, None)

    def _renew_lock(self) -> None:
        # Another thread may have held it when the process forked; in the child nobody would release it.
        self._lock = threading.Lock()


HANDLES = Handles()
