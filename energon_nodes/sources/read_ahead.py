"""Read the groups of samples that a stream needs next; remote ones while the last one is consumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.paths import is_url
from energon_nodes.storage.reading import PartFilter, Read
from energon_nodes.storage.shard_set import ShardSet

__all__ = ["Batch", "read_batches"]

_BYTES = 4 * 1024 * 1024
_REMOTE_BYTES = 32 * 1024 * 1024
# Of samples of 2 kB, 512 fit into the second-level cache of common processors; more are read at once where they lie
# scattered, since then each shard costs more than a sample.
_SAMPLES = 512
_SCATTERED_SAMPLES = 2048
_FIRST_SAMPLES = 64  # the first group is small: whoever waits for the first sample need not wait for hundreds
_INDICES = 8192  # how many are computed at once
_THREADS = 8

_pool: ThreadPoolExecutor | None = None


class Batch(NamedTuple):
    """Hold samples that were read together.

    Example:
        >>> Batch([7], Read([None], False)).indices
        [7]

    Args:
        indices: Their global indices.
        read: The samples.
    """

    indices: list[int]
    read: Read


def read_batches(
    shards: ShardSet,
    indices: Callable[[int, int], NDArray[np.int64]],
    start: int,
    stop: int,
    *,
    wants: PartFilter | None = None,
    first: int = 0,
    scattered: bool = False,
    soon: bool = True,
) -> Iterator[Batch]:
    """Read the elements `start` to `stop - 1` of a stream, group by group.

    Up to 2,048 samples or 4 MB are read at once, 32 MB from remote stores, where the next group is fetched in a
    background thread while this one is consumed.

    Example:
        >>> from energon_nodes.storage.index import MemoryIndex
        >>> empty = ShardSet("/data", [], [], MemoryIndex([]))
        >>> list(read_batches(empty, lambda start, stop: np.arange(start, stop), 0, 0))
        []

    Args:
        shards: Where the samples are.
        indices: Gives the indices of elements `start` to `stop - 1`.
        start: The first element.
        stop: The element behind the last one.
        wants: Tells which parts are read; None for all.
        first: What is added to an index to make it global.
        scattered: Whether neighbours in the stream mostly are not neighbours in the shards.
        soon: Whether somebody waits for the first sample, so that the first group is small.

    Returns:
        The groups, in order.

    Raises:
        DatasetError: An index cannot be read.
    """
    remote = is_url(shards.root)
    count = _SCATTERED_SAMPLES if scattered or remote else _SAMPLES
    upcoming = _Indices(indices, start, stop, first, count, min(count, _FIRST_SAMPLES) if soon else count)
    if not remote:
        while (wanted := upcoming.peek()) is not None:
            batch = _read(shards, wanted, wants, _BYTES)
            upcoming.skip(len(batch.indices))
            yield batch
        return
    future: Future[Batch] | None = None
    try:
        if (wanted := upcoming.peek()) is not None:
            future = _executor().submit(_read, shards, wanted, wants, _REMOTE_BYTES)
        while future is not None:
            batch, future = future.result(), None
            upcoming.skip(len(batch.indices))
            if (wanted := upcoming.peek()) is not None:
                future = _executor().submit(_read, shards, wanted, wants, _REMOTE_BYTES)
            yield batch
    finally:
        if future is not None:
            future.cancel()


def _read(shards: ShardSet, wanted: NDArray[np.int64], wants: PartFilter | None, limit: int) -> Batch:
    plan = shards.plan(wanted, wants, limit)
    return Batch(wanted[: plan.length].tolist(), shards.fetch(plan))


class _Indices:
    """Compute the indices of a stream in large blocks and hand them out in groups."""

    def __init__(
        self,
        indices: Callable[[int, int], NDArray[np.int64]],
        start: int,
        stop: int,
        first: int,
        count: int,
        begin: int,
    ) -> None:
        self._indices = indices
        self._first = first
        self._count, self._later = begin, count
        self._next, self._stop = start, stop
        self._size = count  # the first block is small: a resume should not wait for indices it may not need
        self._block = np.zeros(0, np.int64)

    def peek(self) -> NDArray[np.int64] | None:
        if not len(self._block):
            if self._next >= self._stop:
                return None
            end = min(self._stop, self._next + self._size)
            self._block = self._indices(self._next, end) + self._first
            self._next = end
            self._size = _INDICES
        return self._block[: self._count]

    def skip(self, count: int) -> None:
        self._count = self._later
        self._block = self._block[count:]


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_THREADS, "energon_nodes-read")
    return _pool


def _forget_pool(*_: Any) -> None:
    global _pool
    _pool = None  # its threads did not come along with the fork


os.register_at_fork(after_in_child=_forget_pool)
