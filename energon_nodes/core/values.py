"""Iterate over the values of a root node without Python code for each element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = ["values_of"]

_value = itemgetter(0)


def values_of(node: Node[Any]) -> Iterator[Any]:
    """Return an iterator over the values of a node that is as quick as its generator.

    `chain`, `map` and `itemgetter` hand the elements on in C. What they cannot do is done between two
    generators: when one is exhausted, be it at the end, by an error, or by a reset, `_Runs` is asked for the next.

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
        self._probing = False
        self._alive = True

    def __next__(self) -> Iterator[Any]:
        if self._probing and self._alive:
            self._probing = False
            return map(_value, self._node.running())
        if not self._alive:
            self._node.end()
            raise StopIteration
        # Whether the last generator ended or died shows when it is entered again: at the end it gives nothing.
        self._probing, self._alive = True, False
        return self._first()

    def _first(self) -> Iterator[Any]:
        try:
            for value, _ in islice(self._node.running(), 1):
                self._alive = True
                yield value
        except GeneratorExit:
            raise
        except BaseException:
            self._alive = True  # only the element failed
            raise
