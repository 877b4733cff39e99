"""A lock of a whole process that a fork cannot leave held."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["ForkLock"]


class ForkLock:
    """Give the lock of this process: a child has another one, which no thread of its parent holds.

    A thread of the parent may hold the lock when the process forks, and in the child nobody would release it.

    Example:
        >>> lock = ForkLock()
        >>> with lock():
        ...     lock() is lock()
        True
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __call__(self) -> AbstractContextManager[Any]:
        """Return the present lock."""
        return self._lock
