"""The files in the shards of a prepared dataset, by name: `KEY.PART`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise
from operator import itemgetter

import numpy as np

from energon_nodes.core.errors import NotInStoreError, ShardError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.storage import paths
from energon_nodes.storage.handles import HANDLES
from energon_nodes.storage.key_batches import locate_many
from energon_nodes.storage.key_lookup import KeyTable
from energon_nodes.storage.tar import split_name

__all__ = ["ShardEntries"]

_GAP = 4096  # bytes; what lies so close together is read at once
_BLOCK = 1 << 20  # and so much at the most
_LOOKED_AT = 2000  # keys that an unknown one is compared with

Place = tuple[int, int, int]


class ShardEntries:
    """Read single files out of the shards of a prepared dataset, local or remote.

    Example:
        >>> from energon_nodes.storage.key_building import table_of
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/entries/0.tar", b"a cat, a dog")
        >>> samples = (0, [b"1", b"2"], [0, 7], [7, 5], [1, 1], ["txt"], [0, 0], [0, 7], [5, 5])
        >>> entries = ShardEntries("memory://entries", table_of(["0.tar"], [samples]))
        >>> entries.read("2.txt"), entries.read_many(["2.txt", "1.txt"]), "3.txt" in entries
        (b'a dog', [b'a dog', b'a cat'], False)

    Args:
        root: The dataset.
        table: Its key table.
    """

    def __init__(self, root: str, table: KeyTable) -> None:
        self.root = root
        self.table = table
        self._locate = self.table.locate
        self._paths = [paths.join(root, name) for name in self.table.shard_names]
        self._remote = paths.is_url(root)
        self._opened = HANDLES.opened
        HANDLES.forget(self._paths)

    def __len__(self) -> int:
        return self.table.parts_count

    def names(self) -> Iterator[str]:
        """Yield the names of all files, in the order of the dataset."""
        table = self.table
        return (f"{table.key(row)}.{part}" for row in range(len(table)) for part in table.parts(row))

    def split(self, name: str) -> tuple[str, str]:
        """Return key and part of a name."""
        return split_name(name) or (name, "")

    def shard_of(self, name: str) -> str:
        """Return the shard that a file lies in."""
        return self.table.shard_names[self._place(name)[0]]

    def __contains__(self, name: str) -> bool:
        pair = split_name(name)
        return pair is not None and self._locate(*pair) is not None

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Args:
            name: Its name.

        Returns:
            The bytes.

        Raises:
            NotInStoreError: There is no such file.
            ShardError: The shard cannot be read, or is not the one that was prepared.
        """
        key, dot, part = name.partition(".")
        # The short way is right for names without folders; those need the whole rule, and so does what it rejects.
        place = self._locate(key, part) if dot and "/" not in name else None
        if place is None:
            place = self._place(name)
        shard, offset, size = place
        path = self._paths[shard]
        handle = self._opened.get(path)
        if handle is not None:
            try:
                data = os.pread(handle.fd, size, offset)
            except OSError:  # the long way says what is wrong
                data = b""
            if len(data) == size:
                return data
        return self._read_at(name, path, offset, size)

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Return the bytes of many files, those that lie close together in one read.

        Args:
            names: Their names; one may stand several times.

        Returns:
            The bytes of each, in order.

        Raises:
            NotInStoreError: One or more do not exist.
            ShardError: A shard cannot be read, or is not the one that was prepared.
        """
        if not names:
            return []
        found = locate_many(self.table, [_pair(name) for name in names])
        if (missing := np.flatnonzero(found[:, 0] < 0)).size:
            raise self._missing([names[number] for number in missing.tolist()])
        result = [b""] * len(names)
        order = np.lexsort((found[:, 1], found[:, 0]))
        places = found[order]
        if self._remote:
            self._read_remote(names, places.tolist(), order.tolist(), result)
            return result
        # A place begins a new read where it lies far behind the one before, or in another shard.
        apart = places[1:, 1] - (places[:-1, 1] + places[:-1, 2])
        breaks = np.flatnonzero((places[1:, 0] != places[:-1, 0]) | (apart > _GAP)) + 1
        numbers: list[int] = order.tolist()
        ordered: list[list[int]] = places.tolist()
        opened, files, pread = self._opened, self._paths, os.pread
        for start, stop in pairwise([0, *breaks.tolist(), len(numbers)]):
            if stop > start + 1:
                self._read_run(names, ordered[start:stop], numbers[start:stop], result)
                continue
            shard, offset, size = ordered[start]
            handle = opened.get(files[shard])
            try:
                data = None if handle is None else pread(handle.fd, size, offset)
            except OSError:  # the long way says what is wrong
                data = None
            if data is None or len(data) != size:
                data = self._read_at(names[numbers[start]], files[shard], offset, size)
            result[numbers[start]] = data
        return result

    def _read_run(self, names: Sequence[str], places: list[list[int]], numbers: list[int], result: list[bytes]) -> None:
        """Read neighbours of one shard in blocks."""
        at = 0
        while at < len(numbers):
            shard, begin, size = places[at]
            end, stop = begin + size, at + 1
            while stop < len(numbers) and places[stop][1] + places[stop][2] - begin <= _BLOCK:
                end = max(end, places[stop][1] + places[stop][2])
                stop += 1
            data = self._read_at(names[numbers[at]], self._paths[shard], begin, end - begin)
            if stop == at + 1:
                result[numbers[at]] = data
            else:
                for number, (_, offset, size) in zip(numbers[at:stop], places[at:stop], strict=True):
                    result[number] = data[offset - begin : offset - begin + size]
            at = stop

    def _read_remote(
        self, names: Sequence[str], places: list[list[int]], order: list[int], result: list[bytes]
    ) -> None:
        wanted: list[paths.Ranges] = []
        for shard, group in groupby(places, key=itemgetter(0)):
            found = list(group)
            starts = [offset for _, offset, _ in found]
            wanted.append(paths.Ranges(self._paths[shard], starts, [offset + size for _, offset, size in found]))
        try:
            pieces = paths.read_ranges(wanted)
        except OSError as error:
            raise ShardError(f"a shard of {self.root} cannot be read: {error}") from error
        for number, piece, (shard, _, size) in zip(order, pieces, places, strict=True):
            if len(piece) != size:
                raise self._cut(names[number], self._paths[shard])
            result[number] = piece

    def _place(self, name: str) -> Place:
        pair = split_name(name)
        place = None if pair is None else self._locate(*pair)
        if place is None:
            raise self._missing([name])
        return place

    def _read_at(self, name: str, path: str, offset: int, size: int) -> bytes:
        try:
            if self._remote:
                data = paths.read_range(path, offset, offset + size)
            else:
                handle = self._opened.get(path) or HANDLES.open(path)
                data = os.pread(handle.fd, size, offset)
                while data and len(data) < size:  # a system call gives 2 GB at the most
                    more = os.pread(handle.fd, size - len(data), offset + len(data))
                    if not more:
                        break
                    data += more
        except OSError as error:
            raise ShardError(f"the shard {path} cannot be read, with {name!r} in it: {error}") from error
        if len(data) != size:
            raise self._cut(name, path)
        return data

    def _cut(self, name: str, path: str) -> ShardError:
        return ShardError(
            f"the shard {path} ends inside {name!r}: it was cut or replaced after the dataset was prepared; "
            "restore it, or prepare the dataset again"
        )

    def _missing(self, names: Sequence[str]) -> NotInStoreError:
        name = names[0]
        more = f" (and {len(names) - 1} more of the names asked for)" if len(names) > 1 else ""
        return NotInStoreError(f"no file {name!r} in the dataset {self.root}{more}{self._hint(name)}")

    def _hint(self, name: str) -> str:
        """Say what is there instead of a name."""
        table, pair = self.table, split_name(name)
        key, part = pair or (name, "")
        row = table.find(key)
        if row >= 0:
            parts = list(table.parts(row))
            there = f"sample {key!r} has the parts {listed(parts)}"
            return f": {there}{did_you_mean(part, parts)}" if pair else f": names are KEY.PART, and {there}"
        some = list(islice(table.keys(), _LOOKED_AT))
        # A key of another length or with folders in front is not far away by its spelling alone.
        bare = key.rpartition("/")[2]
        tried = [bare, key.removeprefix("./"), f"./{key}", *({bare.zfill(len(text)) for text in some[:20]})]
        found = [text for text in tried if text != key and table.find(text) >= 0]
        close = f"; did you mean {found[0]!r}?" if found else did_you_mean(key, some)
        shown = f"its keys are such as {listed(some[:3])}" if some else "it has no samples"
        return f": no sample has the key {key!r}{close or f'; {shown}'}"


def _pair(name: str) -> tuple[str, str]:
    """Split a name into key and part; one that is no name of a file gives a key that no sample has."""
    if "/" in name:
        return split_name(name) or ("", "")
    key, dot, part = name.partition(".")
    return (key, part) if dot else ("", "")
