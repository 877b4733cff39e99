"""`zip`: the elements of several sources side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any

from energon_nodes.core.fields import buffer
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key

__all__ = ["Zip", "zip_nodes"]


class Zip(Node[tuple[Any, ...]], verb="zip"):
    """Deliver tuples of one element from each source, until the shortest ends.

    The restore key is the tuple of the elements' keys.

    Example:
        >>> import energon_nodes as en
        >>> list(en.zip(en.items([1, 2, 3]), en.items("ab")))
        [(1, 'a'), (2, 'b')]

    Args:
        sources: The nodes to read from.
        strict: Whether sources of different lengths are an error, as for the builtin `zip`.

    Raises:
        ValueError: While running, if `strict` is true and one source ends before the others.
    """

    sources: tuple[Node[Any], ...]
    _: KW_ONLY
    strict: bool = False
    row: Buffer = buffer()

    def run(self) -> Iterator[tuple[tuple[Any, ...], Key]]:
        pairs, row = [source.pairs() for source in self.sources], self.row
        while True:
            for side in pairs[len(row) :]:
                before = len(row)
                row.extend(islice(side, 1))
                if len(row) == before:
                    self._check_all_ended(before, pairs)
                    return
            values, keys = tuple([value for value, _ in row]), tuple([key for _, key in row])
            row.clear()
            yield values, keys

    def _check_all_ended(self, ended: int, pairs: list[Iterator[Any]]) -> None:
        if not self.strict:
            return
        longer = [0] if ended else [number for number in range(1, len(pairs)) if next(pairs[number], None) is not None]
        if longer:
            raise ValueError(
                f"zip(strict=True): source {ended} ended before source {longer[0]}; use strict=False to stop there"
            )

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        return [source.restore(key) for source, key in zip(self.sources, keys, strict=False)]

    def restore_many(self, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        sides = [source.restore_many([key[side] for key in keys]) for side, source in enumerate(self.sources)]
        return list(zip(*sides, strict=True))

    def length(self, stream: int, streams: int) -> float | None:
        lengths = [source.length(stream, streams) for source in self.sources]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) else None


def zip_nodes(*sources: Node[Any], strict: bool = False) -> Node[tuple[Any, ...]]:
    """Deliver tuples of one element from each source, until the shortest ends.

    It is exported as `energon_nodes.zip`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.zip(en.items([1, 2, 3]), en.items("ab")))
        [(1, 'a'), (2, 'b')]

    Args:
        *sources: The nodes to read from.
        strict: Whether sources of different lengths are an error, as for the builtin `zip`.

    Returns:
        A node of tuples.

    Raises:
        ValueError: While running, if `strict` is true and one source ends before the others.
    """
    return Zip(sources, strict=strict)
