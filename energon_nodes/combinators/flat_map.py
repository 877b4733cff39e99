"""`flat_map` and `unbatch`: deliver any number of elements for each one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from energon_nodes.combinators.calls import Rng, bind_call, check_function, is_pure
from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import SampleError, shown_key
from energon_nodes.core.fields import buffer, scratch, state, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.core.verbs import add_verb

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FlatMap", "unbatch"]

X = TypeVar("X")
Y = TypeVar("Y")


class FlatMap(Node[Y], verb="flat_map"):
    """Apply `fn` to every element and deliver the elements of what it returns.

    `fn` may be a generator function. If it raises in the middle, what it has yielded stands and
    the rest of that element is dropped. The restore key is the element's own with the position added.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(["ab", "", "c"]).flat_map(list))
        ['a', 'b', 'c']

    Args:
        source: The node to read from.
        fn: `fn(value)` that returns an iterable; `fn(value, rng)` with `rng=True`.
        rng: As for `map`; a generator function may use it until it ends. "global" is not possible here.
        seed: A seed for this node; None takes the one of the loader.
        pure: As for `map`.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Raises:
        TypeError: If `fn` is not callable.
        ValueError: If `rng` is neither False nor True.
    """

    source: Node[Any]
    fn: Callable[..., Iterable[Y]]
    _: KW_ONLY
    rng: Rng = False
    seed: int | None = None
    pure: bool | None = tuning(default=None)
    on_error: ErrorPolicy | None = tuning(default=None)
    position: int = state(int)
    parent: Buffer = buffer()
    before: Any = scratch(lambda: None)  # the state of a function that has one, from before its call for the parent

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X], Iterable[Y]],
            *,
            rng: Literal[False] = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X, np.random.Generator], Iterable[Y]],
            *,
            rng: Literal[True],
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        check_function("flat_map", "fn", self.fn, self.rng)
        if self.rng == "global":
            raise ValueError(
                'flat_map cannot seed the global generators around a generator; use rng=True, or map(rng="global")'
            )

    def bound(self) -> None:
        self._call = bind_call(self, self.live("fn"), self.rng, self.seed, fresh=True)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs, parent = self.source.pairs(), self.parent
        stateful: Any = self.live("fn") if is_stateful(self.fn) else None
        streak = 0
        self._undo_call()  # it was broken off, and begins anew
        while True:
            if not parent:
                self.position = 0  # also when a parent could not be rebuilt
                parent.extend(islice(pairs, 1))
                if not parent:
                    return
            value, key = parent[0]
            if stateful is not None:
                self.before = encode_value(stateful.state_dict())
            try:
                for item in islice(self._call(value, key), self.position, None):
                    self.position += 1
                    yield item, (*key, self.position - 1)
                streak = 0
            except Exception as error:
                streak = self._drop(error, streak)
                continue
            parent.clear()
            self.position = 0

    def _undo_call(self) -> None:
        """Put the function's state back to what it was before its call for the parent."""
        if self.parent and self.before is not None:
            self.live("fn").load_state_dict(decode_value(self.before))

    def rewind(self) -> None:
        """Start the next pass; a call that is left in the middle counts as not made, before a resume and behind it."""
        self.stop()
        self._undo_call()
        super().rewind()

    def snapshot(self) -> tuple[Any, ...]:
        taken = super().snapshot()
        if self.parent and self.before is not None:  # a resumed run calls the function for this element again
            taken[1]["fn"] = self.before
        return taken

    def _drop(self, error: Exception, streak: int) -> int:
        value, key = self.parent[0]
        self.parent.clear()
        self.position = 0
        return self.fail(error, key, value, streak)

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        wanted: dict[Key, set[int]] = {}
        for *parent, position in keys:
            wanted.setdefault(tuple(parent), set()).add(position)
        found: dict[Key, Y] = {}
        for (parent, positions), value in zip(wanted.items(), self.source.restore_many(list(wanted)), strict=True):
            items: Iterable[Y] = self._call(value, parent)
            for position, item in enumerate(islice(items, max(positions) + 1)):
                if position in positions:
                    found[*parent, position] = item
        for key in keys:
            if key not in found:
                raise SampleError(
                    f"{self!r} gave element {key[-1]} for the restore key {shown_key(key[:-1])} before, and fewer now: "
                    "the data has changed, or its function is not pure"
                )
        return [found[key] for key in keys]

    def locate(self, key: Key) -> str | None:
        return self.source.locate(key[:-1])

    def restorable(self, name: str = "") -> bool:
        return self.source.restorable() and (bool(name) or is_pure(self.fn, self.pure))

    def length(self, stream: int, streams: int) -> float | None:
        return None

    def draws_random(self) -> bool:
        return self.rng is not False


@add_verb
def unbatch(source: Node[Iterable[X]]) -> Node[X]:
    """Deliver the members of every element: the inverse of `batch`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([[1, 2], [3]]).unbatch())
        [1, 2, 3]

    Args:
        source: A node whose elements are iterables.

    Returns:
        A node of the members.
    """
    return FlatMap(source, iter)
