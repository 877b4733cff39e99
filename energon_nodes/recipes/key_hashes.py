"""Find keys that stand in several shards, in memory that does not grow with the dataset."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyHashes"]

_BUCKETS = 64
_RECORD = np.dtype([("hash", "<u8"), ("shard", "<u4")])


class KeyHashes:
    """Collect hashes of keys on disk, in buckets by their first bits, and tell which come from several shards.

    Use it in a `with` block, which removes the files at its end.

    Example:
        >>> with KeyHashes() as hashes:
        ...     hashes.add(0, np.array([3, 5], np.uint64))
        ...     hashes.add(1, np.array([5, 8], np.uint64))
        ...     list(hashes.repeated())
        [(5, [0, 1])]
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._files: list[IO[bytes] | None] = [None] * _BUCKETS

    def __enter__(self) -> KeyHashes:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, shard: int, hashes: NDArray[np.uint64]) -> None:
        """Take the keys of one shard.

        Args:
            shard: The number of the shard.
            hashes: Each hash once, uint64 of shape `(keys,)`.
        """
        buckets = hashes >> np.uint64(58)
        for bucket in range(_BUCKETS):
            chosen = hashes[buckets == bucket]
            if not len(chosen):
                continue
            records = np.empty(len(chosen), _RECORD)
            records["hash"], records["shard"] = chosen, shard
            file = self._files[bucket]
            if file is None:
                file = self._files[bucket] = self._scratch()
            file.write(records.tobytes())

    def _scratch(self) -> IO[bytes]:
        file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the others, by `__exit__`
        return self._open.enter_context(file)

    def repeated(self) -> Iterator[tuple[int, list[int]]]:
        """Give every hash that was added for more than one shard.

        Yields:
            The hash and the shards. One bucket is in memory at a time.
        """
        for file in self._files:
            if file is None:
                continue
            file.seek(0)
            records = np.frombuffer(file.read(), _RECORD)
            values, counts = np.unique(records["hash"], return_counts=True)
            for value in values[counts > 1].tolist():
                yield value, sorted(records["shard"][records["hash"] == value].tolist())
