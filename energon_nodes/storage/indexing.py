"""Index the shards of a dataset side by side, and hand over the results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import islice

from energon_nodes.storage import paths
from energon_nodes.storage.shard_rows import IndexedShard, index_shards
from energon_nodes.storage.subprocesses import Subprocesses

__all__ = ["index_all", "local_executor"]

_BYTES = 128 << 20  # of shards in one call: some tenths of a second, so that sending it does not count
_SHARDS = 64
_SMALL = 256 << 20
"""Local datasets of at most so many bytes are indexed here: other processes would hardly have started."""
_OUTSTANDING = 64
"""So many calls are on their way at most to an executor that does not say how many workers it has."""


@contextmanager
def local_executor(root: str, total: int, workers: int | None) -> Generator[Executor | None]:
    """Give a pool of processes, or None where starting it would not pay.

    Example:
        >>> with local_executor("/data", 1000, None) as executor:
        ...     executor is None
        True

    Args:
        root: The folder of the dataset.
        total: The bytes of its shards.
        workers: How many processes there may be; None for one per core.

    Yields:
        The pool.
    """
    count = workers or len(os.sched_getaffinity(0))
    in_memory = root.startswith("memory://")  # of this process, where no other one sees it
    if count == 1 or in_memory or (total <= _SMALL and not paths.is_url(root)):
        yield None
        return
    pool = Subprocesses(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def index_all(
    root: str, names: Sequence[str], sizes: Sequence[int], executor: Executor | None = None, workers: int | None = None
) -> Iterator[IndexedShard]:
    """Index shards through an executor, and give the results in the order of the shards.

    Few results wait at any time, however many shards there are.

    Example:
        >>> list(index_all("/data", [], []))
        []

    Args:
        root: The folder or URL of the dataset.
        names: The shards, relative to it.
        sizes: The bytes of each.
        executor: Where it is done: any `concurrent.futures.Executor`; None for here.
        workers: How many workers the executor has, None if that is not known.

    Yields:
        What was found in each shard.

    Raises:
        Exception: What the executor raises, when a worker dies for instance.
    """
    tasks = _tasks(names, sizes)
    if executor is None:
        for task in tasks:
            yield from index_shards(root, task)
        return
    known: object = workers or getattr(executor, "_max_workers", None)
    outstanding = 2 * known + 1 if isinstance(known, int) else _OUTSTANDING
    waiting: deque[Future[list[IndexedShard]]] = deque()
    try:
        for task in islice(tasks, outstanding):
            waiting.append(executor.submit(index_shards, root, task))
        while waiting:
            found = waiting.popleft().result()
            for task in islice(tasks, 1):
                waiting.append(executor.submit(index_shards, root, task))
            yield from found
    finally:
        for future in waiting:
            future.cancel()


def _tasks(names: Sequence[str], sizes: Sequence[int]) -> Iterator[list[str]]:
    """Put small neighbouring shards together."""
    task: list[str] = []
    total = 0
    for name, size in zip(names, sizes, strict=True):
        if task and (total + size > _BYTES or len(task) == _SHARDS):
            yield task
            task, total = [], 0
        task.append(name)
        total += size
    if task:
        yield task
