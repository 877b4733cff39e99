"""Read many regular samples at once: headers as columns of numbers instead of one by one.

The samples of a dataset mostly look alike: the same parts in the same order, headers that differ in
name, size, time and checksum only. The first sample of a group gives the layout; numpy then checks
all headers of all samples against it, checksums included. What does not fit is left to the exact
reader of `tar`, so a group gives the same samples as that reader, only sooner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.layout import FORM_MASK, Layout, Slot
from energon_nodes.storage.tar import BLOCK, split_name

__all__ = ["Table", "check_fields", "items_of", "read_columns"]

_VARYING = 160  # bytes: name, mode, owner, size, time, checksum, type; all behind them is mostly alike
_CHECKED = slice(15, 20)  # words with the fields that are checked: size, time, checksum, type
_NAME = np.dtype({"names": ["name"], "formats": ["S100"], "offsets": [0], "itemsize": _VARYING})
_DTYPES: dict[tuple[int, int], np.dtype[Any]] = {}


def items_of(buffer: bytes, start: int, stop: int) -> NDArray[Any]:
    """Return bytes `start` to `stop - 1` of every block as one item; fancy indexing copies such items as a whole.

    Example:
        >>> items_of(bytes(1024), 120, 160)[[1]].tobytes() == bytes(40)
        True

    Args:
        buffer: A whole number of blocks.
        start: The first byte of each block.
        stop: The byte after the last one.

    Returns:
        An array of void items, one per block; a view.
    """
    dtype = _DTYPES.get((start, stop))
    if dtype is None:
        parts = {"names": ["_"], "formats": [f"V{stop - start}"], "offsets": [start], "itemsize": BLOCK}
        dtype = _DTYPES[start, stop] = np.dtype(parts)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return np.frombuffer(buffer, dtype)["_"]


def _weights() -> NDArray[np.float32]:
    """Return what turns the first bytes of a header into sum, checksum and the two halves of the size."""
    weights = np.zeros((_VARYING, 4), np.float32)
    weights[:148, 0] = weights[156:, 0] = 1  # the checksum itself counts as spaces
    weights[148:154, 1] = 8.0 ** np.arange(5, -1, -1)
    weights[124:130, 2] = 8.0 ** np.arange(5, -1, -1)
    weights[130:135, 3] = 8.0 ** np.arange(4, -1, -1)
    return weights


_WEIGHTS = _weights()
_ZEROS = ord("0") * _WEIGHTS[:, 1:].sum(axis=0)  # what the digits 0 alone give
# Matrix products below this number of rows stay in one thread of the linear algebra library: such small ones gain
# nothing from more, and its threads would compete with the readers of other streams.
_ROWS_AT_ONCE = 400

Words = NDArray[np.uint64]


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_EXTENSION_MASK = np.frombuffer(
    b"\0\0\0\0\xff\xff\xff\xff" + b"\xff" * 4 + b"\xf8" * 3 + b"\xff" + bytes(20) + b"\xff\0\0\0", np.uint64
)
_32, _OCTAL_DIGIT, _BYTE = np.uint64(32), np.uint64(7), np.uint64(255)


class Table(NamedTuple):
    """Hold the samples of a group that fit one layout, column by column.

    Example:
        >>> Table(np.array([0]), ["a"], ("txt",), [np.array([512])], [np.array([515])]).keys
        ['a']

    Args:
        rows: Which samples of the group they are, int64 of shape `(k,)`, ascending.
        keys: The key of each sample.
        parts: The names of the parts.
        starts: For each part the first byte of its data in each sample, int64 of shape `(k,)`.
        stops: For each part the byte after the last one, same shape.
    """

    rows: NDArray[np.int64]
    keys: list[str]
    parts: tuple[str, ...]
    starts: list[NDArray[np.int64]]
    stops: list[NDArray[np.int64]]


def read_columns(buffer: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64], layout: Layout) -> Table:
    """Read all samples of a group that fit a layout.

    Example:
        >>> import io, tarfile
        >>> from energon_nodes.storage.layout import layout_of
        >>> file = io.BytesIO()
        >>> with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        ...     for name in ("a.txt", "b.txt"):
        ...         tar.addfile(tarfile.TarInfo(name))
        >>> layout = layout_of(file.getvalue(), 0, 512)
        >>> read_columns(file.getvalue(), np.array([0, 512]), np.array([512, 1024]), layout).keys
        ['a', 'b']

    Args:
        buffer: The bytes of the group; a whole number of blocks.
        starts: Where each sample begins in it, int64 of shape `(n,)`, multiples of 512.
        stops: Where each sample ends.
        layout: What they should look like.

    Returns:
        The samples that fit.
    """
    last = len(buffer) // BLOCK - 1
    fits = np.ones(len(starts), np.bool_)
    at = starts // BLOCK
    heads: list[Words] = []
    begins: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    for slot in layout.slots:
        if slot.fields:
            check_fields(buffer, np.clip(at, 0, last - 1), slot, fits)
            at = at + 2
        head, size = _check_headers(buffer, np.clip(at, 0, last), slot, fits)
        heads.append(head)
        at = at + 1
        begins.append(at * BLOCK)
        ends.append(begins[-1] + size)
        at = at + (size + (BLOCK - 1)) // BLOCK
    fits &= at * BLOCK == stops
    rows = np.flatnonzero(fits)
    if len(rows) < len(starts):
        heads = [head[rows] for head in heads]
    found = _keys_of(heads, layout) if heads else []
    keys = [key for key in found if key is not None]
    if len(keys) < len(found):
        rows = rows[[key is not None for key in found]]
    if len(rows) < len(starts):
        begins = [begin[rows] for begin in begins]
        ends = [end[rows] for end in ends]
    return Table(rows, keys, layout.parts, begins, ends)


def _check_headers(
    buffer: bytes, at: NDArray[np.int64], slot: Slot, fits: NDArray[np.bool_]
) -> tuple[Words, NDArray[np.int64]]:
    """Clear `fits` where a header is damaged or of another form; return heads and the sizes that they give."""
    head = items_of(buffer, 0, _VARYING)[at].view(np.uint64).reshape(-1, _VARYING // 8)
    octets = head.view(np.uint8).astype(np.float32)
    numbers = np.empty((len(at), 4), np.float32)
    for row in range(0, len(at), _ROWS_AT_ONCE):
        np.matmul(octets[row : row + _ROWS_AT_ONCE], _WEIGHTS, out=numbers[row : row + _ROWS_AT_ONCE])
    tail = items_of(buffer, _VARYING, BLOCK)[at].view(np.uint64)
    model = np.tile(slot.words[_VARYING // 8 :], len(at))
    total = numbers[:, 0]
    total += slot.tail_sum if np.array_equal(tail, model) else _check_tails(tail, model, slot, fits)
    wrong = (head[:, _CHECKED] ^ slot.form) & FORM_MASK
    if wrong.any():
        fits &= ~wrong.any(axis=1)
    fits &= numbers[:, 1] - _ZEROS[0] == total
    high, low = (numbers[:, 2:] - _ZEROS[1:]).T.astype(np.int64)
    return head, high * 8**5 + low


def _check_tails(tail: Words, model: Words, slot: Slot, fits: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Sum second halves that are not all those of the layout: other owners are fine, other formats are not."""
    octets = tail.view(np.uint8).reshape(len(fits), -1)
    alike = octets[:, 257 - _VARYING : 265 - _VARYING] == model.view(np.uint8)[257 - _VARYING : 265 - _VARYING]
    fits &= alike.all(axis=1) & (octets[:, 345 - _VARYING] == 0)
    return octets.sum(axis=1, dtype=np.float32) + np.float32(8 * ord(" "))


def check_fields(buffer: bytes, at: NDArray[np.int64], slot: Slot, fits: NDArray[np.bool_]) -> None:
    """Clear `fits` where there is no PAX header with the records of the layout and nothing else.

    The checksum of such a header is not looked at: the records have to fill exactly the size that it gives.

    Args:
        buffer: The bytes of the group.
        at: The block where the header of each sample stands, int64 of shape `(n,)`.
        slot: The member that the header stands in front of.
        fits: Which samples fit so far, shape `(n,)`; changed in place.
    """
    numbers = items_of(buffer, 120, 160)[at].view(np.uint64).reshape(-1, 5)
    wrong = (numbers ^ slot.extension_form) & _EXTENSION_MASK
    if wrong.any():
        fits &= ~wrong.any(axis=1)
    digits = numbers[:, 1] >> _32
    sizes = ((digits & _OCTAL_DIGIT) << _word(b"\6")) + ((digits >> _word(b"\5")) & _word(b"\x38"))
    sizes += (digits >> _word(b"\x10")) & _OCTAL_DIGIT
    position = np.zeros(len(at), np.int64)
    for number, field in enumerate(slot.fields):
        if number == 0 and len(field) <= 14:
            record = items_of(buffer, 0, 16)[at + 1].view(np.uint64).reshape(-1, 2)
            wrong = (record ^ slot.record_form) & slot.record_mask
            if wrong.any():
                fits &= ~wrong.any(axis=1)
            first = record[:, 0]
            tens, ones = first & _BYTE, (first >> np.uint64(8)) & _BYTE
            position = (tens * np.uint64(10) + ones).astype(np.int64) - 11 * ord("0")
            continue
        places = ((at + 1) * BLOCK + np.clip(position, 0, BLOCK - 100))[:, None] + np.arange(2 + len(field))
        record = np.frombuffer(buffer, np.uint8)[places]
        fits &= (record[:, 2:] == np.frombuffer(field, np.uint8)).all(axis=1)
        position += (record[:, 0].astype(np.int64) - ord("0")) * 10 + record[:, 1] - ord("0")
    fits &= position == sizes.astype(np.int64)


def _keys_of(heads: list[Words], layout: Layout) -> list[str | None]:
    """Return the key of each sample, None where its names do not have the parts of the layout."""
    names: list[list[bytes]] = [head.view(_NAME)["name"].reshape(-1).tolist() for head in heads]
    endings = [f".{part}\0".encode("utf-8", "surrogateescape") for part in layout.parts]
    first = b"\0".join([*names[0], b""])
    alike = all(
        first.replace(endings[0], ending) == b"\0".join([*column, b""])
        for column, ending in zip(names[1:], endings[1:], strict=True)
    )
    text = first.decode("utf-8", "surrogateescape")
    ending = f".{layout.parts[0]}\0"
    keys = text.split(ending)
    count = len(names[0])
    if alike and len(keys) == count + 1 and text.count("\0") == count and _is_simple(text, ending, count):
        return list(keys[:-1])
    return [_key_of(row, layout.parts) for row in zip(*names, strict=True)]


def _is_simple(text: str, ending: str, count: int) -> bool:
    """Tell whether the key of every name is what stands before the ending."""
    if "__" in text or text.startswith(ending) or "\0" + ending in text:
        return False
    inner = text.count(".") - count * ending.count(".")
    # Dots in front of a slash belong to folders; others could end the key sooner.
    return inner == 0 or (inner == text.count("./") and "/" + ending not in text)


def _key_of(names: tuple[bytes, ...], parts: tuple[str, ...]) -> str | None:
    found = [split_name(name.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")) for name in names]
    key = found[0][0] if found[0] is not None else None
    return key if all(pair == (key, part) for pair, part in zip(found, parts, strict=True)) else None
