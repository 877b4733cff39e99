"""`items`: the elements of a sequence in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Protocol, Self, TypeVar

from energon_nodes.core.errors import SampleError
from energon_nodes.core.fields import shared, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import fold
from energon_nodes.core.restore import Key
from energon_nodes.core.share import ErrorPolicy, Order, turns_of
from energon_nodes.sources.subset import Bound, Section, plain_sections, resolve_sections

__all__ = ["Items", "items"]

X = TypeVar("X")
Y = TypeVar("Y", covariant=True)
_BLOCK = 1024  # positions whose indices are computed at once


class Indexed(Protocol[Y]):
    """What `items` needs of a sequence: a length, and access by an index from 0."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Y: ...


class Items(Node[X]):
    """Deliver the elements of a sequence; see `items`, which makes it.

    Example:
        >>> Items([3, 1, 2])
        Items(3 elements)
    """

    sequence: Indexed[X] = tuning()
    _: KW_ONLY
    shuffled: bool = False  # `shuffle` is a verb
    seed: int | None = None
    fixed_epoch: bool = False
    sections: tuple[Section, ...] = tuning(default=())  # `subset` is a verb
    on_error: ErrorPolicy | None = tuning(default=None)
    taken: int = state(int)
    numbers: dict[str, int] = shared()  # of samples by key, once they are looked up

    def check(self) -> None:
        kind = type(self.sequence)
        if not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")) or issubclass(kind, Mapping):
            raise TypeError(
                f"items needs a sequence with len() and [index from 0], got {kind.__name__}: "
                "use wrap(...) for iterables"
            )
        self._range()
        self.numbers = {}

    def _range(self) -> tuple[int, int]:
        """Return the first element and the one behind the last; a sequence may have grown since the last pass."""
        return resolve_sections(self.sections, len(self.sequence))

    def narrowed(self, first: Bound, last: Bound) -> Self:
        """Return this source over a part of the elements that it has, as the verb `subset` asks for."""
        node = self.clone()
        node.sections = (*self.sections, (first, last))
        node.check()
        return node

    def run(self) -> Iterator[tuple[X, Key]]:
        sequence, epoch = self.sequence, self.epoch
        stream, streams = self.context.stream, self.context.streams
        first, last = self._range()
        share = turns_of(last - first, stream, streams)
        streak = 0
        while self.taken < share:
            start = self.taken
            stop = min(share, start + _BLOCK)
            positions = range(stream + start * streams, stream + stop * streams, streams)
            for index in self._indices(positions, first, last):
                self.taken += 1
                try:
                    value = sequence[index]
                except Exception as error:
                    streak = self.fail(error, (epoch, index), None, streak)
                    continue
                streak = 0
                yield value, (epoch, index)

    def _indices(self, positions: range, first: int, last: int) -> Sequence[int]:
        if not self.shuffled:
            return range(first + positions.start, first + positions.stop, positions.step)
        seed = self.context.seed if self.seed is None else self.seed
        order = Order(last - first, 1, fold(seed, "items", self.identity, self.epoch))
        return (order.at(positions) + first).tolist()

    def restore_many(self, keys: Sequence[Key]) -> list[X]:
        count = len(self.sequence)
        for _, index in keys:
            if not 0 <= index < count:
                raise IndexError(f"element {index} is out of range: {self!r}")
        return [self.sequence[index] for _, index in keys]

    def check_lookup(self) -> None:
        """Samples in memory are found by their keys."""

    def lookup(self, names: Sequence[str], passes: Sequence[int]) -> list[Key | None]:
        if not self.numbers:
            self.numbers.update(_numbers_of(self.sequence))
        first, last = self._range()
        found = [self.numbers.get(name, -1) for name in names]
        return [(number, index) if first <= index < last else None for number, index in zip(passes, found, strict=True)]

    def length(self, stream: int, streams: int) -> float | None:
        first, last = self._range()
        return turns_of(last - first, stream, streams)

    def facts(self) -> dict[str, Any]:
        cut = {"subset": plain_sections(self.sections)} if self.sections else {}
        return {"elements": len(self.sequence)} | cut

    def draws_random(self) -> bool:
        return self.shuffled

    def describe(self) -> list[str]:
        """Return what `repr` shows, without the data."""
        shown = [f"{len(self.sequence)} elements"] + ["shuffle=True"] * self.shuffled
        return shown + ([f"subset={plain_sections(self.sections)!r}"] if self.sections else [])


def _numbers_of(sequence: Indexed[Any]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for index in range(len(sequence)):
        sample: Any = sequence[index]
        key = sample.get("__key__") if hasattr(sample, "get") else getattr(sample, "__key__", None)
        if not isinstance(key, str):
            has = "has none" if key is None else f"has {key!r}, which is of the type {type(key).__name__}"
            example = str(index if key is None else key)
            raise SampleError(
                f"items can be looked up by key, as a join does, if each has a __key__ that is text; element {index} "
                f'{has}: give each sample a __key__ of its own, such as {{"__key__": {example!r}, ...}}'
            )
        if key in numbers:
            raise SampleError(
                f"items can be looked up by key, as a join does, if no two have the same; the elements {numbers[key]} "
                f"and {index} both have the key {key!r}: give each sample a __key__ of its own, or leave one out"
            )
        numbers[key] = index
    return numbers


def items(
    sequence: Indexed[X],
    *,
    shuffle: bool = False,
    seed: int | None = None,
    subset: Section | None = None,
    fixed_epoch: bool = False,
    on_error: ErrorPolicy | None = None,
) -> Node[X]:
    """Deliver the elements of a sequence.

    Under several streams, stream `v` of `V` takes every `V`-th element, beginning with the `v`-th, so a
    loader gives them in their order. The restore key is `(epoch, index)`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([3, 1, 2]))
        [3, 1, 2]
        >>> sorted(en.items(range(5), shuffle=True))
        [0, 1, 2, 3, 4]

    Args:
        sequence: Anything with `len` and `[index]`: a list, a range, a string, an array, a map-style dataset.
            Clones share it.
        shuffle: Whether each pass has another random order of all elements.
        seed: A seed for this node; None takes the one of the loader.
        subset: Two bounds that cut the elements before they are shuffled: fractions `(0.0, 0.5)`, percentages
            `("0%", "50%")`, or numbers `(100, 200)`, the second of which may be "end".
        fixed_epoch: Whether every pass repeats the same order and the same random draws, for validation.
        on_error: What happens to an element whose access raises: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of the elements.

    Raises:
        TypeError: If `sequence` has no length or no access by index.
        ValueError: If `subset` is out of range or leaves nothing.
    """
    sections = () if subset is None else (subset,)
    return Items(sequence, shuffled=shuffle, seed=seed, sections=sections, fixed_epoch=fixed_epoch, on_error=on_error)
