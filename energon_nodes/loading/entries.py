"""The entry of one stream in a loader's state: a short header and a pickle of plain data.

The header can be read without the rest, so a loader knows where its streams stand without decoding
their buffers. The pickle is read by an unpickler that refuses every class.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, NamedTuple

from energon_nodes.core.errors import StateError

__all__ = [
    "ENDED",
    "NEXT",
    "RUNNING",
    "Header",
    "as_next",
    "body_of",
    "entry",
    "header_of",
    "plain_dumps",
    "plain_loads",
]

RUNNING = b"R"
"""Phase of a stream in the middle of a pass."""
ENDED = b"E"
"""Phase of a stream that has delivered all outputs of its pass."""
NEXT = b"N"
"""Phase of a stream that begins its next pass: it is rewound after loading."""

_LAYOUT = struct.Struct("<cQB")


class Header(NamedTuple):
    """Say where a stream stands in its pass.

    Args:
        phase: RUNNING, ENDED or NEXT.
        turns: How many of its turns it has had in this pass.
        errors: How many errors it has raised in the turn that is due.
    """

    phase: bytes
    turns: int
    errors: int


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise StateError(
            f"the checkpoint asks for {module_name}.{global_name}, but it may hold plain data only: the file is "
            "damaged or was not written by a loader"
        )


def plain_dumps(value: Any) -> bytes:
    """Return plain data as bytes."""
    return pickle.dumps(value, protocol=5)


def plain_loads(data: bytes) -> Any:
    """Read plain data from bytes; nothing in them can run code.

    Raises:
        StateError: If the bytes are damaged or ask for a class.

    Example:
        >>> plain_loads(plain_dumps({"a": [1, 2]}))
        {'a': [1, 2]}
        >>> plain_loads(pickle.dumps(print))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.StateError: the checkpoint asks for builtins.print, but it may hold ...
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"the checkpoint's bytes cannot be read ({error}); the file is damaged") from error


def entry(header: Header, body: Any) -> bytes:
    """Return the entry of a stream.

    Example:
        >>> data = entry(Header(RUNNING, 3, 0), {"a": 1})
        >>> header_of(data), body_of(data)
        (Header(phase=b'R', turns=3, errors=0), {'a': 1})
    """
    return _LAYOUT.pack(*header) + plain_dumps(body)


def header_of(data: Any) -> Header:
    """Return the header of an entry.

    Raises:
        StateError: If this is no entry.
    """
    if not isinstance(data, bytes) or len(data) <= _LAYOUT.size or data[:1] not in (RUNNING, ENDED, NEXT):
        raise StateError("an entry of the checkpoint is not what a loader of this release writes; the file is damaged")
    return Header(*_LAYOUT.unpack_from(data))


def body_of(data: bytes) -> Any:
    """Return what stands behind the header of an entry."""
    return plain_loads(data[_LAYOUT.size :])


def as_next(data: bytes) -> bytes:
    """Return the entry of the same stream about to begin the pass that follows."""
    return _LAYOUT.pack(NEXT, 0, 0) + data[_LAYOUT.size :]
