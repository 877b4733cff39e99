"""`shuffle`: deliver elements in the random order of a buffer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np

from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import buffer, state
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import BLOCK, Draws
from energon_nodes.core.restore import DROPPED, LAZY, ColumnBuffer, Key

__all__ = ["Shuffle"]

X = TypeVar("X")
_AHEAD = 64  # elements rebuilt together after a resume: their draws are known


class Shuffle(Node[X], verb="shuffle"):
    """Draw at random from a buffer of `size` elements.

    A drawn element is replaced by the next one of the source; at the end the buffer is emptied at
    random. The buffer is per stream. Its state is the restore keys of its elements; after a resume
    an element is rebuilt when it is about to be drawn.

    `.repeat().shuffle(n)` mixes neighbouring passes; `.shuffle(n).repeat()` ends each pass first.

    Example:
        >>> import energon_nodes as en
        >>> shuffled = list(en.items(range(100)).shuffle(10))
        >>> sorted(shuffled) == list(range(100)) != shuffled
        True

    Args:
        source: The node to read from.
        size: The number of elements in the buffer, at least 1; 1 leaves the order as it is.
        seed: A seed for this node; None takes the one of the loader.

    Raises:
        ValueError: If `size` is less than 1.
    """

    source: Node[X]
    size: int
    _: KW_ONLY
    seed: int | None = None
    drawn: int = state(int)
    held: ColumnBuffer = buffer(lazy=True, columns=True)

    keeps_keys = True

    def check(self) -> None:
        check_size("shuffle", "size", self.size, 1)

    def run(self) -> Iterator[tuple[X, Key]]:
        pairs, held, size = self.source.pairs(), self.held, self.size
        context = self.context
        seed = context.seed if self.seed is None else self.seed
        draws = Draws(seed, "shuffle", self.identity, context.stream, context.streams, self.epoch)
        held.extend(islice(pairs, size - len(held)))
        ended = len(held) < size
        while not ended:
            start = self.drawn % BLOCK
            block = ((draws.block(self.drawn // BLOCK)[start:] * np.uint64(size)) >> np.uint64(32)).tolist()
            if held.lazy or held.columns is None or len(held.columns) != 2:
                ended = yield from self._swap(block, pairs)
            else:
                ended = yield from self._swap_flat(block, pairs)
        yield from self._drain(draws)

    def _swap(self, block: list[int], pairs: Iterator[tuple[X, Key]]) -> Generator[tuple[X, Key], None, bool]:
        """Draw position after position of `block`, each replaced by the next element.

        Returns:
            Whether the source ended.
        """
        held = self.held
        for first in range(0, len(block), _AHEAD):
            numbers = block[first : first + _AHEAD]
            held.rebuild(self._rebuild, numbers)  # before the pull: it can fail
            start = self.drawn
            # `zip` must ask for a number before it pulls: the other way round it loses an element.
            for number, pair in zip(numbers, pairs):  # noqa: B905
                old = held.swap(number, pair)
                self.drawn += 1
                if old[0] is DROPPED:
                    self.failed += 1
                else:
                    yield old
            if self.drawn - start < len(numbers):
                return True
        return False

    def _swap_flat(self, block: list[int], pairs: Iterator[tuple[X, Key]]) -> Generator[tuple[X, Key], None, bool]:
        """Do what `_swap` does, for the keys of shard sources: two integers, in two columns."""
        held, start = self.held, self.drawn
        values, (first, second) = held.values, cast("list[Any]", held.columns)
        for number, (value, key) in zip(block, pairs):  # noqa: B905
            old = (values[number], (first[number], second[number]))
            try:
                first[number], second[number] = key
            except (TypeError, ValueError, OverflowError):  # a key of another shape
                first[number], second[number] = old[1]
                held.swap(number, (value, key))
                self.drawn += 1
                yield old
                return False
            values[number] = value
            self.drawn += 1
            yield old
        return self.drawn - start < len(block)

    def _drain(self, draws: Draws) -> Iterator[tuple[X, Key]]:
        held = self.held
        while len(held):
            number = draws.below(len(held), self.drawn)
            if held.lazy and held.values[number] is LAZY:
                held.rebuild(self._rebuild, self._next_drained(draws))
            old = held.remove(number)
            self.drawn += 1
            if old[0] is DROPPED:
                self.failed += 1
            else:
                yield old

    def _next_drained(self, draws: Draws) -> list[int]:
        """Return the positions of the next elements that `_drain` will remove."""
        count = len(self.held)
        moved: dict[int, int] = {}
        positions: list[int] = []
        for step in range(min(_AHEAD, count)):
            number, last = draws.below(count - step, self.drawn + step), count - step - 1
            positions.append(moved.get(number, number))
            moved[number] = moved.get(last, last)
        return positions

    def _rebuild(self, keys: Sequence[Key]) -> Sequence[X]:
        return self.rebuilt("held", keys)

    def draws_random(self) -> bool:
        return self.size > 1
