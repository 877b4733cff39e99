"""`concat`: one source after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from energon_nodes.combinators.calls import check_sources
from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Concat", "concat", "locate_in_branch", "restore_branches", "total_length"]

X = TypeVar("X")


class Concat(Node[X], verb="concat"):
    """Deliver all elements of the first source, then those of the second, and so on.

    The restore key has the number of the source in front.

    Example:
        >>> import energon_nodes as en
        >>> list(en.concat(en.items([1, 2]), en.items([3])))
        [1, 2, 3]
        >>> list(en.items([1, 2]).concat(en.items([3])))
        [1, 2, 3]

    Args:
        sources: The nodes to read from.

    Raises:
        ValueError: If there is no source.
    """

    sources: tuple[Node[X], ...]
    branch: int = state(int)

    def check(self) -> None:
        check_sources("concat", self.sources)

    def run(self) -> Iterator[tuple[X, Key]]:
        while self.branch < len(self.sources):
            for value, key in self.sources[self.branch].pairs():
                yield value, (self.branch, *key)
            self.branch += 1

    def restore_many(self, keys: Sequence[Key]) -> list[X]:
        return restore_branches(self.sources, keys)

    def locate(self, key: Key) -> str | None:
        return locate_in_branch(self.sources, key)

    def length(self, stream: int, streams: int) -> float | None:
        return total_length(self.sources, stream, streams)


def restore_branches(sources: Sequence[Node[Any]], keys: Sequence[Key]) -> list[Any]:
    """Rebuild elements whose keys begin with the number of their source."""
    restored: list[Any] = [None] * len(keys)
    branches: set[int] = {key[0] for key in keys}
    for branch in branches:
        where = [number for number, key in enumerate(keys) if key[0] == branch]
        for number, value in zip(where, sources[branch].restore_many([keys[n][1:] for n in where]), strict=True):
            restored[number] = value
    return restored


def locate_in_branch(sources: Sequence[Node[Any]], key: Key) -> str | None:
    """Return where an element lies whose key begins with the number of its source."""
    branch: int = key[0]
    return sources[branch].locate(key[1:])


def total_length(sources: Sequence[Node[Any]], stream: int, streams: int) -> float | None:
    """Return the sum of the sources' lengths, or None if one is not known."""
    lengths = [source.length(stream, streams) for source in sources]
    return None if None in lengths else sum(length for length in lengths if length is not None)


def concat(*sources: Node[X]) -> Node[X]:
    """Deliver all elements of the first source, then those of the second, and so on.

    Example:
        >>> import energon_nodes as en
        >>> list(en.concat(en.items([1, 2]), en.items([3])))
        [1, 2, 3]

    Args:
        *sources: The nodes to read from.

    Returns:
        A node of the elements of all.

    Raises:
        ValueError: If there is no source.
    """
    return Concat(sources)
