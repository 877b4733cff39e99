"""The streams of a loader in worker processes: a dataset for torch's DataLoader, which owns the processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from energon_nodes.core.errors import WatchdogError, WorkerError
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.loading.entries import as_next
from energon_nodes.loading.host import HOLE, Host, Stream
from energon_nodes.loading.messages import Message, pack_error
from energon_nodes.loading.topology import Topology

__all__ = ["Command", "StreamDataset", "cause_of_death", "check_picklable", "end_with_parent"]

_LOOK_AFTER = 1.0  # seconds after which a worker looks whether its parent lives


@dataclass(frozen=True)
class Command:
    """Tell a worker where an iteration begins.

    Args:
        turn: The first turn of the rank that is due.
        entries: Entries of the loader's state for the worker's streams; one without begins afresh.
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
        quota: How many turns a pass of each stream has, or None.
        due: A number in shared memory, the turn that the loader waits for.
        most_ahead: How many turns behind that one a worker may make.
    """

    def __init__(
        self, node: Node[Any], context: Context, topology: Topology, quota: int | None, due: Any, most_ahead: int
    ) -> None:
        self.topology = topology
        self.due = due
        self.most_ahead = most_ahead
        self.commands: list[Any] = []
        """A queue for each worker, through which it gets the command of each iteration."""
        self._host = Host(node, context, quota)
        self._sent: dict[int, bytes] = {}

    def __iter__(self) -> Iterator[Message]:
        info = get_worker_info()
        assert info is not None
        return _Turns(self, info.id)

    def begin(self, worker: int) -> tuple[list[Stream], int]:
        """Set the worker's streams to where the loader says; return them and the first due turn."""
        command: Command = self.commands[worker].get()
        streams: list[Stream] = []
        for number in self.topology.of_worker(worker):
            stream = self._host.stream(number)
            streams.append(stream)
            wanted = command.entries.get(number)
            have = self._sent.get(number)
            if wanted is None or wanted == have:
                continue
            self._sent.pop(number, None)
            if have is not None and wanted == as_next(have):
                stream.rewind()  # it stands where the loader saw it last: nothing has to be read again
            else:
                stream.load(wanted)
        return streams, command.turn

    def answer(self, stream: Stream, number: int, turn: int) -> Message:
        """Make the output of one turn, with the state of its stream behind it."""
        errors: list[bytes] = []
        value: Any = HOLE
        before = stream.turns
        while stream.turns == before and not stream.ended:
            try:
                value = stream.pull()
            except WatchdogError as error:  # it must be heard while the element is awaited: the turn goes on later
                self._sent.pop(number, None)
                return Message(turn, errors=[*errors, pack_error(error)], open=True)
            except Exception as error:
                errors.append(pack_error(error))
            except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:  # else the worker ends and nobody hears why
                problem = WorkerError(f"{type(error).__name__} was raised in a worker: {error}")
                problem.__cause__ = error
                errors.append(pack_error(problem))
                stream.leave_turn()  # it judges no element: trying again at once could go on for ever
        try:
            state = self._sent[number] = stream.state()
        except Exception as error:  # a value in a buffer that has no encoder, say: it counts when the state is wanted
            self._sent.pop(number, None)
            return Message(turn, value, errors, unsaved=pack_error(error))
        return Message(turn, value, errors, state)


class _Turns(Iterator[Message]):
    """Iterate over the turns of one worker; an error in one does not end the iteration."""

    def __init__(self, dataset: StreamDataset, worker: int) -> None:
        self._dataset = dataset
        self._worker = worker
        self._numbers = dataset.topology.of_worker(worker)
        self._streams: list[Stream] | None = None
        self._due = self._turn = 0

    def __next__(self) -> Message:
        topology = self._dataset.topology
        if self._streams is None:
            try:
                self._streams, self._due = self._dataset.begin(self._worker)
            except Exception as error:
                self._streams = []
                return Message(-1 - self._worker, HOLE, [pack_error(error)])
            self._turn = self._due - topology.worker_of(self._due) + self._worker
        if all(stream.ended for stream in self._streams):
            raise StopIteration
        turn = self._turn
        if turn - self._dataset.due.value > self._dataset.most_ahead:
            return Message(turn, open=True)  # a late element of another worker has made torch ask this one too often
        before, place = divmod(turn, len(topology.hosted))
        place //= topology.num_workers
        stream = self._streams[place]
        if turn < self._due or stream.ended or stream.turns > before:  # it has no turn here, or has had it
            message = Message(turn)
        else:
            message = self._dataset.answer(stream, self._numbers[place], turn)
        if not message.open:
            self._turn += topology.num_workers
            message.last = all(stream.ended for stream in self._streams)
        return message


def end_with_parent(worker: int) -> None:
    """Let a thread end this worker when its parent is gone, whatever the worker is doing.

    torch's own watch looks between two outputs, and takes for its parent whoever is it when it begins to look.
    """
    thread = threading.Thread(target=_watch_parent, name=f"energon_nodes.watch{worker}", daemon=True)
    thread.start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    # A fork server stands between. Otherwise the process number tells: forked siblings hold each other's pipes open.
    served = multiprocessing.get_start_method() == "forkserver"
    while parent.is_alive() if served else os.getppid() == parent.pid:
        time.sleep(_LOOK_AFTER)
    os._exit(1)


def check_picklable(node: Node[Any], method: str) -> None:
    """Raise a ValueError that names the node if part of a graph cannot be sent to a new process."""
    try:
        pickle.dumps(node)
        return
    except Exception as error:
        problem = error
    for source in node.sources_of():
        check_picklable(source, method)  # where the fault lies further down, that node is named
    raise ValueError(
        f"{node!r} cannot be pickled, which mp_context={method!r} needs to start workers: {problem}; use named "
        'functions at the top of a module instead of lambdas and local functions, or mp_context="fork"'
    ) from problem


_CAUSES = {"SIGKILL": ", killed by hand or by the system for want of memory"} | dict.fromkeys(
    ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE"), ", crashed in native code"
)


def cause_of_death(process: Any) -> str:
    """Say why a process ended."""
    process.join(timeout=1)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"died of {name}" + _CAUSES.get(name, "")
    return f"ended with exit code {code}"
