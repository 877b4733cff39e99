"""Run the streams that live in one process: a loader's own, or one of its workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final, cast

from energon_nodes.combinators.blend import Blend
from energon_nodes.core import graph
from energon_nodes.core.errors import FatalSampleError, StateError, WatchdogError
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.entries import ENDED, NEXT, RUNNING, Header, body_of, entry, header_of

__all__ = ["HOLE", "Change", "Host", "Stream"]

Change = tuple[int, int, list[float]]
"""A turn, the number of a blend among the nodes of the graph, and its weights from that turn on."""


class _Hole:
    """The type of `HOLE`, one object in each process."""

    def __repr__(self) -> str:
        return "HOLE"

    def __reduce__(self) -> str:
        return "HOLE"


HOLE: Final[Any] = _Hole()
"""Stands in a turn for which the stream has no output."""

_MOST_ERRORS = 8  # errors in a row that one turn waits for; then the turn is left empty


class Stream:
    """Run one stream, turn by turn: a clone of the graph with its own share and state.

    Args:
        node: The root of the clone, bound to its context.
        quota: How many turns a pass has; None: as many as the graph gives outputs.
    """

    __slots__ = ("_changes", "_errors", "_node", "_quota", "_run", "_start", "ended", "turns")

    def __init__(self, node: Node[Any], quota: int | None) -> None:
        self._node = node
        self._quota = quota
        self._start: Any = None  # the beginning of the next pass, where outputs of it fill up this one
        self._changes: list[Change] = []  # still to come, by turn
        self._errors = 0
        self._run: Any = None
        self.turns = 0
        """How many turns of this pass it has had."""
        self.ended = False
        """Whether it has delivered all outputs of its pass."""

    def outputs(self) -> Iterator[Any]:
        """Give the rest of the pass.

        An exception is the output's; made again, the iterator goes on behind the failed element. A turn
        waits for at most a few errors in a row, and not behind one that is fatal: it is then left empty
        (`turns` counts it), so that no turn can take for ever. An element that is late (`WatchdogError`)
        keeps its turn, however often that is said.
        """
        try:
            while not self.ended:
                self._change_weights()
                pairs = self._node.pairs()
                change = self._changes[0][0] if self._changes else None
                for value, _ in pairs if change is None else islice(pairs, change - self.turns):
                    self.turns += 1
                    self._errors = 0
                    if self.turns == self._quota:
                        self.ended = True
                    yield value
                    if self.ended:
                        return
                if change is not None and self.turns >= change:
                    continue
                if self._quota is None:
                    self.ended = True
                else:
                    yield self._first_of_next_pass()
        except WatchdogError:
            raise  # the element may still come
        except Exception as error:
            self._errors += 1
            if self._errors == _MOST_ERRORS or isinstance(error, FatalSampleError):
                self._had_turn()
            raise

    def pull(self) -> Any:
        """Return the output of the turn that is due, or HOLE if the stream has ended."""
        run = self._run
        if run is None or run.gi_frame is None:
            run = self._run = cast("Any", self.outputs())
        return next(run, HOLE)

    def leave_turn(self) -> None:
        """Leave the turn that is due empty; its element comes with the next one."""
        self._had_turn()

    def _had_turn(self) -> None:
        self.turns += 1
        self._errors = 0
        if self.turns == self._quota:
            self.ended = True

    def _first_of_next_pass(self) -> Any:
        """Go on with the next pass, to fill up this one; it will begin anew when it is its turn."""
        self._node.rewind()
        if self._start is None:
            self._start = self._node.snapshot()
        for value, _ in self._node.pairs():
            self._had_turn()
            return value
        raise FatalSampleError("a whole pass of a stream gave no output: there is nothing to fill up its turns with")

    def plan(self, change: Change) -> None:
        """Change the weights of a blend when the turn of the change is due, or at once if it has been."""
        self._run = None
        self._changes = sorted([*self._changes, change], key=lambda planned: planned[0])

    def _change_weights(self) -> None:
        """Make the changes that are due, from the next draw of their blend on."""
        while self._changes and self._changes[0][0] <= self.turns:
            _, number, weights = self._changes[0]
            blend = list(graph.walk(self._node))[number]
            assert isinstance(blend, Blend)
            # Threads that have pulled ahead go back to where the consumer is.
            here = self._node.snapshot()
            if self._start is not None:
                self._node.load(self._start)
                blend.change(weights)
                self._start = self._node.snapshot()
            self._node.load(here)
            blend.change(weights)
            self._changes = self._changes[1:]

    def state(self) -> bytes:
        """Return the entry of the stream for the loader's state."""
        header = Header(ENDED if self.ended else RUNNING, self.turns, self._errors)
        changes = [self._changes] if self._changes else []
        return entry(header, (self._node.snapshot(), self._start, *changes))

    def load(self, data: bytes) -> None:
        """Go to the point of an entry."""
        self._run = None
        header, body = header_of(data), body_of(data)
        try:
            snapshot, start, *changes = body
            self._node.load(start if header.phase == NEXT and start is not None else snapshot)
        except StateError:
            raise
        except (TypeError, ValueError, KeyError) as error:
            raise StateError(f"an entry of the checkpoint cannot be read ({error}); the file is damaged") from error
        self.turns, self._errors, self._start = header.turns, header.errors, start
        self._changes = [(turn, number, list(weights)) for turn, number, weights in changes[0]] if changes else []
        self.ended = header.phase == ENDED
        if header.phase == NEXT:
            if start is None:
                self._node.rewind()
            self._begin_pass()

    def rewind(self) -> None:
        """Begin the next pass."""
        self._run = None
        if self._start is None:
            self._node.rewind()
        else:
            self._node.load(self._start)
        self._begin_pass()

    def _begin_pass(self) -> None:
        self.turns = self._errors = 0
        self._start = None
        self.ended = False
        # The pass before ended ahead of these.
        self._changes = [(0, number, weights) for _, number, weights in self._changes]

    def stop(self) -> None:
        """Stop the threads and iterators of the graph."""
        self._node.stop()


class Host:
    """Hold the streams of one process; each is made on first use.

    Args:
        node: The root of the graph.
        context: The context of stream 0; the others differ in the number.
        quota: How many turns a pass of each stream has, or None.
    """

    def __init__(self, node: Node[Any], context: Context, quota: int | None) -> None:
        self._node = node
        self._context = context
        self._quota = quota
        self._streams: dict[int, Stream] = {}

    def stream(self, number: int) -> Stream:
        """Return a stream by its number."""
        found = self._streams.get(number)
        if found is None:
            node = self._node.clone()
            node.bind(replace(self._context, stream=number))
            found = self._streams[number] = Stream(node, self._quota)
        return found

    def stop(self) -> None:
        """Stop the threads and iterators of all streams."""
        for stream in self._streams.values():
            stream.stop()
