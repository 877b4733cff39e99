"""Walk the headers of a shard: many regular ones at once, the others one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.header_runs import Run, run_in, run_through
from energon_nodes.storage.headers import NAME, are_regular, has_prefix
from energon_nodes.storage.tar import BLOCK, Member, next_member
from energon_nodes.storage.window import Window

__all__ = ["Members", "split_names", "walk"]

_MOST = 2048  # headers at a time: 1 MB
_FEWEST = 16
_MOST_ONE_BY_ONE = 1024
_WIDE = 128 * 1024  # so many bytes at least are looked at as a whole
_CLOSE = 16 * 1024  # if there is a header in so many bytes


class Members(NamedTuple):
    """Hold neighbouring regular files of a shard, column by column.

    Example:
        >>> Members(["a.txt"], np.array([0]), np.array([512]), np.array([3]), 1024).names
        ['a.txt']

    Args:
        names: The name of each.
        starts: The first byte of its first header block, int64 of shape `(n,)`.
        payloads: The first byte of its data, int64 of shape `(n,)`.
        sizes: The number of bytes of its data, int64 of shape `(n,)`.
        stop: The byte at which the entry behind the last one starts.
    """

    names: list[str]
    starts: NDArray[np.int64]
    payloads: NDArray[np.int64]
    sizes: NDArray[np.int64]
    stop: int


def walk(window: Window, size: int) -> Iterator[Members | Member]:
    """Give all entries of a shard in order, those that are regular files in groups.

    Example:
        >>> import io, tarfile
        >>> from energon_nodes.storage.remote import filesystem
        >>> file = io.BytesIO()
        >>> with tarfile.open(fileobj=file, mode="w") as archive:
        ...     for name in ("a.txt", "a.cls"):
        ...         archive.addfile(tarfile.TarInfo(name))
        >>> filesystem("memory://")[0].pipe("/walk.tar", file.getvalue())
        >>> group, end = walk(Window("memory://walk.tar"), len(file.getvalue()))
        >>> group.names, end.kind
        (['a.txt', 'a.cls'], 'end')

    Args:
        window: The shard.
        size: The bytes that it has.

    Yields:
        Groups of regular files that lie inside the shard, and single entries of any kind, which may reach behind
        its end; after the first one of kind "end" nothing more.

    Raises:
        TarError: The shard is damaged.
        OSError: It cannot be read.
    """
    offset = 0
    most, odd = _FEWEST, 1
    while True:
        run = _run(window, offset, most)
        group = _checked(run, offset, size)
        if group is not None:
            yield group
            window.spacing = (group.stop - offset) // len(group.names)
            offset = group.stop
            most, odd = min(2 * most, _MOST), 1
            if run.goes_on and len(group.names) == np.count_nonzero(run.is_file):
                continue
        # Shards of an old writer are all odd: the more odd entries in a row, the more are read before another group.
        for _ in range(odd):
            member = next_member(window.read, offset)
            yield member
            if member.kind == "end":
                return
            offset = member.stop
        most, odd = _FEWEST, min(2 * odd, _MOST_ONE_BY_ONE)


def _run(window: Window, offset: int, most: int) -> Run:
    if window.spacing <= _CLOSE:
        buffer, at = window.piece(offset, _WIDE)
        if len(buffer) - at > _FEWEST * BLOCK:
            run = run_in(buffer, at)
            if len(run.lengths):
                return run
    return run_through(window, offset, most)


def _checked(run: Run, start: int, size: int) -> Members | None:
    """Return the files whose headers, and those in front of them, are undamaged, up to the first one that is not."""
    count = len(run.lengths)
    if not count:
        return None
    blocks = np.frombuffer(run.data, np.uint8).reshape(count, BLOCK)
    stops = np.cumsum((run.lengths + (2 * BLOCK - 1)) & -BLOCK) + start
    fits = are_regular(blocks) & (stops <= size)
    if not fits.all():
        count = int(np.argmin(fits))
    rows = np.flatnonzero(run.is_file[:count])
    if not len(rows):
        return None
    ends = stops[rows]
    heads = np.concatenate(([start], stops))[rows]
    starts = np.concatenate(([start], ends[:-1]))  # where other headers stand in front, it is theirs
    return Members(_names(run, blocks, rows), starts, heads + BLOCK, run.lengths[rows], int(ends[-1]))


def _names(run: Run, blocks: NDArray[np.uint8], rows: NDArray[np.int64]) -> list[str]:
    texts: list[bytes] = np.frombuffer(run.data, NAME)["name"][rows].tolist()
    joined = b"\0".join(texts)
    if joined.count(b"\0") >= len(texts):
        joined = b"\0".join([text.split(b"\0", 1)[0] for text in texts])
    names = joined.decode("utf-8", "surrogateescape").split("\0")
    prefixed = has_prefix(blocks)[rows]
    if prefixed.any():
        for number in np.flatnonzero(prefixed).tolist():
            header = run.data[int(rows[number]) * BLOCK :][:BLOCK]
            if header[257:263] == b"ustar\0":
                folder = header[345:500].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
                names[number] = f"{folder}/{names[number]}"
    if run.names:
        owners = np.searchsorted(rows, list(run.names)).tolist()
        for number, name in zip(owners, run.names.values(), strict=True):
            if number < len(names):
                names[number] = name
    return names


def split_names(names: list[str]) -> tuple[list[str], list[str]] | None:
    """Split the names of members into keys and parts, as `split_name` does, if all of them belong to samples.

    Example:
        >>> split_names(["a.txt", "b/c.x.y"]), split_names(["a.txt", "readme"])
        ((['a', 'b/c'], ['txt', 'x.y']), None)

    Args:
        names: The full names.

    Returns:
        The key and the part of each, or None where one of them needs a closer look.
    """
    text = "\0".join(names)
    if "/." in text or text.startswith("__") or "\0__" in text:
        return None
    dots = [name.find(".", name.rfind("/") + 1) for name in names]
    if min(dots) <= 0:
        return None
    return (
        [name[:dot] for name, dot in zip(names, dots, strict=True)],
        [name[dot + 1 :] for name, dot in zip(names, dots, strict=True)],
    )
