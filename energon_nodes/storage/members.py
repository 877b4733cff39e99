"""Walk through the members of a shard, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from energon_nodes.storage import paths
from energon_nodes.storage.scan import refuse_compressed
from energon_nodes.storage.tar import BLOCK, NO_END, Member, TarError, next_member
from energon_nodes.storage.window import Window

__all__ = ["walk_members"]


def walk_members(path: str, offset: int = 0) -> Iterator[Member]:
    """Give every whole member of a shard, in order; only headers are read.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        ...     with tarfile.open(fileobj=made, mode="w") as archive:
        ...         for name in ("a.txt", "a.cls"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     made.flush()
        ...     [member.name for member in walk_members(made.name)]
        ['a.txt', 'a.cls']

    Args:
        path: The shard, a path or URL.
        offset: Where to begin: at a header.

    Yields:
        The members, of kind "file", "sparse" or "other".

    Raises:
        TarError: The file is compressed, damaged, or cut short; what stands before was given.
        OSError: The file does not exist or cannot be read.
    """
    size = paths.size(path)
    window = Window(path)
    refuse_compressed(window.read(0, BLOCK))
    while True:
        member = next_member(window.read, offset)
        if member.kind == "end":
            return
        if member.payload + member.size > size:
            inside = f"inside {member.name!r} of {member.size} bytes"
            raise TarError(member.payload, f"the file ends at byte {size}, {inside}")
        yield member
        offset = member.stop
        if offset > size:
            raise TarError(size, NO_END)
