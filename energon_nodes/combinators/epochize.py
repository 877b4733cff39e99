"""`epochize`: cut a long stream into epochs of a chosen length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import isinf
from typing import TypeVar

from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key
from energon_nodes.core.share import turns_of

__all__ = ["Epochize"]

X = TypeVar("X")


class Epochize(Node[X], verb="epochize"):
    """Cut the source into epochs of `n` elements; each goes on where the last one stopped.

    The count is global: under several streams each takes its round-robin part, and a stream that has fewer elements
    gives what it has. Usually the source
    has no end (`.repeat().epochize(n)`). Where it ends in the middle of an epoch, that epoch is
    short, and the next one begins the source's next pass.

    Example:
        >>> import energon_nodes as en
        >>> epochs = en.items("abc").repeat().epochize(4)
        >>> list(epochs), list(epochs)
        (['a', 'b', 'c', 'a'], ['b', 'c', 'a', 'b'])

    Args:
        source: The node to read from.
        n: The number of elements in an epoch, at least 1.

    Raises:
        ValueError: If `n` is less than 1.
    """

    source: Node[X]
    n: int
    taken: int = state(int)
    empty: int = state(int)  # passes of the source that gave nothing to this epoch
    drained: bool = state(bool, per_pass=False)

    passes_apart = False

    def check(self) -> None:
        check_size("epochize", "n", self.n, 1)

    def run(self) -> Iterator[tuple[X, Key]]:
        quota = turns_of(self.n, self.context.stream, self.context.streams)
        while self.taken < quota and not (self.taken and self.drained) and self.empty < 2:
            if self.drained:
                self.source.rewind()
                self.drained = False
            for pair in islice(self.source.pairs(), quota - self.taken):
                self.taken += 1
                yield pair
            self.drained = self.taken < quota
            self.empty += not self.taken

    def rewind(self) -> None:
        """Begin the next epoch: the source goes on where it stands."""
        self.stop()
        if not self.fixed:
            self.epoch += 1
        self.clear()

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        if below == 0:
            return 0
        return turns_of(self.n, stream, streams) if below is not None and isinf(below) else None
