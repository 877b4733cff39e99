"""The node contract: configuration, declared state, and a generator `run`.

A subclass is one idea. It declares fields and writes `run`; construction, cloning, checkpoints,
passes, going on after errors, and the fluent verb come from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, wraps
from math import isinf
from typing import Any, ClassVar, TypeVar, cast

from energon_nodes.core import graph
from energon_nodes.core.description import Description, registered_nodes
from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import SkipSample, StateError, shown_key
from energon_nodes.core.policies import apply_policy, rebuild_or_drop
from energon_nodes.core.restore import Buffer, ColumnBuffer, Key
from energon_nodes.core.share import Context
from energon_nodes.core.values import values_of
from energon_nodes.core.verbs import add_verb, reserve

__all__ = ["Node", "add_verb", "registered_nodes"]

T = TypeVar("T", covariant=True)


class Node(Description[T], abstract=True):
    """Serve as the base of all nodes: a stateful, resumable stream that others can be chained to.

    A subclass becomes a dataclass whose init fields are its configuration. A node is a
    description and a running stream at once: building on a node, and running it in a loader, work
    on private clones, so one node can be used in several places.

    Example:
        >>> class Double(Node[int]):
        ...     source: Node[int]
        ...
        ...     def run(self):
        ...         for value, key in self.source.pairs():
        ...             yield 2 * value, key
        >>> import energon_nodes as en
        >>> list(Double(en.items([1, 2])))
        [2, 4]
    """

    def __init_subclass__(cls, verb: str | None = None, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(verb, abstract=abstract, **kwargs)
        if "restore_many" in cls.__dict__:
            cls.restore_many = _bound_first(cls.restore_many)

    # ---- what a subclass writes -------------------------------------------------------------

    def bound(self) -> None:
        """Prepare for a run: `self.context` and `self.identity` are set, the sources are bound."""

    def run(self) -> Iterator[tuple[T, Key]]:
        """Yield pairs of value and restore key, beginning at the point that the state fields describe."""
        raise NotImplementedError(f"{type(self).__name__} does not define run()")

    def restore(self, key: Key) -> T:
        """Rebuild the element with this restore key, without touching the running stream.

        Example:
            >>> import energon_nodes as en
            >>> squares = en.items([1, 2, 3]).map(lambda x: x * x)
            >>> [key for _, key in squares.with_keys()]
            [(0, 0), (0, 1), (0, 2)]
            >>> squares.restore((0, 2))
            9
        """
        try:
            return self.restore_many([key])[0]
        except Exception as error:
            if isinstance(error, SkipSample) and not error.args:
                error.args = ("a function skips this sample, so the stream has no such element",)
            error.add_note(f"while the element with restore key {shown_key(key)} of {self!r} was restored")
            raise

    def restore_many(self, keys: Sequence[Key]) -> list[T]:
        """Rebuild elements from their restore keys; reads are coalesced where the source can do it."""
        if len(self.sources_of()) != 1:
            raise NotImplementedError(f"{type(self).__name__} does not define restore_many()")
        self.bind()
        return cast("list[T]", self.sources_of()[0].restore_many(keys))

    keeps_keys: ClassVar[bool] = False
    """Whether each element has the restore key of the source's element that it is made of; `lookup` passes through."""

    passes_apart: ClassVar[bool] = True
    """Whether a pass takes nothing away from those after it, so that an earlier one can be gone on with."""

    def check_lookup(self) -> None:
        """Raise a TypeError that says why, unless `lookup` can find elements by the keys of their samples."""
        if not self.keeps_keys or len(self.sources_of()) != 1:
            raise TypeError(
                f"samples behind {self!r} cannot be looked up by their keys: that needs a source that can (shards, "
                "jsonl, items), and behind it nodes that give one element for each, such as map and decode"
            )
        self.sources_of()[0].check_lookup()

    def lookup(self, names: Sequence[str], passes: Sequence[int]) -> list[Key | None]:
        """Find elements by the `__key__` of their samples.

        Args:
            names: The keys of samples.
            passes: For each the number of the pass that its restore key is to have.

        Returns:
            The restore key of each, None where there is no such sample.
        """
        self.check_lookup()
        return self.sources_of()[0].lookup(names, passes)

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        """Rebuild the elements of the buffer field `name`; by default they are elements of the one source."""
        return self.sources_of()[0].restore_many(keys)

    def restorable(self, name: str = "") -> bool:
        """Return whether elements can be rebuilt from keys: those of buffer field `name`, or the node's own."""
        return all(source.restorable() for source in self.sources_of())

    def locate(self, key: Key) -> str | None:
        """Return where the element with this restore key lies in storage, as text for messages, or None."""
        return self.sources_of()[0].locate(key) if len(self.sources_of()) == 1 else None

    def length(self, stream: int, streams: int) -> float | None:
        """Return how many elements one stream yields in one pass: `math.inf` without end, None where unknown."""
        return self.sources_of()[0].length(stream, streams) if len(self.sources_of()) == 1 else None

    def check_worker(self) -> None:
        """Raise a ValueError if this node cannot run inside a worker process of a loader."""

    def draws_random(self) -> bool:
        """Return whether this node draws random numbers; only such nodes count for the identity of others."""
        return False

    def facts(self) -> dict[str, Any]:
        """Return facts beside the configuration that a checkpoint must agree with, such as a sample count."""
        return {}

    # ---- running -----------------------------------------------------------------------------

    def pairs(self) -> Iterator[tuple[T, Key]]:
        """Return the running iterator of pairs; after an error it is made again from the state."""
        run = self._running
        if run is None or run.gi_frame is None:
            self._prepare()
            run = self._running = cast("Any", self.run())
        return run

    def running(self) -> Any:
        """Return the running iterator of pairs of a root, after which `reset(None)` means the next pass."""
        if not self._touched:
            self._begin_torchdata()
            self.bind()
            self._touched = True
        self._ended = False
        return self.pairs()

    def end(self, run: Any) -> bool:
        """Return whether an exhausted iterator was the running one; then iterating again is the next pass."""
        self._ended = run is self._running
        return self._ended

    def __next__(self) -> T:
        run = self._running
        if run is None or run.gi_frame is None:
            run = self.running()
        try:
            return next(run)[0]
        except StopIteration:
            self.end(run)
            raise

    def next(self) -> T:
        """Return the next value, as torchdata's nodes do."""
        return self.__next__()

    def __iter__(self) -> Iterator[T]:  # pyright: ignore[reportIncompatibleMethodOverride]  # torchdata returns self
        if self._ended:
            self.reset(None)
        return values_of(self)

    def __bool__(self) -> bool:
        return True  # a node with a length of 0 is still a node

    def __len__(self) -> int:
        length = self.length(0, 1)
        if length is None:
            raise TypeError(f"the length of {self!r} is not known: a node in it yields a number that depends on data")
        if isinf(length):
            raise TypeError(f"{self!r} has no end, so it has no length: put limit(n) or epochize(n) behind it")
        return int(length)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Start the next pass if anything was taken since the last reset, or go to a saved state.

        Args:
            initial_state: The result of `state_dict()` of an equal pipeline, or None.

        Raises:
            StateError: If the state belongs to another graph, seed or stream.

        Example:
            >>> import energon_nodes as en
            >>> node = en.items([1, 2, 3]).map(str)
            >>> next(node)
            '1'
            >>> state = node.state_dict()
            >>> next(node), node.reset(state), next(node)
            ('2', None, '2')
        """
        self._begin_torchdata()
        self.bind()
        if initial_state is not None:
            graph.check_state(self, initial_state)
            self._touched, self._ended = bool(initial_state["touched"]), bool(initial_state["ended"])
            self.load(initial_state["nodes"])
        elif self._touched:
            self._touched = self._ended = False
            self.rewind()

    def get_state(self) -> dict[str, Any]:
        """Return the point that the consumer has reached, as plain data; `state_dict` calls it."""
        return graph.state_of(self, touched=self._touched, ended=self._ended)

    def bind(self, context: Context | None = None) -> None:
        """Place the graph under this root into a run: its seed, its stream, its error policy."""
        if self._context is None or (context is not None and context != self._context):
            self.stop()
            graph.place(self, context or Context())
            graph.report_saved_values(self)

    @property
    def context(self) -> Context:
        """The run that this node is bound to."""
        if self._context is None:
            self.bind()
        return cast("Context", self._context)

    def rewind(self) -> None:
        """Start the next pass, here and in all sources, whatever has been taken."""
        self.stop()
        if not self.fixed:
            self.epoch += 1
        self.clear()
        for source in self.sources_of():
            source.rewind()

    def clear(self) -> None:
        """Set the state fields, buffers and run-time objects of this node to those of a new pass."""
        for field in self._by_kind.get("state", ()):
            if field.metadata["per_pass"]:
                setattr(self, field.name, field.default_factory())  # type: ignore[misc]
        for field in self._by_kind.get("buffer", ()):
            setattr(self, field.name, ColumnBuffer() if field.metadata["columns"] else Buffer())
        self._clear_scratch()

    def stop(self) -> None:
        """Drop the running iterators of this node and its sources; the state fields stay."""
        run, self._running = self._running, None
        if run is not None:
            run.close()
        for source in self.sources_of():
            source.stop()

    def fail(self, error: Exception, key: Key | None, value: Any = None, streak: int = 0) -> int:
        """Apply the error policy to a failed element: raise, or return if it is to be skipped.

        Args:
            error: What a user function or a reader raised.
            key: The element's restore key.
            value: The element, for the message.
            streak: How many elements in a row have failed before.

        Returns:
            The new streak.

        Raises:
            FatalSampleError: If more fail in a row than the tolerance allows.
        """
        return apply_policy(self, error, key, value, streak)

    def rebuilt(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        """Rebuild elements of the buffer field `name`; what fails is treated as `on_restore_error` says.

        Returns:
            The values, `DROPPED` for those to leave out; the node counts them in `failed` when it does.

        Raises:
            RestoreError: If an element cannot be rebuilt, and is not to be skipped.
        """
        return rebuild_or_drop(self, name, keys)

    def live(self, name: str) -> Any:
        """Return the callable in the configuration field `name`; one that has a state is this stream's own copy."""
        return self._live.get(name, getattr(self, name))

    # ---- state -------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state of this node and its sources as nested plain data."""
        own: dict[str, Any] = {}
        for field in self._by_kind.get("state", ()):
            value = getattr(self, field.name)
            own[field.name] = value if type(value) is int else graph.copy_plain(value, f"{field.name} of {self!r}")
        for field in self._by_kind.get("buffer", ()):
            held = getattr(self, field.name)
            if len(held):
                own[field.name] = held.snapshot(values=not self.restorable(field.name))
        for name, stateful in self._live.items():
            own[name] = encode_value(stateful.state_dict())
        counts = (self.epoch, self.skipped, self.failed)
        return (counts, own, tuple([source.snapshot() for source in self.sources_of()]))

    def load(self, snapshot: Any) -> None:
        """Go to the point of a snapshot; the buffers stay lazy."""
        self.stop()
        self.clear()
        for field in self._by_kind.get("state", ()):
            setattr(self, field.name, field.default_factory())  # type: ignore[misc]
        try:
            (self.epoch, self.skipped, self.failed), own, below = snapshot
            parts = list(zip(self.sources_of(), below, strict=True))
            graph.check_functions(self, own)
            for field in self._by_kind.get("state", ()):
                if field.name in own:  # a release before the field has had its first value
                    setattr(self, field.name, graph.copy_plain(own[field.name], f"{field.name} of {self!r}"))
            for field in self._by_kind.get("buffer", ()):
                if field.name in own:
                    kind = ColumnBuffer if field.metadata["columns"] else Buffer
                    setattr(self, field.name, kind.load(own[field.name]))
            for name, stateful in self._live.items():
                stateful.load_state_dict(decode_value(own[name]))
        except StateError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the checkpoint's entry for {self!r} cannot be read: {error!r}") from error
        for source, part in parts:
            source.load(part)

    # ---- inside ------------------------------------------------------------------------------

    def _start_fresh(self) -> None:
        self.epoch = 0
        self.skipped = 0
        self.failed = 0
        self.fixed = False
        self.identity: tuple[Any, ...] = ()
        self._context: Context | None = None
        self._live: dict[str, Any] = {}
        self._running: Any = None
        self._touched = self._ended = False
        for field in self._by_kind.get("state", ()):
            setattr(self, field.name, field.default_factory())  # type: ignore[misc]
        self.clear()

    def _clear_scratch(self) -> None:
        for field in self._by_kind.get("scratch", ()):
            setattr(self, field.name, field.default_factory())  # type: ignore[misc]

    def _prepare(self) -> None:
        if self._context is None:
            self.bind()
        for field in self._by_kind.get("buffer", ()):
            if not field.metadata["lazy"]:
                held: Buffer | ColumnBuffer = getattr(self, field.name)
                before = len(held)
                held.rebuild(partial(self.rebuilt, field.name))
                self.failed += before - len(held)


def _bound_first(restore_many: Any) -> Any:
    """Let elements be rebuilt from a pipeline that was not run yet: its nodes get their seeds and identities."""

    @wraps(restore_many)
    def restore(self: Node[Any], keys: Sequence[Key]) -> list[Any]:
        self.bind()
        return restore_many(self, keys)

    return restore


reserve(Node)
