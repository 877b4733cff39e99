"""`wrap`: bring in foreign iterables and torchdata nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any, Literal, TypeVar, cast

from torchdata.nodes import BaseNode

from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import StateError
from energon_nodes.core.fields import shared, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Wrap", "wrap"]

X = TypeVar("X")


class _Lease:
    """Know which node runs a foreign object: clones share the object, and only one can run it at a time."""

    def __init__(self) -> None:
        self.holder: object = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Lease, ())


class Wrap(Node[X]):
    """Deliver the elements of a foreign iterable or node; see `wrap`, which makes it."""

    foreign: Any = tuning()
    _: KW_ONLY
    share: Literal["stride"] | None = None
    fixed_epoch: bool = False
    consumed: int = state(int)
    saved: Any = state(lambda: None)
    lease: _Lease = shared()

    def check(self) -> None:
        if self.share not in (None, "stride"):
            raise ValueError(f'wrap needs share=None or "stride", got {self.share!r}')
        if not isinstance(self.foreign, (BaseNode, Iterable)) and not callable(self.foreign):
            raise TypeError(f"wrap needs an iterable, a torchdata node or a factory, got {type(self.foreign).__name__}")
        self.lease = _Lease()

    def bound(self) -> None:
        if self.context.streams > 1 and self.share is None and not self._is_factory():
            raise ValueError(
                f"{self!r} under {self.context.streams} streams would deliver every element that often: give "
                'share="stride" (each stream keeps its part of the elements), or a factory fn(stream, streams)'
            )
        self._iterator: Iterator[X] | None = None
        self._source: Any = None

    def clear(self) -> None:
        super().clear()
        self._iterator = None

    def run(self) -> Iterator[tuple[X, Key]]:
        stream, streams = self.context.stream, self.context.streams
        strided = self.share == "stride" and streams > 1 and not self._is_factory()
        prefix = (self.epoch, stream) if self._is_factory() else (self.epoch,)
        if self._iterator is None:
            self._iterator = self._open()
        while True:
            if self.lease.holder is not self and not self._is_factory():
                raise RuntimeError(
                    f"the object in {self!r} is run by another pipeline or loader now, and it can be in one place "
                    "only: wrap a factory fn(stream, streams) that makes a new one"
                )
            for value in islice(self._iterator, 1):
                number = self.consumed
                self.consumed += 1
                break
            else:
                return
            if not strided or number % streams == stream:
                yield value, (*prefix, number)

    def snapshot(self) -> tuple[Any, ...]:
        if self._context is not None and self._iterator is not None and hasattr(self._source, "state_dict"):
            self.saved = encode_value(self._source.state_dict())
        return super().snapshot()

    def _open(self) -> Iterator[X]:
        """Start the foreign object at the point that the state describes."""
        single = False
        if self._is_factory():
            opened = self.foreign(self.context.stream, self.context.streams)
        else:
            opened = self.foreign
            single = isinstance(opened, Iterator) and not isinstance(opened, BaseNode)
            if single and self.lease.holder not in (None, self):
                raise RuntimeError(f"the iterator in {self!r} is run by another pipeline: it gives its elements once")
            if single and self.lease.holder is self:
                raise RuntimeError(
                    f"the iterator in {self!r} gives its elements once, and a second pass began: wrap an iterable "
                    "that can be iterated again, or a factory fn(stream, streams)"
                )
            self.lease.holder = self
        if isinstance(opened, BaseNode):
            self._source = cast("Any", opened)
            self._source.reset(decode_value(self.saved) if self.saved is not None else None)
            return self._source
        iterator = iter(cast("Iterable[X]", opened))
        stateful = [it for it in (iterator, opened) if hasattr(it, "state_dict") and hasattr(it, "load_state_dict")]
        self._source = stateful[0] if stateful else None
        if stateful and self.saved is not None:
            self._source.load_state_dict(decode_value(self.saved))
            return iter(cast("Iterable[X]", opened)) if self._source is not iterator else iterator
        for number in range(self.consumed):  # without a state of its own it is run up to where it stood
            if next(islice(iterator, 1), _END) is _END:
                raise StateError(
                    f"the checkpoint stands at element {self.consumed} of {self!r}, which has {number} now: "
                    "the data has changed"
                )
        return iterator

    def _is_factory(self) -> bool:
        return callable(self.foreign) and not isinstance(self.foreign, (BaseNode, Iterable))

    def restorable(self, name: str = "") -> bool:
        return False

    def restore_many(self, keys: Sequence[Key]) -> list[X]:
        raise NotImplementedError(
            f"{self!r} cannot rebuild elements from restore keys: a foreign object has no random access; "
            "use items(sequence) for data with access by index"
        )

    def length(self, stream: int, streams: int) -> float | None:
        return None

    def describe(self) -> list[str]:
        """Return what `repr` shows, without the data."""
        shown = self.foreign.__qualname__ if self._is_factory() and hasattr(self.foreign, "__qualname__") else type(self.foreign).__qualname__
        return [shown] + [f"share={self.share!r}"] * (self.share is not None)


_END: Any = object()


def wrap(
    foreign: Iterable[X] | BaseNode[X] | Callable[[int, int], Iterable[X]],
    *,
    share: Literal["stride"] | None = None,
    fixed_epoch: bool = False,
) -> Node[X]:
    """Bring in a foreign iterable or a torchdata node.

    Its elements cannot be rebuilt from keys, so buffers behind it save values. Its own state is
    saved where it has one (torchdata nodes; iterators with `state_dict`); another iterable is run
    up to the point of the checkpoint after a resume.

    Example:
        >>> import energon_nodes as en
        >>> list(en.wrap({"a": 1, "b": 2}).map(str.upper))
        ['A', 'B']
        >>> from torchdata.nodes import IterableWrapper
        >>> list(en.wrap(IterableWrapper(range(3))).batch(2))
        [[0, 1], [2]]

    Args:
        foreign: An iterable, a `torchdata.nodes.BaseNode`, or a factory `fn(stream, streams)` that
            makes either for one of several streams. Nodes of this library are returned as they are.
        share: How several streams share an iterable: "stride" lets each run it and keep every
            `streams`-th element. None is an error under several streams, except for a factory.
        fixed_epoch: Whether every pass has the same random draws behind it, for validation.

    Returns:
        A node of the elements. Its restore keys are `(epoch, number)`, or `(epoch, stream, number)`
        for a factory.

    Raises:
        TypeError: If `foreign` is none of these.
    """
    if isinstance(foreign, Node):
        return cast("Node[X]", foreign)
    return Wrap(foreign, share=share, fixed_epoch=fixed_epoch)
