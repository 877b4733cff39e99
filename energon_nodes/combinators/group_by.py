"""`group_by`: gather elements that belong together into batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from energon_nodes.combinators.batch import restore_batches
from energon_nodes.combinators.calls import check_function
from energon_nodes.combinators.interrupts import with_interrupted
from energon_nodes.core.checks import check_size
from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import SampleError
from energon_nodes.core.fields import buffer, scratch, state, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Buffer, Key, Pair, Rebuild
from energon_nodes.core.share import ErrorPolicy

__all__ = ["GroupBy"]

X = TypeVar("X")
Y = TypeVar("Y", covariant=True)
_log = logging.getLogger("energon_nodes")
_reported: set[str] = set()


class GroupBy(Node[Y], verb="group_by"):
    """Gather elements for which `criterion` gives the same key into batches.

    A batch holds elements of one group, in their order, and is delivered when it is full. At the end of a pass the
    groups that are not full are delivered or dropped, those first that have waited longest for a member. Groups
    are made per stream. The restore key of a batch is the tuple of its members' keys.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(["bee", "ox", "cat", "dog", "ant", "yak"]).group_by(len, 2))
        [['bee', 'cat'], ['dog', 'ant'], ['ox'], ['yak']]
        >>> def by_length(word):
        ...     return len(word), 6 // len(word)  # the key, and how many make a batch
        >>> list(en.items(["bee", "ox", "cat", "ad", "it"]).group_by(by_length))
        [['bee', 'cat'], ['ox', 'ad', 'it']]

    Args:
        source: The node to read from.
        criterion: `criterion(value)` returns the key of its group: a string, a number, a tuple of such, or another
            hashable that checkpoints can hold. Without `batch_size` it returns `(key, size)`, with one size for each
            key. An element for which it fails is in no group.
        batch_size: The number of elements in a batch, at least 1; None takes what the criterion returns.
        collate: Makes the batch from the list of its members; None leaves the list.
        leftovers: What becomes of groups that are not full: "emit" or "drop"; `skipped` counts what is dropped.
        max_open: The most groups that are open at a time, at least 1. If there is one more, the one that has waited
            longest for a member is closed as it is, and treated as a leftover; the log says so once. None sets no
            bound: then memory grows with the number of keys.
        on_error: What happens to an element that `criterion`, or a batch that `collate`, refuses: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Raises:
        TypeError: If a function is not callable.
        ValueError: If a setting is out of its range.
        SampleError: While running, if the criterion returns what is no key, or no size where one is needed.
    """

    source: Node[Any]
    criterion: Callable[[Any], Any]
    batch_size: int | None = None
    _: KW_ONLY
    collate: Callable[[list[Any]], Any] | None = None
    leftovers: Literal["emit", "drop"] = "emit"
    max_open: int | None = 1000
    on_error: ErrorPolicy | None = tuning(default=None)
    groups: dict[int, list[Any]] = state(dict)  # [key, size] of each open group; the one that got a member last is last
    opened: int = state(int)  # groups of this pass, which number them
    held: Any = buffer()  # their members, with the number of the group before the key
    interrupted: Buffer = buffer()
    numbers: dict[Any, int] = scratch(dict)  # of the open groups, by key
    streak: int = scratch(int)

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: GroupBy[list[X]],
            source: Node[X],
            criterion: Callable[[X], Any],
            batch_size: int | None = None,
            *,
            collate: None = None,
            leftovers: Literal["emit", "drop"] = "emit",
            max_open: int | None = 1000,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            source: Node[X],
            criterion: Callable[[X], Any],
            batch_size: int | None = None,
            *,
            collate: Callable[[list[X]], Y],
            leftovers: Literal["emit", "drop"] = "emit",
            max_open: int | None = 1000,
            on_error: ErrorPolicy | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def check(self) -> None:
        check_function("group_by", "criterion", self.criterion)
        if self.batch_size is not None:
            check_size("group_by", "batch_size", self.batch_size, 1)
        if self.collate is not None:
            check_function("group_by", "collate", self.collate)
        if self.leftovers not in ("emit", "drop"):
            raise ValueError(f'group_by needs leftovers="emit" or "drop", got {self.leftovers!r}')
        if self.max_open is not None:
            check_size("group_by", "max_open", self.max_open, 1)

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs = with_interrupted(self.interrupted, self.source.pairs())
        groups = self.groups
        held = self.held = self.held if isinstance(self.held, _Members) else _Members(self.held)
        for number, (name, size) in groups.items():
            self.numbers[decode_value(name)] = number  # a state that was loaded holds the key itself
            groups[number] = [encode_value(decode_value(name)), size]
        most = inf if self.max_open is None else self.max_open
        for number in [number for number, (_, size) in groups.items() if len(held.of(number)) >= size]:
            yield from self._close(number)  # its collate was interrupted
        while True:
            while len(groups) > most:
                self._report_closing()
                yield from self._close(next(iter(groups)))
            pair = next(pairs, None)
            if pair is None:
                break
            try:
                number = self._number_of(*self._judge(pair[0]))
            except Exception as error:
                self.streak = self.fail(error, pair[1], pair[0], self.streak)
                continue
            except BaseException:
                self.interrupted.append(pair)
                raise
            self.streak = 0
            members = held.of(number)
            members.append(pair)
            group = groups[number] = groups.pop(number)
            if len(members) >= group[1]:
                yield from self._close(number)
        while groups:
            yield from self._close(next(iter(groups)))

    def _judge(self, value: Any) -> tuple[Any, int]:
        """Return the key of the group that an element belongs to, and the size of its batches."""
        given = self.live("criterion")(value)
        if self.batch_size is not None:
            return given, self.batch_size
        match given:
            case (name, size) if isinstance(given, tuple) and type(size) is int and size > 0:
                return name, size
            case _:
                raise SampleError(
                    f"group_by without batch_size needs a criterion that returns (key, size) with an int size >= 1, "
                    f"got {given!r}: return the size, or give batch_size"
                )

    def _number_of(self, name: Any, size: int) -> int:
        """Return the number of an open group, which may be new."""
        try:
            number, encoded = self.numbers.get(name), None
            if number is None:
                encoded = encode_value(name)
                again = decode_value(encoded)
                if hash(again) != hash(name) or again != name:
                    raise TypeError("it differs from its own copy")
        except TypeError as error:
            raise SampleError(
                f"group_by needs keys that are compared by value and that checkpoints can hold, got {name!r} of type "
                f"{type(name).__qualname__} ({error}): return a string, a number, or a tuple of such"
            ) from error
        if number is None:
            number = self.numbers[name] = self.opened
            self.opened += 1
            self.groups[number] = [encoded, size]
        elif self.groups[number][1] != size:
            raise SampleError(
                f"the criterion gave the size {size} for the key {name!r}, whose open group has the size "
                f"{self.groups[number][1]}: a key has one size"
            )
        return number

    def _close(self, number: int) -> Iterator[tuple[Y, Key]]:
        """Deliver a group, or drop it if it is not full and that is wanted."""
        members = self.held.of(number)
        name, size = self.groups[number]
        if not members or (len(members) < size and self.leftovers == "drop"):
            self.skipped += len(members)
            self._forget(number, name)
            return
        result: Any = [value for value, _ in members]
        keys = tuple([key for _, key in members])
        collate = self.live("collate")
        if collate is not None:
            try:  # an interrupt leaves the group as it is
                result = collate(result)
            except Exception as error:
                self._forget(number, name)
                self.streak = self.fail(error, keys, None, self.streak)
                return
        self._forget(number, name)
        yield result, keys

    def _forget(self, number: int, name: Any) -> None:
        del self.groups[number], self.numbers[decode_value(name)]
        self.held.groups.pop(number, None)

    def _report_closing(self) -> None:
        message = f"{self!r} closes groups that are not full: more than max_open={self.max_open} are open"
        if message not in _reported:
            _reported.add(message)
            _log.warning(message)

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        return self.source.restore_many([key[1:] for key in keys] if name == "held" else keys)

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        return restore_batches(self.source, keys, self.live("collate"))

    def restorable(self, name: str = "") -> bool:
        return self.source.restorable() and (bool(name) or not is_stateful(self.collate))

    def locate(self, key: Key) -> str | None:
        if key and not isinstance(key[0], tuple):  # of a member
            return self.source.locate(key)
        places = dict.fromkeys(self.source.locate(member) for member in key)  # each once, in order
        return "; ".join([place for place in places if place is not None][:4]) or None

    def length(self, stream: int, streams: int) -> float | None:
        return None


class _Members:
    """Hold the members of open groups by the group's number: a buffer of which one group can be taken out."""

    def __init__(self, pairs: Buffer) -> None:
        self.groups: dict[int, list[Pair[Any]]] = {}
        for value, (number, *key) in pairs:
            self.of(number).append((value, tuple(key)))

    def of(self, number: int) -> list[Pair[Any]]:
        """Return the members of a group, a list that can be added to."""
        return self.groups.setdefault(number, [])

    def __len__(self) -> int:
        return sum(map(len, self.groups.values()))

    def snapshot(self, values: bool) -> tuple[Any, ...]:
        """Return the state of a `Buffer` of all members."""
        pairs = [(value, (number, *key)) for number, members in self.groups.items() for value, key in members]
        return Buffer(pairs).snapshot(values)

    def rebuild(self, rebuild: Rebuild) -> None:
        """Rebuild nothing: the values are those of the run."""
