"""Check many tar headers at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.tar import BLOCK

__all__ = ["NAME", "are_regular", "has_magic", "has_prefix"]

NAME = np.dtype({"names": ["name"], "formats": ["S100"], "offsets": [0], "itemsize": BLOCK})
"""The short name of a header; bytes behind a first zero byte are still in it."""

_HEAD = 20  # words with name, mode, owner, size, time, checksum, type; those behind are alike in most headers
_WORDS = BLOCK // 8
_CHECKSUM = 148  # its first byte; six digits, then a zero byte or a space, and the same again
_DIGIT, _BLANK = b"\xf8", b"\xdf"  # what is left of an octal digit is "0", of a zero byte or a space nothing
_FORM = np.frombuffer(bytes(4) + _DIGIT * 11 + _BLANK + bytes(12) + _DIGIT * 6 + _BLANK * 2 + bytes(4), np.uint64)
_FORM_WANTED = np.frombuffer(bytes(4) + b"0" * 11 + bytes(13) + b"0" * 6 + bytes(6), np.uint64)
_MAGIC, _MAGIC_WANTED = (int.from_bytes(text + bytes(2), "little") for text in (b"\0" + b"\xff" * 5, b"\0ustar"))
_LANES = np.uint64(0x00FF00FF00FF00FF)
_EIGHT = np.uint64(8)
_POWERS = 8 ** np.arange(5, -1, -1)


def are_regular(blocks: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which blocks are undamaged headers of the usual form.

    What is not of that form may still be a header (of an old writer, or of a huge file): ask `tar`.

    Example:
        >>> import tarfile
        >>> header = tarfile.TarInfo("a.txt").tobuf()
        >>> are_regular(np.frombuffer(header + header.replace(b"a", b"b") + bytes(512), np.uint8).reshape(-1, 512))
        array([ True, False, False])

    Args:
        blocks: The bytes, uint8 of shape `(n, 512)`, contiguous.

    Returns:
        For each block whether name, size, type and checksum stand where every writer of today puts them, and the
        checksum is right: shape `(n,)`.
    """
    words = blocks.view(np.uint64)
    fits = ((words[:, 15:20] & _FORM) == _FORM_WANTED).all(axis=1)
    fits &= has_magic(blocks)
    if not len(blocks):
        return fits
    stored = (blocks[:, _CHECKSUM : _CHECKSUM + 6] & 7) @ _POWERS
    fits &= stored == _sums(words) - _checksum_bytes(blocks) + 8 * ord(" ")
    return fits


def _sums(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the sum of the bytes of each header."""
    sums = _sum_of_bytes(words[:, :_HEAD])
    other = (words[:, _HEAD:] != words[0, _HEAD:]).any(axis=1)
    sums += _sum_of_bytes(words[:1, _HEAD:])
    if other.any():
        sums[other] = _sum_of_bytes(words[other])
    return sums


def _sum_of_bytes(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the sums of the bytes in rows of at most 64 words: in four lanes of 16 bits, each below 65,536."""
    lanes = (words & _LANES) + ((words >> _EIGHT) & _LANES)
    return lanes.sum(axis=1).view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int64)


def _checksum_bytes(blocks: NDArray[np.uint8]) -> NDArray[np.int64]:
    return blocks[:, _CHECKSUM : _CHECKSUM + 8].sum(axis=1, dtype=np.int64)


def has_magic(blocks: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which blocks look like a header of today.

    Example:
        >>> import tarfile
        >>> has_magic(np.frombuffer(tarfile.TarInfo("a.txt").tobuf() + bytes(512), np.uint8).reshape(-1, 512))
        array([ True, False])

    Args:
        blocks: The bytes, uint8 of shape `(n, 512)`, contiguous.

    Returns:
        Shape `(n,)`.
    """
    return (blocks.view(np.uint64)[:, 32] & np.uint64(_MAGIC)) == np.uint64(_MAGIC_WANTED)


def has_prefix(blocks: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which headers may hold a second piece of the name, its folders.

    Example:
        >>> has_prefix(np.zeros((1, 512), np.uint8))
        array([False])

    Args:
        blocks: The headers, uint8 of shape `(n, 512)`.

    Returns:
        Shape `(n,)`.
    """
    return blocks[:, 345] != 0
