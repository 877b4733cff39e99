"""The engine that runs the streams in worker processes, which torch's DataLoader owns."""

from __future__ import annotations

import multiprocessing
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, cast

import torch
from torch.utils.data import DataLoader

from energon_nodes.core.errors import WorkerError
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import fold
from energon_nodes.core.share import Context
from energon_nodes.loading.entries import ENDED, NEXT, as_next, header_of
from energon_nodes.loading.host import HOLE, Change, Host
from energon_nodes.loading.in_turn import InTurn
from energon_nodes.loading.messages import Message, unpack_error
from energon_nodes.loading.topology import Topology
from energon_nodes.loading.workers import Command, StreamDataset, cause_of_death, end_with_parent

__all__ = ["WorkerEngine", "WorkerSettings"]


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


class _Workers(Enum):
    """What is known of the workers."""

    IN_STEP = auto()  # they go on from where `_known` says, and are ahead of it
    TO_BE_TOLD = auto()  # they wait, or are not there yet
    UNSURE = auto()  # a call was cut short


class WorkerEngine:
    """Run the streams in worker processes, which torch's DataLoader owns.

    What the loader has received is all that counts: `_known` holds the entry of each stream that
    came with its last output. If a call is cut short (a worker died, Ctrl-C), the next one starts
    new workers from there.
    """

    def __init__(
        self, node: Node[Any], context: Context, topology: Topology, quota: int | None, settings: WorkerSettings
    ) -> None:
        self.turn = 0
        self.lost_workers = False
        self._topology = topology
        self._settings = settings
        self._seed = (context.seed, "workers", topology.rank)
        self._starts = Host(node, context, quota)  # for the entries of streams that have not been heard of
        self._known: dict[int, bytes] = {}
        self._unsaved: dict[int, bytes] = {}
        self._workers = _Workers.TO_BE_TOLD
        self._errors: list[BaseException] = []
        self._message: Message | None = None
        self._inbox = InTurn(0, [True])
        self._iterator: Iterator[Message] | None = None
        self._context = multiprocessing.get_context(settings.mp_context)
        # torch lets a worker be `prefetch_factor` outputs ahead; two more leave room for how it counts.
        most_ahead = (settings.prefetch_factor + 2) * topology.num_workers
        due = self._context.RawValue("q", 0)
        self._dataset = StreamDataset(node, context, topology, quota, due, most_ahead)
        self._generator = torch.Generator()
        self._loader: DataLoader[Message] = DataLoader(
            self._dataset,
            batch_size=None,
            collate_fn=cast("Any", _as_it_is),
            num_workers=topology.num_workers,
            prefetch_factor=settings.prefetch_factor,
            pin_memory=settings.pin_memory,
            persistent_workers=settings.persistent_workers,
            multiprocessing_context=self._context,
            timeout=settings.timeout,
            worker_init_fn=end_with_parent,
            generator=self._generator,  # the global one is left alone
        )

    # ---- where to begin ----------------------------------------------------------------------

    def begin(self, entries: dict[int, bytes]) -> None:
        """Note where to begin; the workers are told, or started, when an output is wanted."""
        self._known |= entries
        self._unsaved.clear()
        self.turn = self._due()
        if self._workers is _Workers.IN_STEP:
            self._workers = _Workers.TO_BE_TOLD

    def next_pass(self) -> None:
        """Note that all streams begin their next pass."""
        known = self.entries()
        for number, data in known.items():
            if header_of(data).phase == NEXT:  # it has not begun the pass that is being left
                stream = self._starts.stream(number)
                stream.load(data)
                known[number] = stream.state()
        self.begin({number: as_next(data) for number, data in known.items()})

    def change(self, changes: dict[int, Change]) -> None:
        """Plan the changes in the entries; what workers have made ahead of them is made again."""
        entries = self.entries()
        for number, change in changes.items():
            stream = self._starts.stream(number)
            stream.load(entries[number])
            stream.plan(change)
            entries[number] = stream.state()
        self.begin(entries)

    def entries(self) -> dict[int, bytes]:
        """Return the entries that came with the outputs received."""
        for number, error in self._unsaved.items():
            raise unpack_error(error, self._topology.worker_of(self._topology.hosted.index(number)))
        return {
            number: self._known.get(number) or self._starts.stream(number).state() for number in self._topology.hosted
        }

    def _due(self) -> int:
        return self._topology.due(
            [None if self._ended(number) else self._turns(number) for number in self._topology.hosted]
        )

    def _ended(self, number: int) -> bool:
        return number in self._known and header_of(self._known[number]).phase == ENDED

    def _turns(self, number: int) -> int:
        return header_of(self._known[number]).turns if number in self._known else 0

    def _start(self) -> None:
        """Bring the workers to where `_known` says: those that live on, or new ones."""
        live_on = self._settings.persistent_workers and self._workers is _Workers.TO_BE_TOLD and self._all_alive()
        self._workers = _Workers.UNSURE
        if not live_on:
            self._shut_down()
            self._dataset.commands = [self._context.Queue() for _ in range(self._topology.num_workers)]
            for commands in self._dataset.commands:
                commands.cancel_join_thread()  # what a dead worker did not read must not hold up the exit
        turn = self._due()
        workers = range(self._topology.num_workers)
        going = [not all(map(self._ended, self._topology.of_worker(worker))) for worker in workers]
        self._errors, self._message, self._inbox = [], None, InTurn(turn, going)
        self._dataset.due.value = turn
        # Functions that draw from global generators in spite of `rng=` get other draws in other ranks and passes.
        place = 0
        for data in self._known.values():
            place = zlib.crc32(data, place)
        self._generator.manual_seed(fold(*self._seed, place) >> 65)
        self._iterator = iter(self._loader)
        for worker, commands in enumerate(self._dataset.commands):
            mine = self._topology.of_worker(worker)
            commands.put(Command(turn, {number: self._known[number] for number in mine if number in self._known}))

    # ---- taking ------------------------------------------------------------------------------

    def outputs(self) -> Iterator[Any]:
        """Receive the outputs."""
        while (value := self._take_or_report()) is not HOLE:
            yield value

    def _take_or_report(self) -> Any:
        try:
            return self._take()
        except RuntimeError as error:
            if self._workers is not _Workers.UNSURE:
                raise  # it was raised in a worker, and sent
            self._report_workers(error)
            raise

    def _take(self) -> Any:
        if self._workers is not _Workers.IN_STEP:
            self._start()
        self._workers = _Workers.UNSURE  # until this call has come to its end
        while True:
            if self._errors:
                self._workers = _Workers.IN_STEP
                raise self._errors.pop(0)
            if self._message is not None:
                message, self._message = self._message, None
                if message.open:  # its errors were raised; the turn goes on
                    continue
                self._note(message)
                if message.value is not HOLE:
                    self._workers = _Workers.IN_STEP
                    return message.value
            self._message = self._next_message()
            if self._message is None:
                self._workers = _Workers.IN_STEP
                return HOLE
            self._errors = self._errors_of(self._message)

    def _next_message(self) -> Message | None:
        """Return a message of the turn that is due, None at the end."""
        while (found := self._inbox.take()) is None:
            due = self._inbox.due
            if due is not None:
                self._dataset.due.value = due
            message = self._receive()
            if message is None or message.turn < 0:
                return message
            self._inbox.add(message)
        return found

    def _receive(self) -> Message | None:
        for process in self._processes():
            if process.exitcode:  # torch would notice after some seconds only
                raise RuntimeError(f"DataLoader worker (pid {process.pid}) exited")
        try:
            return next(cast("Iterator[Message]", self._iterator), None)
        except RuntimeError as error:
            if "DataLoader timed out" not in str(error):
                raise
            self._workers = _Workers.IN_STEP  # the output may still come: the next call waits on
            raise WorkerError(
                f"worker {self._due_worker()} of the loader gave no output within timeout={self._settings.timeout:g} "
                "seconds; the next call waits on. Give the loader a longer timeout, or 0 for none"
            ) from error

    def _errors_of(self, message: Message) -> list[BaseException]:
        began = message.turn >= 0
        worker = self._topology.worker_of(message.turn) if began else -1 - message.turn
        errors = [unpack_error(data, worker) for data in message.errors]
        if not began:
            raise errors[0]
        return errors

    def _note(self, message: Message) -> None:
        """Count a message as received."""
        number = self._topology.stream_at(message.turn)
        if message.state is not None:
            self._unsaved.pop(number, None)
            self._known[number] = message.state
        elif message.unsaved is not None and message.value is not HOLE:  # else the state stays that of the last output
            self._unsaved[number] = message.unsaved
        if message.value is not HOLE:
            self.turn = message.turn + 1
            self.lost_workers = False

    # ---- workers that fail, and the end --------------------------------------------------------

    def _report_workers(self, error: RuntimeError) -> None:
        """Raise a WorkerError if torch has reported dead workers of this loader."""
        found = re.search(r"worker \(pid(?:\(s\))? ([\d, ]+)\)", str(error))
        pids = [int(pid) for pid in found.group(1).split(",")] if found else []
        dead = [
            f"worker {number} of the loader (process {process.pid}) {cause_of_death(process)}"
            for number, process in enumerate(self._processes())
            if process.pid in pids
        ]
        if dead:
            self.lost_workers = True
            self._shut_down()
            raise WorkerError(
                f"{' and '.join(dead)}. The loader's state is that of the last output; the next call, or the next "
                "`for`, goes on there with new workers"
            ) from error

    def _processes(self) -> list[Any]:
        return getattr(self._iterator, "_workers", [])

    def _all_alive(self) -> bool:
        processes = self._processes()
        return bool(processes) and all(process.is_alive() for process in processes)

    def _due_worker(self) -> int:
        """Return the worker that is to answer next."""
        return self._topology.worker_of(self._inbox.due or 0)

    def close(self) -> None:
        """End the workers."""
        self._shut_down()
        self._starts.stop()

    def _shut_down(self) -> None:
        iterator: Any = self._iterator
        self._iterator = None
        self._workers = _Workers.UNSURE
        cast("Any", self._loader)._iterator = None  # DataLoader keeps persistent workers there
        if iterator is not None:
            iterator._shutdown_workers()


def _as_it_is(message: Message) -> Message:
    return message
