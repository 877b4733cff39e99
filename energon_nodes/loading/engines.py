"""How outputs are made: the contract of an engine, and the engine that runs the streams in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.host import HOLE, Change, Host
from energon_nodes.loading.pinning import can_pin, pin
from energon_nodes.loading.topology import Topology

__all__ = ["Engine", "LocalEngine"]


class Engine(Protocol):
    """Deliver the outputs of one rank in the order of its turns."""

    lost_workers: bool
    """Whether workers died since the last output; the pass goes on with new ones."""

    @property
    def turn(self) -> int:
        """The rank's turn behind the last output."""
        ...

    def begin(self, entries: dict[int, bytes]) -> None:
        """Go to where the entries say; a stream without one stays where it is."""
        ...

    def next_pass(self) -> None:
        """Go to the beginning of the next pass of every stream."""
        ...

    def change(self, changes: dict[int, Change]) -> None:
        """Plan a change of weights in each stream; iterators made before are out of date."""
        ...

    def outputs(self) -> Iterator[Any]:
        """Give the rest of the pass; made again after an error, the iterator goes on behind it."""
        ...

    def entries(self) -> dict[int, bytes]:
        """Return every hosted stream's entry as of the last output."""
        ...

    def close(self) -> None:
        """End threads and processes."""
        ...


class LocalEngine:
    """Run the streams in this process."""

    lost_workers = False

    def __init__(
        self, node: Node[Any], context: Context, topology: Topology, quota: int | None, *, pin_memory: bool = False
    ) -> None:
        self._pins = pin_memory and can_pin()
        self._topology = topology
        self._host = Host(node, context, quota)
        self._streams = [self._host.stream(number) for number in topology.hosted]
        self._go_to_due()

    def begin(self, entries: dict[int, bytes]) -> None:
        """Load the entries into their streams."""
        for number, data in entries.items():
            self._host.stream(number).load(data)
        self._go_to_due()

    def next_pass(self) -> None:
        """Rewind all streams."""
        for stream in self._streams:
            stream.rewind()
        self._go_to_due()

    def change(self, changes: dict[int, Change]) -> None:
        """Plan the changes in their streams."""
        for number, change in changes.items():
            self._host.stream(number).plan(change)

    @property
    def turn(self) -> int:
        """The rank's turn behind the last output."""
        if len(self._streams) == 1:
            return self._streams[0].turns
        return self._round * len(self._streams) + self._place

    def _go_to_due(self) -> None:
        due = self._topology.due([None if stream.ended else stream.turns for stream in self._streams])
        self._round, self._place = divmod(due, len(self._streams))

    def outputs(self) -> Iterator[Any]:
        """Pull from the stream whose turn is due."""
        return map(pin, self._turns()) if self._pins else self._turns()

    def _turns(self) -> Iterator[Any]:
        if len(self._streams) == 1:
            yield from self._streams[0].outputs()
            return
        streams, last = self._streams, len(self._streams) - 1
        live = sum(not stream.ended for stream in streams)
        while live:
            stream, before = streams[self._place], self._round
            if stream.ended or stream.turns > before:  # it has no turn here, or has had it
                self._pass_on()
                continue
            try:
                value = stream.pull()
            finally:
                if stream.turns > before or stream.ended:
                    live -= stream.ended
                    if self._place < last:
                        self._place += 1
                    else:
                        self._pass_on()
            if value is not HOLE:
                yield value

    def _pass_on(self) -> None:
        self._place += 1
        if self._place == len(self._streams):
            self._place = 0
            self._round += 1

    def entries(self) -> dict[int, bytes]:
        """Return the streams' entries as they stand."""
        return {number: self._host.stream(number).state() for number in self._topology.hosted}

    def close(self) -> None:
        """Stop the threads of all nodes."""
        self._host.stop()
