"""`prefetch`: let a thread run the source ahead of the consumer."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import SampleError
from energon_nodes.core.fields import buffer, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key

__all__ = ["Prefetch"]

X = TypeVar("X")


class Prefetch(Node[X], verb="prefetch"):
    """Let a thread pull the source ahead of the consumer, up to `n` elements.

    It pays where the source waits (storage) or releases the GIL. What is ahead is a buffer: its
    state is restore keys. Taking the state waits for the element that the thread is pulling. An error
    is raised behind the elements before it; a state taken in between holds its text, and a resumed
    run raises it as a `SampleError`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([1, 2, 3]).prefetch(2))
        [1, 2, 3]

    Args:
        source: The node to read from.
        n: The number of elements to hold, at least 1.

    Raises:
        ValueError: If `n` is less than 1.
    """

    source: Node[X]
    n: int = tuning(default=2)
    ahead: Buffer = buffer()
    begun: bool = state(bool)
    problem: str = state(str)  # an error that the thread has met and the consumer has not: behind the elements ahead

    keeps_keys = True

    def check(self) -> None:
        check_size("prefetch", "n", self.n, 1)

    def bound(self) -> None:
        self._filler: _Filler | None = None

    def run(self) -> Iterator[tuple[X, Key]]:
        self.begun = True
        if self.problem:
            while self.ahead:
                yield self.ahead.pop(0)
            text, self.problem = self.problem, ""
            raise SampleError(text)
        if self._filler is not None:  # its thread has ended with an error
            self._filler.finalizer.detach()
        filler = self._start_filler()
        while True:
            pair = filler.take()
            if pair is None:
                return
            yield pair

    def _start_filler(self) -> _Filler:
        filler = self._filler = _Filler(self.source.pairs(), self.ahead, self.n)
        # A dropped pipeline and the end of the program end the thread. It knows nothing of the node, so the node can be
        # dropped; an element that takes long is not waited for, since this may run anywhere and at any time.
        filler.finalizer = weakref.finalize(self, filler.stop, 1.0)
        return filler

    def rewind(self) -> None:
        """Start the next pass; one that is left is left `n` elements ahead, however quick the thread was."""
        if self.begun and not self.problem:
            filler: _Filler | None = getattr(self, "_filler", None)
            if filler is None or not filler.is_stale():
                if filler is None or filler.has_raised():
                    filler = self._start_filler()
                filler.wait_until_full()
        super().rewind()

    def snapshot(self) -> tuple[Any, ...]:
        filler: _Filler | None = getattr(self, "_filler", None)
        if filler is None or filler.is_stale():
            return super().snapshot()
        with filler.pulling:
            self.problem = filler.problem()
            taken = super().snapshot()
            self.problem = ""
            return taken

    def stop(self) -> None:
        filler: _Filler | None = getattr(self, "_filler", None)
        self._filler = None
        if filler is not None:
            filler.stop()
            filler.finalizer.detach()
            self.problem = filler.problem()
        super().stop()


_forks = 0


def _count_forks() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_forks)


class _Filler:
    """Own the thread: it appends to the buffer while there is room, and knows nothing of the node."""

    finalizer: weakref.finalize[..., Any]

    def __init__(self, pairs: Iterator[Any], ahead: Buffer, room: int) -> None:
        self._pairs, self._ahead, self._room = pairs, ahead, room
        self._changed = threading.Condition()
        self._stopping = self._ended = self._raised = False
        self._problem: BaseException | None = None
        self._born = _forks
        self.pulling = threading.Lock()  # held while the source runs: outside of it, buffer and source agree
        self._thread = threading.Thread(target=self._fill, name="energon_nodes.prefetch", daemon=True)
        self._thread.start()

    def is_stale(self) -> bool:
        """Return whether this process is a fork of the one with the thread; its locks must not be touched then."""
        return self._born != _forks

    def take(self) -> Any:
        """Return the next pair, None at the end; raise what the source raised, after the pairs before it."""
        if self.is_stale():
            raise RuntimeError(
                "a pipeline with prefetch was running when this process was forked: run a clone() of it here"
            )
        with self._changed:
            while not (self._ahead or self._ended or self._problem):
                self._changed.wait()
            if self._ahead:
                pair = self._ahead.pop(0)
                self._changed.notify_all()
                return pair
        problem, self._problem = self._problem, None
        if problem is not None:
            self._raised = True
            raise problem
        return None

    def has_raised(self) -> bool:
        """Return whether the thread has ended with an error that the consumer has seen."""
        return self._raised

    def wait_until_full(self) -> None:
        """Wait until the thread has done what it can do before the consumer takes the next element."""
        with self._changed:
            while len(self._ahead) < self._room and not (self._ended or self._problem or self._stopping):
                self._changed.wait()

    def problem(self) -> str:
        """Return the error that waits to be raised, as text for the state; empty if there is none."""
        if self._problem is None:
            return ""
        notes = "; ".join(getattr(self._problem, "__notes__", []))
        met = f"met ahead of the consumer before the state was taken; {notes}"
        return f"{type(self._problem).__name__}: {self._problem} ({met})"

    def stop(self, timeout: float | None = None) -> None:
        """End the thread; an element that is being pulled is waited for, at most `timeout` seconds, and kept."""
        if self.is_stale():
            return
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _fill(self) -> None:
        while True:
            with self._changed:
                while len(self._ahead) >= self._room and not self._stopping:
                    self._changed.wait()
            with self.pulling:
                if self._stopping:
                    return
                try:
                    pair = next(self._pairs, None)
                except BaseException as error:
                    with self._changed:
                        self._problem = error
                        self._changed.notify_all()
                    return
                with self._changed:
                    if pair is None:
                        self._ended = True
                    else:
                        self._ahead.append(pair)
                    self._changed.notify_all()
                if pair is None:
                    return
