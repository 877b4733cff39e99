"""Find pulls that take too long: one thread of the process looks at all that are watched."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from types import FrameType
from typing import Any

from energon_nodes.core.node import Node

__all__ = ["Hang", "Watch", "guard", "look_at"]

_log = logging.getLogger("energon_nodes")
_MOST_THREADS = 4
_MOST_SECONDS = 5.0


@dataclass(frozen=True)
class Hang:
    """Say where a pull hangs that takes long.

    Example:
        >>> print(Hang(60.0, "Map(fn=fetch)", "Map(fn=fetch)", '  File "train.py", line 3, in fetch'))
        no element from Map(fn=fetch) for 60.0 s; it hangs in Map(fn=fetch):
          File "train.py", line 3, in fetch

    Args:
        seconds: How long the pull has taken so far.
        source: The node that is pulled from.
        node: The innermost node that runs, as far as it can be told.
        stack: The stack of the thread, from the watched node inwards; those of the library's other threads
            follow, as far as they work for a pipeline.
    """

    seconds: float
    source: str
    node: str
    stack: str

    def __str__(self) -> str:
        return f"no element from {self.source} for {self.seconds:.1f} s; it hangs in {self.node}:\n{self.stack}"


class Watch:
    """Note when the pull of one running node began; it knows nothing of the node, so that this can be dropped.

    Args:
        source: What is pulled from, as text.
        seconds: How long a pull may take.
        report: Is called with a `Hang`, in the thread of the guard.
    """

    __slots__ = ("_factor", "_last", "report", "seconds", "since", "source", "thread")

    def __init__(self, source: str, seconds: float, report: Callable[[Hang], Any]) -> None:
        self.source, self.seconds, self.report = source, seconds, report
        self.thread = 0
        """The thread that pulls."""
        self.since: float | None = None
        """When it began to, None while the consumer has the element."""
        self._last: float | None = None
        self._factor = 1

    def reported(self) -> bool:
        """Return whether the last pull was found to take long."""
        return self._last is not None and self._factor > 1

    def forget(self) -> None:
        """Take the last pull for a good one."""
        self._factor = 1

    def due(self, now: float) -> float:
        """Return when to look again, `now` if there is something to report; the time doubles with each report."""
        since = self.since
        if since is None:
            return now + self.seconds
        if since != self._last:
            self._last, self._factor = since, 1
        if now < since + self.seconds * self._factor:
            return since + self.seconds * self._factor
        self._factor *= 2
        return now


class _Guard:
    """Own the thread. It ends when nothing is watched, or nothing was pulled when it looked."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self.awake = False
        """Whether the thread runs."""

    def add(self, watch: Watch) -> None:
        """Begin to watch."""
        with self._changed:
            self._watches.append(watch)
            self._changed.notify_all()

    def remove(self, watch: Watch) -> None:
        """Stop watching; with the last one the thread ends."""
        if self._process != os.getpid():  # a pipeline that ran when this process was forked: the lock may be held
            return
        with self._changed:
            if watch in self._watches:
                self._watches.remove(watch)
            thread = self._thread if not self._watches else None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_MOST_SECONDS)  # a function that is being told of a hang may take its time

    def wake(self) -> None:
        """Start the thread; whoever begins a pull calls it if the guard is not awake."""
        with self._changed:
            if not self.awake:
                self.awake = True
                self._thread = threading.Thread(target=self._look, name="energon_nodes.watchdog", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        while True:
            with self._changed:
                now = monotonic()
                due = [(watch.due(now), watch) for watch in self._watches]
                late = [watch for when, watch in due if when == now]
                if not late:
                    if self._may_end():
                        self._thread = None
                        return
                    self._changed.wait(min(when for when, _ in due) - now)
                    continue
            for watch in late:
                _report(watch)

    def _may_end(self) -> bool:
        self.awake = False  # before looking: a pull that begins now sees it, or is seen
        self.awake = any(watch.since is not None for watch in self._watches)
        return not self.awake


def _report(watch: Watch) -> None:
    since = watch.since
    if since is None:
        return
    try:
        watch.report(look_at(watch.thread, watch.source, monotonic() - since))
    except Exception:  # whoever is told of it must not end the watch over all others
        _log.exception("the function that was to be told of a hang has failed")


_guard = _Guard()


def guard() -> _Guard:
    """Return the guard of this process."""
    return _guard


def _begin_anew() -> None:
    global _guard
    _guard = _Guard()  # its thread did not come along with the fork, and its lock may be held


os.register_at_fork(after_in_child=_begin_anew)


# ---- what a thread does -----------------------------------------------------------------------


def look_at(thread: int, source: str, seconds: float) -> Hang:
    """Return where a thread is: the innermost node, and its stack from the watched pull inwards."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    own = _inner(frames.get(thread))
    node, stacks = _node_of(own), [_text(own)]
    if node is None or type(node).__name__ in ("Prefetch", "ParallelMap"):  # these wait for other threads
        others = [each for each in threading.enumerate() if each.name.startswith("energon_nodes")]
        for each in others:
            helper = _inner(frames.get(each.ident or 0))
            if each.ident != thread and len(stacks) <= _MOST_THREADS and not _is_idle(helper):
                node = _node_of(helper) or node
                stacks.append(f"thread {each.name}:\n{_text(helper)}")
    return Hang(seconds, source, source if node is None else repr(node), "".join(stacks).rstrip())


def _walk(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _inner(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of a thread, the outermost first, without those around the watched pull."""
    frames = list(_walk(frame))[::-1]
    borders = [number for number, each in enumerate(frames) if each.f_globals.get("__name__") in _WATCHERS]
    return frames[borders[-1] + 1 :] if borders else frames


_WATCHERS = ("energon_nodes.combinators.watchdog", "energon_nodes.combinators.own_thread")


def _node_of(frames: list[FrameType]) -> Node[Any] | None:
    for frame in reversed(frames):
        found = frame.f_locals.get("self")
        if isinstance(found, Node):
            return found  # pyright: ignore[reportUnknownVariableType]
    return None


def _is_idle(frames: list[FrameType]) -> bool:
    """Return whether a thread of the library waits for work."""
    if not frames or frames[-1].f_code.co_name == "_worker":
        return True
    return frames[-1].f_code.co_name == "wait" and frames[-2].f_code.co_name in ("_fill", "_look")


def _text(frames: list[FrameType]) -> str:
    summary = traceback.StackSummary.extract(((frame, frame.f_lineno) for frame in frames), capture_locals=False)
    return "".join(summary.format())
