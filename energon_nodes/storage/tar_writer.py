"""Write tar shards whose bytes depend on names and contents alone."""

from __future__ import annotations

import zlib
from typing import BinaryIO

from energon_nodes.storage.tar import BLOCK, padded, split_name

__all__ = ["TarWriter", "member_header", "member_name"]

_RECORD = 10_240  # tar files are whole numbers of records of 20 blocks, as tar and tarfile write them
_LONGEST = 1 << 16
_NAME, _PREFIX = 100, 155  # bytes that the fields of a header hold
_PLAIN_SIZE = 8**11  # what eleven octal digits hold
_MODE = b"0000644\0"
_NOBODY = b"0000000\x000000000\0"  # user and group
_NO_TIME = b"00000000000\0"
_USTAR, _GNU = b"ustar\x0000", b"ustar  \0"
_LINK_NAME = b"././@LongLink"


def member_name(key: str, part: str) -> str:
    """Return the name of the file that holds a part of a sample.

    Example:
        >>> member_name("train/000017", "jpg")
        'train/000017.jpg'
        >>> member_name("a.b", "jpg")
        Traceback (most recent call last):
        ...
        ValueError: the file 'a.b.jpg' would be read as part 'b.jpg' of sample 'a': the last piece of a key has no dot

    Args:
        key: The key of the sample.
        part: The name of the part.

    Returns:
        The name, from which readers get the same key and part.

    Raises:
        ValueError: There is no such name.
    """
    name = f"{key}.{part}"
    if part[:2] == "__":
        raise ValueError(f"the part {part!r} begins with two underscores, as what the library adds to samples does")
    found = split_name(name)
    if found != (key, part):
        if found is None:
            raise ValueError(
                f"the file {name!r} would belong to no sample: its name needs something in front of the first dot of "
                "the last piece, and no first piece such as __meta__"
            )
        raise ValueError(
            f"the file {name!r} would be read as part {found[1]!r} of sample {found[0]!r}: the last piece of a key has "
            "no dot"
        )
    if name[0] == "/" or "\0" in name or ".." in name.split("/"):
        raise ValueError(f"the file {name!r} has a name that leads out of its folder, or a zero in it")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"the file {name!r} has a name that is no valid text: {error.reason}") from error
    if length > _LONGEST:
        raise ValueError(f"the file {name[:40]!r}... has a name of {length} bytes; {_LONGEST} are allowed")
    return name


def member_header(name: str, size: int) -> bytes:
    """Return what stands in front of the data of a file: USTAR, or GNU where that cannot hold the name or the size.

    No time, no user and no permissions of the machine are in it. `tarfile` writes the same, with small differences
    between versions of Python, which would be differences between datasets.

    Example:
        >>> len(member_header("a.txt", 3)), len(member_header("a" * 300 + ".txt", 3))
        (512, 1536)

    Args:
        name: The full name.
        size: The number of bytes of the data.

    Returns:
        One block of 512 bytes, or three and more.
    """
    encoded = name.encode()
    if size >= _PLAIN_SIZE:
        digits = b"\x80" + size.to_bytes(11, "big")
    elif len(encoded) <= _NAME:
        return _block(encoded, _MODE, b"%011o\0" % size, b"0", _USTAR, b"")
    else:
        digits = b"%011o\0" % size
        cut = encoded.rfind(b"/", 0, _PREFIX + 1)
        if cut > 0 and 0 < len(encoded) - cut - 1 <= _NAME:
            return _block(encoded[cut + 1 :], _MODE, digits, b"0", _USTAR, encoded[:cut])
    header = _block(encoded[:_NAME], _MODE, digits, b"0", _GNU, b"")
    if len(encoded) <= _NAME:
        return header
    link = _block(_LINK_NAME, b"0000000\0", b"%011o\0" % (len(encoded) + 1), b"L", _GNU, b"")
    return link + encoded.ljust(padded(len(encoded) + 1), b"\0") + header


def _block(name: bytes, mode: bytes, digits: bytes, kind: bytes, magic: bytes, prefix: bytes) -> bytes:
    before = name.ljust(100, b"\0") + mode + _NOBODY + digits + _NO_TIME
    after = kind + bytes(100) + magic + bytes(80) + prefix.ljust(167, b"\0")
    # The low half of Adler-32 is the sum of the bytes plus one, modulo 65521, which no sum of a header's half reaches.
    total = (zlib.adler32(before) & 0xFFFF) + (zlib.adler32(after) & 0xFFFF) - 2 + 8 * 32
    return before + b"%06o\0 " % total + after


class TarWriter:
    """Write samples to an open file, one behind the other.

    Example:
        >>> import io, tarfile
        >>> file = io.BytesIO()
        >>> writer = TarWriter(file)
        >>> writer.add("a.txt", b"a cat"), writer.end(), len(file.getvalue())
        (None, None, 10240)
        >>> tarfile.open(fileobj=io.BytesIO(file.getvalue())).getnames()
        ['a.txt']

    Args:
        file: A file that bytes can be written to.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        """How many bytes have been written."""

    def add(self, name: str, data: bytes) -> None:
        """Write one file of a sample.

        Args:
            name: Its full name, see `member_name`.
            data: Its content.
        """
        header = member_header(name, len(data))
        whole = padded(len(data))
        self._file.write(header)
        self._file.write(data)
        if whole != len(data):
            self._file.write(bytes(whole - len(data)))
        self.size += len(header) + whole

    def end(self) -> None:
        """Write the mark of the end."""
        after = self.size + 2 * BLOCK
        self._file.write(bytes(after - self.size + -after % _RECORD))
        self.size = after + -after % _RECORD
