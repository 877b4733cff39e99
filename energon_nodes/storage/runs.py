"""The samples of a shard as they stand in it: neighbouring members with one key, found by walking the headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from energon_nodes.storage.members import walk_members
from energon_nodes.storage.tar import Member, split_name

__all__ = ["Part", "Run", "Runs"]


class Part(NamedTuple):
    """Say where the content of one part lies.

    Example:
        >>> Part("jpg", 512, 100).name
        'jpg'

    Args:
        name: What follows in the name of the file after key and dot.
        offset: Its first byte in the shard.
        size: The number of its bytes.
    """

    name: str
    offset: int
    size: int


class Run(NamedTuple):
    """Hold neighbouring members with one key: a sample, as readers see it.

    Example:
        >>> Run("a", 0, [Part("txt", 512, 3)]).key
        'a'

    Args:
        key: The key.
        start: The first byte of the first header.
        parts: The parts, in the order of the shard; a name may stand twice.
    """

    key: str
    start: int
    parts: list[Part]


class Runs:
    """Iterate once over the samples of a shard, prepared or not, and keep what belongs to none of them.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        ...     with tarfile.open(fileobj=made, mode="w") as archive:
        ...         for name in ("a.txt", "a.cls", "readme", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     made.flush()
        ...     runs = Runs(made.name)
        ...     [(run.key, len(run.parts)) for run in runs], runs.end, [member.name for member in runs.odd]
        ([('a', 2), ('b', 1)], 2048, ['readme'])

    Args:
        path: The shard, a path or URL.
        offset: Where to begin: at the first header of a sample.

    Raises:
        TarError: While iterating: the shard is compressed, damaged or cut short. The sample before the damage is not
            given, since nobody could tell whether it is whole.
        OSError: While iterating: it does not exist or cannot be read.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self.odd: list[Member] = []
        """Files that have no key and part, and sparse ones, so far; clear it as you like."""
        self.end: int | None = None
        """The byte after the last member, once the shard has ended well."""

    def __iter__(self) -> Iterator[Run]:
        run: Run | None = None
        end = self._offset
        for member in walk_members(self._path, self._offset):
            end = member.stop
            found = split_name(member.name) if member.kind != "other" else None
            if member.kind == "sparse" or (member.kind == "file" and found is None):
                self.odd.append(member)
            if found is None:
                continue
            if run is None or run.key != found[0]:
                if run is not None:
                    yield run
                run = Run(found[0], member.start, [])
            run.parts.append(Part(found[1], member.payload, member.size))
        if run is not None:
            yield run
        self.end = end
