"""Run a source in a thread of its own, one element at a time, so that the consumer need not wait for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final

__all__ = ["LATE", "OwnThread"]

LATE: Final[Any] = object()
"""Stands for an element that has not come yet."""


class OwnThread:
    """Pull elements in another thread; one that has not come in time can be asked for again.

    Example:
        >>> thread, numbers = OwnThread(), iter([1, 2])
        >>> [thread.take(lambda: numbers, 1.0) for _ in range(3)], thread.end()
        ([1, 2, None], None)
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[Iterator[Any] | None] = SimpleQueue()
        self._came: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._process = os.getpid()
        self._away = False
        self._kept: list[tuple[Any, BaseException | None]] = []
        self._since = 0.0
        self._thread = threading.Thread(
            target=_pull, args=(self._asked, self._came), name="energon_nodes.own_thread", daemon=True
        )
        self._thread.start()
        self.thread = self._thread.ident or 0
        """The number of the thread."""

    def take(self, pairs: Callable[[], Iterator[Any]], seconds: float) -> Any:
        """Return the next element, None at the end, `LATE` if it does not come; raise what pulling raised.

        Args:
            pairs: Gives the iterator to pull from; it is not asked while an element is on its way.
            seconds: How long to wait.
        """
        if self._process != os.getpid():
            raise RuntimeError(
                "a pipeline with a watchdog was running when this process was forked: run a clone() of it here"
            )
        if not self.holds():
            self._since = monotonic()
            self._away = True
            self._asked.put(pairs())
        if not self.settle(seconds):
            return LATE
        pair, error = self._kept.pop()
        if error is not None:
            raise error
        return pair

    def settle(self, seconds: float) -> bool:
        """Wait for the element that is on its way, and keep it; return whether it has come."""
        if self._away:
            try:
                self._kept.append(self._came.get(timeout=seconds))
            except Empty:
                return False
            self._away = False
        return True

    def holds(self) -> bool:
        """Return whether an element is on its way, or has come and was not taken."""
        return self._away or bool(self._kept)

    def waiting(self) -> float:
        """Return how many seconds ago the last element was asked for."""
        return monotonic() - self._since

    def end(self) -> None:
        """Let the thread end, at once or when its element has come."""
        self._asked.put(None)
        if not self._away and self._process == os.getpid() and self._thread is not threading.current_thread():
            self._thread.join()


def _pull(asked: SimpleQueue[Iterator[Any] | None], came: SimpleQueue[tuple[Any, BaseException | None]]) -> None:
    while (pairs := asked.get()) is not None:
        try:
            came.put((next(pairs, None), None))
        except BaseException as error:
            came.put((None, error))
        del pairs
