"""Run the streams that live in one process: a loader's own, or one of its workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.state import ENDED, NEXT, RUNNING, entry, split_entry

__all__ = ["HOLE", "Host"]



class _Hole:
    """The type of `HOLE`, one object in each process."""

    def __repr__(self) -> str:
        return "HOLE"

    def __reduce__(self) -> str:
        return "HOLE"


HOLE: Final[Any] = _Hole()
"""Stands in a turn for which the stream has no output."""

_MOST_ERRORS = 8  # errors in a row that one turn waits for; then the turn is left empty


class Host:
    """Run some streams of a pipeline, each a clone of the graph with its own share and state.

    Args:
        node: The root of the graph.
        context: The context of stream 0; the others differ in the number.
    """

    def __init__(self, node: Node[Any], context: Context) -> None:
        self._node = node
        self._context = context
        self._streams: dict[int, Node[Any]] = {}
        self._ended: set[int] = set()
        self._errors: dict[int, int] = {}

    def stream(self, number: int) -> Node[Any]:
        """Return the graph of a stream; it is made on first use."""
        found = self._streams.get(number)
        if found is None:
            found = self._streams[number] = self._node.clone()
            found.bind(replace(self._context, stream=number))
        return found

    def pull(self, number: int) -> Any:
        """Return the next output of a stream, or HOLE if it has ended.

        An exception is the output's; the next call goes on behind the failed element. A turn waits
        for at most a few errors in a row, then it is a HOLE, so that no turn can take for ever.
        """
        if number in self._ended:
            return HOLE
        try:
            value = next(self.stream(number).pairs())[0]
        except StopIteration:
            self._ended.add(number)
            value = HOLE
        except Exception:
            self._errors[number] = self._errors.get(number, 0) + 1
            raise
        if self._errors:
            self._errors.pop(number, None)
        return value

    def gives_up(self, number: int) -> bool:
        """Return whether a stream's turn had so many errors that it is to be left empty."""
        if self._errors.get(number, 0) < _MOST_ERRORS:
            return False
        del self._errors[number]
        return True

    def has_ended(self, number: int) -> bool:
        """Return whether a stream has delivered all elements of its pass."""
        return number in self._ended

    @property
    def ended(self) -> int:
        """The number of streams that have delivered all elements of their pass."""
        return len(self._ended)

    def state(self, number: int) -> bytes:
        """Return the entry of a stream for the loader's state."""
        return entry(ENDED if number in self._ended else RUNNING, self.stream(number).snapshot())

    def load(self, number: int, data: bytes) -> None:
        """Set a stream to the point of an entry."""
        phase, snapshot = split_entry(data)
        self.stream(number).load(snapshot)
        self._ended.discard(number)
        if phase == ENDED:
            self._ended.add(number)
        elif phase == NEXT:
            self.stream(number).rewind()

    def rewind(self, number: int) -> None:
        """Let a stream begin its next pass."""
        self._ended.discard(number)
        self.stream(number).rewind()

    def stop(self) -> None:
        """Stop the threads and iterators of all streams."""
        for node in self._streams.values():
            node.stop()
