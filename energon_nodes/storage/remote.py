"""Remote files through fsspec, tried again when a store fails in a way that can pass."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["ATTEMPTS", "ask", "fetch", "filesystem"]

ATTEMPTS = 6
"""How often a remote read is tried before its error is raised."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, ImportError)
_log = logging.getLogger("energon_nodes.storage")
T = TypeVar("T")


def filesystem(path: str) -> tuple[Any, str]:
    """Return the file system of a URL and the name of the file in it.

    It is asked for anew each time: fsspec keeps one per process, and makes another one after a fork.

    Example:
        >>> filesystem("memory://a/b.tar")[1]
        '/a/b.tar'

    Args:
        path: A URL that fsspec understands.

    Returns:
        The fsspec file system and a name.

    Raises:
        ValueError: fsspec does not know the protocol.
        ImportError: The package for the protocol is not installed.
    """
    # Imported here: it takes 70 ms, which readers of local files need not pay.
    from fsspec.core import url_to_fs  # pyright: ignore[reportUnknownVariableType]

    return cast("tuple[Any, str]", url_to_fs(path))


def ask(path: str, action: str, call: Callable[[Any, str], T]) -> T:
    """Call `call(file system, name)` for a URL, again after a pause when it fails in a way that can pass.

    Example:
        >>> ask("memory://no/such/file", "look for", lambda fs, name: fs.exists(name))
        False

    Args:
        path: The URL.
        action: What the call does, for messages: "list", "read".
        call: The call.

    Returns:
        What the call returned.

    Raises:
        OSError: The file does not exist, or every attempt failed.
    """
    return _retry(f"{action} {path}", lambda: call(*filesystem(path)))


def fetch(plan: list[tuple[str, int, int]]) -> list[bytes]:
    """Fetch byte ranges, those of one kind of store in one call.

    Example:
        >>> filesystem("memory://")[0].pipe("/fetch.bin", b"0123456789")
        >>> fetch([("memory://fetch.bin", 2, 4), ("memory://fetch.bin", 8, 99)])
        [b'23', b'89']

    Args:
        plan: `(URL, first byte, byte after the last one)` of each range.

    Returns:
        The bytes of each range, fewer where the file ends before.

    Raises:
        OSError: A file does not exist, or every attempt failed.
    """
    result: list[bytes] = [b""] * len(plan)
    stores: dict[str, list[int]] = {}
    for at, (path, _, _) in enumerate(plan):
        stores.setdefault(path.split("://", 1)[0], []).append(at)
    for numbers in stores.values():
        pieces = _retry(f"read {plan[numbers[0]][0]}", lambda numbers=numbers: _cat([plan[at] for at in numbers]))
        for at, piece in zip(numbers, pieces, strict=True):
            result[at] = piece
    return result


def _cat(plan: list[tuple[str, int, int]]) -> list[bytes]:
    fs = filesystem(plan[0][0])[0]
    found = {path: filesystem(path)[1] for path, _, _ in plan}
    names = [found[path] for path, _, _ in plan]
    pieces: list[Any] = fs.cat_ranges(
        names, [start for _, start, _ in plan], [stop for _, _, stop in plan], on_error="return"
    )
    for at, (piece, (path, start, stop)) in enumerate(zip(pieces, plan, strict=True)):
        if isinstance(piece, Exception):
            # Servers answer a range behind the end with an error of their own; a short file is the caller's affair.
            length = int(fs.info(names[at])["size"])
            if start < length:
                raise piece
            pieces[at] = b""
        elif len(piece) < stop - start:
            length = int(fs.info(names[at])["size"])
            if len(piece) < min(stop, length) - start:
                raise ConnectionError(f"{path} gave {len(piece)} bytes from byte {start} where {stop - start} lie")
    return cast("list[bytes]", pieces)


def _retry(what: str, call: Callable[[], T]) -> T:
    """Call again after a pause when a remote store fails in a way that can pass."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except _FINAL:
            raise
        except Exception as error:
            if attempt == ATTEMPTS:
                raise OSError(f"could not {what} in {ATTEMPTS} attempts: {type(error).__name__}: {error}") from error
            pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            _log.warning("%s failed (%s: %s), trying again in %.1f s", what, type(error).__name__, error, pause)
            time.sleep(pause)
    raise AssertionError("unreachable")
