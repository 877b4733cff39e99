"""`zip`: the elements of several sources side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from energon_nodes.combinators.calls import check_sources
from energon_nodes.core.fields import buffer
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key

__all__ = ["Zip", "zip_nodes"]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Y = TypeVar("Y")


class Zip(Node[Y], verb="zip"):
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
        ValueError: If there is no source; while running, if `strict` is true and one source ends before the others.
    """

    sources: tuple[Node[Any], ...]
    _: KW_ONLY
    strict: bool = False
    row: Buffer = buffer()

    if TYPE_CHECKING:

        @overload
        def __init__(self: Zip[tuple[A, B]], sources: tuple[Node[A], Node[B]], *, strict: bool = False) -> None: ...
        @overload
        def __init__(
            self: Zip[tuple[A, B, C]], sources: tuple[Node[A], Node[B], Node[C]], *, strict: bool = False
        ) -> None: ...
        @overload
        def __init__(self: Zip[tuple[Any, ...]], sources: tuple[Node[Any], ...], *, strict: bool = False) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        check_sources("zip", self.sources)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs, row = [source.pairs() for source in self.sources], self.row
        sides = range(len(pairs))
        while True:
            missing = [side for side in sides if all(key[0] != side for _, key in row)] if row else sides
            for side in missing:
                for value, key in islice(pairs[side], 1):
                    row.append((value, (side, key)))
                    break
                else:
                    self._check_all_ended(side, pairs)
                    return
            if len(missing) < len(sides):
                row.sort(key=lambda pair: pair[1][0])
            values: Any = tuple([value for value, _ in row])
            keys = tuple([key for _, (_, key) in row])
            row.clear()
            yield values, keys

    def _check_all_ended(self, ended: int, pairs: list[Iterator[Any]]) -> None:
        if not self.strict:
            return
        held = [key[0] for _, key in self.row]
        longer = held or [
            side for side in range(len(pairs)) if side != ended and any(True for _ in islice(pairs[side], 1))
        ]
        if longer:
            raise ValueError(
                f"zip(strict=True): source {ended} ended before source {longer[0]}; use strict=False to stop there"
            )

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        row: Sequence[tuple[int, Key]] = keys
        return [self.sources[side].restore(key) for side, key in row]

    def restore_many(self, keys: Sequence[Key]) -> list[Any]:
        sides = [source.restore_many([key[side] for key in keys]) for side, source in enumerate(self.sources)]
        return list(zip(*sides, strict=True))

    def length(self, stream: int, streams: int) -> float | None:
        lengths = [source.length(stream, streams) for source in self.sources]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) else None


@overload
def zip_nodes(source1: Node[A], source2: Node[B], /, *, strict: bool = False) -> Node[tuple[A, B]]: ...
@overload
def zip_nodes(
    source1: Node[A], source2: Node[B], source3: Node[C], /, *, strict: bool = False
) -> Node[tuple[A, B, C]]: ...
@overload
def zip_nodes(*sources: Node[Any], strict: bool = False) -> Node[tuple[Any, ...]]: ...
def zip_nodes(*sources: Node[Any], strict: bool = False) -> Node[Any]:
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
        ValueError: If there is no source; while running, if `strict` is true and one source ends before the others.
    """
    return Zip(sources, strict=strict)
