"""The order in which one stream reads its part of a shard source, in constant memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.share import Order, part_of

__all__ = ["ReadingOrder"]


_SMALL_BLOCK = 1 << 15


class ReadingOrder:
    """Map the elements of one stream to sample indices.

    The samples are cut into sequences of `length` neighbours and the sequences permuted; the stream reads one of
    `streams` equal parts of that order. With `parallel` k, blocks of k sequences are read side by side: the first
    sample of each, the second of each, and so on; a sequence that ends leaves the round, and the next block begins
    when all k have ended.

    Args:
        n: The number of samples.
        length: The samples of a sequence.
        key: The key of the permutation, or None for the natural order.
        parallel: How many sequences are read side by side.
        stream: The number of the stream.
        streams: The number of streams.

    Example:
        >>> order = ReadingOrder(10, 3, None, 2, 0, 1)
        >>> order.count, order.indices(0, 10).tolist()
        (10, [0, 3, 1, 4, 2, 5, 6, 9, 7, 8])
    """

    def __init__(self, n: int, length: int, key: int | None, parallel: int, stream: int, streams: int) -> None:
        self._order = Order(n, length, key)
        self._n = n
        self._length = min(length, max(1, n))
        self._parallel = parallel if length > 1 else 1
        self._start, self._stop = part_of(n, stream, streams)
        self.count = self._stop - self._start
        """How many elements the stream has."""

    def indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the sample indices of elements `start` to `stop - 1`.

        Args:
            start: The first element, at least 0.
            stop: The element after the last one; elements behind the end of the stream are left out.

        Returns:
            The indices, int64 of shape `(elements,)`.
        """
        stop = min(stop, self.count)
        if stop <= start:
            return np.zeros(0, np.int64)
        if self._parallel == 1:
            return self._positions(self._start + start, self._start + stop)
        if self._parallel * self._length <= _SMALL_BLOCK:
            return self._whole_blocks(start, stop)
        pieces: list[NDArray[np.int64]] = []
        while start < stop:
            first, begins = self._block(self._start + start)
            end = min(stop, int(begins[-1]) - self._start)
            positions = _interleaved(begins, self._start + start - first, self._start + end - first)
            pieces.append(self._at(begins, positions))
            start = end
        return np.concatenate(pieces)

    def _positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the sample indices at positions of the order, in the natural order of positions."""
        sources, lengths = self._order.runs(start, stop)
        ends = np.cumsum(lengths)
        return np.repeat(sources - ends + lengths, lengths) + np.arange(stop - start)

    def _whole_blocks(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return elements of blocks that are small enough to be put in order as a whole, many at once."""
        origin, slot = self._block_slot(self._start + start)
        first = max(self._slot_begin(origin, slot), self._start)
        last = min(self._start + stop + self._parallel * self._length, self._stop)
        indices = self._positions(first, last)
        begins = indices % self._length == 0
        begins[0] = True
        sequence = np.cumsum(begins) - 1
        place = np.arange(len(indices)) - np.flatnonzero(begins)[sequence]
        turn = np.lexsort((sequence, place, sequence // self._parallel))
        return indices[turn[self._start + start - first : self._start + stop - first]]

    def _block_slot(self, position: int) -> tuple[int, int]:
        """Return where the stream's first sequence begins, and the number of the first one of a position's block."""
        origin = self._begin(self._start)
        apart = self._begin(position) - origin
        # Between two sequences lie whole ones and at most one short one, which shows as a remainder.
        slot = apart // self._length + (apart % self._length != 0)
        return origin, slot // self._parallel * self._parallel

    def _block(self, position: int) -> tuple[int, NDArray[np.int64]]:
        """Return where the block around a position begins, and where its sequences begin and end."""
        origin, first = self._block_slot(position)
        begins = [self._slot_begin(origin, number) for number in range(first, first + self._parallel + 1)]
        cut = np.unique(np.clip(np.array(begins), self._start, self._stop))
        return int(cut[0]), cut

    def _begin(self, position: int) -> int:
        """Return where the sequence that a position lies in begins."""
        return position - int(self._order.indices(position, position + 1)[0]) % self._length

    def _slot_begin(self, origin: int, slot: int) -> int:
        """Return where the sequence `slot` behind the one at `origin` begins."""
        begin = origin + slot * self._length
        if slot == 0 or self._starts_sequence(begin):
            return begin
        # The short sequence lies in front of it, or it lies behind the end.
        begin -= -self._n % self._length
        return begin if self._starts_sequence(begin) else self._n

    def _starts_sequence(self, position: int) -> bool:
        return position < self._n and int(self._order.indices(position, position + 1)[0]) % self._length == 0

    def _at(self, begins: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample indices at positions of one block."""
        result = np.empty(len(positions), np.int64)
        runs = np.searchsorted(begins, positions, "right") - 1
        for run in np.unique(runs).tolist():
            chosen = runs == run
            begin = int(begins[run])
            # A sequence is a run of neighbours: its first index tells the others.
            result[chosen] = int(self._order.indices(begin, begin + 1)[0]) + positions[chosen] - begin
        return result


def _interleaved(begins: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    """Return the positions of elements `start` to `stop - 1` of a block whose sequences are read in turn."""
    lengths = np.diff(begins)
    pieces: list[NDArray[np.int64]] = []
    done = at = 0  # rounds, elements
    for length in np.unique(lengths).tolist():
        active = np.flatnonzero(lengths >= length)
        elements = (length - done) * len(active)
        low, high = max(start, at), min(stop, at + elements)
        if low < high:
            rounds, places = np.divmod(np.arange(low - at, high - at), len(active))
            pieces.append(begins[active[places]] + done + rounds)
        done, at = length, at + elements
    return np.concatenate(pieces)
