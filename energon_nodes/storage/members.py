"""Walk through the members of a shard, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from energon_nodes.storage import paths
from energon_nodes.storage.scan import refuse_compressed
from energon_nodes.storage.tar import BLOCK, NO_END, Member, TarError, next_member
from energon_nodes.storage.walk import Members, walk
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
    for entry in walk(window, size) if offset == 0 else _one_by_one(window, offset):
        if isinstance(entry, Members):
            starts, payloads, sizes = entry.starts.tolist(), entry.payloads.tolist(), entry.sizes.tolist()
            stops = [*starts[1:], entry.stop]
            for name, start, payload, length, stop in zip(entry.names, starts, payloads, sizes, stops, strict=True):
                yield Member("file", name, start, payload, length, stop)
            continue
        if entry.kind == "end":
            return
        if entry.payload + entry.size > size:
            inside = f"inside {entry.name!r} of {entry.size} bytes"
            raise TarError(entry.payload, f"the file ends at byte {size}, {inside}")
        yield entry
        if entry.stop > size:
            raise TarError(size, NO_END)


def _one_by_one(window: Window, offset: int) -> Iterator[Member]:
    while True:
        member = next_member(window.read, offset)
        yield member
        offset = member.stop
