"""Refuse keys that come twice while a dataset is written, in 12 bytes a key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage.members import walk_members
from energon_nodes.storage.tar import split_name

__all__ = ["KeyBook"]

_TOGETHER = 1000  # keys that are looked up at once


class KeyBook:
    """Remember the keys of a dataset that is being written.

    Those of the shard in work are kept as they are; of finished shards a hash and the number of the shard. Where a hash
    is known, the shard is looked through: hashes of different keys may be equal.

    Args:
        path_of: Returns the path of a finished shard.

    Example:
        >>> book = KeyBook(str)
        >>> book.add("a", 0), book.add("b", 1)
        (None, None)
        >>> book.add("a", 2)
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: samples 0 and 2 have the same key 'a'; ...
    """

    def __init__(self, path_of: Callable[[int], str]) -> None:
        self._path_of = path_of
        self._shard: dict[str, int] = {}
        self._fresh: list[str] = []  # keys of it that were not looked up yet
        self._hashed: list[NDArray[np.uint64]] = []  # the hashes of the others
        # Sorted runs of hashes with their shards; each is more than twice as long as the next.
        self._runs: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def add(self, key: str, number: int) -> None:
        """Take the key of a sample.

        Args:
            key: The key.
            number: The number of the sample in the dataset.

        Raises:
            DatasetError: The key is known; at the latest when the shard is finished.
        """
        known = self._shard.setdefault(key, number)
        if known != number:
            raise DatasetError(f"samples {known} and {number} have the same key {key!r}; {_REMEDY}")
        self._fresh.append(key)
        if len(self._fresh) >= _TOGETHER:
            self._look_up()

    def check(self) -> NDArray[np.uint64]:
        """Look the keys of this shard up among those of the shards before.

        Returns:
            The hashes of all keys of this shard, in order.

        Raises:
            DatasetError: One of them is known.
        """
        self._look_up()
        return np.concatenate(self._hashed) if self._hashed else np.zeros(0, "<u8")

    def _look_up(self) -> None:
        if not self._fresh:
            return
        hashes = _hashes(self._fresh)
        for values, shards in self._runs:
            places = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
            for at in np.flatnonzero(values[places] == hashes).tolist():
                place = int(places[at])
                while place < len(values) and values[place] == hashes[at]:
                    self._compare(self._fresh[at], int(shards[place]))
                    place += 1
        self._hashed.append(hashes)
        self._fresh.clear()

    def _compare(self, key: str, shard: int) -> None:
        path = self._path_of(shard)
        for member in walk_members(path):
            pair = split_name(member.name)
            if pair is not None and pair[0] == key:
                raise DatasetError(
                    f"sample {self._shard[key]} has the key {key!r}, which a sample in {path} has too; {_REMEDY}"
                )

    def finish(self, hashes: NDArray[np.uint64], shard: int) -> None:
        """Put the keys of a shard among those of finished ones.

        Args:
            hashes: The hashes of the keys, uint64.
            shard: The number of the shard.
        """
        self._shard.clear()
        self._fresh.clear()
        self._hashed.clear()
        if not len(hashes):
            return
        values, shards = np.sort(hashes), np.full(len(hashes), shard, np.uint32)
        while self._runs and len(self._runs[-1][0]) <= 2 * len(values):
            other, theirs = self._runs.pop()
            values, shards = np.concatenate([other, values]), np.concatenate([theirs, shards])
            order = np.argsort(values, kind="stable")
            values, shards = values[order], shards[order]
        self._runs.append((values, shards))


_REMEDY = "give each sample a key of its own with key=lambda sample: ..., or take out __key__ to have them numbered"


def _hashes(keys: Sequence[str]) -> NDArray[np.uint64]:
    digests = [hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys]
    return np.frombuffer(b"".join(digests), "<u8")
