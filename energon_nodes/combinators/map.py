"""`map`: apply a function to every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from energon_nodes.combinators.calls import (
    Rng,
    bind_call,
    check_function,
    is_generator_function,
    is_pure,
    refuse_generator,
)
from energon_nodes.combinators.flat_map import FlatMap
from energon_nodes.combinators.interrupts import with_interrupted
from energon_nodes.core.fields import buffer, tuning
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Map", "map"]

X = TypeVar("X")
Y = TypeVar("Y")


class Map(Node[Y]):
    """Apply a function that returns to every element; see the verb `map`, which makes it.

    Example:
        >>> import energon_nodes as en
        >>> Map(en.items([1, 2, 3]), str)
        Map(fn=str)
    """

    source: Node[Any]
    fn: Callable[..., Y]
    _: KW_ONLY
    rng: Rng = False
    seed: int | None = None
    pure: bool | None = tuning(default=None)
    on_error: ErrorPolicy | None = tuning(default=None)
    interrupted: Buffer = buffer()

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X], Y],
            *,
            rng: Literal[False, "global"] = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            fn: Callable[[X, np.random.Generator], Y],
            *,
            rng: Literal[True],
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    keeps_keys = True

    def check(self) -> None:
        check_function("map", "fn", self.fn, self.rng)
        refuse_generator("Map", "fn", self.fn, "the verb map takes it, and so does FlatMap")

    def bound(self) -> None:
        self._call = bind_call(self, self.live("fn"), self.rng, self.seed)

    def run(self) -> Iterator[tuple[Y, Key]]:
        fn, call, plain = self.live("fn"), self._call, self.rng is False
        streak = 0
        for value, key in with_interrupted(self.interrupted, self.source.pairs()):
            try:
                result = fn(value) if plain else call(value, key)
            except Exception as error:
                streak = self.fail(error, key, value, streak)
                continue
            except BaseException:
                self.interrupted.append((value, key))
                raise
            if streak:
                streak = 0
            yield result, key

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        values = self.source.restore_many(keys)
        return [self._call(value, key) for value, key in zip(values, keys, strict=True)]

    def restorable(self, name: str = "") -> bool:
        return is_pure(self.fn, self.pure) and self.source.restorable()

    def draws_random(self) -> bool:
        return self.rng is not False


@overload
def map(
    source: Node[X],
    fn: Callable[[X], Iterator[Y]],
    *,
    rng: Literal[False] = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@overload
def map(
    source: Node[X],
    fn: Callable[[X, np.random.Generator], Iterator[Y]],
    *,
    rng: Literal[True],
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@overload
def map(
    source: Node[X],
    fn: Callable[[X], Y],
    *,
    rng: Literal[False, "global"] = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@overload
def map(
    source: Node[X],
    fn: Callable[[X, np.random.Generator], Y],
    *,
    rng: Literal[True],
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@add_verb
def map(
    source: Node[X],
    fn: Callable[..., Any],
    *,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Any]:
    """Apply `fn` to every element.

    The restore key passes through. A function that raises `SkipSample` drops the element. A generator function
    gives any number of elements for each one, as with `flat_map`: their keys have a number added.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([1, 2, 3]).map(lambda x: x + 1))
        [2, 3, 4]
        >>> def jitter(value, rng):
        ...     return value + rng.integers(10)
        >>> noisy = en.items([0, 0, 0]).map(jitter, rng=True)
        >>> list(noisy) == list(noisy)  # the second pass draws anew
        False
        >>> def words(text):
        ...     yield from text.split()
        >>> list(en.items(["a cat", "", "on a mat"]).map(words))
        ['a', 'cat', 'on', 'a', 'mat']

    Args:
        source: The node to read from.
        fn: `fn(value)`, or `fn(value, rng)` with `rng=True`. One that has `state_dict` and
            `load_state_dict` is copied for every stream and saved with it.
        rng: True passes a `numpy.random.Generator` that depends on seed, node, epoch and element
            alone; it is valid during the call, for a generator function until it ends. "global" seeds torch,
            numpy and `random` around the call, for libraries that draw from them; that costs about 0.2 ms, and is
            not possible for a generator function.
        seed: A seed for this node; None takes the one of the loader.
        pure: Whether the same input gives the same output, so that elements can be rebuilt from
            their keys. False makes buffers behind this node save values. None: True unless `fn` has a state.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Returns:
        A node of what `fn` returns, or yields.

    Raises:
        TypeError: If `fn` is not callable.
        ValueError: If `rng` is none of the three values.
    """
    kind = FlatMap if is_generator_function(fn) else Map
    return kind(source, fn, rng=rng, seed=seed, pure=pure, on_error=on_error)  # type: ignore[call-overload]
