"""`sort_window`: put the elements of each window of the stream in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any, TypeVar

from energon_nodes.combinators.calls import check_function
from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import FatalSampleError
from energon_nodes.core.fields import buffer, scratch, state, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["SortWindow"]

X = TypeVar("X")


class SortWindow(Node[X], verb="sort_window"):
    """Gather `size` elements, deliver them sorted by `key`, and go on with the next `size`.

    In front of `batch` it puts elements of similar length into one batch, which saves padding; a shuffle of the batches
    behind it takes the order by length out again: `.sort_window(1000, len).batch(8).shuffle(50)`. Elements with equal
    keys keep their order. Windows are per stream; restore keys pass through.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(["ccc", "a", "bb", "dddd", "e"]).sort_window(3, len))
        ['a', 'bb', 'ccc', 'e', 'dddd']

    Args:
        source: The node to read from.
        size: The number of elements in a window, at least 1.
        key: `key(value)`, something that can be compared: a length, a tuple. It is asked once for each element,
            and again after a resume, so it must not have a state.
        reverse: Whether the largest key comes first.
        on_error: What happens to an element whose key raises: "raise", "skip" or `callable(error, key)`; None
            takes the loader's. Windows are made of the others.

    Raises:
        TypeError: If `key` is not callable.
        ValueError: If `size` is less than 1, or `key` has a state.
    """

    source: Node[X]
    size: int
    key: Callable[[X], Any]
    _: KW_ONLY
    reverse: bool = False
    on_error: ErrorPolicy | None = tuning(default=None)
    in_order: bool = state(bool)  # whether those held are sorted, the next one last, and on their way out
    held: Buffer = buffer()
    ranks: list[Any] = scratch(list)  # the keys of those held, as far as they were asked for

    keeps_keys = True

    def check(self) -> None:
        check_size("sort_window", "size", self.size, 1)
        check_function("sort_window", "key", self.key)
        if is_stateful(self.key):
            raise ValueError(
                f"sort_window needs a key without a state, got {self.key!r}: after a resume it is asked again; put a "
                "map that adds the rank in front"
            )

    def run(self) -> Iterator[tuple[X, Key]]:
        pairs, held = self.source.pairs(), self.held
        while True:
            if not self.in_order:
                self._fill(pairs)
                if not held:
                    return
                self._sort()
            while held:
                yield held.pop()
            self.in_order = False

    def _fill(self, pairs: Iterator[tuple[X, Key]]) -> None:
        held, ranks, size, rank_of = self.held, self.ranks, self.size, self.key
        streak = 0
        while True:
            while len(ranks) < len(held):
                try:
                    ranks.append(rank_of(held[len(ranks)][0]))
                except Exception as error:
                    value, key = held.pop(len(ranks))
                    streak = self.fail(error, key, value, streak)
                    continue
                streak = 0
            held.extend(islice(pairs, size - len(held)))
            if len(held) == len(ranks):  # it is full, or the source has ended
                return

    def _sort(self) -> None:
        ranks = self.ranks
        try:
            order = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=self.reverse)
        except Exception as error:
            raise FatalSampleError(
                f"the keys that {self!r} got cannot be compared ({error}): they are of the types "
                f"{sorted({type(rank).__name__ for rank in ranks})}; let the key function return one type"
            ) from error
        self.held[:] = [self.held[number] for number in reversed(order)]
        self.in_order = True
        ranks.clear()
