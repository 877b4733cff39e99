"""What sources of numbered samples have in common: the order of reading, passes, streams, and access by key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, ClassVar, Self

from energon_nodes.core.checks import check_policy, check_size
from energon_nodes.core.errors import ShardError
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import fold
from energon_nodes.core.restore import Key
from energon_nodes.core.share import ErrorPolicy, part_of
from energon_nodes.sources.read_ahead import read_batches
from energon_nodes.sources.reading_order import ReadingOrder
from energon_nodes.sources.subset import Bound, Section, plain_sections, resolve_sections
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.paths import is_url
from energon_nodes.storage.reading import PartFilter
from energon_nodes.storage.shard_set import ShardSet

__all__ = ["Numbered", "absolute"]

_LENGTH = 100
_LEAST_SEQUENCES = 100  # to permute; a small dataset has shorter ones


class Numbered(Node[dict[str, Any]], abstract=True):
    """Serve as the base of sources that read a `ShardSet`.

    A subclass declares the fields below, and calls `begin` in its `check`.
    """

    family: ClassVar[str]
    """What the source is called in messages, and what tells its random order from those of others."""

    shuffled: bool
    seed: int | None
    sequence_length: int | None
    parallel_sequences: int
    shuffle_epochs: int
    sections: tuple[Section, ...]
    on_error: ErrorPolicy | None
    taken: int  # state
    pending: Any  # scratch: the indices of a group that are not taken yet
    group_end: int  # scratch: what `taken` will be when they are
    shard_set: ShardSet  # shared, as are the others
    first: int
    count: int
    length_used: int

    def begin(self, opened: ShardSet) -> None:
        """Take the samples that are read, and find the ones of the subset."""
        self.shard_set = opened
        self.first, stop = resolve_sections(self.sections, opened.count)
        self.count = stop - self.first
        self.length_used = self.sequence_length or max(1, min(_LENGTH, self.count // _LEAST_SEQUENCES))

    def narrowed(self, first: Bound, last: Bound) -> Self:
        """Return this source over a part of the samples that it has, as the verb `subset` asks for."""
        node = self.clone()
        node.sections = (*self.sections, (first, last))
        node.begin(self.shard_set)
        return node

    def check_order(self) -> None:
        """Validate what all of these sources are told about their order."""
        if self.sequence_length is not None:
            check_size(self.family, "sequence_length", self.sequence_length, 1)
        check_size(self.family, "parallel_sequences", self.parallel_sequences, 1)
        check_size(self.family, "shuffle_epochs", self.shuffle_epochs, 1)
        if self.shuffle_epochs > 1 and not self.shuffled:
            raise ValueError(f"{self.family} needs shuffle=True for shuffle_epochs={self.shuffle_epochs}")
        check_policy(self.family, self.on_error)

    def wants(self) -> PartFilter | None:
        """Return what tells which parts are read, None for all."""
        return None

    def run(self) -> Iterator[tuple[dict[str, Any], Key]]:
        self._count()
        self.pending = None
        order, streak = self._order(), 0
        batches = read_batches(
            self.shard_set,
            order.indices if self.shuffle_epochs == 1 else lambda start, stop: order.indices(start, stop) % self.count,
            self.taken,
            order.count,
            wants=self.wants(),
            first=self.first,
            scattered=self.shuffled and self.length_used < 50 * self.parallel_sequences,
            soon=self.taken > 0 or self.epoch == 0,
        )
        for indices, (samples, clean) in batches:
            epochs = self._epochs(order, len(indices))
            if clean:  # no Python code runs for its samples: how many are taken, the iterator over the indices knows
                streak = 0
                self.pending, self.group_end = iter(indices), self.taken + len(indices)
                pairs: Any = zip(samples, zip(epochs, self.pending, strict=False), strict=False)
                yield from pairs
                self._count()
                self.pending = None
                continue
            for sample, epoch, index in zip(samples, epochs, indices, strict=False):
                self.taken += 1
                if isinstance(sample, dict):
                    streak = 0
                    yield sample, (epoch, index)
                elif sample is not None:
                    streak = self.fail(sample, (epoch, index), None, streak)

    def _epochs(self, order: ReadingOrder, count: int) -> Iterable[int]:
        """Return the epoch of each of the next elements: several are mixed in one pass under `shuffle_epochs`."""
        epochs = self.shuffle_epochs
        if epochs == 1:
            return repeat(self.epoch)
        return (self.epoch * epochs + order.indices(self.taken, self.taken + count) // self.count).tolist()

    def _count(self) -> None:
        if self.pending is not None:
            self.taken = self.group_end - length_hint(self.pending)

    def snapshot(self) -> tuple[Any, ...]:
        self._count()
        return super().snapshot()

    def _order(self) -> ReadingOrder:
        key = None
        if self.shuffled:
            seed = self.context.seed if self.seed is None else self.seed
            key = fold(seed, self.family, self.identity, self.epoch)
        context = self.context
        return ReadingOrder(
            self.count * self.shuffle_epochs,
            self.length_used,
            key,
            self.parallel_sequences,
            context.stream,
            context.streams,
        )

    def restore_many(self, keys: Sequence[Key]) -> list[dict[str, Any]]:
        wanted = [index for _, index in keys]
        wants = self.wants()
        restored: list[dict[str, Any]] = []
        while len(restored) < len(wanted):
            for sample in self.shard_set.read(wanted[len(restored) : len(restored) + 1000], wants, 1 << 26):
                if not isinstance(sample, dict):
                    raise sample or ShardError(
                        f"sample {wanted[len(restored)]} of {self.shard_set.root} is excluded by the dataset now; "
                        "it was not when the checkpoint was made"
                    )
                restored.append(sample)
        return restored

    def check_lookup(self) -> None:
        """Samples of shards are found by their keys."""

    def lookup(self, names: Sequence[str], passes: Sequence[int]) -> list[Key | None]:
        found = self.shard_set.find_many(names)
        stop = self.first + self.count
        if found.size and (found.min() < self.first or found.max() >= stop):
            inside = [self.first <= index < stop for index in found.tolist()]
            return [
                (number, index) if known else None
                for number, index, known in zip(passes, found.tolist(), inside, strict=True)
            ]
        return list(zip(passes, found.tolist(), strict=True))

    def locate(self, key: Key) -> str | None:
        place = self.shard_set.locate(key[1])
        return f"shard {place.shard!r} at byte {place.offset}"

    def length(self, stream: int, streams: int) -> float | None:
        start, stop = part_of(self.count * self.shuffle_epochs, stream, streams)
        return stop - start

    def facts(self) -> dict[str, Any]:
        return {
            "subset": plain_sections(self.sections),
            "samples": self.shard_set.count,
            "sequence_length": self.length_used,
            "fingerprint": self.shard_set.fingerprint,
        }

    def draws_random(self) -> bool:
        return self.shuffled

    def order_shown(self) -> list[str]:
        """Return what `repr` shows of the order."""
        shown = ["shuffle=True", f"sequence_length={self.length_used}"] if self.shuffled else []
        shown += [f"parallel_sequences={self.parallel_sequences}"] if self.parallel_sequences > 1 else []
        shown += [f"shuffle_epochs={self.shuffle_epochs}"] if self.shuffle_epochs > 1 else []
        shown += [f"subset={plain_sections(self.sections)!r}"] if self.sections else []
        return shown


def absolute(path: PathLike) -> str:
    """Tie a path to the working directory of now: a program may change it, and workers have their own.

    Example:
        >>> absolute("s3://bucket/0.tar"), os.path.isabs(absolute("0.tar"))
        ('s3://bucket/0.tar', True)

    Args:
        path: A path or URL.

    Returns:
        The URL as it is, or an absolute path.
    """
    text = os.fspath(path)
    return text if is_url(text) else os.path.abspath(text)
