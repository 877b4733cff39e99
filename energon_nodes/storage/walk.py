"""Walk the headers of a shard: many regular ones at once, the others one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.headers import NAME, are_regular, has_prefix
from energon_nodes.storage.tar import BLOCK, Member, TarError, next_member, pax_fields
from energon_nodes.storage.window import Window

__all__ = ["Members", "split_names", "walk"]

_MOST = 2048  # headers at a time: 1 MB
_FEWEST = 16
_LONGEST = 64 * 1024  # bytes of a long name or of PAX records
_MOST_ONE_BY_ONE = 1024
_FILE, _OLD_FILE, _PAX, _LONG_NAME, _LONG_LINK = b"0\0xLK"
_MODIFIED = b" mtime="  # the only record that most PAX headers have


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
        taken = _take(window, offset, most)
        group = _checked(taken, offset, size)
        if group is not None:
            yield group
            offset = group.stop
            most, odd = min(2 * most, _MOST), 1
            if taken.goes_on and group.stop == taken.stop:
                continue
        # Shards of an old writer are all odd: the more odd entries in a row, the more are read before another group.
        for _ in range(odd):
            member = next_member(window.read, offset)
            yield member
            if member.kind == "end":
                return
            offset = member.stop
        most, odd = _FEWEST, min(2 * odd, _MOST_ONE_BY_ONE)


class _Taken(NamedTuple):
    """Headers that follow each other, not checked yet."""

    blocks: list[bytes]
    lengths: list[int]
    extensions: dict[int, str | None]  # by number, those that stand in front of a file, with the name that they give it
    stop: int
    goes_on: bool  # whether the header behind them may be a regular one


def _take(window: Window, offset: int, most: int) -> _Taken:
    """Follow the sizes in headers, until `most` headers are there or one has another form."""
    blocks: list[bytes] = []
    lengths: list[int] = []
    extensions: dict[int, str | None] = {}
    buffer, at = window.piece(offset, BLOCK)
    offset -= at  # from here on that of the buffer
    last = len(buffer) - BLOCK
    files, stop = 0, offset + at
    while len(blocks) < most:
        if at > last:
            buffer, new = window.piece(offset + at, BLOCK)
            offset += at - new
            at, last = new, len(buffer) - BLOCK
            if at > last:
                break
        block = buffer[at : at + BLOCK]
        try:
            length = int(block[124:135], 8)
            kind = block[156]
        except (ValueError, IndexError):
            break
        if kind == _FILE or kind == _OLD_FILE:  # noqa: SIM109 - a tuple takes longer
            at += (length + 1023) & -512
            blocks.append(block)
            lengths.append(length)
            files, stop = len(blocks), offset + at
            continue
        if kind not in (_PAX, _LONG_NAME, _LONG_LINK) or not 0 <= length < _LONGEST:
            break
        whole = (length + 1023) & -512
        if at + whole > last:
            buffer, new = window.piece(offset + at, whole + BLOCK)
            offset += at - new
            at, last = new, len(buffer) - BLOCK
            if at + whole > last:
                break
        if kind == _PAX:
            data = buffer[at + BLOCK : at + BLOCK + length]
            if data[2:9] == _MODIFIED and data[-1] == 10 and data[:2].isdigit() and int(data[:2]) == length:
                extensions[len(blocks)] = None
            else:
                try:
                    fields = pax_fields(data, 0)
                except TarError:
                    break
                if "size" in fields or any(field.startswith("GNU.sparse.") for field in fields):
                    break
                path = fields.get("path")
                extensions[len(blocks)] = None if path is None else path.decode("utf-8", "surrogateescape")
        elif kind == _LONG_NAME:
            name = buffer[at + BLOCK : at + BLOCK + length].split(b"\0", 1)[0]
            extensions[len(blocks)] = name.decode("utf-8", "surrogateescape")
        else:
            extensions[len(blocks)] = None
        blocks.append(block)
        lengths.append(length)
        at += whole
    # Extensions without their file wait for the next group.
    goes_on = len(blocks) >= most
    del blocks[files:], lengths[files:]
    return _Taken(blocks, lengths, extensions, stop, goes_on)


def _checked(taken: _Taken, start: int, size: int) -> Members | None:
    """Return the files whose headers, and those in front of them, are undamaged, up to the first one that is not."""
    count = len(taken.blocks)
    if not count:
        return None
    data = b"".join(taken.blocks)
    blocks = np.frombuffer(data, np.uint8).reshape(count, BLOCK)
    lengths = np.array(taken.lengths, np.int64)
    stops = np.cumsum((lengths + (2 * BLOCK - 1)) & -BLOCK) + start
    fits = are_regular(blocks) & (stops <= size)
    if not fits.all():
        count = int(np.argmin(fits))
    rows = _files(taken.extensions, count)
    if not len(rows):
        return None
    ends = stops[rows]
    heads = np.concatenate(([start], stops))[rows]
    names = _names(data, blocks, rows, taken.extensions)
    starts = np.concatenate(([start], ends[:-1]))  # where extensions stand in front, it is theirs
    return Members(names, starts, heads + BLOCK, lengths[rows], int(ends[-1]))


def _files(extensions: dict[int, str | None], count: int) -> NDArray[np.int64]:
    """Return which of the first `count` headers are those of files."""
    if not extensions:
        return np.arange(count)
    is_file = np.ones(count, np.bool_)
    is_file[[row for row in extensions if row < count]] = False
    return np.flatnonzero(is_file)


def _names(
    data: bytes, blocks: NDArray[np.uint8], rows: NDArray[np.int64], extensions: dict[int, str | None]
) -> list[str]:
    texts: list[bytes] = np.frombuffer(data, NAME)["name"][rows].tolist()
    joined = b"\0".join(texts)
    if joined.count(b"\0") >= len(texts):
        joined = b"\0".join([text.split(b"\0", 1)[0] for text in texts])
    names = joined.decode("utf-8", "surrogateescape").split("\0")
    prefixed = has_prefix(blocks)[rows]
    if prefixed.any():
        for number in np.flatnonzero(prefixed).tolist():
            at = int(rows[number]) * BLOCK
            if data[at + 257 : at + 263] == b"ustar\0":
                folder = data[at + 345 : at + 500].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
                names[number] = f"{folder}/{names[number]}"
    if any(name is not None for name in extensions.values()):
        numbers = np.searchsorted(rows, list(extensions)).tolist()
        for number, name in zip(numbers, extensions.values(), strict=True):
            if name is not None and number < len(names):
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
