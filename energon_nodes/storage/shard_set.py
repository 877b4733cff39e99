"""The samples of one split as one numbered range, read at random and many at a time."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import SampleError
from energon_nodes.storage import paths
from energon_nodes.storage.index import Offsets
from energon_nodes.storage.layout import Layout
from energon_nodes.storage.reading import Group, PartFilter, Read, Sample, Span, read_group

if TYPE_CHECKING:
    from energon_nodes.storage.key_search import KeySearch

__all__ = ["Place", "Plan", "ShardSet"]

_NOTHING: frozenset[str] = frozenset()


class Place(NamedTuple):
    """Say where a sample lies.

    Example:
        >>> Place("0.tar", 3, 4096).offset
        4096

    Args:
        shard: The shard, relative to the dataset.
        number: The number of the sample in it.
        offset: Its first byte.
    """

    shard: str
    number: int
    offset: int


class Plan(NamedTuple):
    """Describe a read: see `ShardSet.plan`.

    Example:
        >>> Plan(0, Group("/data", [], None), None).length
        0

    Args:
        length: How many of the asked samples it covers.
        group: What is read.
        order: Where each sample that is read stands among the asked ones, or None for the same place.
    """

    length: int
    group: Group
    order: NDArray[np.int64] | None


class ShardSet:
    """Number the samples of a split from 0 to `count - 1` and read any of them.

    It never changes, can be used from several threads, and its pickle is small: another process opens the dataset
    again, or gets the offsets in compressed form where they were found by scanning. Make one with `open_shards`.

    Args:
        root: The folder of the dataset.
        names: The shards, relative to it; a shard that stands twice is read twice.
        counts: The number of samples of each.
        offsets: Where the samples lie.
        excluded: Keys that are not delivered, by shard; they count all the same.
        origin: `(function, arguments)` that make an equal set in another process.

    Example:
        >>> from energon_nodes.storage.index import MemoryIndex
        >>> from energon_nodes.storage.scan import ShardIndex
        >>> index = MemoryIndex([ShardIndex(np.array([0, 1024, 2048])), ShardIndex(np.array([0, 1536]))])
        >>> shards = ShardSet("/data", ["x/0.tar", "y/0.tar"], [2, 1], index)
        >>> shards.count, shards.locate(2)
        (3, Place(shard='y/0.tar', number=0, offset=0))
    """

    def __init__(
        self,
        root: str,
        names: Sequence[str],
        counts: Sequence[int],
        offsets: Offsets,
        excluded: dict[str, frozenset[str]] | None = None,
        origin: tuple[Any, tuple[Any, ...]] | None = None,
    ) -> None:
        self.root = root
        self.names = tuple(names)
        self.counts = tuple(counts)
        self._first = [0, *accumulate(self.counts)]
        self.count = self._first[-1]
        self._folder = paths.join(root, "")
        self.offsets = offsets
        self._excluded = excluded or {}
        self.origin = origin
        self._known: list[Layout] = []

    def __repr__(self) -> str:
        return f"ShardSet({self.root!r}, {len(self.names)} shards, {self.count} samples)"

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError(f"{self!r} was made by hand and cannot be pickled; make it with open_shards")
        return self.origin

    def __copy__(self) -> ShardSet:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardSet:
        return self

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the names and sample counts of the shards, 16 hexadecimal digits."""
        text = "".join(f"{name}\0{count}\0" for name, count in zip(self.names, self.counts, strict=True))
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

    def find_many(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Find samples by their keys.

        A prepared dataset has a table of all keys, or gets one at the first call. For shards that were never prepared
        the headers of all samples are read once.

        Args:
            keys: Keys, as `__key__` of the samples has them.

        Returns:
            The global index of each, int64 of the shape of `keys`: -1 where the split has no such sample or excludes
            it, and the first place in a shard that stands twice.

        Raises:
            DatasetError: A key is in several places of shards that were never prepared, or the metadata are wrong.
            OSError: The headers cannot be read.
        """
        return self._search.find_many(keys)

    @cached_property
    def _search(self) -> KeySearch:
        # Imported here: with sqlite3 it takes 10 ms, and most datasets are only streamed.
        from energon_nodes.storage.key_search import KeySearch

        return KeySearch(self, self._excluded)

    def locate(self, index: int) -> Place:
        """Find the shard, the number in it, and the byte offset of a sample.

        Args:
            index: A global index in `[0, count)`.

        Returns:
            Its place.

        Raises:
            IndexError: There is no such sample.
            DatasetError: The index of the shard cannot be read.
        """
        self._check(index, index)
        shard = bisect_right(self._first, index) - 1
        number = index - self._first[shard]
        begins, _ = self.offsets.neighbours(shard, number, number + 1)
        return Place(self.names[shard], number, int(begins[0]))

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        wants: PartFilter | None = None,
        limit: int | None = None,
    ) -> list[Sample | SampleError | None]:
        """Read samples, with as few reads as possible and nothing but their bytes.

        A sample is a dict: `__key__`, `__shard__`, `__sources__` (see `Source`) and its parts as bytes.

        Args:
            indices: Global indices in any order.
            wants: Tells which parts are read; None for all.
            limit: Stop before the samples have more bytes than this, after the first one at the earliest.

        Returns:
            One entry for each index, in order, fewer where `limit` stops the reading: the sample, a `ShardError`
            where it cannot be read, or None where the dataset excludes it.

        Raises:
            IndexError: An index is out of range.
            DatasetError: The index of a shard cannot be read.
        """
        return list(self.fetch(self.plan(indices, wants, limit)).samples)

    def plan(
        self, indices: Sequence[int] | NDArray[np.int64], wants: PartFilter | None = None, limit: int | None = None
    ) -> Plan:
        """Find where samples lie, and how many of them `limit` allows; arguments and errors are those of `read`.

        Returns:
            What `fetch` needs.
        """
        asked = np.asarray(indices, np.int64)
        if not len(asked):
            return Plan(0, Group(self.root, [], wants), None)
        self._check(int(asked.min()), int(asked.max()))
        breaks = np.flatnonzero(asked[1:] - asked[:-1] != 1) + 1
        order: NDArray[np.int64] | None = None
        if len(breaks) <= len(asked) // 16 or len(asked) < 3:
            spans = self._runs(asked, breaks)
            size = sum([int(span.ends[-1] - span.begins[0]) for span in spans])
        else:
            # Many short runs: sorted, they fall into few shards, and neighbours are read together.
            order = np.argsort(asked, kind="stable")
            spans = self._sorted(asked[order])
            size = sum([int((span.ends - span.begins).sum()) for span in spans])
        if limit is not None and size > limit:
            fitting = _fitting(np.concatenate([span.ends - span.begins for span in spans]), order, limit)
            if fitting < len(asked):
                return self.plan(asked[:fitting], wants)
        return Plan(len(asked), Group(self.root, spans, wants, self._known), order)

    def fetch(self, plan: Plan) -> Read:
        """Read the samples of a plan.

        Args:
            plan: The result of `plan`.

        Returns:
            What `read` returns, made sample by sample as it is taken, in the order in which it was asked for.
        """
        return read_group(plan.group, plan.order)

    def _runs(self, asked: NDArray[np.int64], breaks: NDArray[np.int64]) -> list[Span]:
        """Return the spans of runs of neighbours, cut where a shard ends."""
        spans: list[Span] = []
        cuts = [0, *breaks.tolist(), len(asked)]
        for start, stop in pairwise(cuts):
            index, left = int(asked[start]), stop - start
            while left:
                shard = bisect_right(self._first, index) - 1
                number = index - self._first[shard]
                count = min(left, self.counts[shard] - number)
                begins, ends = self.offsets.neighbours(shard, number, number + count)
                spans.append(self._span(shard, np.arange(number, number + count), begins, ends))
                index, left = index + count, left - count
        return spans

    def _sorted(self, wanted: NDArray[np.int64]) -> list[Span]:
        """Return the spans of ascending indices, one for each shard."""
        shards = np.searchsorted(self._first, wanted, "right") - 1
        cuts = np.flatnonzero(shards[1:] != shards[:-1]) + 1
        spans: list[Span] = []
        for start, stop in pairwise([0, *cuts.tolist(), len(wanted)]):
            shard = int(shards[start])
            numbers = wanted[start:stop] - self._first[shard]
            begins, ends = self.offsets.entries(shard, numbers)
            spans.append(self._span(shard, numbers, begins, ends))
        return spans

    def _span(self, shard: int, numbers: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Span:
        name = self.names[shard]
        problems, excluded = self.offsets.problems(shard), self._excluded.get(name, _NOTHING)
        path = f"{self._folder}{name}"
        return Span(path, name, self._first[shard], numbers, begins, ends, problems, excluded)

    def _check(self, low: int, high: int) -> None:
        if low < 0 or high >= self.count:
            raise IndexError(f"sample {low if low < 0 else high} is out of range: {self!r}")


def _fitting(sizes: NDArray[np.int64], order: NDArray[np.int64] | None, limit: int) -> int:
    """Count the samples, in the order they were asked for, that have no more than `limit` bytes together."""
    if order is not None:
        asked = np.empty_like(sizes)
        asked[order] = sizes
        sizes = asked
    return max(1, int(np.searchsorted(np.cumsum(sizes), limit, "right")))
