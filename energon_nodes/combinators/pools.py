"""The pools of threads and processes that the nodes of one process share."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

__all__ = ["drop_pool", "pool"]

_pools: dict[tuple[str, int, str | None], Executor] = {}
_lock = threading.Lock()


def pool(method: str, workers: int, mp_context: str | None) -> Executor:
    """Return the pool of this process with that many workers; it is made on first use.

    All streams and all nodes with the same settings share it.

    Args:
        method: "thread" or "process".
        workers: The number of threads or processes.
        mp_context: How processes are started; None takes Python's default.

    Example:
        >>> pool("thread", 2, None) is pool("thread", 2, None)
        True
    """
    with _lock:
        found = _pools.get((method, workers, mp_context))
        if found is None:
            if method == "thread":
                found = ThreadPoolExecutor(workers, thread_name_prefix="energon_nodes")
            else:
                found = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(mp_context))
            _pools[method, workers, mp_context] = found
        return found


def drop_pool(method: str, workers: int, mp_context: str | None) -> None:
    """Forget a pool that is broken, so that the next use makes a new one."""
    with _lock:
        found = _pools.pop((method, workers, mp_context), None)
    if found is not None:
        found.shutdown(wait=False, cancel_futures=True)


def _forget_after_fork() -> None:
    # The child has none of the threads; the lock may have been held by one of them.
    global _lock
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
