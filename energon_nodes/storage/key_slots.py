"""Put rows into the slots of a hash table, all in order of their hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["slots_of"]

_LEAST_ROUNDS, _MOST_ROUNDS = 16, 64  # so many parts of the hash table are made one after the other
_IN_ROUND = 250_000  # so many keys are in one, as long as that does not take too many
_CHUNK = 1 << 20


def slots_of(hashes: NDArray[np.uint32], bits: int, suspects: list[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Yield the slots from the first to the last; add runs of rows with the same hash to `suspects`.

    In the order of their hashes every row takes the first free slot from where its search begins: as one after the
    other would be put into a table, and the search finds the lowest row of a key first.

    Example:
        >>> hashes = np.array([3 << 30, 1 << 30, 3 << 30], np.uint32)
        >>> np.concatenate(list(slots_of(hashes, 2, suspects := []))).tolist(), suspects
        ([0, 2, 0, 1, 3, 0], [array([0, 2])])

    Args:
        hashes: The hash of each row, uint32 of shape `(rows,)`; `np.memmap` keeps memory bounded.
        bits: How many of the upper bits of a hash say where its search begins: `2**bits` slots, and a few more.
        suspects: Gets the rows of each hash that several rows have, ascending.

    Yields:
        Pieces of the slots, int64: row + 1, or 0 for an empty slot. The last slot of all is empty.
    """
    rounds = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, len(hashes) // _IN_ROUND))
    edges = np.linspace(0, 1 << 32, rounds + 1).astype(np.int64)
    written = free = 0
    for low, high in pairwise(edges.tolist()):
        rows = _between(hashes, low, high)
        own = np.asarray(hashes[rows])
        order = np.argsort(own, kind="stable")
        rows, own = rows[order], own[order].astype(np.int64)
        home = np.maximum(own >> (32 - bits), free)
        count = np.arange(len(rows))
        places = count + np.maximum.accumulate(home - count)
        free = int(places[-1]) + 1 if len(places) else free
        end = max(high >> (32 - bits), free)
        piece = np.zeros(end - written, np.int64)
        piece[places - written] = rows + 1
        yield piece
        written = end
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        sizes = np.diff(starts, append=len(rows))
        suspects += [rows[start : start + size] for start, size in _several(starts, sizes)]
    yield np.zeros(1, np.int64)  # the last search ends here


def _between(hashes: NDArray[np.uint32], low: int, high: int) -> NDArray[np.int64]:
    pieces = [
        np.flatnonzero((hashes[start : start + _CHUNK] >= low) & (hashes[start : start + _CHUNK] < high)) + start
        for start in range(0, len(hashes), _CHUNK)
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _several(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    wanted = sizes > 1
    return zip(starts[wanted].tolist(), sizes[wanted].tolist(), strict=True)
