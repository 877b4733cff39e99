"""Read many regular samples at once: headers as columns of numbers instead of one by one.

The samples of a dataset mostly look alike: the same parts in the same order, headers that differ in
name, size, time and checksum only. The first sample of a group gives the layout; numpy then checks
all headers of all samples against it, checksums included. What does not fit is left to the exact
reader of `tar`, so a group gives the same samples as that reader, only sooner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name

__all__ = ["Layout", "Table", "layout_of", "read_columns"]

_WORDS = BLOCK // 8
_VARYING = 160  # bytes: name, mode, owner, size, time, checksum, type; all behind them is mostly alike
_HEAD = np.dtype({"names": ["name"], "formats": ["S100"], "offsets": [0], "itemsize": BLOCK})
_OCTAL = 8.0 ** np.arange(10, -1, -1)
_OCTAL_BIAS = float(ord("0")) * float(_OCTAL.sum())
_SUMMED = np.ones(_VARYING, np.float32)
_SUMMED[148:156] = 0  # the checksum itself counts as spaces
_CHECKSUM = (8.0 ** np.arange(5, -1, -1)).astype(np.float32)
_CHECKSUM_BIAS = float(ord("0")) * float(_CHECKSUM.sum())
_TELLING = ("path", "size", "linkpath")  # PAX fields that change what the plain header says


class Slot(NamedTuple):
    """Describe one member of every sample: its part, its header, the PAX fields in front of it."""

    part: str
    header: bytes
    fields: tuple[bytes, ...]


class Layout(NamedTuple):
    """Describe what all samples of a group have in common.

    Example:
        >>> Layout(()).parts
        ()

    Args:
        slots: One entry per member of a sample, in their order.
    """

    slots: tuple[Slot, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, in the order of the shard."""
        return tuple(slot.part for slot in self.slots)


class Table(NamedTuple):
    """Hold the samples of a group that fit one layout, column by column.

    Example:
        >>> Table(np.array([0]), ["a"], ("txt",), [[512]], [[515]]).keys
        ['a']

    Args:
        rows: Which samples of the group they are, int64 of shape `(k,)`, ascending.
        keys: The key of each sample.
        parts: The names of the parts.
        starts: For each part the first byte of its data in each sample.
        stops: For each part the byte after the last one.
    """

    rows: NDArray[np.int64]
    keys: list[str]
    parts: tuple[str, ...]
    starts: list[list[int]]
    stops: list[list[int]]


def layout_of(buffer: bytes, start: int, stop: int) -> Layout | None:
    """Take the layout from one sample.

    Example:
        >>> layout_of(bytes(1024), 0, 1024) is None
        True

    Args:
        buffer: The bytes of the group.
        start: Where the sample begins in it.
        stop: Where it ends.

    Returns:
        The layout, or None where the sample has anything but plain files with distinct parts.
    """
    slots: list[Slot] = []
    at = start
    key: str | None = None
    while at < stop:
        try:
            member = next_member(lambda offset, size: buffer[offset : offset + size], at)
        except TarError:
            return None
        found = split_name(member.name)
        header = buffer[member.payload - BLOCK : member.payload]
        if member.kind != "file" or found is None or key not in (None, found[0]) or not _is_plain(header, member.name):
            return None
        fields = _harmless_fields(buffer, at, member.payload - BLOCK)
        if fields is None or any(slot.part == found[1] for slot in slots):
            return None
        key = found[0]
        slots.append(Slot(found[1], header, fields))
        at = member.stop
    return Layout(tuple(slots)) if at == stop and slots else None


def _is_plain(header: bytes, name: str) -> bool:
    """Tell whether a header says everything in the fields that are checked as columns."""
    return (
        header[257:262] == b"ustar"
        and not header[345]  # no prefix: the name stands in one field
        and header[135] in b"\0 "
        and header[154:156] == b"\0 "
        and len(header[:100].rstrip(b"\0")) == len(name.encode("utf-8", "surrogateescape"))
    )


def _harmless_fields(buffer: bytes, start: int, stop: int) -> tuple[bytes, ...] | None:
    """Return the text ` NAME=` of each PAX record in front of a header; None for anything else there."""
    if start == stop:
        return ()
    size = int(buffer[start + 124 : start + 135].rstrip(b"\0 ") or b"0", 8)
    if stop - start != 2 * BLOCK or buffer[start + 156] != ord("x") or size > BLOCK:
        return None
    fields: list[bytes] = []
    at = start + BLOCK
    while at < start + BLOCK + size:
        # Only records of two-digit length: nearly all are, and the length is then always at the same place.
        if buffer[at + 2] != ord(" ") or not buffer[at : at + 2].isdigit():
            return None
        name = buffer[at + 2 : buffer.index(b"=", at) + 1]
        if name[1:-1].decode("latin-1").startswith((*_TELLING, "GNU.sparse")):
            return None
        fields.append(name)
        at += int(buffer[at : at + 2])
    return tuple(fields)


def read_columns(buffer: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64], layout: Layout) -> Table:
    """Read all samples of a group that fit a layout.

    Example:
        >>> none = np.array([], np.int64)
        >>> read_columns(b"", none, none, Layout(())).keys
        []

    Args:
        buffer: The bytes of the group; a whole number of blocks.
        starts: Where each sample begins in it, int64 of shape `(n,)`, multiples of 512.
        stops: Where each sample ends.
        layout: What they should look like.

    Returns:
        The samples that fit.
    """
    words = np.frombuffer(buffer, np.uint64).reshape(-1, _WORDS)
    fits = np.ones(len(starts), np.bool_)
    at = starts // BLOCK
    names: list[list[bytes]] = []
    begins: list[NDArray[np.int64]] = []
    sizes: list[NDArray[np.int64]] = []
    for slot in layout.slots:
        if slot.fields:
            fits &= _check_fields(words.take(at, axis=0, mode="clip"), words.take(at + 1, axis=0, mode="clip"), slot)
            at = at + 2
        heads = words.take(at, axis=0, mode="clip")
        size = _check_headers(heads, slot, fits)
        names.append(heads.reshape(-1).view(_HEAD)["name"].tolist())
        begins.append((at + 1) * BLOCK)
        sizes.append(size)
        at = at + 1 + (size + (BLOCK - 1)) // BLOCK
    fits &= at * BLOCK == stops
    rows = np.flatnonzero(fits)
    if len(rows) < len(starts):
        names = [[column[row] for row in rows.tolist()] for column in names]
    keys = _keys_of(names, layout)
    if keys is None:
        found = _keys_one_by_one(names, layout)
        rows = rows[[key is not None for key in found]]
        keys = [key for key in found if key is not None]
    if len(rows) < len(starts):
        begins = [begin[rows] for begin in begins]
        sizes = [size[rows] for size in sizes]
    return Table(
        rows,
        keys,
        layout.parts,
        [begin.tolist() for begin in begins],
        [(begin + size).tolist() for begin, size in zip(begins, sizes, strict=True)],
    )


def _check_headers(heads: NDArray[np.uint64], slot: Slot, fits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Clear `fits` where a header is damaged or of another form, and return the sizes that the headers give."""
    octets = heads.view(np.uint8)
    total = octets[:, :_VARYING].astype(np.float32) @ _SUMMED + float(sum(slot.header[_VARYING:]) + 8 * ord(" "))
    same = heads[:, _VARYING // 8 :] == np.frombuffer(slot.header, np.uint64)[_VARYING // 8 :]
    if not same.all():
        _check_tails(octets, ~same.all(axis=1), slot, total, fits)
    digits = octets[:, 124:135]
    wrong = (digits & 0xF8) != ord("0")
    if wrong.any():
        fits &= ~wrong.any(axis=1)
    stored = octets[:, 148:154].astype(np.float32) @ _CHECKSUM - _CHECKSUM_BIAS
    fits &= total == stored
    fits &= (octets[:, 135] == slot.header[135]) & (octets[:, 156] == slot.header[156])
    return (digits.astype(np.float64) @ _OCTAL - _OCTAL_BIAS).astype(np.int64)


def _check_tails(
    octets: NDArray[np.uint8],
    other: NDArray[np.bool_],
    slot: Slot,
    total: NDArray[np.float32],
    fits: NDArray[np.bool_],
) -> None:
    """Check headers whose second half is not that of the layout: other owners are fine, other formats are not."""
    tails = octets[other, _VARYING:]
    total[other] += tails.sum(axis=1, dtype=np.float32) - np.float32(sum(slot.header[_VARYING:]))
    model = np.frombuffer(slot.header, np.uint8)[_VARYING:]
    alike = tails[:, 257 - _VARYING : 265 - _VARYING] == model[257 - _VARYING : 265 - _VARYING]
    fits[other] &= alike.all(axis=1) & (tails[:, 345 - _VARYING] == 0)


def _check_fields(heads: NDArray[np.uint64], data: NDArray[np.uint64], slot: Slot) -> NDArray[np.bool_]:
    """Tell which samples have a PAX header with the records of the layout, and nothing else.

    The checksum of such a header is not looked at: the records have to fill exactly the size that it gives.
    """
    octets, text = heads.view(np.uint8), data.view(np.uint8)
    sizes = octets[:, 124:135].astype(np.float64) @ _OCTAL - _OCTAL_BIAS
    fits = octets[:, 156] == ord("x")
    position = np.zeros(len(text), np.int64)
    for number, field in enumerate(slot.fields):
        width = 2 + len(field)
        if number:
            record = np.take_along_axis(text, position[:, None] + np.arange(width), axis=1)
        else:
            record = text[:, :width]
        fits &= (record[:, 2:] == np.frombuffer(field, np.uint8)).all(axis=1)
        length = (record[:, 0].astype(np.int64) - ord("0")) * 10 + record[:, 1] - ord("0")
        position = np.clip(position + length, 0, BLOCK - 100)
    return fits & (position == sizes)


def _keys_of(names: list[list[bytes]], layout: Layout) -> list[str] | None:
    """Return the key of each sample; None where they have to be looked at one by one."""
    if not names or not names[0]:
        return []
    endings = [f".{part}\0".encode("utf-8", "surrogateescape") for part in layout.parts]
    first = b"\0".join(names[0]) + b"\0"
    for column, ending in zip(names[1:], endings[1:], strict=True):
        if first.replace(endings[0], ending) != b"\0".join(column) + b"\0":
            return None
    text = first.decode("utf-8", "surrogateescape")
    ending = f".{layout.parts[0]}\0"
    count = len(names[0])
    keys = text.split(ending)
    if len(keys) != count + 1 or text.count("\0") != count or not _is_simple(text, ending, count):
        return None
    del keys[-1]
    return keys


def _is_simple(text: str, ending: str, count: int) -> bool:
    """Tell whether the key of every name is what stands before the ending."""
    if "__" in text or text.startswith(ending) or "\0" + ending in text:
        return False
    inner = text.count(".") - count * ending.count(".")
    # Dots in front of a slash belong to folders; others could end the key sooner.
    return inner == 0 or (inner == text.count("./") and "/" + ending not in text)


def _keys_one_by_one(names: list[list[bytes]], layout: Layout) -> list[str | None]:
    """Return the key of each sample, None where its names do not have the parts of the layout."""
    keys: list[str | None] = []
    for row in zip(*names, strict=True):
        found = [split_name(name.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")) for name in row]
        key = found[0][0] if found[0] is not None else None
        alike = all(pair == (key, part) for pair, part in zip(found, layout.parts, strict=True))
        keys.append(key if alike else None)
    return keys
