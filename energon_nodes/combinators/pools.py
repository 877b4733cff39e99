"""The pools of threads and processes that the nodes of one process share, and calls in them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from energon_nodes.combinators.calls import Rng
from energon_nodes.core.errors import SampleError
from energon_nodes.core.randomness import ElementRandom, global_seed

__all__ = ["check_picklable", "drop_pool", "pool", "seeded_call"]

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


def drop_pool(broken: Executor) -> None:
    """Forget a pool that is broken, so that the next use makes a new one."""
    with _lock:
        for settings, found in list(_pools.items()):
            if found is broken:
                del _pools[settings]
    broken.shutdown(wait=False, cancel_futures=True)


def check_picklable(function: object) -> None:
    """Raise a ValueError if a function cannot be sent to the processes of a pool."""
    try:
        pickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f'parallel_map(method="process") needs a function that can be pickled, got {function!r} ({error}): take '
            'one from the top of a module, or method="thread"'
        ) from error


@lru_cache(maxsize=64)
def _element_random(seed: int, identity: tuple[Any, ...]) -> ElementRandom:
    return ElementRandom(seed, identity, "element")


def seeded_call(
    function: Callable[..., Any], rng: Rng, seed: int, identity: tuple[Any, ...], value: Any, key: Any
) -> Any:
    """Call `function` in another process as `bind_call` would in this one."""
    try:
        if rng is False:
            return function(value)
        source = _element_random(seed, identity)
        if rng is True:
            return function(value, source.at(key))
        with global_seed(source.seed_at(key)):
            return function(value)
    except Exception as error:
        if _can_be_sent(error):
            raise
        raise SampleError(f"{type(error).__qualname__}: {error}") from error


def _can_be_sent(error: Exception) -> bool:
    # One that cannot be rebuilt from its pickle would break the pool, as a process that died does.
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _forget_after_fork() -> None:
    # The child has none of the threads; the lock may have been held by one of them.
    global _lock
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
