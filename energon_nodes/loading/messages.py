"""What a worker sends to the loader: an output with its state, errors, and what cannot be pickled."""

from __future__ import annotations

import dataclasses
import io
import pickle
import traceback
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch.utils.data._utils.pin_memory import pin_memory  # the function that DataLoader itself uses

from energon_nodes.core.errors import WorkerError
from energon_nodes.loading.host import HOLE

__all__ = ["Message", "pack_error", "unpack_error"]


class Message:
    """Carry the output of one turn from a worker to the loader.

    Its value is pickled inside `__reduce__`, where a failure can be caught and sent in its place;
    a failure in the queue's own thread would never be reported and the loader would wait for ever.
    """

    __slots__ = ("errors", "state", "turn", "value")

    def __init__(self, turn: int, value: Any, errors: list[bytes], state: bytes | None) -> None:
        self.turn = turn
        self.value = value
        self.errors = errors
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        if self.value is HOLE:
            return (Message, (self.turn, HOLE, self.errors, self.state))
        try:
            packed = bytes(ForkingPickler.dumps(self.value))
        except Exception as error:
            problem = WorkerError(
                f"an output of type {type(self.value).__qualname__} cannot be sent from a worker to the loader: {error!r}; "
                "return data that can be pickled (tensors, arrays, plain objects), or use num_workers=0"
            )
            return (Message, (self.turn, HOLE, [*self.errors, pack_error(problem)], self.state))
        return (_unpack, (self.turn, packed, self.errors, self.state))

    def pin_memory(self, device: Any = None) -> Message:
        """Pin the value's tensors; torch's DataLoader calls this in its pinning thread."""
        self.value = _pin(self.value, device)
        return self


def _unpack(turn: int, packed: bytes, errors: list[bytes], state: bytes | None) -> Message:
    try:
        value = pickle.loads(packed)
    except Exception as error:
        problem = WorkerError(f"an output of a worker cannot be unpickled in the loader: {error!r}")
        return Message(turn, HOLE, [*errors, pack_error(problem)], state)
    return Message(turn, value, errors, state)


def _pin(value: Any, device: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "pin_memory"):
        for field in dataclasses.fields(value):
            object.__setattr__(value, field.name, _pin(getattr(value, field.name), device))
        return value
    return pin_memory(value, device)


def pack_error(error: BaseException) -> bytes:
    """Return an exception as bytes, with its traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps((error, getattr(error, "__notes__", [])))
        pickle.loads(packed)  # an exception with arguments of its own may pickle and not come back
    except Exception:
        packed = b""
    buffer = io.BytesIO()
    pickle.dump((packed, text), buffer)
    return buffer.getvalue()


def unpack_error(data: bytes, worker: int) -> BaseException:
    """Return the exception of a worker: of its own type where that is possible, with the worker's traceback as a note."""
    packed, text = pickle.loads(data)
    if packed:
        error, notes = pickle.loads(packed)
        error.__notes__ = list(notes)
    else:
        error = WorkerError("an exception that cannot be pickled was raised")
    error.add_note(f"raised in worker {worker}; its traceback:\n{text}")
    return error
