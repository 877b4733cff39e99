"""`parallel_map`: apply a function in a pool of threads or processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import KW_ONLY
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from energon_nodes.combinators.calls import Rng, bind_call, check_function, is_pure, refuse_generator
from energon_nodes.combinators.pools import check_picklable, drop_pool, pool, seeded_call
from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import WorkerError
from energon_nodes.core.fields import buffer, scratch, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ParallelMap"]

X = TypeVar("X")
Y = TypeVar("Y")


class ParallelMap(Node[Y], verb="parallel_map"):
    """Apply `fn` to every element in a pool of threads or processes, ahead of the consumer.

    What is in flight is a buffer: its state is restore keys, and after a resume those elements
    are submitted again. The pool belongs to the process and is shared by its streams.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([3, 1, 2]).parallel_map(str, workers=2))
        ['3', '1', '2']

    Args:
        source: The node to read from.
        fn: `fn(value)`, or `fn(value, rng)` with `rng=True`. It must be safe to call from several
            threads at once; for processes it must be picklable.
        workers: The number of threads or processes, at least 1.
        method: "thread", for functions that release the GIL (decoding, numpy, torch); "process" for others.
            Processes are not possible inside the workers of a loader.
        in_order: Whether results come in the order of the source. False gives them as they are
            ready: every element comes once, also across a resume, but the order is not repeatable.
        ahead: How many elements are in flight; None is twice the number of workers.
        mp_context: How processes are started: "fork", "spawn", "forkserver", or None for Python's default.
        rng: As for `map`; "global" is not possible with threads, which share the global generators.
        seed: A seed for this node; None takes the one of the loader.
        pure: As for `map`.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Raises:
        TypeError: If `fn` is not callable.
        ValueError: If a setting is out of its range, or `fn` cannot be sent to processes.
    """

    source: Node[Any]
    fn: Callable[..., Y]
    _: KW_ONLY
    workers: int = tuning(default=2)
    method: Literal["thread", "process"] = tuning(default="thread")
    in_order: bool = True
    ahead: int | None = tuning(default=None)
    mp_context: str | None = tuning(default=None)
    rng: Rng = False
    seed: int | None = None
    pure: bool | None = tuning(default=None)
    on_error: ErrorPolicy | None = tuning(default=None)
    flying: Buffer = buffer()
    futures: deque[Future[Y]] = scratch(deque)

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X], Y],
            *,
            workers: int = 2,
            method: Literal["thread", "process"] = "thread",
            in_order: bool = True,
            ahead: int | None = None,
            mp_context: str | None = None,
            rng: Literal[False, "global"] = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X, np.random.Generator], Y],
            *,
            workers: int = 2,
            method: Literal["thread", "process"] = "thread",
            in_order: bool = True,
            ahead: int | None = None,
            mp_context: str | None = None,
            rng: Literal[True],
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    keeps_keys = True

    def check(self) -> None:
        check_function("parallel_map", "fn", self.fn, self.rng)
        remedy = "return a list in parallel_map and put unbatch behind it, or use map"
        refuse_generator("parallel_map", "fn", self.fn, remedy)
        check_size("parallel_map", "workers", self.workers, 1)
        if self.ahead is not None:
            check_size("parallel_map", "ahead", self.ahead, 1)
        if self.method not in ("thread", "process"):
            raise ValueError(f'parallel_map needs method="thread" or "process", got {self.method!r}')
        if self.rng == "global" and self.method == "thread":
            raise ValueError('parallel_map(rng="global") needs method="process": threads share the global generators')
        if self.method == "process":
            check_picklable(self.fn)
        if is_stateful(self.fn):
            raise ValueError(f"parallel_map cannot call {self.fn!r} in parallel: it has a state; use map")

    def check_worker(self) -> None:
        if self.method == "process":
            raise ValueError(
                'parallel_map(method="process") cannot run in the workers of a loader, which may not have children: '
                'use method="thread", or loader(num_workers=0)'
            )

    def bound(self) -> None:
        if self.method == "thread":
            self._call = bind_call(self, self.fn, self.rng, self.seed)
        else:
            seed = self.context.seed if self.seed is None else self.seed
            self._call = partial(seeded_call, self.fn, self.rng, seed, self.identity)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs, flying, futures = self.source.pairs(), self.flying, self.futures
        depth = 2 * self.workers if self.ahead is None else self.ahead
        executor = pool(self.method, self.workers, self.mp_context)
        streak = 0
        while True:
            self._submit(executor, flying[len(futures) :])
            while len(flying) < depth:
                flying.extend(islice(pairs, 1))
                if len(flying) == len(futures):
                    break
                self._submit(executor, flying[-1:])
            if not flying:
                return
            number = 0 if self.in_order else self._first_done()
            future = futures[number]
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise self._dead_worker(executor) from error
            if error is not None and not isinstance(error, Exception):
                futures.clear()  # an exit judges no element: those in flight are submitted again at the next call
                raise error
            value, key = flying.pop(number)
            del futures[number]
            if error is None:
                streak = 0
                yield future.result(), key
            else:
                streak = self.fail(error, key, value, streak)

    def _submit(self, executor: Executor, pairs: list[tuple[Any, Key]]) -> None:
        try:
            self.futures.extend(executor.submit(self._call, value, key) for value, key in pairs)
        except BrokenExecutor as error:
            raise self._dead_worker(executor) from error

    def _dead_worker(self, executor: Executor) -> WorkerError:
        self.futures.clear()
        drop_pool(executor)
        return WorkerError(
            f"a worker process of {self!r} died (killed, out of memory, or crashed in native code); "
            "the elements in flight are submitted again at the next call"
        )

    def _first_done(self) -> int:
        wait(self.futures, return_when=FIRST_COMPLETED)
        return next(number for number, future in enumerate(self.futures) if future.done())

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        values = self.source.restore_many(keys)
        if self.method == "thread" and len(keys) > 1:
            return list(pool("thread", self.workers, None).map(self._call, values, keys))
        return [self._call(value, key) for value, key in zip(values, keys, strict=True)]

    def restorable(self, name: str = "") -> bool:
        return self.source.restorable() and (bool(name) or is_pure(self.fn, self.pure))

    def draws_random(self) -> bool:
        return self.rng is not False
