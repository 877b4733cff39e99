"""`wrap`: bring in foreign iterables and torchdata nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from inspect import isgenerator
from typing import Any, Literal, TypeVar, cast

from torchdata.nodes import BaseNode, Loader

from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import FatalSampleError, StateError
from energon_nodes.core.fields import shared, state, tuning
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Wrap", "wrap"]

X = TypeVar("X")
_log = logging.getLogger("energon_nodes")


class _Lease:
    """Know which node runs a foreign object: clones share the object, and only one can run it at a time."""

    def __init__(self) -> None:
        self.holder: object = None  # a token, so that no node is kept alive

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Lease, ())


class Wrap(Node[X]):
    """Deliver the elements of a foreign iterable or node; see `wrap`, which makes it.

    Example:
        >>> Wrap(range(3), share="stride")
        Wrap(range, share='stride')
    """

    foreign: Any = tuning()
    _: KW_ONLY
    share: Literal["stride"] | None = None
    fixed_epoch: bool = False
    consumed: int = state(int)
    ended: bool = state(bool)
    saved: Any = state(lambda: None)
    lease: _Lease = shared()

    passes_apart = False

    def check(self) -> None:
        if self.share not in (None, "stride"):
            raise ValueError(f'wrap needs share=None or "stride", got {self.share!r}')
        if not isinstance(self.foreign, (BaseNode, Iterable)) and not callable(self.foreign):
            raise TypeError(f"wrap needs an iterable, a torchdata node or a factory, got {type(self.foreign).__name__}")
        if self.share is not None and self._is_factory():
            raise ValueError(f"wrap takes no share={self.share!r} with a factory, which is told stream and streams")
        self.lease = _Lease()

    def bound(self) -> None:
        if self.context.streams > 1 and self.share is None and not self._is_factory():
            raise ValueError(
                f"{self!r} under {self.context.streams} streams would deliver every element that often: give "
                'share="stride" (each stream keeps its part of the elements), or a factory fn(stream, streams)'
            )
        self._token = object()
        self._source: Any = None

    def clear(self) -> None:
        super().clear()
        self._iterator: Iterator[X] | None = None
        self._problem: Exception | None = None

    def run(self) -> Iterator[tuple[X, Key]]:
        stream, streams = self.context.stream, self.context.streams
        strided = self.share == "stride" and streams > 1
        prefix = (self.epoch, stream) if self._is_factory() else (self.epoch,)
        if self.ended:  # some objects begin anew when they are asked behind their end
            return
        if self._iterator is None:
            self._iterator = self._open()
        iterator, exclusive = self._iterator, self._is_exclusive()
        streak = 0
        while True:
            if exclusive and self.lease.holder is not self._token:
                raise RuntimeError(
                    f"the object in {self!r} is run by another pipeline or loader now, and it can be in one place "
                    "only: wrap a factory fn(stream, streams) that makes a new one"
                )
            number = self.consumed
            self.consumed += 1
            try:
                value = next(iterator, _END)
            except Exception as error:
                self._problem = error
                streak = self.fail(error, (*prefix, number), None, streak)
                continue
            if value is _END:
                self.consumed, self.ended = number, True
                self._check_end()
                return
            if streak:
                streak = 0
            self._problem = None
            if not strided or number % streams == stream:
                yield value, (*prefix, number)

    def snapshot(self) -> tuple[Any, ...]:
        if self._context is not None and self._iterator is not None and hasattr(self._source, "state_dict"):
            self.saved = encode_value(self._source.state_dict())
        return super().snapshot()

    def _open(self) -> Iterator[X]:
        """Start the foreign object at the point that the state describes."""
        if self._is_factory():
            opened: Any = self.foreign(self.context.stream, self.context.streams)
        else:
            opened = self.foreign
            if self._gives_once() and self.lease.holder is not None:
                raise RuntimeError(
                    f"the iterator in {self!r} gives its elements once, and a second pass or another pipeline began: "
                    "wrap an iterable that can be iterated again, or a factory fn(stream, streams)"
                )
            self.lease.holder = self._token
        state = None if self.saved is None else decode_value(self.saved)
        if isinstance(opened, BaseNode):
            self._source = opened
            self._source.reset(state)
            return self._source
        if is_stateful(opened) and not _is_iterator(opened):  # a loader: it makes iterators at its point
            self._source = opened
            if state is not None:
                self._source.load_state_dict(state)
            return iter(self._source)
        iterator: Any = iter(opened)
        self._source = iterator if is_stateful(iterator) else None
        if self._source is not None and state is not None:
            self._source.load_state_dict(state)
        else:
            self._run_up(iterator)
        return iterator

    def _run_up(self, iterator: Iterator[X]) -> None:
        """Take as many elements as the state says were taken: an iterator without a state of its own begins anew."""
        for number in range(self.consumed):
            try:
                ended = next(iterator, _END) is _END
            except Exception as error:  # it was reported when the element was due
                self._problem, ended = error, False
            if ended:
                raise StateError(
                    f"the checkpoint stands at element {self.consumed} of {self!r}, which has {number} now: "
                    "the data has changed"
                )

    def _check_end(self) -> None:
        """Do not let an end that follows an error pass for the end of the data."""
        problem, self._problem = self._problem, None
        if problem is None:
            return
        if isgenerator(self._iterator):
            raise FatalSampleError(
                f"the generator in {self!r} has raised, which ends it, so the elements behind are lost: catch errors "
                "inside of it, or wrap an iterator that can go on"
            ) from problem
        _log.warning("%r ended right behind an error (%r): elements behind it may be lost", self, problem)

    def _is_factory(self) -> bool:
        return callable(self.foreign) and not isinstance(self.foreign, (BaseNode, Iterable))

    def _gives_once(self) -> bool:
        return _is_iterator(self.foreign) and not hasattr(self.foreign, "state_dict")

    def _is_exclusive(self) -> bool:
        """Return whether the clones of this node share an object that can be at one point only."""
        return isinstance(self.foreign, (BaseNode, Iterator)) or (not self._is_factory() and is_stateful(self.foreign))

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
        shown = getattr(self.foreign, "__qualname__", None) if self._is_factory() else None
        return [str(shown or type(self.foreign).__qualname__)] + [f"share={self.share!r}"] * (self.share is not None)


_END: Any = object()


def _is_iterator(value: object) -> bool:
    return isinstance(value, Iterator)


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
        foreign: An iterable, a `torchdata.nodes.BaseNode` or `Loader`, or a factory `fn(stream, streams)` that
            makes either for one of several streams. Nodes of this library are returned as they are.
        share: How several streams share an iterable: "stride" lets each run it and keep every
            `streams`-th element. None is an error under several streams, except for a factory.
        fixed_epoch: Whether every pass has the same random draws behind it, for validation.

    Returns:
        A node of the elements. Its restore keys are `(epoch, number)`, or `(epoch, stream, number)`
        for a factory.

    Raises:
        TypeError: If `foreign` is none of these.
        ValueError: If `share` is not one of its values, or given with a factory; in a run, if several streams
            would each deliver all elements.
    """
    if isinstance(foreign, Node):
        return cast("Node[X]", foreign)
    if isinstance(foreign, Loader):  # at the end of a pass it begins the next one unasked; its node does not
        foreign = cast("Any", foreign).root
    return Wrap(foreign, share=share, fixed_epoch=fixed_epoch)
