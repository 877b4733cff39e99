"""What `pack` and `pack_to` have in common: chosen packs are encoded, combined and delivered, and saved as keys."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from types import GeneratorType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from energon_nodes.combinators.calls import Rng, bind_call, check_function, is_pure
from energon_nodes.combinators.interrupts import with_interrupted
from energon_nodes.core.errors import SampleError, shown_key
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import DROPPED, LAZY, Buffer, ColumnBuffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["Packs"]

Y = TypeVar("Y", covariant=True)
_AHEAD = 64  # members rebuilt together after a resume: they are the next to go out


class Packs(Node[Y], abstract=True):
    """Serve as the base of nodes that gather elements into packs.

    A subclass declares the fields below and says how the buffer is filled and how packs are chosen from it. Each key
    in `waiting` and `due` has a number behind the element's own: what a subclass notes, and the size of its pack.
    `due` holds the packs in reverse, so that the next member is the last. The one that is being made goes to `ready`.
    """

    source: Node[Any]
    buffer_size: int
    encode: Callable[..., Any] | None
    combine: Callable[[list[Any]], Any] | None
    rng: Rng
    seed: int | None
    pure: bool | None
    on_error: ErrorPolicy | None
    left: int
    position: int
    streak: int
    waiting: ColumnBuffer
    due: ColumnBuffer
    ready: Buffer
    interrupted: Buffer

    def _check_functions(self, who: str) -> None:
        """Raise unless `encode`, `combine` and `rng` are what they should be."""
        if self.combine is not None:
            check_function(who, "combine", self.combine)
        if self.encode is not None:
            check_function(who, "encode", self.encode, self.rng)
        elif self.rng is not False:
            raise ValueError(f"{who} passes random numbers to encode; rng={self.rng!r} without encode has no meaning")

    def bound(self) -> None:
        encode = self.live("encode")
        self._call = None if encode is None else bind_call(self, encode, self.rng, self.seed)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs = with_interrupted(self.interrupted, self.source.pairs())
        while True:
            ended = self._pull(pairs)
            if not (len(self.due) or self.ready):
                if not len(self.waiting):
                    return
                self._choose(ended)
            yield from self._deliver()

    def _pull(self, pairs: Iterator[tuple[Any, Key]]) -> bool:
        """Fill `waiting`, and return whether the source has ended."""
        held = len(self.waiting) + len(self.due) + len(self.ready)
        if held < self.buffer_size:
            before = len(self.waiting)
            self.waiting.extend(islice(self._noted(pairs), self.buffer_size - held))
            held += len(self.waiting) - before
        return held < self.buffer_size

    def _noted(self, pairs: Iterator[tuple[Any, Key]]) -> Iterator[tuple[Any, Key]]:
        """Put a number behind the key of each pair."""
        raise NotImplementedError

    def _choose(self, ended: bool) -> None:
        """Move packs from `waiting` to `due`; there is something waiting."""
        raise NotImplementedError

    def _move(self, order: NDArray[np.int64], sizes: NDArray[np.int64], rest: NDArray[np.int64]) -> None:
        """Make packs of the waiting elements `order`, as many as `sizes` says in each; let those in `rest` wait on."""
        waiting = self.waiting
        self.due = _picked(waiting, order[::-1], np.repeat(sizes, sizes)[::-1])
        self.waiting = _picked(waiting, rest, None)

    def _count_lost(self, count: int) -> None:
        """Count elements that could not be rebuilt after a resume, and were to be left out."""
        self.failed += count

    # ---- delivering --------------------------------------------------------------------------

    def _deliver(self) -> Iterator[tuple[Y, Key]]:
        """Deliver what comes of the next pack."""
        ready = self.ready
        if not ready and not self.left and len(self.due):
            self.left = self.due.key(len(self.due) - 1)[-1]
            self.position = 0
        if self.left:
            self._make_ready()
        if not ready:
            return
        values, keys = [value for value, _ in ready], tuple([key for _, key in ready])
        combine = self.live("combine")
        try:  # an interrupt leaves the pack where it is
            result: Any = values if combine is None else combine(values)
            if isinstance(result, GeneratorType):
                for item in islice(cast("Iterator[Any]", result), self.position, None):
                    self.position += 1
                    yield item, (*keys, self.position - 1)
        except Exception as error:
            ready.clear()
            self.streak = self.fail(error, keys, None, self.streak)
            return
        ready.clear()
        self.streak = 0
        if not isinstance(result, GeneratorType):
            yield result, keys

    def _make_ready(self) -> None:
        """Move the members of the next pack to `ready`, encoded; those that fail are left out."""
        due, ready, call = self.due, self.ready, self._call
        if due.lazy and any(value is LAZY for value in due.values[-self.left :]):
            due.rebuild(partial(self.rebuilt, "due"), range(max(0, len(due) - max(self.left, _AHEAD)), len(due)))
        if call is None:
            values, keys = _cut(due, self.left)
            self.left = 0
            ready.extend(pair for pair in zip(values, keys, strict=True) if pair[0] is not DROPPED)
            self._count_lost(len(values) - len(ready))
            return
        while self.left:
            last = len(due) - 1
            value, key = due.values[last], due.key(last)[:-1]
            error: Exception | None = None
            if value is not DROPPED:
                try:
                    ready.append((call(value, key), key))
                except Exception as raised:
                    error = raised
            due.remove(last)
            self.left -= 1
            if error is not None:
                self.streak = self.fail(error, key, value, self.streak)
            elif value is DROPPED:
                self._count_lost(1)
            else:
                self.streak = 0

    # ---- rebuilding --------------------------------------------------------------------------

    def _again(self, values: list[Any]) -> list[Any]:
        """Do to elements of the source, in place or anew, what was done before they were put into `waiting`."""
        return values

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        if name == "interrupted":
            return self.source.restore_many(keys)
        if name == "ready":
            return self._members(keys)
        return self._again(self.source.restore_many([key[:-1] for key in keys]))

    def _members(self, keys: Sequence[Key]) -> list[Any]:
        """Rebuild members as `combine` gets them."""
        values, call = self._again(self.source.restore_many(keys)), self._call
        return values if call is None else [call(value, key) for value, key in zip(values, keys, strict=True)]

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        members = iter(self._members([member for key in keys for member in _members_of(key)]))
        combine = self.live("combine")
        found: list[Any] = []
        for key in keys:
            values = list(islice(members, len(_members_of(key))))
            result: Any = values if combine is None else combine(values)
            if isinstance(result, GeneratorType):
                items = list(islice(cast("Iterator[Any]", result), key[-1], key[-1] + 1))
                if not items:
                    raise SampleError(
                        f"{self!r} gave pack {key[-1]} for the members {shown_key(key[:-1])} before, and fewer now: "
                        "the data has changed, or a function is not pure"
                    )
                result = items[0]
            found.append(result)
        return found

    def restorable(self, name: str = "") -> bool:
        if not self.source.restorable():
            return False
        if name in ("waiting", "due", "interrupted"):
            return True
        pure = self.encode is None or is_pure(self.encode, self.pure)
        return pure and (name == "ready" or (self.pure is not False and not is_stateful(self.combine)))

    def locate(self, key: Key) -> str | None:
        if key and not isinstance(key[0], tuple):  # of a member
            return self.source.locate(key)
        places = dict.fromkeys(self.source.locate(member) for member in _members_of(key))  # each once, in order
        return "; ".join([place for place in places if place is not None][:4]) or None

    def length(self, stream: int, streams: int) -> float | None:
        return None

    def draws_random(self) -> bool:
        return self.rng is not False


def _members_of(key: Key) -> Sequence[Key]:
    """Return the keys of the members of a pack; behind them a combining generator's output has its number."""
    return key[:-1] if key and isinstance(key[-1], int) else key


def _picked(held: ColumnBuffer, order: NDArray[np.int64], notes: NDArray[np.int64] | None) -> ColumnBuffer:
    """Return the pairs at the positions `order`, with `notes` in the place of the numbers behind their keys."""
    result = ColumnBuffer()
    numbers: list[int] = order.tolist()
    result.values = [held.values[number] for number in numbers]
    result.lazy = sum(value is LAZY for value in result.values) if held.lazy else 0
    if held.columns is not None:
        columns = [np.frombuffer(column, np.int64)[order] for column in held.columns]
        if notes is not None:
            columns[-1] = notes
        result.columns = [array("q", column.tobytes()) for column in columns]
    else:
        result.columns = None
        result.keys = [held.keys[number] for number in numbers]
        if notes is not None:
            result.keys = [(*key[:-1], note) for key, note in zip(result.keys, notes.tolist(), strict=True)]
    return result


def _cut(held: ColumnBuffer, count: int) -> tuple[list[Any], list[Key]]:
    """Remove the last `count` pairs; return their values, and their keys without the numbers, the last first."""
    start = len(held) - count
    values = held.values[: start - 1 if start else None : -1]
    del held.values[start:]
    if held.columns is None:
        keys = [key[:-1] for key in held.keys[: start - 1 if start else None : -1]]
        del held.keys[start:]
    else:
        keys = list(zip(*[column[start:][::-1] for column in held.columns[:-1]], strict=True))
        for column in held.columns:
            del column[start:]
    if held.lazy:
        held.lazy -= sum(value is DROPPED for value in values)
    return values, keys
