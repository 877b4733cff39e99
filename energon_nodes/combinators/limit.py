"""`limit`: deliver only the first elements of each pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key
from energon_nodes.core.share import turns_of

__all__ = ["Limit"]

X = TypeVar("X")


class Limit(Node[X], verb="limit"):
    """Deliver at most `n` elements in each pass.

    The count is global: under several streams each takes its round-robin part of the `n`, and a stream that has fewer
    elements (behind a filter, say) gives what it has. The
    next pass is the source's next pass: `limit(100).repeat()` over a shuffled source takes a new
    hundred in each.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([3, 1, 2]).limit(2))
        [3, 1]

    Args:
        source: The node to read from.
        n: The number of elements, at least 0.

    Raises:
        ValueError: If `n` is negative.
    """

    source: Node[X]
    n: int
    taken: int = state(int)

    def check(self) -> None:
        check_size("limit", "n", self.n, 0)

    def run(self) -> Iterator[tuple[X, Key]]:
        quota = turns_of(self.n, self.context.stream, self.context.streams)
        if self.taken < quota:
            for pair in islice(self.source.pairs(), quota - self.taken):
                self.taken += 1
                yield pair

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        return None if below is None else min(below, turns_of(self.n, stream, streams))
