"""`repeat`: go through the source several times."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from math import floor, inf, isinf
from typing import TypeVar

from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Repeat"]

X = TypeVar("X")
_log = logging.getLogger("energon_nodes")
_MOST_EMPTY = 100  # passes in a row without an element, after which an endless repetition ends


class Repeat(Node[X], verb="repeat"):
    """Go through the source `n` times, or without end.

    Every repetition is the source's next pass, so a shuffled source gives another order in each.
    With a fraction the last repetition is a part of a pass: `repeat(1.5)` over 9 elements gives 13
    in total, under any number of streams. Without end means as long as there are elements: a stream without
    any ends, and so does one whose source gave none in a hundred passes in a row.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([1, 2]).repeat(2))
        [1, 2, 1, 2]
        >>> len(list(en.items(range(9)).repeat(1.5)))
        13

    Args:
        source: The node to read from.
        n: How often, at least 0; None for without end.

    Raises:
        ValueError: If `n` is negative or infinite, or less than 1 with a fraction over a source of unknown length.
    """

    source: Node[X]
    n: float | None = None
    done: int = state(int)
    seen: int = state(int)
    taken: int = state(int)
    empty: int = state(int)

    def check(self) -> None:
        if self.n is not None and not (_is_number(self.n) and 0 <= self.n < inf):
            raise ValueError(f"repeat needs a finite n >= 0, or None for without end, got n={self.n!r}")
        if self.n is not None and 0 < self.n < 1 and self.source.length(0, 1) is None:
            raise ValueError(
                f"repeat({self.n}) needs a source of known length; {self.source!r} has none: use limit(...)"
            )

    def run(self) -> Iterator[tuple[X, Key]]:
        while self.n is None or self.done + 1 <= self.n:
            if self.n is None and self.empty >= _MOST_EMPTY:
                return
            pairs = self.source.pairs()
            for pair in islice(pairs, 0 if self.taken else 1):
                self.taken = 1
                yield pair
            if self.n is None or self.n == floor(self.n):
                yield from pairs
            else:  # the number of elements decides how many the fraction is
                for pair in pairs:
                    self.taken += 1
                    yield pair
            self.empty = 0 if self.taken else self.empty + 1
            if self.n is None and self.empty and self._is_over():
                return
            self.seen, self.taken = self.taken, 0
            self.done += 1
            if self.n is None or self.done < self.n:
                self.source.rewind()
        if self.done < self.n:
            quota = self._quota(self.context.stream, self.context.streams)
            if self.taken < quota:
                for pair in islice(self.source.pairs(), quota - self.taken):
                    self.taken += 1
                    yield pair

    def _is_over(self) -> bool:
        """Return whether it is in vain to wait for an element of the source."""
        if self.source.length(self.context.stream, self.context.streams) == 0:
            return True
        if self.empty < _MOST_EMPTY:
            return False
        _log.warning("repeat ends: %d passes in a row over %r gave no element", self.empty, self.source)
        return True

    def _quota(self, stream: int, streams: int) -> int:
        """Return this stream's part of the last, fractional repetition; the parts add up exactly."""
        fraction = Fraction(self.n or 0).limit_denominator(1_000_000) % 1  # 2.3 is 23/10, not a bit less
        before = [self.source.length(other, streams) for other in range(stream + 1)]
        if any(length is None for length in before):
            return floor(fraction * self.seen)
        total = sum(length for length in before if length is not None)
        return floor(fraction * total) - floor(fraction * (total - (before[-1] or 0)))

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        if self.n is None:
            return 0 if below == 0 else inf  # of unknown length: taken to have elements
        if below is None or isinf(below):
            return below if self.n else 0
        return below * floor(self.n) + (self._quota(stream, streams) if self.n % 1 else 0)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
