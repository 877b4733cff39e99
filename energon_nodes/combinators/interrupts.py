"""Keep the element whose call was broken off by Ctrl-C or an exit, so that a state taken then does not lack it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from energon_nodes.core.restore import Buffer, Key

__all__ = ["with_interrupted"]


def with_interrupted(interrupted: Buffer, pairs: Iterator[tuple[Any, Key]]) -> Iterator[tuple[Any, Key]]:
    """Put elements that were pulled and not judged in front of those to come.

    Example:
        >>> list(with_interrupted(Buffer([("a", (0, 0))]), iter([("b", (0, 1))])))
        [('a', (0, 0)), ('b', (0, 1))]

    Args:
        interrupted: The node's buffer of such elements; it is emptied.
        pairs: The running iterator of the source.

    Returns:
        All of them; the source's own iterator where there was no interruption.
    """
    return chain(_emptied(interrupted), pairs) if interrupted else pairs


def _emptied(held: Buffer) -> Iterator[tuple[Any, Key]]:
    while held:
        yield held.pop(0)
