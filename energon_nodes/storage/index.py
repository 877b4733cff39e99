"""Where the samples of many shards lie: slices of `.tar.idx` files, or offsets kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.scan import Problem, ShardIndex

__all__ = ["IndexFiles", "MemoryIndex", "Offsets", "index_path"]

_WHOLE = 1 << 13
"""Index files with at most so many entries are read whole: 64 kB cost as much as 16 bytes."""

_KEPT = 1 << 20
"""So many entries of whole index files are kept in memory, 8 MB, whatever the size of the dataset."""

_NO_PROBLEMS: dict[int, Problem] = {}


class Offsets(Protocol):
    """Give the byte offsets of the samples of numbered shards."""

    def entries(self, shard: int, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where samples begin and end, int64 of the shape of `numbers`, which ascend."""
        ...

    def neighbours(self, shard: int, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where samples `start` to `stop - 1` begin and end, int64 of shape `(stop - start,)`."""
        ...

    def problems(self, shard: int) -> dict[int, Problem]:
        """Return what is wrong with samples of a shard, by sample number."""
        ...


def index_path(shard: str) -> str:
    """Return where the index of a shard lies: beside it, the last suffix replaced.

    Example:
        >>> index_path("parts/x.y.tar"), index_path("x.tgz")
        ('parts/x.y.tar.idx', 'x.tar.idx')

    Args:
        shard: The path of a shard.

    Returns:
        The path of its index.
    """
    folder, slash, name = shard.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    return f"{folder}{slash}{stem if dot and stem else name}.tar.idx"


class MemoryIndex:
    """Hold the offsets of all shards in memory, for data that was never prepared.

    Example:
        >>> index = MemoryIndex([ShardIndex(np.array([0, 1024, 2048]))])
        >>> index.entries(0, np.array([1]))
        (array([1024]), array([2048]))

    Args:
        shards: The index of each shard.
    """

    def __init__(self, shards: Sequence[ShardIndex]) -> None:
        self.shards = tuple(shards)

    def entries(self, shard: int, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where samples begin and end."""
        offsets = self.shards[shard].offsets
        return offsets[numbers], offsets[numbers + 1]

    def neighbours(self, shard: int, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where neighbouring samples begin and end."""
        offsets = self.shards[shard].offsets
        return offsets[start:stop], offsets[start + 1 : stop + 1]

    def problems(self, shard: int) -> dict[int, Problem]:
        """Return what is wrong with samples of a shard."""
        return self.shards[shard].problems


class IndexFiles:
    """Read offsets from one index file per shard, only the entries that are asked for.

    No file stays open, and start-up touches none of them. Small files are read whole and the last ones
    read are kept, within a bound that does not grow with the dataset.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/0.tar.idx", np.array([0, 1024, 2048], "<u8").tobytes())
        >>> IndexFiles(["memory://0.tar.idx"], [2]).entries(0, np.array([0, 1]))
        (array([   0, 1024]), array([1024, 2048]))

    Args:
        files: The path of each shard's index.
        counts: The number of samples of each shard.
        problems: What is known to be wrong, by shard and sample number.
        trailer: Whether the files hold something else behind the offsets.
    """

    def __init__(
        self,
        files: Sequence[str],
        counts: Sequence[int],
        problems: dict[int, dict[int, Problem]] | None = None,
        trailer: bool = False,
    ) -> None:
        self._trailer = trailer
        self.files = files
        self._counts = counts
        self._problems = problems or {}
        self._kept: dict[int, NDArray[np.int64]] = {}
        self._kept_entries = 0

    def problems(self, shard: int) -> dict[int, Problem]:
        """Return what is wrong with samples of a shard."""
        return self._problems.get(shard, _NO_PROBLEMS)

    def entries(self, shard: int, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where samples begin and end.

        Args:
            shard: The number of the shard.
            numbers: The numbers of samples in it, ascending, int64 of shape `(k,)`.

        Returns:
            The first byte of each sample and the byte after its last, int64 of shape `(k,)`.

        Raises:
            DatasetError: The index does not exist, is too short, or does not ascend.
        """
        count = self._counts[shard]
        first, last = int(numbers[0]), int(numbers[-1])
        if count < _WHOLE:
            offsets, first = self._whole(shard, count), 0
        elif last - first < _WHOLE or last - first < 64 * len(numbers):
            offsets = self._slice(shard, first, last + 2)
        else:
            return self._scattered(shard, numbers)
        local = numbers - first
        return offsets[local], offsets[local + 1]

    def neighbours(self, shard: int, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where samples `start` to `stop - 1` begin and end; errors are those of `entries`."""
        count = self._counts[shard]
        if count < _WHOLE:
            offsets = self._whole(shard, count)[start : stop + 1]
        else:
            offsets = self._slice(shard, start, stop + 1)
        return offsets[:-1], offsets[1:]

    def _whole(self, shard: int, count: int) -> NDArray[np.int64]:
        kept = self._kept.get(shard)
        if kept is not None:
            return kept
        offsets = self._slice(shard, 0, count + 1)
        # No lock, which a fork could leave held: the dictionary's own steps are atomic, the count may be a little off.
        self._kept[shard] = offsets
        self._kept_entries += len(offsets)
        if self._kept_entries > _KEPT:
            for oldest in list(self._kept)[: len(self._kept) // 2]:
                self._kept.pop(oldest, None)
            self._kept_entries = sum(map(len, list(self._kept.values())))
        return offsets

    def _scattered(self, shard: int, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        begins = (numbers * 8).tolist()
        data = self._read(shard, begins, [begin + 16 for begin in begins])
        pairs = np.frombuffer(data, "<i8").reshape(-1, 2).copy()
        pairs[numbers == 0, 0] = 0
        self._check(shard, pairs[:, 0], pairs[:, 1])
        return pairs[:, 0], pairs[:, 1]

    def _slice(self, shard: int, first: int, stop: int) -> NDArray[np.int64]:
        ends = stop == self._counts[shard] + 1 and not self._trailer
        data = self._read(shard, [8 * first, 8 * stop], [8 * stop, 8 * (stop + ends)])
        if len(data) > 8 * (stop - first):
            raise DatasetError(
                f"the index {self.files[shard]} has more than the {stop} entries that {stop - 1} samples need: "
                "it is out of step with the counts of the dataset; prepare the dataset again"
            )
        offsets = np.frombuffer(data, "<i8")
        if first == 0:
            # The stored value is not always that of the first header; readers of the format begin at 0.
            offsets = offsets.copy()
            offsets[0] = 0
        self._check(shard, offsets[:-1], offsets[1:])
        return offsets

    def _read(self, shard: int, starts: list[int], stops: list[int]) -> bytes:
        file = self.files[shard]
        try:
            pieces = paths.read_once(file, starts, stops)
        except FileNotFoundError:
            raise DatasetError(
                f"the index {file} does not exist; prepare the dataset again (`--tar-index-only` makes indices alone)"
            ) from None
        except OSError as error:
            raise DatasetError(f"the index {file} cannot be read: {error}") from error
        for piece, start, stop in zip(pieces, starts, stops, strict=True):
            if len(piece) < stop - start and start <= 8 * self._counts[shard]:
                raise DatasetError(
                    f"the index {file} has {(start + len(piece)) // 8} entries, fewer than the "
                    f"{self._counts[shard] + 1} that {self._counts[shard]} samples need; prepare the dataset again"
                )
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check(self, shard: int, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        if (begins > ends).any() or (begins < 0).any():
            raise DatasetError(
                f"the index {self.files[shard]} does not ascend: it is damaged; prepare the dataset again"
            )
