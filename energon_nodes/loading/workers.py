"""The streams of a loader in worker processes: a dataset for torch's DataLoader, which owns the processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.host import HOLE, Host
from energon_nodes.loading.messages import Message, pack_error
from energon_nodes.loading.state import NEXT, in_phase
from energon_nodes.loading.topology import Topology

__all__ = ["Command", "StreamDataset", "check_picklable"]


@dataclass(frozen=True)
class Command:
    """Tell the workers where an iteration begins.

    Args:
        turn: The first turn of this rank that is due.
        entries: The streams' entries of the loader's state; a stream without one begins afresh.
    """

    turn: int
    entries: dict[int, bytes]


class StreamDataset(IterableDataset[Message]):
    """Let each worker of a DataLoader run its streams, turn by turn.

    The DataLoader asks its workers in turn, so its order is the order of the turns as long as every
    worker answers for each of its turns, if need be with a hole.

    Args:
        node: The root of the graph.
        context: The context of stream 0.
        topology: Which streams run on which worker.
        commands: A queue for each worker, through which workers that live on get their next command.
    """

    def __init__(self, node: Node[Any], context: Context, topology: Topology, commands: list[Any]) -> None:
        self._node = node
        self._context = context
        self._topology = topology
        self._commands = commands
        self._host: Host | None = None
        self._sent: dict[int, bytes] = {}
        self.first: Command | None = None
        """The command for workers that are started now."""

    def __iter__(self) -> Iterator[Message]:
        info = get_worker_info()
        assert info is not None
        return _Turns(self, info.id)

    def begin(self, worker: int) -> tuple[Host, int]:
        """Set the worker's streams to where the loader says; return them and the first due turn."""
        command = self._commands[worker].get() if self._host is not None or self.first is None else self.first
        self.first = None
        if self._host is None:
            self._host = Host(self._node, self._context)
        topology = self._topology
        for number in topology.hosted[worker :: topology.num_workers]:
            wanted = command.entries.get(number)
            have = self._sent.get(number)
            if wanted is None or wanted == have:
                continue
            if have is not None and wanted == in_phase(have, NEXT):
                self._host.rewind(number)  # it stands where the loader saw it last: its buffers can stay
            else:
                self._host.load(number, wanted)
            self._sent.pop(number, None)
        return self._host, command.turn

    def answer(self, host: Host, turn: int) -> Message:
        """Make the output of one turn, with the state of its stream after it."""
        number = self._topology.stream_at(turn)
        errors: list[bytes] = []
        value: Any = HOLE
        while not host.gives_up(number):
            try:
                value = host.pull(number)
                break
            except Exception as error:
                errors.append(pack_error(error))
        try:
            state = self._sent[number] = host.state(number)
        except Exception as error:  # a value in a buffer that has no encoder, say
            errors.append(pack_error(error))
            state = None
            self._sent.pop(number, None)
        return Message(turn, value, errors, state)


class _Turns(Iterator[Message]):
    """Iterate over the turns of one worker; an error in one does not end the iteration."""

    def __init__(self, dataset: StreamDataset, worker: int) -> None:
        self._dataset = dataset
        self._worker = worker
        self._host: Host | None = None
        self._due = self._turn = 0

    def __next__(self) -> Message:
        dataset, topology = self._dataset, self._dataset._topology  # pyright: ignore[reportPrivateUsage]
        if self._host is None:
            self._host, self._due = dataset.begin(self._worker)
            self._turn = self._due - topology.worker_of(self._due) + self._worker
        turn, self._turn = self._turn, self._turn + topology.num_workers
        number = topology.stream_at(turn)
        if turn < self._due:
            return Message(turn, HOLE, [], None)
        if self._host.has_ended(number):
            mine = topology.hosted[self._worker :: topology.num_workers]
            if all(self._host.has_ended(other) for other in mine):
                raise StopIteration
            return Message(turn, HOLE, [], None)
        return dataset.answer(self._host, turn)


def check_picklable(node: Node[Any], method: str) -> None:
    """Raise a ValueError that names the node if part of a graph cannot be sent to a new process."""
    for source in node.sources_of():
        check_picklable(source, method)
    try:
        pickle.dumps(node)
    except Exception as error:
        raise ValueError(
            f"{node!r} cannot be pickled, which mp_context={method!r} needs to start workers: {error}; use named functions "
            'at the top of a module instead of lambdas and local functions, or mp_context="fork"'
        ) from error
