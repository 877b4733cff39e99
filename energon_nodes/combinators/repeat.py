"""`repeat`: go through the source several times."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from math import floor, inf, isinf
from typing import Any, TypeVar

from energon_nodes.core import graph
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
    in total, under any number of streams and in every pass. The part goes on where that of the pass before stopped, so
    over several passes all elements come equally often: `repeat(0.25)` goes through the source once in four passes.
    In a shuffled source a rest that is too short for one more part is given up, since the next pass could give the
    same elements again: no element comes more than twice in a pass of `repeat(1.5)`. All streams of a loader together
    give the same number in every pass; the share of one of them may differ by one from pass to pass.

    Without end means as long as there are elements: a stream without
    any ends, and so does one whose source gave none in a hundred passes in a row.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([1, 2]).repeat(2))
        [1, 2, 1, 2]
        >>> len(list(en.items(range(9)).repeat(1.5)))
        13
        >>> half = en.items("abcd").repeat(0.5)
        >>> list(half), list(half)
        (['a', 'b'], ['c', 'd'])

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
    place: Any = state(lambda: None, per_pass=False)  # of the source, in the pass of which parts are given
    whole: Any = state(lambda: None)  # of the source, behind its last whole pass, while a part is given

    def check(self) -> None:
        if self.n is not None and not (_is_number(self.n) and 0 <= self.n < inf):
            raise ValueError(f"repeat needs a finite n >= 0, or None for without end, got n={self.n!r}")
        if self.n is not None and 0 < self.n < 1 and self.source.length(0, 1) is None:
            raise ValueError(
                f"repeat({self.n}) needs a source of known length; {self.source!r} has none: use limit(...)"
            )
        length = self.source.length(0, 1)
        if self.n is not None and 0 < self.n < 1 and length and not isinf(length) and floor(self.n * length) == 0:
            raise ValueError(
                f"repeat({self.n}) of the {int(length)} elements of {self.source!r} is not one element: use n=0 to "
                f"leave them out, or n >= {1 / length:.3g}"
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
            yield from self._part(self._quota(self.context.stream, self.context.streams))

    def _part(self, quota: int) -> Iterator[tuple[X, Key]]:
        """Deliver the part of a pass that is due; `rewind` notes where it has stopped."""
        if self.place is not None and self.whole is None and not self.taken:
            if self._begins_anew():
                self.place = None
            else:
                self.whole = self.source.snapshot()  # a pass that has not begun
                self._move(self.place)
        while self.taken < quota:
            for pair in islice(self.source.pairs(), quota - self.taken):
                self.taken += 1
                yield pair
            if self.taken < quota:
                if self.whole is None:
                    return
                self._move(self.whole)
                self.whole, self.place = None, None

    def _begins_anew(self) -> bool:
        """Return whether the part is the first of a pass of the source, in all streams alike.

        Only where the source is shuffled: what is not goes round.
        """
        if not self._is_shuffled():
            return False
        lengths = self._lengths(self.context.streams)
        total = self.seen if lengths is None else sum(lengths)
        size = floor(self._fraction() * total)
        return size == 0 or self.epoch % (total // size) == 0

    def rewind(self) -> None:
        self.stop()
        if self.n is not None:
            whole, part = floor(self.n), self.n % 1 > 0
            began = part and self.done == whole and (self.taken > 0 or self.whole is not None)
            for _ in range(self.done, whole - (not part)):  # left early: all streams begin the same pass of the source
                self.source.rewind()
            if part and not self.fixed and all(node.passes_apart for node in graph.walk(self.source)):
                self._note_place(began)
        super().rewind()

    def _note_place(self, began: bool) -> None:
        """Note where the next part goes on; a stream without a share of this one goes on in the same pass as others."""
        if began:
            self.place = self.source.snapshot()
            if self.whole is not None:
                self._move(self.whole)
        elif self.place is None or self._begins_anew():
            self.place = self.source.snapshot()

    def _move(self, place: Any) -> None:
        """Put the source to a place; what its nodes have dropped stays counted."""
        nodes = list(graph.walk(self.source))
        counts = [(node.skipped, node.failed) for node in nodes]
        self.source.load(place)
        for node, (skipped, failed) in zip(nodes, counts, strict=True):
            node.skipped, node.failed = skipped, failed

    def _is_over(self) -> bool:
        """Return whether it is in vain to wait for an element of the source."""
        if self.source.length(self.context.stream, self.context.streams) == 0:
            return True
        if self.empty < _MOST_EMPTY:
            return False
        _log.warning("repeat ends: %d passes in a row over %r gave no element", self.empty, self.source)
        return True

    def _quota(self, stream: int, streams: int) -> int:
        """Return what a stream has of the last, fractional repetition of this pass.

        The elements of a pass of the source are thought of as in turns of the streams, and the parts are stretches of
        that, one behind the other: all streams together have the same number in every pass.
        """
        lengths = self._lengths(streams)
        if lengths is None:
            return floor(self._fraction() * self.seen)
        total = sum(lengths)
        size = floor(self._fraction() * total)
        if not size:
            return 0
        start = self.epoch % (total // size) * size if self._is_shuffled() else self.epoch * size % total
        return _share(lengths, stream, start + size) - _share(lengths, stream, start)

    def _fraction(self) -> Fraction:
        return Fraction(self.n or 0).limit_denominator(1_000_000) % 1  # 2.3 is 23/10, not a bit less

    def _lengths(self, streams: int) -> list[int] | None:
        lengths = [self.source.length(stream, streams) for stream in range(streams)]
        return None if any(length is None for length in lengths) else [int(length or 0) for length in lengths]

    def _is_shuffled(self) -> bool:
        return any(node.draws_random() for node in graph.walk(self.source))

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        if self.n is None:
            return 0 if below == 0 else inf  # of unknown length: taken to have elements
        if below is None or isinf(below):
            return below if self.n else 0
        return below * floor(self.n) + (self._quota(stream, streams) if self.n % 1 else 0)


def _share(lengths: Sequence[int], stream: int, count: int) -> int:
    """Return how many of the first `count` elements a stream has, when streams of these lengths take turns.

    Example:
        >>> [_share([3, 1, 2], 0, count) for count in range(8)]
        [0, 1, 1, 1, 2, 2, 3, 4]
    """
    rounds, count = divmod(count, sum(lengths))

    def within(turns: int) -> int:
        return sum([min(length, turns) for length in lengths])

    turns = bisect_right(range(max(lengths) + 1), count, key=within) - 1
    left = count - within(turns)  # so many streams have one turn more
    before = sum([length > turns for length in lengths[:stream]])
    return rounds * lengths[stream] + min(lengths[stream], turns) + (lengths[stream] > turns and before < left)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
