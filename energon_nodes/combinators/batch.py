"""`batch`: gather neighbouring elements into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from math import isinf
from typing import TYPE_CHECKING, Any, TypeVar, overload

from energon_nodes.combinators.calls import check_function, refuse_generator
from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import buffer, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["Batch", "restore_batches"]

X = TypeVar("X")
Y = TypeVar("Y")


class Batch(Node[Y], verb="batch"):
    """Gather `size` neighbouring elements into a batch.

    Batches are made per stream: each stream may end with a short one. The restore key of a batch
    is the tuple of its members' keys.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
        >>> list(en.items(range(5)).batch(2, drop_last=True, collate=sum))
        [1, 5]

    Args:
        source: The node to read from.
        size: The number of elements in a batch, at least 1.
        drop_last: Whether to leave out a short last batch.
        collate: Makes the batch from the list of its members; None leaves the list.
        on_error: What happens to a batch that `collate` refuses: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Raises:
        ValueError: If `size` is less than 1.
    """

    source: Node[Any]
    size: int
    _: KW_ONLY
    drop_last: bool = False
    collate: Callable[[list[Any]], Y] | None = None
    on_error: ErrorPolicy | None = tuning(default=None)
    held: Buffer = buffer()

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Batch[list[X]],
            source: Node[X],
            size: int,
            *,
            drop_last: bool = False,
            collate: None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            size: int,
            *,
            drop_last: bool = False,
            collate: Callable[[list[X]], Y],
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        check_size("batch", "size", self.size, 1)
        if self.collate is not None:
            check_function("batch", "collate", self.collate)
            remedy = "write .batch(...).map(...) with it, which delivers what it yields"
            refuse_generator("batch", "collate", self.collate, remedy)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs, held, size = self.source.pairs(), self.held, self.size
        collate = self.live("collate")
        streak = 0
        while True:
            held.extend(islice(pairs, size - len(held)))
            if not held or (self.drop_last and len(held) < size):
                held.clear()
                return
            values, keys = [value for value, _ in held], tuple([key for _, key in held])
            held.clear()
            if collate is not None:
                try:
                    values = collate(values)
                except Exception as error:
                    streak = self.fail(error, keys, None, streak)
                    continue
                except BaseException:
                    held.extend(zip(values, keys, strict=True))
                    raise
                streak = 0
            yield values, keys  # type: ignore[misc]

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        return restore_batches(self.source, keys, self.live("collate"))

    def restorable(self, name: str = "") -> bool:
        return self.source.restorable() and (bool(name) or not is_stateful(self.collate))

    def locate(self, key: Key) -> str | None:
        places = dict.fromkeys(self.source.locate(member) for member in key)  # each once, in order
        return "; ".join([place for place in places if place is not None][:4]) or None

    def length(self, stream: int, streams: int) -> float | None:
        below = self.source.length(stream, streams)
        if below is None or isinf(below):
            return below
        return below // self.size if self.drop_last else -(-below // self.size)


def restore_batches(source: Node[Any], keys: Sequence[Key], collate: Callable[[list[Any]], Any] | None) -> list[Any]:
    """Rebuild batches whose keys are tuples of the keys of their members, all members in one call.

    Example:
        >>> import energon_nodes as en
        >>> restore_batches(en.items("abc"), [((0, 0), (0, 2)), ((0, 1),)], "".join)
        ['ac', 'b']
    """
    members = iter(source.restore_many([member for key in keys for member in key]))
    batches: list[Any] = [list(islice(members, len(key))) for key in keys]
    return batches if collate is None else [collate(batch) for batch in batches]
