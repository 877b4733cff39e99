"""`slice_window`: neighbouring elements in windows that slide over the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from math import isinf
from typing import TypeVar

from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import buffer, state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key

__all__ = ["SliceWindow"]

X = TypeVar("X")


class SliceWindow(Node[tuple[X, ...]], verb="slice_window"):
    """Deliver windows of `size` neighbouring elements, each `step` elements behind the one before.

    With `step=1` it is `itertools.pairwise` and more-itertools' `sliding_window` for any size; with
    `step=size` the windows are batches; with a larger step the elements between two windows are left out.
    Windows are made per stream, of the elements that this stream has. The restore key is the tuple of the members'
    keys.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(5)).slice_window(3))
        [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
        >>> list(en.items(range(6)).slice_window(3, step=2, drop_last=False))
        [(0, 1, 2), (2, 3, 4), (4, 5)]

    Args:
        source: The node to read from.
        size: The number of elements in a window, at least 1.
        step: How many elements a window begins behind the one before, at least 1.
        drop_last: Whether elements at the end that fill no window are left out. False delivers a short window if
            there are elements that no window had; one step behind the last, so it may begin with some that had.

    Raises:
        ValueError: If `size` or `step` is less than 1.
    """

    source: Node[X]
    size: int
    step: int = 1
    _: KW_ONLY
    drop_last: bool = True
    gap: int = state(int)  # elements to leave out before the next window
    shown: int = state(int)  # how many of those held were in a window
    held: Buffer = buffer()

    def check(self) -> None:
        check_size("slice_window", "size", self.size, 1)
        check_size("slice_window", "step", self.step, 1)

    def run(self) -> Iterator[tuple[tuple[X, ...], Key]]:
        pairs, held, size, step = self.source.pairs(), self.held, self.size, self.step
        while True:
            for _ in islice(pairs, self.gap):
                self.gap -= 1
            if self.gap:
                return
            held.extend(islice(pairs, size - len(held)))
            if len(held) < size and (self.drop_last or len(held) <= self.shown):
                held.clear()
                return
            values, keys = tuple([value for value, _ in held]), tuple([key for _, key in held])
            if len(held) < size:
                held.clear()
            del held[:step]
            self.gap, self.shown = max(0, step - size), len(held)
            yield values, keys

    def restore_many(self, keys: Sequence[Key]) -> list[tuple[X, ...]]:
        wanted = dict.fromkeys(member for key in keys for member in key)  # windows overlap: each member once
        found = dict(zip(wanted, self.source.restore_many(list(wanted)), strict=True))
        return [tuple([found[member] for member in key]) for key in keys]

    def locate(self, key: Key) -> str | None:
        places = dict.fromkeys(self.source.locate(member) for member in key)
        return "; ".join([place for place in places if place is not None][:4]) or None

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        if below is None or isinf(below):
            return below
        windows = max(0, (below - self.size) // self.step + 1)
        covered = (windows - 1) * self.step + self.size if windows else 0
        return windows + (not self.drop_last and below > max(covered, windows * self.step))
