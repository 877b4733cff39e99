"""How outputs are made: by streams in this process, or by streams in the workers of a DataLoader."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch.utils.data import DataLoader

from energon_nodes.core.errors import WorkerError
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.host import HOLE, Host
from energon_nodes.loading.messages import Message, unpack_error
from energon_nodes.loading.state import NEXT, in_phase
from energon_nodes.loading.topology import Topology
from energon_nodes.loading.workers import Command, StreamDataset

__all__ = ["Engine", "LocalEngine", "WorkerEngine", "WorkerSettings"]


class Engine(Protocol):
    """Deliver the outputs of one rank in the order of its turns."""

    turn: int

    def begin(self, turn: int, entries: dict[int, bytes]) -> None:
        """Go to a point: the streams' entries, and the turn that is due."""
        ...

    def next_pass(self) -> None:
        """Go to the beginning of the next pass of every stream."""
        ...

    def take(self) -> Any:
        """Return the next output, or HOLE when all streams have ended."""
        ...

    def entries(self) -> dict[int, bytes]:
        """Return every hosted stream's entry as of the last output that `take` returned."""
        ...

    def close(self) -> None:
        """End threads and processes."""
        ...


class LocalEngine:
    """Run the streams in this process."""

    def __init__(self, node: Node[Any], context: Context, topology: Topology) -> None:
        self.turn = 0
        self._topology = topology
        self._host = Host(node, context)

    def begin(self, turn: int, entries: dict[int, bytes]) -> None:
        self.turn = turn
        for number, data in entries.items():
            self._host.load(number, data)

    def next_pass(self) -> None:
        self.turn = 0
        for number in self._topology.hosted:
            self._host.rewind(number)

    def take(self) -> Any:
        host, topology = self._host, self._topology
        while host.ended < len(topology.hosted):
            number = topology.stream_at(self.turn)
            try:
                value = host.pull(number)
            except Exception:
                if host.gives_up(number):
                    self.turn += 1
                raise
            self.turn += 1
            if value is not HOLE:
                return value
        return HOLE

    def entries(self) -> dict[int, bytes]:
        return {number: self._host.state(number) for number in self._topology.hosted}

    def close(self) -> None:
        self._host.stop()


@dataclass(frozen=True)
class WorkerSettings:
    """Say how worker processes are run; the names are those of torch's DataLoader.

    Args:
        prefetch_factor: How many outputs each worker makes ahead.
        pin_memory: Whether tensors are copied to pinned memory.
        persistent_workers: Whether workers live on between passes.
        mp_context: How processes are started: "fork", "spawn", "forkserver", or None for torch's default.
        timeout: Seconds to wait for an output; 0 is without limit.
    """

    prefetch_factor: int = 2
    pin_memory: bool = False
    persistent_workers: bool = True
    mp_context: str | None = None
    timeout: float = 0


class WorkerEngine:
    """Run the streams in worker processes, which torch's DataLoader owns."""

    def __init__(self, node: Node[Any], context: Context, topology: Topology, settings: WorkerSettings) -> None:
        self.turn = 0
        self._topology = topology
        self._starts = Host(node, context)  # for the entries of streams that have not been heard of
        self._known: dict[int, bytes] = {}
        self._errors: list[BaseException] = []
        self._message: Message | None = None
        self._iterator: Iterator[Message] | None = None
        processes = multiprocessing.get_context(settings.mp_context)
        self._commands = [processes.SimpleQueue() for _ in range(topology.num_workers)]
        self._dataset = StreamDataset(node, context, topology, self._commands)
        self._persistent = settings.persistent_workers
        self._loader: DataLoader[Message] = DataLoader(
            self._dataset,
            batch_size=None,
            collate_fn=_as_it_is,
            num_workers=topology.num_workers,
            prefetch_factor=settings.prefetch_factor,
            pin_memory=settings.pin_memory,
            persistent_workers=settings.persistent_workers,
            multiprocessing_context=processes,
            timeout=settings.timeout,
            generator=torch.Generator(),  # so that the global one is left alone
        )

    def begin(self, turn: int, entries: dict[int, bytes]) -> None:
        self.turn = turn
        self._known = dict(entries)
        self._errors, self._message = [], None
        command = Command(turn, self._known)
        alive = self._persistent and self._iterator is not None
        self._dataset.first = command
        if not alive:
            self._shut_down()
        self._iterator = iter(self._loader)
        if alive:
            for worker, queue in enumerate(self._commands):
                mine = self._topology.hosted[worker :: self._topology.num_workers]
                queue.put(Command(turn, {number: entries[number] for number in mine if number in entries}))

    def next_pass(self) -> None:
        for number in self._topology.hosted:
            known = self._known.get(number)
            if known is None or known[:1] == NEXT:  # it has not begun the pass that is being left
                if known is not None:
                    self._starts.load(number, known)
                known = self._starts.state(number)
            self._known[number] = in_phase(known, NEXT)
        self.begin(0, self._known)

    def take(self) -> Any:
        while True:
            if self._errors:
                raise self._errors.pop(0)
            if self._message is None:
                self._message = self._receive()
                if self._message is None:
                    return HOLE
                worker = self._topology.worker_of(self._message.turn)
                self._errors = [unpack_error(error, worker) for error in self._message.errors]
                continue
            message, self._message = self._message, None
            if message.state is not None:
                self._known[self._topology.stream_at(message.turn)] = message.state
            if message.turn >= self.turn:
                self.turn = message.turn + 1
            if message.value is not HOLE:
                return message.value

    def _receive(self) -> Message | None:
        if self._iterator is None:
            self.begin(self.turn, self._known)
        try:
            return next(cast("Iterator[Message]", self._iterator), None)
        except RuntimeError as error:
            found = re.search(r"worker \(pid\(?s?\)? ([\d, ]+)\)", str(error))
            processes: list[Any] = getattr(self._iterator, "_workers", [])
            pids = [int(pid) for pid in found.group(1).split(",")] if found else []
            dead = [number for number, process in enumerate(processes) if process.pid in pids]
            self._shut_down()
            if not found:
                raise
            raise WorkerError(
                f"worker {', '.join(map(str, dead))} of the loader (process {found.group(1)}) died: killed, out of memory, or "
                "crashed in native code. The loader's state is that of the last output; iterate again to start new workers"
            ) from error

    def entries(self) -> dict[int, bytes]:
        hosted = self._topology.hosted
        return {number: self._known.get(number) or self._starts.state(number) for number in hosted}

    def close(self) -> None:
        self._shut_down()
        self._starts.stop()

    def _shut_down(self) -> None:
        iterator: Any = self._iterator
        self._iterator = None
        cast("Any", self._loader)._iterator = None  # DataLoader keeps persistent workers there
        if iterator is not None:
            iterator._shutdown_workers()


def _as_it_is(message: Message) -> Message:
    return message
