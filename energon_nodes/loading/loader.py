"""`loader`: run a pipeline in this process or in workers, and save where the trainer is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from energon_nodes.core import graph
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import Context, ErrorPolicy
from energon_nodes.loading.engines import Engine, LocalEngine, WorkerEngine, WorkerSettings
from energon_nodes.loading.host import HOLE
from energon_nodes.loading.state import ENDED, check_loader_state, plain_dumps, split_entry
from energon_nodes.loading.topology import Topology, find_rank
from energon_nodes.loading.workers import check_picklable

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Loader", "loader"]

X = TypeVar("X", covariant=True)


class Loader(Generic[X]):
    """Iterate over a pipeline, pass after pass; `pipeline.loader(...)` makes it.

    Every `for` is a pass: the first begins at the start or at the loaded state, the following ones
    with the next pass. `state_dict` describes the last output that was received, however far the
    workers are ahead.

    Example:
        >>> import energon_nodes as en
        >>> loader = en.items(range(5)).batch(2).loader()
        >>> iterator = iter(loader)
        >>> next(iterator)
        [0, 1]
        >>> state = loader.state_dict()
        >>> again = en.items(range(5)).batch(2).loader()
        >>> again.load_state_dict(state)
        >>> list(again)
        [[2, 3], [4]]
    """

    def __init__(
        self,
        node: Node[X],
        context: Context,
        streams: int | None,
        placement: tuple[int, int, int],
        settings: WorkerSettings,
    ) -> None:
        self._node = node.clone()
        self._context = context
        self._wanted_streams = streams
        self._rank, self._world_size, self._num_workers = placement
        self._settings = settings
        self._topology = self._place(streams)
        self._check_graph()
        self._engine: Engine | None = None
        self._loaded: dict[str, Any] | None = None
        self._touched = False  # whether any pass was begun
        self._iteration = 0  # the number of the latest iteration
        self._begun = 0  # the number of the latest that has begun

    # ---- iterating ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[X]:
        self._iteration += 1
        return _Iteration(self, self._iteration)

    def __len__(self) -> int:
        """Return the number of outputs of this rank in one pass."""
        lengths = [self._node.length(stream, self._topology.streams) for stream in self._topology.hosted]
        if None in lengths or float("inf") in lengths:
            len(self._node)  # raises, and says why
        return sum(int(length) for length in lengths if length is not None)

    def _begin(self) -> bool:
        """Go to where an iteration begins; return whether it goes on from a loaded state."""
        engine = self._running_engine()
        state, self._loaded = self._loaded, None
        if state is not None:
            entries = {number: state[f"stream.{number}"] for number in self._topology.hosted}
            engine.begin(state["turn"] // self._world_size, entries)
            self._touched = True
            if all(entry[:1] == ENDED for entry in entries.values()):
                engine.next_pass()
                return False
            return True
        if self._touched:
            engine.next_pass()
        else:
            engine.begin(0, {})
            self._touched = True
        return False

    def _running_engine(self) -> Engine:
        if self._engine is None:
            if self._num_workers:
                self._engine = WorkerEngine(self._node, self._run_context(), self._topology, self._settings)
            else:
                self._engine = LocalEngine(self._node, self._run_context(), self._topology)
        return self._engine

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state as of the last output that was received.

        Returns:
            A flat dictionary of plain values; `stream.<number>` holds one `bytes` for each stream of
            this rank. `torch.load(weights_only=True)` accepts it.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        engine = self._running_engine()
        state: dict[str, Any] = {
            "format": graph.FORMAT,
            "graph": plain_dumps(graph.signature(self._node)),
            "seed": self._context.seed,
            "streams": self._topology.streams,
            "turn": engine.turn * self._world_size,
        }
        return state | {f"stream.{number}": data for number, data in engine.entries().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to a saved state: the next `for` continues there.

        The number of workers may differ from that of the saving run, and so may the number of
        ranks if the state holds the streams of all of them.

        Args:
            state_dict: The result of `state_dict` of a loader over an equal pipeline.

        Raises:
            StateError: If the state belongs to another pipeline, seed, or number of streams.
        """
        check_loader_state(state_dict, self._node, self._context.seed)
        streams = state_dict["streams"]
        if self._wanted_streams not in (None, streams):
            raise StateError(
                f"the checkpoint has {streams} streams, this loader was built with streams={self._wanted_streams}: build it "
                "without streams=, and it takes the number of the checkpoint"
            )
        topology = self._place(streams)
        missing = [stream for stream in topology.hosted if f"stream.{stream}" not in state_dict]
        if missing:
            raise StateError(
                f"the checkpoint lacks the streams {missing[:10]} of rank {self._rank} of {self._world_size}: it was saved by "
                "one rank of several; merge the states of all ranks with energon_nodes.merge_states"
            )
        if state_dict["turn"] % self._world_size:
            raise StateError(
                f"the checkpoint stands at turn {state_dict['turn']}, in the middle of a round of {self._world_size} ranks: "
                "save after a number of outputs that the number of ranks divides"
            )
        for stream in topology.hosted:
            split_entry(state_dict[f"stream.{stream}"])  # damaged bytes are reported here, not in a worker
        if topology != self._topology:
            self.close()
            self._topology = topology
        if self._begun == self._iteration:
            self._iteration += 1  # the present iteration is out of date; one that has not begun takes the new state
        self._loaded = dict(state_dict)

    # ---- looking at it -----------------------------------------------------------------------

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many elements each node has skipped, up to the last output that was received.

        Returns:
            For each node that has dropped something: "skipped" counts the elements that user
            functions dropped by `SkipSample`, "failed" those that an error policy dropped.

        Example:
            >>> import energon_nodes as en
            >>> loader = en.items([1, 0, 2]).map(lambda x: 1 / x, on_error="skip").loader()
            >>> list(loader), loader.counts()
            ([1.0, 0.5], {'Map(fn=<lambda>)': {'skipped': 0, 'failed': 1}})
        """
        found: dict[str, dict[str, int]] = {}
        for number in self._topology.hosted:
            _, snapshot = split_entry(self.state_dict()[f"stream.{number}"])
            _add_counts(found, self._node, snapshot)
        return found

    def restore(self, key: Any) -> X:
        """Rebuild the output with this restore key, to look at it; the streams are not touched.

        Example:
            >>> import energon_nodes as en
            >>> pipeline = en.items("abc").batch(2)
            >>> pipeline.loader().restore(((0, 0), (0, 1)))
            ['a', 'b']
        """
        node = self._node.clone()
        node.bind(self._run_context())
        return node.restore(key)

    def plan(self) -> str:
        """Return which streams run where, and what each stream buffers, as text.

        Example:
            >>> import energon_nodes as en
            >>> print(en.items(range(9)).shuffle(4).loader(streams=2).plan())
            2 streams on 1 rank; rank 0 hosts 2, in this process
            Shuffle(size=4): one for each stream, 2 in this process
        """
        topology, workers = self._topology, max(1, self._num_workers)
        each = len(topology.hosted) // workers
        where = f"{each} in each of {workers} workers" if self._num_workers else "in this process"
        ranks = f"{self._world_size} rank" + "s" * (self._world_size > 1)
        lines = [f"{topology.streams} streams on {ranks}; rank {self._rank} hosts {len(topology.hosted)}, {where}"]
        place = "each worker" if self._num_workers else "this process"
        lines += [f"{node!r}: one for each stream, {each} in {place}" for node in graph.walk(self._node) if graph.buffers_of(node)]
        return "\n".join(lines)

    def close(self) -> None:
        """End the worker processes and threads; the next iteration starts them again where this one stood."""
        if self._engine is not None:
            if self._loaded is None and self._touched:
                self._loaded = self.state_dict()
            self._engine.close()
            self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- checks at construction --------------------------------------------------------------

    def _place(self, streams: int | None) -> Topology:
        default = self._world_size * max(1, self._num_workers)
        return Topology(default if streams is None else streams, self._rank, self._world_size, self._num_workers)

    def _check_graph(self) -> None:
        if self._num_workers:
            for node in graph.walk(self._node):
                node.check_worker()
            if self._settings.mp_context in ("spawn", "forkserver"):
                check_picklable(self._node, self._settings.mp_context)
        self._node.clone().bind(self._run_context())  # nodes that cannot be split into streams say so now

    def _run_context(self) -> Context:
        return replace(self._context, streams=self._topology.streams)


class _Iteration(Iterator[X]):
    """One `for` over a loader; it ends when another begins or a state is loaded."""

    def __init__(self, loader: Loader[X], number: int) -> None:
        self._loader = loader
        self._number = number
        self._begun = False

    def __next__(self) -> X:
        loader = self._loader
        if self._number != loader._iteration:  # pyright: ignore[reportPrivateUsage]
            raise RuntimeError("this iterator is out of date: the loader was iterated again or a state was loaded since")
        if not self._begun:
            self._begun = True
            self._resumed = loader._begin()  # pyright: ignore[reportPrivateUsage]
            loader._begun = self._number  # pyright: ignore[reportPrivateUsage]
        engine = loader._running_engine()  # pyright: ignore[reportPrivateUsage]
        value = engine.take()
        if value is HOLE and self._resumed:  # the state was taken behind the last output: an empty pass helps nobody
            engine.next_pass()
            value = engine.take()
        self._resumed = False
        if value is HOLE:
            raise StopIteration
        return value


def _add_counts(found: dict[str, dict[str, int]], node: Node[Any], snapshot: Any) -> None:
    (_, skipped, failed), _, below = snapshot
    if skipped or failed:
        entry = found.setdefault(repr(node), {"skipped": 0, "failed": 0})
        entry["skipped"] += skipped
        entry["failed"] += failed
    for source, part in zip(node.sources_of(), below, strict=True):
        _add_counts(found, source, part)


@add_verb
def loader(
    source: Node[X],
    *,
    num_workers: int = 0,
    streams: int | None = None,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    prefetch_factor: int = 2,
    pin_memory: bool = False,
    persistent_workers: bool = True,
    mp_context: str | None = None,
    timeout: float = 0,
    on_error: ErrorPolicy = "raise",
    tolerance: int = 100,
) -> Loader[X]:
    """Make a loader that iterates over the pipeline, with or without worker processes.

    The data is split into `streams` logical streams, and the order depends on their number alone:
    with the same `streams` any number of workers and ranks that divides it gives the same outputs in
    the same order, also across a resume.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(4)).loader(streams=2))
        [0, 1, 2, 3]

    Args:
        source: The pipeline.
        num_workers: The number of worker processes; 0 runs in this process.
        streams: The number of logical streams of the whole job, a multiple of `world_size * num_workers`.
            None: `world_size * max(1, num_workers)`, or the number in the state that is loaded.
        seed: The seed of all nodes that have none of their own.
        rank: This rank among those that read different data; None asks `torch.distributed`, then torchrun's
            environment.
        world_size: The number of such ranks; given with `rank`.
        prefetch_factor: How many outputs each worker makes ahead.
        pin_memory: Whether tensors are copied to pinned memory.
        persistent_workers: Whether workers live on between passes.
        mp_context: How workers are started: "fork", "spawn", "forkserver", or None for the platform's default.
        timeout: Seconds to wait for an output of a worker; 0 is without limit.
        on_error: The policy for nodes that have none of their own: "raise", "skip" or `callable(error, key)`.
        tolerance: How many elements in a row may be skipped for errors at one node.

    Returns:
        A `Loader` with `state_dict` and `load_state_dict`.

    Raises:
        ValueError: If the numbers do not fit each other, a node cannot run where it is to run, or the graph
            cannot be pickled for "spawn" and "forkserver".
    """
    if num_workers and prefetch_factor < 1:
        raise ValueError(f"a loader needs prefetch_factor >= 1, got prefetch_factor={prefetch_factor}")
    if mp_context not in (None, "fork", "spawn", "forkserver"):
        raise ValueError(f'a loader needs mp_context="fork", "spawn", "forkserver" or None, got {mp_context!r}')
    if tolerance < 0:
        raise ValueError(f"a loader needs tolerance >= 0, got tolerance={tolerance}")
    context = Context(seed=seed, on_error=on_error, tolerance=tolerance)
    settings = WorkerSettings(prefetch_factor, pin_memory, persistent_workers, mp_context, timeout)
    return Loader(source, context, streams, (*find_rank(rank, world_size), num_workers), settings)


