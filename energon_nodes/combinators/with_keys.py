"""`with_keys`: deliver the restore keys beside the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["WithKeys"]

X = TypeVar("X")


class WithKeys(Node[tuple[X, Key]], verb="with_keys"):
    """Deliver `(value, restore key)` as the elements.

    A key that was logged can be given to `restore` of the pipeline, to look at the element again.

    Example:
        >>> import energon_nodes as en
        >>> pipeline = en.items("ab").map(str.upper)
        >>> list(pipeline.with_keys())
        [('A', (0, 0)), ('B', (0, 1))]
        >>> pipeline.restore((0, 1))
        'B'

    Args:
        source: The node to read from.
    """

    source: Node[X]

    keeps_keys = True

    def run(self) -> Iterator[tuple[tuple[X, Key], Key]]:
        for pair in self.source.pairs():
            yield pair, pair[1]

    def restore_many(self, keys: Sequence[Key]) -> list[tuple[X, Key]]:
        return list(zip(self.source.restore_many(keys), keys, strict=True))
