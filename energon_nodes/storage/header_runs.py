"""Find runs of tar headers, each of which says where the next one is; whether they are undamaged is checked later."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.headers import has_magic
from energon_nodes.storage.tar import BLOCK, TarError, pax_fields
from energon_nodes.storage.window import Window

__all__ = ["Run", "run_in", "run_through"]

_LONGEST = 64 * 1024  # bytes of a long name or of PAX records
_FILE, _OLD_FILE, _PAX, _LONG_NAME, _LONG_LINK = b"0\0xLK"
_EXTENSIONS = frozenset((_PAX, _LONG_NAME, _LONG_LINK))
_MODIFIED = b" mtime="  # the only record that most PAX headers have
_SHORT = 64  # bytes that hold this record
_POWERS = 8 ** np.arange(10, -1, -1)


class Run(NamedTuple):
    """Hold headers that follow each other; the last one is that of a file.

    Example:
        >>> Run(b"", np.zeros(0, np.int64), np.zeros(0, np.bool_), {}, True).goes_on
        True

    Args:
        data: The headers, 512 bytes each.
        lengths: The size that each gives, int64 of shape `(n,)`.
        is_file: Which are those of files; the others stand in front of one and say more about it. Shape `(n,)`.
        names: The names that such others give, by their number.
        goes_on: Whether there may be more headers of this kind behind them.
    """

    data: bytes
    lengths: NDArray[np.int64]
    is_file: NDArray[np.bool_]
    names: dict[int, str]
    goes_on: bool


def run_through(window: Window, offset: int, most: int) -> Run:
    """Follow headers one by one, for shards of large files: of these little more than the headers is read.

    Args:
        window: The shard.
        offset: Where a header stands.
        most: The number of headers to stop at.

    Returns:
        The headers up to the first one of another form.

    Raises:
        OSError: The shard cannot be read.
    """
    blocks: list[bytes] = []
    lengths: list[int] = []
    extensions: list[int] = []
    names: dict[int, str] = {}
    buffer, at = window.piece(offset, BLOCK)
    offset -= at  # from here on that of the buffer
    last = len(buffer) - BLOCK
    files = 0
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
        whole = (length + 1023) & -512
        if kind == _FILE or kind == _OLD_FILE:  # noqa: SIM109 - a tuple takes longer
            files = len(blocks) + 1
        elif kind in _EXTENSIONS and 0 <= length < _LONGEST:
            if at + whole > last:
                buffer, new = window.piece(offset + at, whole + BLOCK)
                offset += at - new
                at, last = new, len(buffer) - BLOCK
                if at + whole > last:
                    break
            name = _name_in(kind, buffer[at + BLOCK : at + BLOCK + length])
            if name is None:
                break
            extensions.append(len(blocks))
            if name:
                names[len(blocks)] = name
        else:
            break
        blocks.append(block)
        lengths.append(length)
        at += whole
    goes_on = len(blocks) >= most
    is_file = np.ones(len(blocks), np.bool_)
    is_file[extensions] = False
    return Run(b"".join(blocks[:files]), np.array(lengths[:files], np.int64), is_file[:files], names, goes_on)


def run_in(buffer: bytes, at: int) -> Run:
    """Find the headers in a piece of a shard, all at once: its blocks that look like one, if they lead to each other.

    Args:
        buffer: A piece of the shard.
        at: Where a header stands in it.

    Returns:
        The headers up to the first one of another form, or to the end of the piece.
    """
    whole = (len(buffer) - at) // BLOCK
    blocks = np.frombuffer(buffer, np.uint8, whole * BLOCK, at).reshape(whole, BLOCK)
    places = np.flatnonzero(has_magic(blocks))
    headers = blocks[places]
    # Of what is no number this makes any number: its header is refused when it is checked.
    lengths = (headers[:, 124:135] & 7) @ _POWERS
    nexts = places + 1 + ((lengths + (BLOCK - 1)) >> 9)
    if not len(places) or places[0] or np.count_nonzero(nexts[:-1] != places[1:]):
        chosen = _chain(places, nexts)
        places, headers, lengths, nexts = places[chosen], headers[chosen], lengths[chosen], nexts[chosen]
    kinds = headers[:, 156]
    is_file = (kinds == _FILE) | (kinds == _OLD_FILE)
    names: dict[int, str] = {}
    count = len(places)
    goes_on = count > 0 and int(nexts[-1]) >= whole - 1
    others = np.flatnonzero(~is_file)
    if len(others):
        others = others[~_harmless(blocks, places[others], kinds[others], lengths[others])]
        for row in others.tolist():
            kind, length, start = int(kinds[row]), int(lengths[row]), at + (int(places[row]) + 1) * BLOCK
            data = buffer[start : start + length]
            if kind in _EXTENSIONS and len(data) < length < _LONGEST:  # it goes on behind the piece
                count = row
                break
            name = _name_in(kind, data) if kind in _EXTENSIONS and length < _LONGEST else None
            if name is None:
                count, goes_on = row, False
                break
            if name:
                names[row] = name
    ends = np.flatnonzero(is_file[:count])
    count = int(ends[-1]) + 1 if len(ends) else 0
    return Run(headers[:count].tobytes(), lengths[:count], is_file[:count], names, goes_on)


def _chain(places: NDArray[np.int64], nexts: NDArray[np.int64]) -> list[int]:
    """Return which of the places are reached from the first block: others lie in files that look like tars."""
    numbers = {place: number for number, place in enumerate(places.tolist())}
    targets = nexts.tolist()
    chosen: list[int] = []
    place = 0
    while (number := numbers.get(place)) is not None:
        chosen.append(number)
        place = targets[number]
    return chosen


def _harmless(
    blocks: NDArray[np.uint8], places: NDArray[np.int64], kinds: NDArray[np.uint8], lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which are PAX headers that say nothing but when a file was modified."""
    inside = np.minimum(places + 1, len(blocks) - 1)
    records = blocks[inside, :_SHORT]
    tens, ones = records[:, 0] - ord("0"), records[:, 1] - ord("0")
    fits = (kinds == _PAX) & (lengths <= _SHORT) & (lengths > 9) & (inside == places + 1)
    fits &= (tens < 10) & (ones < 10) & (10 * tens.astype(np.int64) + ones == lengths)
    fits &= (records[:, 2:9] == np.frombuffer(_MODIFIED, np.uint8)).all(axis=1)
    fits &= records[np.arange(len(records)), np.clip(lengths, 1, _SHORT) - 1] == ord("\n")
    return fits


def _name_in(kind: int, data: bytes) -> str | None:
    """Return the name that a header in front of a file gives it, or ""; None for what needs a closer look."""
    if kind == _LONG_NAME:
        return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape") or None
    if kind == _LONG_LINK:
        return ""
    if data[2:9] == _MODIFIED and data[-1] == 10 and data[:2].isdigit() and int(data[:2]) == len(data):
        return ""
    try:
        fields = pax_fields(data, 0)
    except TarError:
        return None
    if "size" in fields or any(field.startswith("GNU.sparse.") for field in fields):
        return None
    path = fields.get("path")
    return "" if path is None else path.decode("utf-8", "surrogateescape") or None
