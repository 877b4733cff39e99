"""`pack`: gather elements into packs that a function of the user chooses from a buffer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np

from energon_nodes.combinators.calls import Rng, check_function
from energon_nodes.combinators.packs import Packs
from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import SampleError
from energon_nodes.core.fields import buffer, scratch, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, ColumnBuffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["Pack"]

X = TypeVar("X")
Y = TypeVar("Y", covariant=True)


class Pack(Packs[Y], Node[Y], verb="pack"):
    """Gather elements into packs that `select` chooses from a buffer.

    For packs of bounded length there is `pack_to`, which needs no `select`. The buffer is filled to `buffer_size`
    elements, `select` is called with the list of them, and the packs that it returns are delivered one by one;
    meanwhile the buffer fills up again, and when all are delivered `select` is called again. At the end of a pass it
    gets what is left, until it chooses nothing any more. The buffer is per stream.

    The state holds restore keys: of what waits, and of the packs that were chosen and not delivered yet. The key of a
    pack is the tuple of its members' keys; if `combine` is a generator, with the number of the output behind it. An
    element whose `encode` fails is left out of its pack and the others stay; a pack whose `combine` fails is
    left out as a whole, and if `select` fails, the whole buffer. `skipped` counts the elements that were never
    selected.

    Example:
        >>> import energon_nodes as en
        >>> def pairs(values):
        ...     values = sorted(values)
        ...     return [values[at : at + 2] for at in range(0, len(values), 2)]
        >>> list(en.items([5, 2, 9, 4, 1]).pack(select=pairs, combine=sum, buffer_size=4))
        [6, 14, 1]

    Args:
        source: The node to read from.
        select: `select(values)` returns the packs: lists of values that it was given, the same objects, each at most
            once. Empty packs are left out.
        combine: `combine(members)` makes an output of the list of members; as a generator function it makes any
            number. None delivers the lists.
        buffer_size: How many elements are held: those waiting and those in chosen packs. At least 1.
        encode: `encode(value)`, or `encode(value, rng)` with `rng=True`, is called for each member of a pack when the
            pack is about to be delivered: what is large is loaded for few elements at a time. None leaves them as
            they are.
        unselected: What becomes of elements that `select` leaves out: "keep" offers them again beside new
            ones, "drop" drops them. If it chooses nothing from a full buffer, that is an error of the oldest element
            under "keep", and of all under "drop", and the policy decides: there is no endless loop.
        by: "value", or "position" if `select` returns positions in its list in place of values.
        rng: As for `map`, for `encode`.
        seed: A seed for this node; None takes the one of the loader.
        pure: As for `map`, for `encode` and `combine`.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Raises:
        TypeError: If a function is not callable.
        ValueError: If a setting is out of its range.
        SampleError: While running, if `select` returns no lists, something that it was not given, or an element twice.
    """

    source: Node[Any]
    _: KW_ONLY
    select: Callable[[list[Any]], Iterable[Iterable[Any]]]
    combine: Callable[[list[Any]], Any] | None = None
    buffer_size: int
    encode: Callable[..., Any] | None = None
    unselected: Literal["keep", "drop"] = "keep"
    by: Literal["value", "position"] = "value"
    rng: Rng = False
    seed: int | None = None
    pure: bool | None = tuning(default=None)
    on_error: ErrorPolicy | None = tuning(default=None)
    left: int = state(int)  # members of the pack in the making that are still in `due`
    position: int = state(int)  # outputs of the pack in the making that were delivered
    streak: int = scratch(int)
    waiting: ColumnBuffer = buffer(lazy=True, columns=True)
    due: ColumnBuffer = buffer(lazy=True, columns=True)
    ready: Buffer = buffer()
    interrupted: Buffer = buffer()

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Pack[list[X]],
            source: Node[X],
            *,
            select: Callable[[list[X]], Iterable[Iterable[Any]]],
            combine: None = None,
            buffer_size: int,
            encode: None = None,
            unselected: Literal["keep", "drop"] = "keep",
            by: Literal["value", "position"] = "value",
            rng: Rng = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            *,
            select: Callable[[list[X]], Iterable[Iterable[Any]]],
            combine: Callable[[list[Any]], Generator[Y]],
            buffer_size: int,
            encode: Callable[..., Any] | None = None,
            unselected: Literal["keep", "drop"] = "keep",
            by: Literal["value", "position"] = "value",
            rng: Rng = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            *,
            select: Callable[[list[X]], Iterable[Iterable[Any]]],
            combine: Callable[[list[Any]], Y],
            buffer_size: int,
            encode: Callable[..., Any] | None = None,
            unselected: Literal["keep", "drop"] = "keep",
            by: Literal["value", "position"] = "value",
            rng: Rng = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: Pack[list[Any]],
            source: Node[X],
            *,
            select: Callable[[list[X]], Iterable[Iterable[Any]]],
            combine: None = None,
            buffer_size: int,
            encode: Callable[..., Any],
            unselected: Literal["keep", "drop"] = "keep",
            by: Literal["value", "position"] = "value",
            rng: Rng = False,
            seed: int | None = None,
            pure: bool | None = None,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        check_function("pack", "select", self.select)
        self._check_functions("pack")
        check_size("pack", "buffer_size", self.buffer_size, 1)
        if self.unselected not in ("keep", "drop"):
            raise ValueError(f'pack needs unselected="keep" or "drop", got {self.unselected!r}')
        if self.by not in ("value", "position"):
            raise ValueError(f'pack needs by="value" or "position", got {self.by!r}')

    def _noted(self, pairs: Iterator[tuple[Any, Key]]) -> Iterator[tuple[Any, Key]]:
        return ((value, (*key, 0)) for value, key in pairs)  # the number is used in `due` alone

    def _choose(self, ended: bool) -> None:
        before = len(self.waiting)
        self.waiting.rebuild(partial(self.rebuilt, "waiting"))
        self._count_lost(before - len(self.waiting))
        values = list(self.waiting.values)
        try:
            chosen: Iterable[Iterable[Any]] = self.live("select")(list(values)) if values else ()
            packs = [pack for pack in _positions(chosen, values, self.by) if pack]
        except Exception as error:
            keys = self._let_go(len(values))
            self.streak = self.fail(error, keys, None, self.streak)
            return
        taken = {number for pack in packs for number in pack}
        rest = [number for number in range(len(values)) if number not in taken]
        if packs:
            if self.unselected == "drop":
                self.skipped += len(rest)
                rest = []
            order = np.array([number for pack in packs for number in pack], np.int64)
            self._move(order, np.array([len(pack) for pack in packs], np.int64), np.array(rest, np.int64))
        elif ended or not values:
            self.skipped += len(self._let_go(len(values)))
        else:
            keys = self._let_go(1 if self.unselected == "keep" else len(values))
            error = SampleError(
                f"select chose nothing from a full buffer of {len(values)} elements; so that the stream goes on, "
                f"{'the oldest is' if self.unselected == 'keep' else 'all are'} left out: enlarge buffer_size, or let "
                "select return what it cannot pack as packs of one"
            )
            self.streak = self.fail(error, keys, None, self.streak)

    def _let_go(self, count: int) -> tuple[Key, ...]:
        """Remove the first elements that wait, and return their keys."""
        keys = tuple([self.waiting.key(number)[:-1] for number in range(count)])
        none = np.empty(0, np.int64)
        self._move(none, none, np.arange(count, len(self.waiting)))
        return keys


def _positions(packs: Iterable[Iterable[Any]], values: Sequence[Any], by: str) -> list[list[int]]:
    """Return packs of values, or of positions, as positions; each at most once."""
    places: dict[Any, list[int]] = {}
    for number in range(len(values) - 1, -1, -1):  # an object that came several times is taken as often, in order
        places.setdefault(number if by == "position" else id(values[number]), []).append(number)
    found: list[list[int]] = []
    for pack in _iterated(packs, by, "its result"):
        members: list[int] = []
        for value in _iterated(pack, by, "one of its packs"):
            where = None
            if by == "value" or isinstance(value, SupportsIndex):
                where = places.get(value if by == "position" else id(value))
            if where is None and by == "value" and id(pack) in places:
                raise SampleError(_no_list(pack, by, "one of its packs"))
            if not where:
                what = "position" if by == "position" else "value"
                raise SampleError(
                    f"select returned the {what} {_short(value)} "
                    + (
                        f"which is none of the {len(values)} that it was given: return the same objects, no copies, or "
                        'use by="position"'
                        if where is None
                        else "more often than it was given: an element goes into one pack"
                    )
                )
            members.append(where.pop())
        found.append(members)
    return found


def _iterated(given: Any, by: str, what: str) -> Iterator[Any]:
    try:
        if not isinstance(given, (str, bytes)):
            return iter(given)
    except TypeError:
        pass
    raise SampleError(_no_list(given, by, what))


def _no_list(given: object, by: str, what: str) -> str:
    members = "positions in the list" if by == "position" else "values"
    example = "[[0, 2], [1]]" if by == "position" else "[[a, c], [b]]"
    return (
        f"select must return a list of packs, each a list of the {members} that it was given, such as {example}; "
        f"{what} is {_short(given)}: return [] where it chooses nothing, and [[value]] for a pack of one"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
