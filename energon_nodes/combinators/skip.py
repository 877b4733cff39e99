"""`skip`: leave out the first elements of each pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key
from energon_nodes.core.share import turns_of

__all__ = ["Skip"]

X = TypeVar("X")


class Skip(Node[X], verb="skip"):
    """Leave out the first `n` elements of each pass.

    The count is global: under several streams each leaves out its round-robin part of the `n`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([3, 1, 2]).skip(1))
        [1, 2]

    Args:
        source: The node to read from.
        n: The number of elements, at least 0.

    Raises:
        ValueError: If `n` is negative.
    """

    source: Node[X]
    n: int
    passed: int = state(int)

    def check(self) -> None:
        check_size("skip", "n", self.n, 0)

    def run(self) -> Iterator[tuple[X, Key]]:
        pairs = self.source.pairs()
        quota = turns_of(self.n, self.context.stream, self.context.streams)
        if self.passed < quota:
            for _ in islice(pairs, quota - self.passed):
                self.passed += 1
        yield from pairs

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        return None if below is None else max(0, below - turns_of(self.n, stream, streams))
