"""All writes of the library: a file appears whole under its name, or not at all; local paths and fsspec URLs alike."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress

from energon_nodes.storage.remote import ask
from energon_nodes.storage.urls import is_url

__all__ = ["TEMPORARY", "file_mode", "make_folder", "remove", "replacing", "write_bytes"]

TEMPORARY = ".partial-"
"""The names of files that are being written begin so; no reader looks at them, and `remove` may delete old ones."""


@contextmanager
def replacing(path: str) -> Generator[str]:
    """Give the name of a local file to write, which takes the place of `path` when the block ends without an error.

    The bytes are on the disk before the name is: a crash leaves the old file or the new one. A remote file is
    written to a local one first and sent when the block ends.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(f"{folder}/a.txt") as partial, open(partial, "w") as file:
        ...         _ = file.write("whole")
        ...     os.listdir(folder), os.path.getsize(f"{folder}/a.txt")
        (['a.txt'], 5)

    Args:
        path: The file to write, a path or URL; its folder exists.

    Yields:
        The name of an empty file beside it (or in the folder for temporary files, for URLs).

    Raises:
        OSError: It cannot be written.
    """
    remote = is_url(path)
    folder, name = os.path.split(path)
    handle, partial = tempfile.mkstemp(prefix=f"{TEMPORARY}{name}-", dir=None if remote else folder or ".")
    os.close(handle)
    try:
        yield partial
        if remote:
            ask(path, "write", lambda fs, name: fs.put_file(partial, name))
            os.unlink(partial)
            return
        os.chmod(partial, file_mode())  # mkstemp lets nobody else read it
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(folder or ".")
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def write_bytes(path: str, data: bytes) -> None:
    """Write a whole file.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_bytes(f"{folder}/a.bin", b"123")
        ...     os.path.getsize(f"{folder}/a.bin")
        3

    Args:
        path: A path or URL.
        data: Its content.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path) as partial, open(partial, "wb") as file:
        file.write(data)


def make_folder(path: str) -> None:
    """Make a folder and those above it, unless they exist; stores without folders have nothing to make.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     make_folder(f"{folder}/a/b")
        ...     os.path.isdir(f"{folder}/a/b")
        True

    Args:
        path: A path or URL.

    Raises:
        OSError: It cannot be made.
    """
    if is_url(path):
        ask(path, "make", lambda fs, name: fs.makedirs(name, exist_ok=True))
    else:
        os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
    """Remove a file if it exists.

    Example:
        >>> remove("memory://no/such/file")

    Args:
        path: A path or URL.

    Raises:
        OSError: It cannot be removed.
    """
    if is_url(path):
        with suppress(FileNotFoundError):
            ask(path, "remove", lambda fs, name: fs.rm_file(name))
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def file_mode() -> int:
    """Return the permissions of a new file, which a temporary one does not have.

    Example:
        >>> file_mode() & 0o600 == 0o600
        True
    """
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: str) -> None:
    """Make a rename survive a crash of the machine; some file systems cannot, and say so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
