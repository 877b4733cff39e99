"""What the samples of a group have in common: taken from one, checked on all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name

__all__ = ["Layout", "Slot", "layout_of"]

_VARYING = 160
_KEPT = 32
_known: dict[tuple[object, ...], Layout] = {}
_TELLING = ("path", "size", "linkpath", "GNU.sparse")  # PAX fields that change what the plain header says


class Slot:
    r"""Describe one member of every sample: its part, its header, the PAX fields in front of it.

    Args:
        part: The name of the part.
        header: The header block of the first sample.
        fields: The text ` NAME=` of each PAX record in front of it.
        extension: The header block of these records, or zeros.

    Example:
        >>> Slot("txt", b"a.txt".ljust(512, b"\0"), (), bytes(512)).words.shape
        (64,)
    """

    def __init__(self, part: str, header: bytes, fields: tuple[bytes, ...], extension: bytes) -> None:
        self.part = part
        self.fields = fields
        self.words = np.frombuffer(header, np.uint64)
        """The words of the header."""
        self.tail_sum = np.float32(sum(header[_VARYING:]) + 8 * ord(" "))
        """What the bytes that are alike in all headers, and the blank checksum, add to the checksum."""
        self.form = self.words[15:20]
        """The words with size, checksum and type."""
        self.extension_form = np.frombuffer(
            extension[120:124] + b"0" * 8 + extension[132:156] + b"x" + extension[157:160], np.uint64
        )
        """The same words of the PAX header, for records of less than 512 bytes."""
        first = b"\0\0" + fields[0][:14] if fields else b""
        self.record_form = np.frombuffer(first.ljust(16, b"\0"), np.uint64)
        self.record_mask = np.frombuffer((b"\0\0" + b"\xff" * (len(first) - 2)).ljust(16, b"\0"), np.uint64)
        self._repeated: dict[tuple[int, int], NDArray[np.uint64]] = {}

    def repeated(self, start: int, stop: int, count: int) -> NDArray[np.uint64]:
        """Return bytes `start` to `stop - 1` of the header `count` times, as flat words."""
        words = (stop - start) // 8
        made = self._repeated.get((start, stop))
        if made is None or len(made) < words * count:
            made = self._repeated[start, stop] = np.tile(self.words[start // 8 : stop // 8], count)
        return made[: words * count]


class _Seen(NamedTuple):
    """The arguments of a slot."""

    part: str
    header: bytes
    fields: tuple[bytes, ...]
    extension: bytes


class Layout(NamedTuple):
    """Describe what all samples of a group have in common.

    Example:
        >>> Layout((), 0).parts
        ()

    Args:
        slots: One entry per member of a sample, in their order.
        key_length: The bytes of the key of the first sample.
    """

    slots: tuple[Slot, ...]
    key_length: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, in the order of the shard."""
        return tuple([slot.part for slot in self.slots])


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
    slots: list[_Seen] = []
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
        slots.append(_Seen(found[1], header, fields, buffer[at : at + BLOCK] if fields else bytes(BLOCK)))
        at = member.stop
    if at != stop or key is None:
        return None
    return _same(slots, len(key.encode("utf-8", "surrogateescape")))


def _same(slots: list[_Seen], key_length: int) -> Layout:
    """Return the one layout that stands for all samples like this one; it holds arrays that are worth keeping."""
    rest = -(-key_length // 8) * 8
    told = [
        (slot.part, slot.fields, slot.header[rest:120], slot.header[135], slot.header[156:], slot.extension[132:136])
        for slot in slots
    ]
    sign = (key_length, *told)
    layout = _known.get(sign)
    if layout is None:
        if len(_known) >= _KEPT:
            _known.clear()
        layout = _known[sign] = Layout(tuple([Slot(*slot) for slot in slots]), key_length)
    return layout


def _is_plain(header: bytes, name: str) -> bool:
    """Tell whether a header says everything in the fields that are checked as columns."""
    return (
        header[257:262] == b"ustar"
        and not header[345]  # no prefix: the name stands in one field
        and header[135] in b"\0 "
        and header[154:156] == b"\0 "
        and header[:100].rstrip(b"\0") == name.encode("utf-8", "surrogateescape")
    )


def _harmless_fields(buffer: bytes, start: int, stop: int) -> tuple[bytes, ...] | None:
    """Return the text ` NAME=` of each PAX record in front of a header; None for anything else there."""
    if start == stop:
        return ()
    digits = buffer[start + 124 : start + 135]
    size = int(digits, 8) if digits.isdigit() else BLOCK
    if stop - start != 2 * BLOCK or buffer[start + 156] != ord("x") or size > BLOCK - 100:
        return None
    fields: list[bytes] = []
    at = start + BLOCK
    while at < start + BLOCK + size:
        # Only records of two-digit length: nearly all are, and the name is then always at the same place.
        if buffer[at + 2] != ord(" ") or not buffer[at : at + 2].isdigit():
            return None
        field = buffer[at + 2 : buffer.index(b"=", at) + 1]
        if field[1:].decode("latin-1").startswith(_TELLING):
            return None
        fields.append(field)
        at += int(buffer[at : at + 2])
    return tuple(fields)
