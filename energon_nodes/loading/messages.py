"""What a worker sends to the loader: an output with its state, errors, and what cannot be pickled."""

from __future__ import annotations

import io
import pickle
import traceback
from multiprocessing.reduction import ForkingPickler
from typing import Any

from energon_nodes.core.errors import WorkerError
from energon_nodes.loading.host import HOLE
from energon_nodes.loading.pinning import pin

__all__ = ["Message", "pack_error", "unpack_error"]


class Message:
    """Carry the output of one turn from a worker to the loader.

    Its value is pickled inside `__reduce__`, where a failure can be caught and sent in its place;
    a failure in the queue's own thread would never be reported and the loader would wait for ever.

    Args:
        turn: The rank's own turn; `-1 - worker` where that worker could not begin, and its error says why.
        value: The output, or HOLE.
        errors: What was raised before the output was found, packed.
        state: The entry of the turn's stream behind the output; None where it has not changed.
        unsaved: The packed error that says why the stream has no entry, in place of `state`.
        open: Whether the turn goes on with the worker's next message: an element is late, or the worker is ahead.
        last: Whether it is the worker's last message.
    """

    __slots__ = ("errors", "last", "open", "state", "turn", "unsaved", "value")

    def __init__(
        self,
        turn: int,
        value: Any = HOLE,
        errors: list[bytes] | None = None,
        state: bytes | None = None,
        unsaved: bytes | None = None,
        open: bool = False,
        last: bool = False,
    ) -> None:
        self.turn = turn
        self.value = value
        self.errors = [] if errors is None else errors
        self.state = state
        self.unsaved = unsaved
        self.open = open
        self.last = last

    def __reduce__(self) -> tuple[Any, ...]:
        value, errors = self.value, self.errors
        rest = (self.state, self.unsaved, self.open, self.last)
        if value is HOLE:
            return (Message, (self.turn, HOLE, errors, *rest))
        try:
            buffer = io.BytesIO()
            ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
            return (_unpack, (self.turn, buffer.getvalue(), errors, *rest))
        except Exception as error:
            problem = WorkerError(
                f"an output of type {type(value).__qualname__} cannot be sent from a worker to the loader: {error!r}; "
                "return data that can be pickled (tensors, arrays, plain objects), or use num_workers=0"
            )
            return (Message, (self.turn, HOLE, [*errors, pack_error(problem)], *rest))

    def pin_memory(self, device: Any = None) -> Message:
        """Pin the value's tensors; torch's DataLoader calls this in its pinning thread."""
        if self.value is HOLE:
            return self
        try:
            self.value = pin(self.value)
        except Exception as error:
            kind = type(self.value).__qualname__
            self.value = HOLE
            self.errors.append(pack_error(WorkerError(f"an output of type {kind} cannot be pinned: {error!r}")))
        return self


def _unpack(turn: int, packed: bytes, errors: list[bytes], *rest: Any) -> Message:
    try:
        value = pickle.loads(packed)
    except Exception as error:
        problem = WorkerError(
            f"an output of a worker cannot be unpickled in the loader: {error!r}; return data that can be pickled "
            "(tensors, arrays, plain objects), or use num_workers=0"
        )
        return Message(turn, HOLE, [*errors, pack_error(problem)], *rest)
    return Message(turn, value, errors, *rest)


def pack_error(error: BaseException) -> bytes:
    """Return an exception as bytes, with its traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps((error, getattr(error, "__notes__", [])))
        pickle.loads(packed)  # an exception with arguments of its own may pickle and not come back
    except Exception:
        packed = b""
    return pickle.dumps((packed, f"{type(error).__qualname__}: {_text(error)}", text))


def unpack_error(data: bytes, worker: int) -> BaseException:
    """Return the exception of a worker, of its own type if possible, with the worker's traceback as a note."""
    packed, short, text = pickle.loads(data)
    try:
        error, notes = pickle.loads(packed)
        error.__notes__ = list(notes)
    except Exception:  # its class cannot be pickled, or is not known in this process
        error = WorkerError(f"worker {worker} raised an exception that cannot be pickled: {short}")
    error.add_note(f"raised in worker {worker}; its traceback:\n{text}")
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot be shown)"
