"""From which branch each element of a blend comes: drawn at random, evenly spread, or an exact random mixture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.randomness import BLOCK, Draws, fold
from energon_nodes.core.share import Permutation

__all__ = ["ByWeight", "Exact", "Mixing", "even_places"]

Mixing = Literal["random", "smooth"]

_GOLDEN = 0x9E3779B97F4A7C15  # the golden ratio's fraction of 2**64: its multiples fill the circle evenly
_64 = (1 << 64) - 1


class _Words(Protocol):
    def block(self, number: int) -> NDArray[np.uint64]: ...


class _Smooth:
    """Give words below `2**32` whose every stretch is spread evenly, a Kronecker sequence.

    Streams are shifted against each other by equal steps, so that the words of all streams at one turn
    are spread evenly as well.
    """

    def __init__(self, start: int, stream: int, streams: int) -> None:
        place = even_places(streams)[stream]
        self._start = np.uint64((start + (place << 64) // streams) & _64)

    def block(self, number: int) -> NDArray[np.uint64]:
        counts = np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.uint64)
        return (counts * np.uint64(_GOLDEN) + self._start) >> np.uint64(32)


class ByWeight:
    """Say which branch each draw goes to, by weights.

    Args:
        mixing: "random" draws each at random. "smooth" spreads the draws of every branch evenly: after any number of
            draws a branch has had its share within a few, and so it has over all streams at one turn.
        parts: What the draws depend on: seed, identity, epoch.
        stream: The stream.
        streams: The number of streams.

    Example:
        >>> order = ByWeight("smooth", (0, (), 0), 0, 1)
        >>> drawn = order.branches(0, [0, 2], [3.0, 1.0])
        >>> len(drawn), abs(drawn.count(0) - 0.75 * len(drawn)) < 3
        (1024, True)
    """

    def __init__(self, mixing: Mixing, parts: tuple[object, object, object], stream: int, streams: int) -> None:
        seed, identity, epoch = parts
        self._words: _Words = (
            Draws(seed, "blend", identity, stream, streams, epoch)
            if mixing == "random"
            else _Smooth(fold("blend", *parts) & _64, stream, streams)
        )

    def branches(self, drawn: int, open_branches: list[int], weights: Sequence[float]) -> list[int]:
        """Return the branches of draw number `drawn` and of those that follow in its block.

        Args:
            drawn: The number of the draw.
            open_branches: The branches that have not ended.
            weights: A positive number for each of these.

        Returns:
            A list of their numbers.
        """
        bounds = list(accumulate(weights))
        scale = bounds[-1] / 4294967296.0
        bounds[-1] = float("inf")  # rounding must not draw past the last one
        words = self._words.block(drawn // BLOCK)[drawn % BLOCK :]
        places = np.searchsorted(np.array(bounds), words.astype(np.float64) * scale, "right")
        return np.array(open_branches)[places].tolist()


class Exact:
    """Say which branch each draw goes to, so that every branch has exactly its number of draws, in random order.

    Args:
        counts: How many draws each branch has.
        parts: What the order depends on: seed, identity, stream, streams, epoch.

    Example:
        >>> order = Exact([2, 0, 3], (0,))
        >>> sorted(order.branches(0))
        [0, 0, 2, 2, 2]
    """

    def __init__(self, counts: Sequence[int], parts: tuple[object, ...]) -> None:
        self.total = sum(counts)
        self._ends = np.cumsum(np.array(counts, np.int64))
        self._order = Permutation(self.total, fold("exact blend", *parts)) if self.total else None

    def branches(self, drawn: int) -> list[int]:
        """Return the branches of draw number `drawn` and of those that follow, at most a block of them."""
        if self._order is None:
            return []
        places = self._order(np.arange(drawn, min(drawn + BLOCK, self.total)))
        return np.searchsorted(self._ends, places, "right").tolist()


def even_places(count: int) -> list[int]:
    """Return the numbers below `count` so that neighbours lie far apart: those of van der Corput's sequence.

    Example:
        >>> even_places(8), even_places(3)
        ([0, 4, 2, 6, 1, 5, 3, 7], [0, 2, 1])

    Args:
        count: How many.

    Returns:
        A permutation of `range(count)`; the members of any stretch of it are spread over the range.
    """
    bits = max(1, (count - 1).bit_length())
    reversed_bits = [int(f"{number:0{bits}b}"[::-1], 2) for number in range(count)]
    ranked = sorted(range(count), key=reversed_bits.__getitem__)
    places = [0] * count
    for place, number in enumerate(ranked):
        places[number] = place
    return places
