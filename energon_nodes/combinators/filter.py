"""`filter`: keep the elements that a predicate accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from typing import Any, TypeVar

from energon_nodes.combinators.calls import check_function, refuse_generator
from energon_nodes.combinators.interrupts import with_interrupted
from energon_nodes.core.fields import buffer, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["Filter"]

X = TypeVar("X")


class Filter(Node[X], verb="filter"):
    """Keep the elements for which `predicate` is true.

    The predicate is not asked again when an element is rebuilt from its key.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(6)).filter(lambda x: x % 2))
        [1, 3, 5]

    Args:
        source: The node to read from.
        predicate: `predicate(value)`; its truth decides.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Raises:
        TypeError: If `predicate` is not callable.
    """

    source: Node[X]
    predicate: Callable[[X], Any]
    _: KW_ONLY
    on_error: ErrorPolicy | None = tuning(default=None)
    interrupted: Buffer = buffer()

    def check(self) -> None:
        check_function("filter", "predicate", self.predicate)
        refuse_generator("filter", "predicate", self.predicate, "a generator is always true; let it return the answer")

    def run(self) -> Iterator[tuple[X, Key]]:
        predicate = self.live("predicate")
        streak = 0
        for pair in with_interrupted(self.interrupted, self.source.pairs()):
            try:
                wanted = predicate(pair[0])
            except Exception as error:
                streak = self.fail(error, pair[1], pair[0], streak)
                continue
            except BaseException:
                self.interrupted.append(pair)
                raise
            if streak:
                streak = 0
            if wanted:
                yield pair

    def length(self, stream: int, streams: int) -> float | None:
        return None
