"""Read samples that are all alike: the usual case, checked as a whole.

Where all samples of a group have the layout of the first one and keys of one length, few operations on large arrays
are enough. Anything else is left to `columns`, which looks at each sample by itself. (`np.count_nonzero` tells soonest
whether any element is set.)

What a header says about name, size, kind and format is read and checked in every header. The rest, such as the owner,
is taken to be that of the first sample: where it is not, the checksum does not agree, and the group is left to
`columns`. So only damage to bytes that nobody reads can stay unseen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.columns import Table, check_fields, items_of
from energon_nodes.storage.layout import Layout, Pattern
from energon_nodes.storage.tar import BLOCK

__all__ = ["read_alike"]

_NUMBERS = 120  # bytes in front of the words with size, time, checksum and type
_TAIL = 160  # bytes in front of the words behind them
_OCTAL = 8.0 ** np.arange(10, -1, -1)
_OCTAL_ZEROS = float(ord("0") * _OCTAL.sum())
_CHECKSUM_ZEROS = np.float32(ord("0") * (8**6 - 1) // 7)
# Larger matrix products go to the threads of the linear algebra library, which would compete with other readers.
_PRODUCT = 250_000


def read_alike(buffer: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64], layout: Layout) -> Table | None:
    """Read all samples of a group if all of them have a layout and keys of one length.

    Example:
        >>> none = np.array([], np.int64)
        >>> read_alike(b"", none, none, Layout((), 0)) is None
        True

    Args:
        buffer: The bytes of the group; a whole number of blocks.
        starts: Where each sample begins in it, int64 of shape `(n,)`, multiples of 512.
        stops: Where each sample ends.
        layout: What they should look like.

    Returns:
        The samples, or None where one of them is different or damaged.
    """
    pattern = layout.pattern
    if pattern is None:
        return None
    count, slots = len(starts), len(layout.slots)
    places = np.empty((count, slots), np.int64)
    sizes = np.empty((count, slots), np.int64)
    numbers = np.empty((count, slots, 5), np.uint64)
    at = starts // BLOCK
    try:
        for place, slot in enumerate(layout.slots):
            if slot.fields:
                fits = np.ones(count, np.bool_)
                check_fields(buffer, at, slot, fits)
                if not fits.all():
                    return None
                at = at + 2
            places[:, place] = at
            found = items_of(buffer, _NUMBERS, _TAIL)[at].view(np.uint64).reshape(count, 5)
            numbers[:, place] = found
            digits = found.view(np.uint8)[:, 4:15].astype(np.float64)
            size = (np.einsum("ij,j->i", digits, _OCTAL) - _OCTAL_ZEROS).astype(np.int64)
            sizes[:, place] = size
            at = at + ((size + (2 * BLOCK - 1)) >> 9)
    except IndexError:  # a size that leads out of the buffer
        return None
    forms = (numbers.reshape(-1) ^ pattern.repeated("forms", count)) & pattern.repeated("masks", count)
    if np.count_nonzero((at << 9) != stops) or np.count_nonzero(forms):
        return None
    blocks = places.reshape(-1)
    format = items_of(buffer, 256, 264)[blocks].view(np.uint64) != pattern.repeated("formats", count)
    prefix = items_of(buffer, 344, 352)[blocks].view(np.uint64) != pattern.repeated("prefixes", count)
    if np.count_nonzero(format) or np.count_nonzero(prefix):
        return None
    names = items_of(buffer, 0, pattern.front)[blocks].view(np.uint64)
    if not _names_agree(names, pattern, count):
        return None
    if not _sums_agree(names, numbers, pattern.weights, pattern.constants):
        return None
    keys = _keys(names.reshape(count, -1)[:, : pattern.front // 8], layout.key_length)
    if keys is None:
        return None
    begins = (places + 1) << 9
    ends = begins + sizes
    return Table(np.arange(count), keys, layout.parts, list(begins.T), list(ends.T))


def _names_agree(names: NDArray[np.uint64], pattern: Pattern, count: int) -> bool:
    """Tell whether the names are a key, the same in all members of a sample, and the ending of each part."""
    keys = names ^ pattern.repeated("endings", count)
    if np.count_nonzero(keys & pattern.repeated("outside", count)):
        return False
    by_slot = keys.reshape(count, -1, pattern.front // 8)
    return not any(
        np.count_nonzero(by_slot[:, slot, word] != by_slot[:, 0, word])
        for slot in range(1, by_slot.shape[1])
        for word in range(pattern.key_words)
    )


def _sums_agree(
    names: NDArray[np.uint64],
    numbers: NDArray[np.uint64],
    weights: NDArray[np.float32],
    constants: NDArray[np.float32],
) -> bool:
    """Compare the sums of the bytes of all headers with their checksums."""
    rows, width = numbers.size // 5, len(weights)
    octets = np.empty((rows, width), np.float32)
    octets[:, :-40] = names.view(np.uint8).reshape(rows, -1)
    octets[:, -40:] = numbers.view(np.uint8).reshape(rows, 40)
    sums = np.empty((rows, 2), np.float32)
    step = _PRODUCT // (2 * width)
    for row in range(0, rows, step):
        np.matmul(octets[row : row + step], weights, out=sums[row : row + step])
    total = sums[:, 0].reshape(-1, len(constants)) + constants
    return not np.count_nonzero(total != (sums[:, 1] - _CHECKSUM_ZEROS).reshape(total.shape))


def _keys(names: NDArray[np.uint64], length: int) -> list[str] | None:
    """Return the keys if none of them has a dot or another peculiarity."""
    octets = np.ascontiguousarray(names).view(np.uint8)
    text = octets[:, : length + 1].tobytes().decode("utf-8", "surrogateescape")
    if "__" in text or "/." in text or "\0" in text:
        return None
    keys = text.split(".")
    if len(keys) != len(octets) + 1:
        return None
    del keys[-1]
    return keys
