"""`watchdog`: tell when an element does not come, and where it hangs."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from math import inf
from time import monotonic
from typing import Any, Literal, TypeVar

from energon_nodes.combinators.hangs import Hang, Watch, guard, look_at
from energon_nodes.combinators.own_thread import LATE, OwnThread
from energon_nodes.combinators.watching import Watching
from energon_nodes.core.errors import WatchdogError
from energon_nodes.core.fields import tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Watchdog"]

X = TypeVar("X")
_log = logging.getLogger("energon_nodes")


class Watchdog(Watching[X], Node[X], verb="watchdog"):
    """Report when one element takes longer than `seconds`: which node it hangs in, and the stack of the thread.

    The time that the consumer has the element does not count. A pull that goes on hanging is reported again
    after twice the time, four times, and so on. One thread of the process watches for all; it ends with the
    pipeline. Put it at the end of a pipeline, behind `batch`: everything in front is watched. Checkpoints do not
    know of the node.

    Example:
        >>> import energon_nodes as en, threading
        >>> told, come = [], threading.Event()
        >>> def fetch(value):
        ...     come.wait()
        ...     return value
        >>> def tell(hang):
        ...     told.append(hang)
        ...     come.set()
        >>> list(en.items([1, 2]).map(fetch).watchdog(0.05, on_timeout=tell)), told[0].node
        ([1, 2], 'Map(fn=fetch)')

    Args:
        source: The node to read from.
        seconds: How long an element may take, a finite number more than 0.
        on_timeout: "warn" writes a warning with the stack to the log `energon_nodes`, and a line when the element has
            come after all. "raise" raises a `WatchdogError` where the element was asked for. Since nothing
            can break off a call that hangs in the system, the source is then run by a thread of its own, which costs
            some 25 µs an element; the next call waits for the same element again, and until it has come and was
            taken, no state can be had. A function is called with a `Hang`, in the watching thread: to write the
            stacks of other processes, say, or to end this one.

    Raises:
        ValueError: If `seconds` is not a finite number over 0, or `on_timeout` is none of these.
    """

    source: Node[X]
    seconds: float = tuning()
    _: KW_ONLY
    on_timeout: Literal["warn", "raise"] | Callable[[Hang], Any] = tuning(default="warn")

    def check(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds < inf:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"watchdog needs seconds, a finite number > 0, got seconds={self.seconds!r}")
        if self.on_timeout not in ("warn", "raise") and not callable(self.on_timeout):
            raise ValueError(f'watchdog needs on_timeout="warn", "raise" or a callable(hang), got {self.on_timeout!r}')

    def run(self) -> Iterator[tuple[X, Key]]:
        yield from self._run_in_thread() if self.on_timeout == "raise" else self._run_watched()

    def _run_watched(self) -> Iterator[tuple[X, Key]]:
        watch = Watch(repr(self.source), self.seconds, _warn if self.on_timeout == "warn" else self.on_timeout)  # type: ignore[arg-type]
        pairs, guarding, thread = self.source.pairs(), guard(), threading.get_ident
        guarding.add(watch)
        try:
            watch.thread, watch.since = thread(), monotonic()
            if not guarding.awake:
                guarding.wake()
            for pair in pairs:
                begun, watch.since = watch.since, None
                if watch.reported():
                    _log.warning("the element from %s has come after %.1f s", watch.source, monotonic() - begun)
                    watch.forget()
                yield pair
                watch.thread, watch.since = thread(), monotonic()
                if not guarding.awake:
                    guarding.wake()
        finally:
            watch.since = None
            guarding.remove(watch)

    def _run_in_thread(self) -> Iterator[tuple[X, Key]]:
        helper = self._helper
        if helper is None:
            helper = self._helper = OwnThread()
            # A dropped pipeline ends the thread, which knows nothing of the node.
            weakref.finalize(self, helper.end).atexit = False
        try:
            while True:
                pair = helper.take(self.source.pairs, self.seconds)
                if pair is LATE:
                    raise WatchdogError(str(look_at(helper.thread, repr(self.source), helper.waiting())))
                if pair is None:
                    return
                yield pair
        finally:
            if not helper.holds():
                helper.end()
                self._helper = None

    def snapshot(self) -> tuple[Any, ...]:
        helper = self._held()
        if helper is not None:
            raise WatchdogError(
                f"no state can be taken: {self.source!r} is still busy with an element that was asked for "
                f"{helper.waiting():.1f} s ago, or it has come and was not taken. Take that element first, or go back "
                "to a state from before"
            )
        return super().snapshot()

    def stop(self) -> None:
        helper = self._held()
        if helper is not None and not helper.settle(self.seconds):
            raise WatchdogError(
                f"the pipeline cannot be stopped, since it still hangs: "
                f"{look_at(helper.thread, repr(self.source), helper.waiting())}"
            )
        super().stop()

    def clear(self) -> None:
        super().clear()
        helper = self._held()
        self._helper: OwnThread | None = None
        if helper is not None:
            helper.end()

    def _held(self) -> OwnThread | None:
        """Return the thread that has an element, or has gone for one, which the consumer was not given."""
        helper: OwnThread | None = getattr(self, "_helper", None)
        return helper if helper is not None and helper.holds() else None


def _warn(hang: Hang) -> None:
    _log.warning("watchdog: %s", hang)
