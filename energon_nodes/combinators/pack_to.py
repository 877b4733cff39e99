"""`pack_to`: gather elements into packs of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import KW_ONLY
from operator import index
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np

from energon_nodes.combinators.calls import Rng, check_function
from energon_nodes.combinators.packing_strategies import Strategy, check_packing, choose
from energon_nodes.combinators.packs import Packs
from energon_nodes.core.errors import SampleError
from energon_nodes.core.fields import buffer, scratch, state, tuning
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.restore import Buffer, ColumnBuffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["PackTo", "pack_to"]

X = TypeVar("X")
Y = TypeVar("Y", covariant=True)
Z = TypeVar("Z")


class PackTo(Packs[Y], Node[Y]):
    """Gather elements into packs whose lengths add up to at most `capacity`; `pack_to` makes and describes it.

    What `pack_to` takes as `length` is the field `measure` here: a node has a method of that name.

    Example:
        >>> import energon_nodes as en
        >>> list(PackTo(en.items(["abc", "de", "f", "gh"]), 4, measure=len, combine="".join))
        ['abcf', 'degh']
    """

    written_as = {"measure": "length"}  # noqa: RUF012

    source: Node[Any]
    capacity: int
    _: KW_ONLY
    measure: Callable[[Any], int] | str
    combine: Callable[[list[Any]], Any] | None = None
    buffer_size: int = 1000
    strategy: Strategy = "best_fit"
    oversize: Literal["error", "alone"] | Callable[[Any], Any] = "error"
    max_per_pack: int | None = None
    encode: Callable[..., Any] | None = None
    rng: Rng = False
    seed: int | None = None
    pure: bool | None = tuning(default=None)
    on_error: ErrorPolicy | None = tuning(default=None)
    kept: int = state(int)  # how many of the waiting, at the front, were kept back by the last choice
    left: int = state(int)  # members of the pack in the making that are still in `due`
    position: int = state(int)  # outputs of the pack in the making that were delivered
    streak: int = scratch(int)
    unmeasured: int = scratch(int)  # failures of `measure` in a row
    waiting: ColumnBuffer = buffer(lazy=True, columns=True)
    due: ColumnBuffer = buffer(lazy=True, columns=True)
    ready: Buffer = buffer()
    interrupted: Buffer = buffer()

    def check(self) -> None:
        if not isinstance(self.measure, str):
            check_function("pack_to", "length", self.measure)
        check_packing("pack_to", self.capacity, self.strategy, self.max_per_pack, self.buffer_size)
        if self.oversize not in ("error", "alone") and not callable(self.oversize):
            raise ValueError(
                f'pack_to needs oversize="error", "alone" or a function that shortens a value, got {self.oversize!r}'
            )
        self._check_functions("pack_to")

    def _pull(self, pairs: Iterator[tuple[Any, Key]]) -> bool:
        if self.strategy != "sequential":
            return super()._pull(pairs)
        if len(self.due) or self.ready:
            return False
        lengths = self._lengths()
        load, held = int(lengths.sum()), len(lengths)
        noted = self._noted(pairs)
        # What does not fit any more waits: it begins the next pack.
        while held < 2 or not self._is_over(load, held):
            pair = next(noted, None)
            if pair is None:
                return True
            self.waiting.extend([pair])
            load, held = load + pair[1][-1], held + 1
        return False

    def _is_over(self, load: int, held: int) -> bool:
        """Return whether so many elements of such a total length are too much for one pack."""
        return load > self.capacity or (self.max_per_pack is not None and held > self.max_per_pack)

    def _noted(self, pairs: Iterator[tuple[Any, Key]]) -> Iterator[tuple[Any, Key]]:
        """Put the length behind the key of each pair."""
        measure, capacity = self._measure, self.capacity
        for value, key in pairs:
            try:
                length = measure(value)
                if not 0 <= length <= capacity:
                    value, length = self._fitting(value, length)
            except Exception as error:
                self.unmeasured = self.fail(error, key, value, self.unmeasured)
                continue
            except BaseException:
                self.interrupted.append((value, key))
                raise
            self.unmeasured = 0
            yield value, (*key, length)

    def _measure(self, value: Any) -> int:
        measure = self.live("measure")
        if isinstance(measure, str):
            part: Any = cast("Any", value)[measure] if isinstance(value, dict) else getattr(value, measure)
            return len(part)
        length = measure(value)
        try:
            return index(length)
        except TypeError:
            raise SampleError(f"pack_to needs lengths that are ints, length gave {length!r}") from None

    def _fitting(self, value: Any, length: int) -> tuple[Any, int]:
        """Return an element that is too long for a pack, and its length, as `oversize` says."""
        if length < 0:
            raise SampleError(f"pack_to needs lengths of at least 0, length gave {length}")
        if self.oversize == "alone":
            return value, length
        if not callable(self.oversize):
            raise SampleError(
                f"an element of length {length} does not fit into a pack of capacity {self.capacity}: leave it out or "
                'split it before, enlarge the capacity, use oversize="alone" or a function that shortens it, or '
                'on_error="skip"'
            )
        value = self.oversize(value)
        shorter = self._measure(value)
        if not 0 <= shorter <= self.capacity:
            raise SampleError(
                f"the function for oversize elements made a length of {shorter} out of {length}; it must not be "
                f"longer than the capacity of {self.capacity}"
            )
        return value, shorter

    def _again(self, values: list[Any]) -> list[Any]:
        if not callable(self.oversize):
            return values
        return [self.oversize(value) if self._measure(value) > self.capacity else value for value in values]

    def _lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        waiting = self.waiting
        if waiting.columns is None:
            return np.array([key[-1] for key in waiting.keys], np.int64)
        return np.array(waiting.columns[-1] if waiting.columns else [], np.int64)

    def _choose(self, ended: bool) -> None:
        if self.strategy == "sequential":
            lengths = self._lengths()
            ends = len(lengths) - (len(lengths) > 1 and self._is_over(int(lengths.sum()), len(lengths)))
            self._move(np.arange(ends), np.array([ends]), np.arange(ends, len(lengths)))
            return
        choice = choose(self._lengths(), self.capacity, self.strategy, self.max_per_pack, kept=self.kept, final=ended)
        self._move(*choice)
        self.kept = len(choice.rest)


@overload
def pack_to(
    source: Node[X],
    capacity: int,
    *,
    length: Callable[[X], int] | str,
    combine: None = None,
    buffer_size: int = 1000,
    strategy: Strategy = "best_fit",
    oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
    max_per_pack: int | None = None,
    encode: None = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[list[X]]: ...
@overload
def pack_to(
    source: Node[X],
    capacity: int,
    *,
    length: Callable[[X], int] | str,
    combine: Callable[[list[Any]], Generator[Z]],
    buffer_size: int = 1000,
    strategy: Strategy = "best_fit",
    oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
    max_per_pack: int | None = None,
    encode: Callable[..., Any] | None = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Z]: ...
@overload
def pack_to(
    source: Node[X],
    capacity: int,
    *,
    length: Callable[[X], int] | str,
    combine: Callable[[list[Any]], Z],
    buffer_size: int = 1000,
    strategy: Strategy = "best_fit",
    oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
    max_per_pack: int | None = None,
    encode: Callable[..., Any] | None = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Z]: ...
@overload
def pack_to(
    source: Node[X],
    capacity: int,
    *,
    length: Callable[[X], int] | str,
    combine: None = None,
    buffer_size: int = 1000,
    strategy: Strategy = "best_fit",
    oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
    max_per_pack: int | None = None,
    encode: Callable[..., Any],
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[list[Any]]: ...
@add_verb
def pack_to(
    source: Node[Any],
    capacity: int,
    *,
    length: Callable[[Any], int] | str,
    combine: Callable[[list[Any]], Any] | None = None,
    buffer_size: int = 1000,
    strategy: Strategy = "best_fit",
    oversize: Literal["error", "alone"] | Callable[[Any], Any] = "error",
    max_per_pack: int | None = None,
    encode: Callable[..., Any] | None = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Any]:
    """Gather elements into packs whose lengths add up to at most `capacity`.

    The buffer is filled to `buffer_size` elements, packs are chosen from their lengths, and are delivered one by one
    while the buffer fills up again. Packs that are not full wait for the next choice, once. At the end of a pass
    all that is left is delivered. Members of a pack stand in the order of the source, and packs in the order of their
    first members; `pack_lengths` has the strategies, and makes the same choice of lengths alone. The buffer is per
    stream.

    The state holds the lengths and the restore keys of what waits and of the packs that were chosen. After a resume
    nothing is measured again, and an element is rebuilt when its pack is due. Restore keys of packs, and what happens
    when `encode` or `combine` fails, are as for `pack`.

    Example:
        >>> import energon_nodes as en
        >>> words = en.items("one word after the other until it is full".split())
        >>> list(words.pack_to(12, length=len, combine=" ".join, strategy="sequential"))
        ['one word after', 'the other', 'until it is', 'full']
        >>> [sum(map(len, pack)) for pack in words.pack_to(12, length=len)]
        [12, 12, 9]

    Args:
        source: The node to read from.
        capacity: The most that the lengths of a pack may add up to, at least 1.
        length: `length(value)` gives the length of an element, an int of at least 0; or the name of a field, whose
            `len` it is.
        combine: `combine(members)` makes an output of the list of members, see `concat_tokens`; as a generator function
            it makes any number. None delivers the lists.
        buffer_size: How many elements are held: those waiting and those in chosen packs. At least 1.
        strategy: "best_fit", "knapsack", "first_fit" or "sequential", see `pack_lengths`. "sequential" keeps the order
            of the elements and holds no more than a pack and the element behind it.
        oversize: What becomes of an element that is longer than the capacity: "error" (the policy decides whether
            that is raised or skipped), "alone" (it makes a pack of its own), or a function that returns a shorter
            value.
        max_per_pack: The most members of a pack; None sets no bound.
        encode: `encode(value)`, or `encode(value, rng)` with `rng=True`, is called for each member of a pack when the
            pack is about to be delivered: what is large is loaded for few elements at a time. The length is that
            before it.
        rng: As for `map`, for `encode`.
        seed: A seed for this node; None takes the one of the loader.
        pure: As for `map`, for `encode` and `combine`.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Returns:
        A node of packs.

    Raises:
        TypeError: If a function is not callable.
        ValueError: If a setting is out of its range.
        SampleError: While running, if an element is too long and `oversize` does not allow it.
    """
    return PackTo(
        source,
        capacity,
        measure=length,
        combine=combine,
        buffer_size=buffer_size,
        strategy=strategy,
        oversize=oversize,
        max_per_pack=max_per_pack,
        encode=encode,
        rng=rng,
        seed=seed,
        pure=pure,
        on_error=on_error,
    )
