"""`items`: the elements of a sequence in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Protocol, TypeVar

from energon_nodes.core.fields import state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import fold
from energon_nodes.core.restore import Key
from energon_nodes.core.share import ErrorPolicy, Order, turns_of

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
    on_error: ErrorPolicy | None = tuning(default=None)
    taken: int = state(int)

    def check(self) -> None:
        kind = type(self.sequence)
        if not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")) or issubclass(kind, Mapping):
            raise TypeError(
                f"items needs a sequence with len() and [index from 0], got {kind.__name__}: "
                "use wrap(...) for iterables"
            )

    def run(self) -> Iterator[tuple[X, Key]]:
        sequence, epoch = self.sequence, self.epoch
        stream, streams = self.context.stream, self.context.streams
        share = turns_of(len(sequence), stream, streams)
        streak = 0
        while self.taken < share:
            start = self.taken
            stop = min(share, start + _BLOCK)
            for index in self._indices(stream + start * streams, stream + stop * streams, streams):
                self.taken += 1
                try:
                    value = sequence[index]
                except Exception as error:
                    streak = self.fail(error, (epoch, index), None, streak)
                    continue
                streak = 0
                yield value, (epoch, index)

    def _indices(self, start: int, stop: int, step: int) -> Sequence[int]:
        if not self.shuffled:
            return range(start, stop, step)
        seed = self.context.seed if self.seed is None else self.seed
        order = Order(len(self.sequence), 1, fold(seed, "items", self.identity, self.epoch))
        positions = range(start, stop, step)
        return order.at(positions).tolist()

    def restore_many(self, keys: Sequence[Key]) -> list[X]:
        count = len(self.sequence)
        for _, index in keys:
            if not 0 <= index < count:
                raise IndexError(f"element {index} is out of range: {self!r}")
        return [self.sequence[index] for _, index in keys]

    def length(self, stream: int, streams: int) -> float | None:
        return turns_of(len(self.sequence), stream, streams)

    def facts(self) -> dict[str, Any]:
        return {"elements": len(self.sequence)}

    def draws_random(self) -> bool:
        return self.shuffled

    def describe(self) -> list[str]:
        """Return what `repr` shows, without the data."""
        return [f"{len(self.sequence)} elements"] + ["shuffle=True"] * self.shuffled


def items(
    sequence: Indexed[X],
    *,
    shuffle: bool = False,
    seed: int | None = None,
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
        fixed_epoch: Whether every pass repeats the same order and the same random draws, for validation.
        on_error: What happens to an element whose access raises: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of the elements.

    Raises:
        TypeError: If `sequence` has no length or no access by index.
    """
    return Items(sequence, shuffled=shuffle, seed=seed, fixed_epoch=fixed_epoch, on_error=on_error)
