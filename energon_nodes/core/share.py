"""How one order of samples is made without memory, and which part of it a stream reads.

A dataset of `n` samples is cut into sequences of `length` samples; the sequences are permuted by a
keyed bijection that needs no table. Stream `v` of `V` reads the `v`-th of `V` equal parts of that
order, so the order depends on the number of streams alone, never on ranks or workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.checks import check_policy, plain_int
from energon_nodes.core.randomness import fold

__all__ = ["Context", "ErrorPolicy", "Order", "Permutation", "part_of", "turns_of"]

ErrorPolicy = Literal["raise", "skip"] | Callable[[Exception, Any], Any]
"""What happens to an element that fails: raise, skip, or call `(error, key)` and skip if it returns."""

_ROUNDS = 8
_SMALL = 256
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True)
class Context:
    """Say what a run of a graph needs to know from outside.

    Args:
        seed: The seed for all nodes that have none of their own.
        stream: The number of this logical stream, in `[0, streams)`.
        streams: The number of logical streams that the data is split into.
        on_error: The policy for nodes that have none of their own.
        tolerance: How many elements in a row may be skipped for errors at one node.
        on_restore_error: What happens to an element of a buffer that cannot be rebuilt after a resume:
            "raise", "skip" (it is dropped and counted), or `callable(error, key)`, skip if it returns.

    Example:
        >>> Context(stream=1, streams=4).streams
        4
    """

    seed: int = 0
    stream: int = 0
    streams: int = 1
    on_error: ErrorPolicy = "raise"
    tolerance: int = 100
    on_restore_error: ErrorPolicy = "raise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", plain_int("a run", "seed", self.seed))
        if not 0 <= self.stream < self.streams:
            raise ValueError(
                f"a stream has a number from 0 to streams-1, got stream={self.stream}, streams={self.streams}"
            )
        if self.tolerance < 0:
            raise ValueError(f"a run needs tolerance >= 0, got tolerance={self.tolerance}")
        check_policy("a run", self.on_error)
        check_policy("a run", self.on_restore_error, "on_restore_error")


class Permutation:
    """Permute `range(n)` by a keyed bijection in constant memory.

    A Feistel network on the next power of two; values outside the range are sent through again
    ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
    Networks on less than 256 values are visibly biased, and walking back into a much smaller range
    takes long: up to 256, the values of the range are taken in the order in which that network
    gives them.

    Args:
        n: The size of the range, at least 1.
        key: A 128-bit key, see `fold`.

    Raises:
        ValueError: If `n` is less than 1.

    Example:
        >>> p = Permutation(10, key=7)
        >>> sorted(p(np.arange(10)).tolist()) == list(range(10))
        True
        >>> p.inverse(p(np.arange(10))).tolist() == list(range(10))
        True
    """

    def __init__(self, n: int, key: int) -> None:
        if n < 1:
            raise ValueError(f"a permutation needs n >= 1, got n={n}")
        bits = max(8, (n - 1).bit_length())
        self._n = np.uint64(n)
        self._low_bits = np.uint64(bits // 2)
        self._low_mask = np.uint64((1 << (bits // 2)) - 1)
        self._high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
        self._keys = [np.uint64(fold("round", key, number) & 0xFFFFFFFFFFFFFFFF) for number in range(_ROUNDS)]
        self._table: NDArray[np.int64] | None = None
        if n <= _SMALL:
            images = self._apply(np.arange(_SMALL, dtype=np.uint64), range(_ROUNDS)).astype(np.int64)
            self._table = images[images < n]

    def __call__(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the images of `positions`, an integer array of any shape `(k,)`."""
        return self._walk(positions, range(_ROUNDS)) if self._table is None else self._table[positions]

    def inverse(self, images: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions whose images are given, an integer array of shape `(k,)`."""
        if self._table is not None:
            return np.argsort(self._table)[images]
        return self._walk(images, range(_ROUNDS - 1, -1, -1))

    def _walk(self, values: NDArray[Any], rounds: range) -> NDArray[np.int64]:
        result = self._apply(values.astype(np.uint64), rounds)
        outside = np.flatnonzero(result >= self._n)
        while outside.size:
            again = self._apply(result[outside], rounds)
            result[outside] = again
            outside = outside[again >= self._n]
        return result.astype(np.int64)

    def _apply(self, values: NDArray[np.uint64], rounds: range) -> NDArray[np.uint64]:
        low, high = values & self._low_mask, values >> self._low_bits
        for number in rounds:
            if number % 2 == 0:
                low = (low ^ _mix(high, self._keys[number])) & self._low_mask
            else:
                high = (high ^ _mix(low, self._keys[number])) & self._high_mask
        return (high << self._low_bits) | low


def _mix(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    mixed = (values ^ key) * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIERS[1]
    return mixed ^ (mixed >> np.uint64(32))


class Order:
    """Order `n` samples in sequences of `length` samples, permuted by `key`.

    Args:
        n: The number of samples.
        length: The number of neighbouring samples that stay together; 1 is a global shuffle.
        key: The key of the permutation, or None for the natural order.

    Example:
        >>> Order(10, 4, key=None).indices(3, 6).tolist()
        [3, 4, 5]
        >>> sorted(Order(10, 4, key=3).indices(0, 10).tolist()) == list(range(10))
        True
    """

    def __init__(self, n: int, length: int, key: int | None) -> None:
        self.n = n
        self.length = length
        self._permutation: Permutation | None = None
        if key is not None and n > length:
            sequences = -(-n // length)
            self._permutation = Permutation(sequences, key)
            short = n - (sequences - 1) * length
            # The short last sequence stands at one slot; positions behind it shift by what it lacks.
            self._missing = length - short
            slot = int(self._permutation.inverse(np.array([sequences - 1]))[0])
            self._short_end = slot * length + short

    def indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the sample indices at positions `start` to `stop - 1`, int64 of shape `(stop - start,)`."""
        return self.at(range(start, stop))

    def at(self, positions: range) -> NDArray[np.int64]:
        """Return the sample indices at evenly spaced positions, int64 of shape `(len(positions),)`."""
        places = np.arange(positions.start, positions.stop, positions.step)
        if self._permutation is None:
            return places
        slots, offsets = np.divmod(self._pad(places), self.length)
        wanted, back = np.unique(slots, return_inverse=True)
        return self._permutation(wanted)[back] * self.length + offsets

    def runs(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return positions `start` to `stop - 1` as runs of neighbouring samples.

        Returns:
            Two int64 arrays of shape `(runs,)`: the first sample index of each run, and its length.
        """
        if self._permutation is None or start >= stop:
            return np.array([start]), np.array([max(0, stop - start)])
        first, last = (int(value) for value in self._pad(np.array([start, stop - 1])) // self.length)
        slots = np.arange(first, last + 1)
        begins = slots * self.length
        begins -= np.where(begins >= self._short_end, self._missing, 0)
        ends = np.append(begins[1:], stop)
        sources = self._permutation(slots) * self.length
        sources[0] += start - begins[0]
        begins[0] = start
        return sources, ends - begins

    def _pad(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions + np.where(positions >= self._short_end, self._missing, 0)


def part_of(n: int, stream: int, streams: int) -> tuple[int, int]:
    """Return the range of positions that a stream reads: the `stream`-th of equal parts of `n`.

    The first `n % streams` parts have one element more.

    Example:
        >>> [part_of(10, stream, 4) for stream in range(4)]
        [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    size, more = divmod(n, streams)
    start = stream * size + min(stream, more)
    return start, start + size + (stream < more)


def turns_of(n: int, stream: int, streams: int) -> int:
    """Return how many of the turns 0 to n-1 belong to a stream, when turn t belongs to stream t mod streams.

    Example:
        >>> [turns_of(10, stream, 4) for stream in range(4)]
        [3, 3, 2, 2]
    """
    return n // streams + (stream < n % streams)
