"""Iterate over the values of a root node with little work for each element, and go on after errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = ["values_of"]


def values_of(node: Node[Any]) -> Iterator[Any]:
    """Return an iterator over the values of a node that goes on after errors and resets.

    A generator ends for good when an exception passes through it. So there is a row of them, and `chain`
    goes from one to the next in C: as long as the node has not ended, there is a next one.

    Example:
        >>> import energon_nodes as en
        >>> list(values_of(en.items([1, 2]).map(str)))
        ['1', '2']
    """
    return chain.from_iterable(_Runs(node))


class _Runs(Iterator[Iterator[Any]]):
    """Give iterators over the values of one running generator after the other, until the node has ended."""

    def __init__(self, node: Node[Any]) -> None:
        self._node = node
        self._ended = False

    def __next__(self) -> Iterator[Any]:
        if self._ended:
            raise StopIteration
        return self._values()

    def _values(self) -> Iterator[Any]:
        run = self._node.running()
        for value, _ in run:
            yield value
        # An error does not get here; a reset does, and then another generator is the running one.
        self._ended = self._node.end(run)
