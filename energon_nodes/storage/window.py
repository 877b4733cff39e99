"""Read small pieces of a large file, one behind the other."""

from __future__ import annotations

from energon_nodes.storage import paths

__all__ = ["Window"]

_SMALLEST = 4 * 1024
_LARGEST = 1024 * 1024
_REMOTE = 8 * 1024 * 1024
_FAR = 64 * 1024  # a system call for each costs less than reading what lies between


class Window:
    """Read small pieces of a file through a buffer that adapts to how far apart they are.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/window.bin", b"0123456789")
        >>> window = Window("memory://window.bin")
        >>> window.read(2, 3), window.read(8, 5)
        (b'234', b'89')

    Args:
        path: The file, a path or URL.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fixed = _REMOTE if paths.is_url(path) else 0
        self._length = _LARGEST // 4
        self._start = 0
        self._buffer = b""
        self.spacing = 0
        """How many bytes lie between two pieces that are wanted, if that is known: of many, little else is read."""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at an offset, fewer where the file ends before.

        Args:
            offset: The first byte.
            size: The number of bytes.

        Returns:
            The bytes.

        Raises:
            OSError: The file does not exist or cannot be read.
        """
        buffer, at = self.piece(offset, size)
        return buffer[at : at + size]

    def piece(self, offset: int, size: int) -> tuple[bytes, int]:
        """Return the buffer, and where an offset of the file stands in it.

        Args:
            offset: The first byte that is wanted.
            size: The number of bytes that are wanted at least.

        Returns:
            Bytes of the file, with the wanted ones among them as far as the file has them, and the place of the first
            of these.

        Raises:
            OSError: The file does not exist or cannot be read.
        """
        at = offset - self._start
        if at >= 0 and at + size <= len(self._buffer):
            return self._buffer, at
        self._adapt(at - len(self._buffer))
        self._buffer = paths.read_range(self._path, offset, offset + max(size, self._length))
        self._start = offset
        return self._buffer, 0

    def _adapt(self, gap: int) -> None:
        if self.spacing > (self._fixed // 2 or _FAR):
            self._length = _SMALLEST
        elif self._fixed:
            self._length = self._fixed
        elif self._buffer and gap > self._length // 4:
            self._length = max(_SMALLEST, self._length // 4)
        elif self._buffer:
            self._length = min(_LARGEST, self._length * 2)
