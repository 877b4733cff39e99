"""All reads of the library: whole files, byte ranges, listings; local paths and fsspec URLs alike."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import NamedTuple

from energon_nodes.storage.fds import FILES
from energon_nodes.storage.listing import list_files
from energon_nodes.storage.remote import ask, fetch
from energon_nodes.storage.urls import folder, is_url, join, local, parent, relative

__all__ = [
    "Ranges",
    "exists",
    "folder",
    "gather",
    "identity",
    "is_dir",
    "is_url",
    "join",
    "list_files",
    "local",
    "parent",
    "read_bytes",
    "read_once",
    "read_range",
    "read_ranges",
    "read_text",
    "relative",
    "size",
]

REMOTE_GAP = 64 * 1024
"""Remote ranges at most so many bytes apart are fetched as one: a request costs more than these bytes."""

_VERSIONS = ("ETag", "etag", "mtime", "LastModified", "created")


class Ranges(NamedTuple):
    """Byte ranges of one file, in the order in which they are wanted.

    Example:
        >>> Ranges("a.tar", [0, 2048], [512, 4096]).stops
        [512, 4096]

    Args:
        path: The file.
        starts: The first byte of each range.
        stops: The byte after the last one of each range.
    """

    path: str
    starts: Sequence[int]
    stops: Sequence[int]


def size(path: str) -> int:
    """Return the size of a file in bytes.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/size.bin", b"12345")
        >>> size("memory://size.bin")
        5

    Args:
        path: A path or URL.

    Returns:
        The size.

    Raises:
        OSError: The file does not exist or cannot be reached.
    """
    return identity(path)[0]


def identity(path: str) -> tuple[int, int]:
    """Return what changes when a file is written anew: its size and its time of change.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/who.bin", b"12345")
        >>> identity("memory://who.bin") == identity("memory://who.bin")
        True

    Args:
        path: A path or URL.

    Returns:
        Size in bytes, and a number that stands for the version: nanoseconds, or a hash of a remote entity tag.

    Raises:
        OSError: The file does not exist or cannot be reached.
    """
    if not is_url(path):
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    found = ask(path, "look at", lambda fs, name: fs.info(name))
    version = next((found[field] for field in _VERSIONS if found.get(field)), 0)
    number = int.from_bytes(str(version).encode()[-15:], "big") if version else 0
    return int(found.get("size") or 0), number


def exists(path: str) -> bool:
    """Tell whether a file or folder exists.

    Example:
        >>> exists("memory://no/such/file")
        False

    Args:
        path: A path or URL.

    Returns:
        True when it is there.
    """
    if not is_url(path):
        return os.path.exists(path)
    return bool(ask(path, "look for", lambda fs, name: fs.exists(name)))


def is_dir(path: str) -> bool:
    """Tell whether a path is a folder.

    Example:
        >>> is_dir("/"), is_dir("memory://no/such/folder")
        (True, False)

    Args:
        path: A path or URL.

    Returns:
        True for folders.
    """
    if not is_url(path):
        return os.path.isdir(path)
    return bool(ask(path, "look at", lambda fs, name: fs.isdir(name)))


def read_bytes(path: str) -> bytes:
    """Read a whole file.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/whole.bin", b"12345")
        >>> read_bytes("memory://whole.bin")
        b'12345'

    Args:
        path: A path or URL.

    Returns:
        Its bytes.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    if not is_url(path):
        with open(path, "rb") as file:
            return file.read()
    return bytes(ask(path, "read", lambda fs, name: fs.cat_file(name)))


def read_text(path: str) -> str:
    """Read a whole file as UTF-8 text.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/text.txt", "Grüße".encode())
        >>> read_text("memory://text.txt")
        'Grüße'

    Args:
        path: A path or URL.

    Returns:
        Its text.

    Raises:
        OSError: The file does not exist or cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    return read_bytes(path).decode("utf-8")


def read_range(path: str, start: int, stop: int) -> bytes:
    """Read bytes `start` to `stop - 1` of a file; fewer come back where the file ends before.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/range.bin", b"0123456789")
        >>> read_range("memory://range.bin", 2, 5), read_range("memory://range.bin", 8, 20)
        (b'234', b'89')

    Args:
        path: A path or URL.
        start: The first byte.
        stop: The byte after the last one.

    Returns:
        The bytes.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    if is_url(path):
        return read_ranges([Ranges(path, [start], [stop])])[0]
    with FILES.hold(path) as fd:
        return _pread(fd, start, stop)


def _pread(fd: int, start: int, stop: int) -> bytes:
    data = os.pread(fd, stop - start, start)
    while data and len(data) < stop - start:
        more = os.pread(fd, stop - start - len(data), start + len(data))
        if not more:
            break
        data += more
    return data


def read_ranges(wanted: Sequence[Ranges]) -> list[bytes]:
    """Read many ranges of many files; remote ones together, those that are close as one.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/many.bin", b"0123456789")
        >>> read_ranges([Ranges("memory://many.bin", [6, 0], [8, 2])])
        [b'67', b'01']

    Args:
        wanted: The ranges of each file.

    Returns:
        The bytes of each range, in order; shorter where a file ends before.

    Raises:
        OSError: A file does not exist or cannot be read.
    """
    if not any(is_url(ranges.path) for ranges in wanted):
        return [
            read_range(path, start, stop)
            for path, starts, stops in wanted
            for start, stop in zip(starts, stops, strict=True)
        ]
    plan: list[tuple[str, int, int]] = []
    places: list[tuple[int, int, int]] = []
    for path, starts, stops in wanted:
        merged: dict[int, tuple[int, int, int]] = {}
        block = -1
        for number in sorted(range(len(starts)), key=starts.__getitem__):
            start, stop = starts[number], stops[number]
            if block >= 0 and start - plan[block][2] <= REMOTE_GAP:
                plan[block] = (path, plan[block][1], max(stop, plan[block][2]))
            else:
                block = len(plan)
                plan.append((path, start, stop))
            merged[number] = (block, start, stop)
        places += [merged[number] for number in range(len(starts))]
    blocks = fetch(plan)
    return [blocks[at][start - plan[at][1] : stop - plan[at][1]] for at, start, stop in places]


def read_once(path: str, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
    """Read ranges of a file that is not kept open, such as one of thousands of index files.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/once.bin", b"0123456789")
        >>> read_once("memory://once.bin", [2, 8], [4, 12])
        [b'23', b'89']

    Args:
        path: A path or URL.
        starts: The first byte of each range.
        stops: The byte after the last one.

    Returns:
        The bytes of each range, fewer where the file ends before.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    if is_url(path):
        return read_ranges([Ranges(path, starts, stops)])
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return [_pread(fd, start, stop) for start, stop in zip(starts, stops, strict=True)]
    finally:
        os.close(fd)


def gather(wanted: Sequence[Ranges]) -> bytes:
    r"""Read many ranges into one bytes object, one behind the other.

    What lies behind the end of a file comes back as zero bytes, so that every range stands where
    the caller expects it.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/gather.bin", b"0123456789")
        >>> gather([Ranges("memory://gather.bin", [0, 8], [2, 12])])
        b'0189\x00\x00'

    Args:
        wanted: The ranges of each file.

    Returns:
        As many bytes as the ranges have together.

    Raises:
        OSError: A file does not exist or cannot be read.
    """
    if any(is_url(ranges.path) for ranges in wanted):
        pieces = iter(read_ranges(wanted))
        return b"".join(
            next(pieces).ljust(stop - start, b"\0")
            for _, starts, stops in wanted
            for start, stop in zip(starts, stops, strict=True)
        )
    total = sum(sum(stops) - sum(starts) for _, starts, stops in wanted)
    if len(wanted) == 1 and len(wanted[0].starts) == 1:
        return read_range(wanted[0].path, wanted[0].starts[0], wanted[0].stops[0]).ljust(total, b"\0")
    if not total:
        return b""
    # BytesIO hands out its inner bytes object without a copy, and lets the kernel write straight into it.
    target = io.BytesIO()
    target.seek(total - 1)
    target.write(b"\0")
    with target.getbuffer() as view:
        at = 0
        for path, starts, stops in wanted:
            with FILES.hold(path) as fd:
                for start, stop in zip(starts, stops, strict=True):
                    after = at + stop - start
                    if os.preadv(fd, [view[at:after]], start) != after - at:
                        _read_rest(fd, view[at:after], start)
                    at = after
    return target.getvalue()


def _read_rest(fd: int, view: memoryview, start: int) -> None:
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done:]], start + done)
        if not got:
            view[done:] = bytes(len(view) - done)
            return
        done += got
