"""`tap`: look at the elements as they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from energon_nodes.combinators.calls import check_function, refuse_generator
from energon_nodes.combinators.interrupts import with_interrupted
from energon_nodes.core.fields import buffer
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key

__all__ = ["Tap"]

X = TypeVar("X")


class Tap(Node[X], verb="tap"):
    """Call `fn` with every element that passes, and deliver the element itself.

    For counting, logging and debugging. Elements that are rebuilt from keys are not shown again.

    Example:
        >>> import energon_nodes as en
        >>> seen = []
        >>> list(en.items([1, 2]).tap(seen.append).map(str)), seen
        (['1', '2'], [1, 2])

    Args:
        source: The node to read from.
        fn: `fn(value)`; what it returns is dropped.

    Raises:
        TypeError: If `fn` is not callable.
    """

    source: Node[X]
    fn: Callable[[X], Any]
    interrupted: Buffer = buffer()

    keeps_keys = True

    def check(self) -> None:
        check_function("tap", "fn", self.fn)
        refuse_generator("tap", "fn", self.fn, "its code would never run; let it return")

    def run(self) -> Iterator[tuple[X, Key]]:
        fn = self.live("fn")
        streak = 0
        for pair in with_interrupted(self.interrupted, self.source.pairs()):
            try:
                fn(pair[0])
            except Exception as error:
                streak = self.fail(error, pair[1], pair[0], streak)
                continue
            except BaseException:
                self.interrupted.append(pair)
                raise
            if streak:
                streak = 0
            yield pair
