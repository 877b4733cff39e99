"""The tar format, exactly: member names, headers, and one member after the other.

This is the slow and complete reader. `columns` reads regular headers many at a time and leaves
the rest to this module.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Literal, NamedTuple

__all__ = [
    "BLOCK",
    "NO_END",
    "Member",
    "TarError",
    "compression_of",
    "next_member",
    "padded",
    "pax_fields",
    "split_name",
]

BLOCK = 512
EMPTY = "the file is empty (0 bytes), as when writing it was broken off: write it anew, or remove it"
NO_END = "the file ends here, without the end-of-archive mark (two blocks of zeros)"
_LONGEST_NAME = 1 << 20
_ENCODING = ("utf-8", "surrogateescape")
_ZEROS = bytes(BLOCK)
_EXTENDED = frozenset(b"xX")
_NO_DATA = frozenset(b"123456")  # links, devices, folders, pipes: their size field says nothing about data
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}

Read = Callable[[int, int], bytes]
"""`read(offset, size)` gives the bytes at an offset of the shard, fewer behind its end."""


class TarError(Exception):
    """Say that bytes are not the tar data that they should be; readers turn it into a `ShardError`.

    Args:
        offset: The byte of the shard where the damage was seen.
        reason: What is wrong, in words that follow a colon.

    Example:
        >>> TarError(512, "not a tar header").offset
        512
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class Member(NamedTuple):
    """Describe one entry of a tar file.

    Example:
        >>> Member("file", "a.txt", 0, 512, 3, 1024).payload
        512

    Args:
        kind: "file", "sparse" (refused by readers), "other" (folders, links, ...) or "end" (of the archive).
        name: The full name.
        start: The first byte of its first header block, long-name blocks included.
        payload: The first byte of its data.
        size: The number of bytes of its data.
        stop: The byte at which the next entry starts.
    """

    kind: Literal["file", "sparse", "other", "end"]
    name: str
    start: int
    payload: int
    size: int
    stop: int


def padded(size: int) -> int:
    """Round a size up to whole blocks of 512 bytes.

    Example:
        >>> padded(0), padded(1), padded(512)
        (0, 512, 512)

    Args:
        size: A number of bytes.

    Returns:
        The bytes that they take in a tar file.
    """
    return size + BLOCK - 1 & -BLOCK


def split_name(name: str) -> tuple[str, str] | None:
    """Split the name of a member into the key of its sample and the name of the part.

    The key ends at the first dot of the base name. A name whose base begins with the dot belongs to
    its folder (the key keeps the slash at its end), unless the folder's own name has a dot. Names
    without a dot, and those in a top folder such as `__meta__`, belong to no sample.

    Example:
        >>> split_name("a.b/c.jpg.txt"), split_name("dir/.hidden"), split_name("noext")
        (('a.b/c', 'jpg.txt'), ('dir/', 'hidden'), None)

    Args:
        name: The full name of a member.

    Returns:
        `(key, part)`, or None where the member belongs to no sample.
    """
    folder, slash, base = name.rpartition("/")
    top = name.partition("/")[0]
    if len(top) >= 4 and top.startswith("__") and top.endswith("__"):
        return None
    stem, dot, part = base.partition(".")
    if not dot:
        return None
    if stem:
        return folder + slash + stem, part
    if slash and "." not in folder.rpartition("/")[2]:
        return folder + slash, part
    return None


def compression_of(head: bytes) -> str | None:
    """Name the compression that the first bytes of a file show.

    Example:
        >>> import gzip
        >>> compression_of(gzip.compress(b"x")), compression_of(b"a.txt")
        ('gzip', None)

    Args:
        head: The first bytes, at least 6.

    Returns:
        The name of the compression, or None.
    """
    return next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)


def next_member(read: Read, offset: int) -> Member:
    """Read the entry that starts at an offset, with all headers that stand before it.

    Understands USTAR, old V7 archives, GNU long names and PAX headers. That the data of the entry are
    complete is for the caller to see: `stop` may lie behind the end of the file.

    Example:
        >>> import io, tarfile
        >>> file = io.BytesIO()
        >>> with tarfile.open(fileobj=file, mode="w") as archive:
        ...     info = tarfile.TarInfo("a.txt")
        ...     info.size = 3
        ...     archive.addfile(info, io.BytesIO(b"abc"))
        >>> data = file.getvalue()
        >>> member = next_member(lambda offset, size: data[offset : offset + size], 0)
        >>> member.name, data[member.payload : member.payload + member.size]
        ('a.txt', b'abc')

    Args:
        read: Gives the bytes at an offset of the shard.
        offset: Where a header should stand.

    Returns:
        The entry; of kind "end" where the end-of-archive mark stands.

    Raises:
        TarError: No valid header stands there.
    """
    start = offset
    name: str | None = None
    size: int | None = None
    sparse = False
    while True:
        block = read(offset, BLOCK)
        kind = _check(block, offset)
        if kind is None:
            if offset != start:
                raise TarError(offset, "the archive ends between a long-name header and its file")
            return Member("end", "", start, start, 0, start)
        if kind in _EXTENDED or kind in b"LKg":
            length = _number(block[124:136], offset)
            if length > _LONGEST_NAME:
                raise TarError(offset, f"a header of {length} bytes is longer than any name can be")
            data = read(offset + BLOCK, length)
            if len(data) < length:
                raise TarError(offset, f"the file ends at byte {offset + BLOCK + len(data)}, inside a long-name header")
            if kind == ord("L"):
                name = _text(data)
            elif kind != ord("K"):
                fields = pax_fields(data, offset)
                if any(field.startswith("GNU.sparse.") for field in fields):
                    sparse = True
                if kind == ord("g") and fields.keys() & {"path", "size"}:
                    raise TarError(offset, "a global header sets the name or size of all files, which is not supported")
                if "path" in fields:
                    name = fields["path"].decode(*_ENCODING)
                if "size" in fields:
                    size = _decimal(fields["size"], offset)
            offset += BLOCK + padded(length)
            continue
        size = _number(block[124:136], offset) if size is None else size
        payload = offset + BLOCK
        if kind == ord("S"):
            sparse = True
            more = block[482]
            while more:
                extension = read(payload, BLOCK)
                if len(extension) < BLOCK:
                    raise TarError(payload, "the file ends inside the map of a sparse file")
                more = extension[504]
                payload += BLOCK
        if name is None:
            name = _text(block[:100])
            if block[345] and block[257:263] == b"ustar\0":
                name = f"{_text(block[345:500])}/{name}"
        if kind in _NO_DATA:
            size = 0
        # V7 archives mark folders by the slash alone.
        regular = kind in b"0\x007" and not name.endswith("/")
        what: Literal["file", "sparse", "other"] = "sparse" if sparse else "file" if regular else "other"
        return Member(what, name, start, payload, size, payload + padded(size))


def _check(block: bytes, offset: int) -> int | None:
    """Return the type of a header block, None for a block of zeros; raise for anything else."""
    if len(block) < BLOCK:
        if len(block) == 0:
            raise TarError(offset, NO_END if offset else EMPTY)
        if not block.strip(b"\0"):
            return None
        raise TarError(offset, f"the file ends at byte {offset + len(block)}, inside a header")
    if block == _ZEROS:
        return None
    stored = _number(block[148:156], offset)
    # The low half of Adler-32 is the sum of the bytes plus one, modulo 65521, at the speed of C.
    total = zlib.adler32(_SPACES, zlib.adler32(block[156:], zlib.adler32(block[:148]))) & 0xFFFF
    if (stored + 1) % 65521 != total:
        signed = sum(byte - 256 if byte > 127 else byte for byte in block[:148] + _SPACES + block[156:])
        if stored != signed:  # some old writers add signed characters
            raise TarError(offset, "not a tar header (its checksum is wrong)")
    magic = block[257:263]
    if magic[:5] != b"ustar" and magic.strip(b"\0"):
        raise TarError(offset, f"not a tar header (its magic is {magic!r})")
    return block[156]


_SPACES = b" " * 8


def _number(field: bytes, offset: int) -> int:
    """Read a number: octal digits, or GNU's base 256 for what octal digits cannot hold."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] == 0xFF:
        raise TarError(offset, "a header holds a negative number")
    digits = field.split(b"\0", 1)[0].strip()
    # int() would take underscores and signs as well.
    if not digits.strip(b"01234567"):
        return int(digits or b"0", 8)
    raise TarError(offset, f"not a tar header ({field!r} is not an octal number)")


def _decimal(digits: bytes, offset: int) -> int:
    if not digits.isdigit():
        raise TarError(offset, f"a PAX header gives the size {digits!r}, which is not a number")
    return int(digits)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(*_ENCODING)


def pax_fields(data: bytes, offset: int) -> dict[str, bytes]:
    r"""Split the records of a PAX header: `LENGTH KEY=VALUE` and a line end each.

    Example:
        >>> pax_fields(b"14 path=a.txt\n", 0)
        {'path': b'a.txt'}

    Args:
        data: The content of the header.
        offset: Where the header stands, for the error.

    Returns:
        The values by their keys.

    Raises:
        TarError: The records are damaged.
    """
    fields: dict[str, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        digits, space, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = data[at + len(digits) + 1 : at + length - 1]
        key, equals, value = record.partition(b"=")
        if length < 5 or not equals or data[at + length - 1 : at + length] != b"\n":
            raise TarError(offset, "a PAX header is damaged")
        fields[key.decode(*_ENCODING)] = value
        at += length
    return fields
