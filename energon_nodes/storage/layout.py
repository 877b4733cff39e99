"""What the samples of a group have in common: taken from one, checked on all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name

__all__ = ["FORM_MASK", "Layout", "Pattern", "Slot", "layout_of"]

_VARYING = 160
FORM_MASK: NDArray[np.uint64] = np.frombuffer(
    b"\0\0\0\0\xf8\xf8\xf8\xf8" + b"\xf8" * 7 + b"\xff" + bytes(12) + b"\xf8" * 6 + b"\xff\xff\xff\0\0\0", np.uint64
)
"""NDArray[np.uint64] 15 to 19 of a header: the bits that say that size and checksum are octal digits, and the type."""

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


class _Seen(NamedTuple):
    """The arguments of a slot."""

    part: str
    header: bytes
    fields: tuple[bytes, ...]
    extension: bytes


class Layout:
    """Describe what all samples of a group have in common.

    Args:
        slots: One entry per member of a sample, in their order.
        key_length: The bytes of the key of the first sample.

    Example:
        >>> Layout((), 0).parts
        ()
    """

    def __init__(self, slots: tuple[Slot, ...], key_length: int) -> None:
        self.slots = slots
        self.key_length = key_length
        self.parts = tuple([slot.part for slot in slots])
        """The names of the parts, in the order of the shard."""
        longest = max([len(part.encode("utf-8", "surrogateescape")) for part in self.parts], default=0)
        front = -(-(key_length + longest + 2) // 8) * 8  # the key, a dot, the part, and the byte that ends the name
        self.pattern = Pattern(slots, key_length, front) if slots and front <= 96 else None
        """What headers have to be where all keys are as long, None for names that nearly fill the header."""


class Pattern:
    r"""Hold the bytes that are the same in the headers of all samples whose keys are as long.

    Args:
        slots: The members of a sample.
        key_length: The bytes of a key.
        front: How many bytes of a header may differ in key or part, a multiple of 8.

    Example:
        >>> slot = Slot("txt", b"a.txt".ljust(512, b"\0"), (), bytes(512))
        >>> Pattern((slot,), 1, 8).repeated("endings", 1).tobytes()
        b'\x00.txt\x00\x00\x00'
    """

    def __init__(self, slots: tuple[Slot, ...], key_length: int, front: int) -> None:
        words = front // 8
        headers = np.stack([slot.words for slot in slots])
        self.front = front
        self.key_words = -(-key_length // 8)
        key = np.frombuffer((b"\xff" * key_length).ljust(front, b"\0"), np.uint64)
        self._of_one = {
            "endings": headers[:, :words] & ~key,  # the front without the key
            "outside": np.tile(~key, (len(slots), 1)),  # which bytes of the front do not belong to the key
            "forms": headers[:, 15:20],  # size, time, checksum and type
            "masks": np.tile(FORM_MASK, (len(slots), 1)),
            "formats": headers[:, 32:33],  # the magic
            "prefixes": headers[:, 43:44],  # where a second part of the name would begin
        }
        self._repeated: dict[str, NDArray[np.uint64]] = {}
        octets = headers.view(np.uint8).reshape(len(slots), BLOCK)
        self.constants = octets[:, front:120].sum(axis=1, dtype=np.float32) + 8 * ord(" ")
        self.constants += octets[:, _VARYING:].sum(axis=1, dtype=np.float32)
        """What the bytes that never differ, and the blank checksum, add to the checksum."""
        self.weights = np.zeros((front + 40, 2), np.float32)
        """What turns the front and the words with size, checksum and type into their sum and the stored checksum."""
        self.weights[:, 0] = 1
        self.weights[front + 28 : front + 36, 0] = 0
        self.weights[front + 28 : front + 34, 1] = 8.0 ** np.arange(5, -1, -1)

    def repeated(self, name: str, count: int) -> NDArray[np.uint64]:
        """Return words of the headers of one sample `count` times, flat."""
        one = self._of_one[name]
        made = self._repeated.get(name)
        if made is None or len(made) < one.size * count:
            made = self._repeated[name] = np.tile(one.reshape(-1), count)
        return made[: one.size * count]


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
