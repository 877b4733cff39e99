"""What nodes have in common that watch the stream and change nothing: checkpoints do not know of them."""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any, TypeVar

from energon_nodes.core.node import Node

__all__ = ["Meter", "Watching"]

X = TypeVar("X")


class Watching(Node[X], abstract=True):
    """Serve as the base of nodes that let every element pass, and hold none.

    Their state is that of their source, so one can be put into a pipeline, or taken out of it, between saving and
    loading. A subclass names `Node` too, after this class.

    Example:
        >>> import energon_nodes as en
        >>> state = en.items(range(4)).batch(2).state_dict()
        >>> en.items(range(4)).log(100).batch(2).reset(state)
    """

    in_checkpoints = False
    keeps_keys = True

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state of the source."""
        return self.sources_of()[0].snapshot()

    def load(self, snapshot: Any) -> None:
        """Go to the point of a snapshot of the source."""
        self.stop()
        self.clear()
        self.sources_of()[0].load(snapshot)


class Meter:
    """Count what passes the clones of one node in this process: those of its streams.

    Pickled, and behind a fork, it begins anew.

    Example:
        >>> meter = Meter()
        >>> meter.enter()
        >>> meter.count += 3
        >>> meter.leave()
        >>> meter.count
        3
    """

    def __init__(self) -> None:
        self.count = 0
        """How many elements have passed."""
        self.waited = 0.0
        """How many seconds were spent in the source since `restart`."""
        self._running = 0
        self._process = os.getpid()
        self.restart()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Meter, ())

    def enter(self) -> None:
        """Note that a stream begins to run; where it is the only one, the time before does not count."""
        if self._process != os.getpid():
            self.__init__()
        if not self._running:
            self.restart()
        self._running += 1

    def leave(self) -> None:
        """Note that a stream has stopped."""
        self._running -= 1

    def restart(self) -> tuple[int, float, float]:
        """Begin a new stretch.

        Returns:
            Of the last one: elements, seconds, and seconds spent in the source.
        """
        now = perf_counter()
        past = (self.count - self._before, now - self._since, self.waited) if hasattr(self, "_since") else (0, 0.0, 0.0)
        self._before, self._since, self.waited = self.count, now, 0.0
        return past
