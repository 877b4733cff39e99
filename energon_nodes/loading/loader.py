"""`loader`: run a pipeline in this process or in workers, and save where the trainer is."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from energon_nodes.combinators.blend import Blend, find_blend
from energon_nodes.core import graph
from energon_nodes.core.checks import plain_int
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import Context, ErrorPolicy
from energon_nodes.loading.engines import Engine, LocalEngine
from energon_nodes.loading.reports import counts_of, plan_of
from energon_nodes.loading.session import Session
from energon_nodes.loading.state import Run, check_shape, load_position, save_position
from energon_nodes.loading.topology import Topology, find_rank
from energon_nodes.loading.uneven import Uneven, quota_of, rank_length, warn_of_uneven_ranks
from energon_nodes.loading.worker_engine import WorkerEngine, WorkerSettings
from energon_nodes.loading.workers import check_picklable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Loader", "loader"]

X = TypeVar("X", covariant=True)


class Loader(Generic[X]):
    """Iterate over a pipeline, pass after pass; `pipeline.loader(...)` makes it.

    Every `for` is a pass: the first begins at the start or at the loaded state, the following ones
    with the next pass, also if the one before was left early. `state_dict` describes the last output
    that was received, however far the workers are ahead.

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
        topology: Topology,
        uneven: Uneven,
        settings: WorkerSettings,
        *,
        fixed: bool,
    ) -> None:
        self._node = node.clone()
        self._run = Run(self._node, context.seed, uneven)
        self._context = context
        self._uneven: Uneven = uneven
        self._settings = settings
        self._fixed = fixed  # whether the number of streams was asked for
        self._check_workers(topology.num_workers)
        self._session = Session(self._adopt(topology))
        warn_of_uneven_ranks(self._node, topology, self._quota)

    # ---- iterating ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[X]:
        return _Iteration(self._session)

    def __len__(self) -> int:
        """Return the number of outputs of this rank in one pass."""
        length = rank_length(self._node, self._topology, self._quota)
        if length is None or length == float("inf"):
            len(self._node)  # raises, and says why
        return int(length or 0)

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state as of the last output that was received.

        Returns:
            A flat dictionary of plain values; `stream.<number>` holds one `bytes` for each stream of
            this rank. `torch.load(weights_only=True)` accepts it, and `torch.distributed.checkpoint`
            takes the loader as it is.
        """
        return save_position(self._run, self._session.position(), self._topology.streams, self._topology.world_size)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to a saved state: the next `for` continues there.

        The number of workers may differ from that of the saving run, and so may the number of
        ranks if the state holds the streams of all of them. If the pass of the state was at its
        end, the next `for` is the pass that follows.

        Args:
            state_dict: The result of `state_dict` of a loader over an equal pipeline.

        Raises:
            StateError: If the state belongs to another pipeline, seed, or number of streams.
        """
        topology = self._topology_of(check_shape(state_dict)["streams"])
        position = load_position(state_dict, self._run, topology.hosted, topology.world_size)
        if topology != self._topology:
            make_engine = self._adopt(topology)
            self._session.close()
            self._session.make_engine = make_engine
        self._session.go_to(position)

    def _topology_of(self, streams: int) -> Topology:
        """Return the topology with the number of streams of a state on our ranks and workers."""
        if streams == self._topology.streams:
            return self._topology
        if self._fixed:
            raise StateError(
                f"the checkpoint has {streams} streams, this loader was built with streams={self._topology.streams}: "
                "build it without streams=, and it takes the number of the checkpoint"
            )
        try:
            return replace(self._topology, streams=streams)
        except ValueError as error:
            raise StateError(
                f"the checkpoint has {streams} streams, which cannot be spread evenly over "
                f"{self._topology.world_size} ranks with {self._topology.num_workers} workers each"
            ) from error

    # ---- steering it -------------------------------------------------------------------------

    def set_weights(self, weights: Sequence[float], *, at_output: int | None = None, blend: str | None = None) -> None:
        """Change the weights of a blend from one output on, the same one whatever workers have made ahead.

        The draws for that output are the first with the new weights; what buffers behind the blend (`shuffle`,
        packing, `prefetch`) hold already was drawn before. The weights are part of the state, also when their output is
        still to come, and stay for the passes that follow; weights that were set before `load_state_dict` are replaced
        by those of the state. Every rank has to make the same call at the same step.

        Example:
            >>> import energon_nodes as en
            >>> mixed = en.blend(en.items("a" * 99), en.items("b" * 99), weights=[999, 1])
            >>> loader = mixed.loader()
            >>> loader.set_weights([1, 999], at_output=3)
            >>> "".join(loader)[:6]
            'aaabbb'

        Args:
            weights: One positive number for each source of the blend.
            at_output: The number of the first output, counted over all ranks from the beginning of the pass, as long as
                no stream has ended: output `k` is the next one after `k` outputs. None: the next one. One that the
                pass does not reach is the first of the next pass.
            blend: The `name=` of the blend, where the pipeline has several.

        Raises:
            TypeError: The weights are no sequence, or `at_output` is no integer.
            ValueError: There is no such blend, the weights do not fit it, or the output was received already.
        """
        number = find_blend(self._node, blend)
        node = list(graph.walk(self._node))[number]
        numbers = cast("Blend[Any]", node).checked(weights)
        world, streams = self._topology.world_size, self._topology.streams
        received = self._session.position().turn * world
        first = received if at_output is None else plain_int("set_weights", "at_output", at_output)
        if first < received:
            raise ValueError(
                f"set_weights needs an output that is still to come, at_output >= {received}, got at_output={first}"
            )
        self._session.change(
            {stream: (max(0, -((stream - first) // streams)), number, numbers) for stream in self._topology.hosted}
        )

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
            ([1.0, 0.5], {"Map(fn=<lambda>, on_error='skip')": {'skipped': 0, 'failed': 1}})
        """
        return counts_of(self._node, self._session.position().entries.values())

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
        """Return which streams run where, what each of them buffers, and how they end, as text.

        Example:
            >>> import energon_nodes as en
            >>> print(en.items(range(9)).shuffle(4).loader(streams=2).plan())
            2 streams on 1 rank; rank 0 hosts 2, in this process
            9 outputs of this rank in a pass; the streams give 5, 4
            Shuffle(size=4): one for each stream, 2 in this process
        """
        return plan_of(self._node, self._topology, self._quota)

    def close(self) -> None:
        """End the worker processes and threads; the next `for` starts them again where this one stood."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- how it is set up ----------------------------------------------------------------------

    def _check_workers(self, num_workers: int) -> None:
        if not num_workers:
            return
        for node in graph.walk(self._node):
            node.check_worker()
        method = self._settings.mp_context or multiprocessing.get_start_method(allow_none=True)
        method = method or multiprocessing.get_all_start_methods()[0]  # the first is the default
        if method != "fork":
            check_picklable(self._node, method)
            for name in ("on_error", "on_restore_error"):
                policy = getattr(self._context, name)
                try:
                    pickle.dumps(policy)
                except Exception as error:
                    raise ValueError(
                        f"{name}={policy!r} cannot be pickled, which mp_context={method!r} needs to start workers: "
                        f'{error}; use a named function at the top of a module, or mp_context="fork"'
                    ) from error

    def _adopt(self, topology: Topology) -> Callable[[], Engine]:
        """Take a topology; return what makes an engine for it."""
        context = replace(self._context, streams=topology.streams)
        self._node.clone().bind(context)  # nodes that cannot be split into streams say so now
        self._quota = quota_of(self._node, topology.streams, self._uneven)
        self._topology = topology
        if topology.num_workers:
            return partial(WorkerEngine, self._node, context, topology, self._quota, self._settings)
        return partial(LocalEngine, self._node, context, topology, self._quota, pin_memory=self._settings.pin_memory)

    def _run_context(self) -> Context:
        return replace(self._context, streams=self._topology.streams)


class _Iteration(Iterator[X]):
    """One `for` over a loader; it is refused when another has begun or a state was loaded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number = session.new_iteration()
        self._outputs = session.outputs(self._number)
        self._busy = Lock()

    def __next__(self) -> X:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "this iterator is in the middle of another thread's call: let one thread iterate over a loader, and "
                "hand its outputs to the others"
            )
        try:
            return next(self._outputs)
        except BaseException:  # the generator has ended; another goes on behind the error
            self._outputs = self._session.outputs(self._number)
            raise
        finally:
            self._busy.release()


@add_verb
def loader(
    source: Node[X],
    *,
    num_workers: int = 0,
    streams: int | None = None,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    uneven: Uneven = "allow",
    prefetch_factor: int = 2,
    pin_memory: bool = False,
    persistent_workers: bool = True,
    mp_context: str | None = None,
    timeout: float = 0,
    on_error: ErrorPolicy = "raise",
    tolerance: int = 100,
    on_restore_error: ErrorPolicy = "raise",
) -> Loader[X]:
    """Make a loader that iterates over the pipeline, with or without worker processes.

    The data is split into `streams` logical streams, and the order depends on their number alone:
    with the same `streams` any number of workers and ranks that divides it gives the same outputs in
    the same order, also across a resume.

    Streams may end at different times, and so may ranks. `uneven="allow"`, the default, gives every
    element once: nothing is dropped and nothing repeated in silence. But a loop that synchronises the
    ranks needs the same number of outputs on each, and would wait for ever otherwise; a loader of several
    ranks whose numbers differ, or cannot be known, says so in the log. "drop" ends every stream after as
    many outputs as the shortest has. "pad" lets the shorter ones go on, up to as many as the longest has,
    with the first outputs of their next pass; that pass then begins as if nothing had been taken. Both
    count by streams, so a pass is the same under any number of ranks and resumes under any other; streams
    that lose elements to `SkipSample` or an error policy are filled up under both. They need a pipeline of known
    length. For others, `.repeat().epochize(n)` gives all ranks the same number if `n` is a multiple of `streams`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items(range(4)).loader(streams=2))
        [0, 1, 2, 3]
        >>> for uneven in ("allow", "drop", "pad"):
        ...     list(en.items("abcde").loader(streams=2, uneven=uneven))
        ['a', 'b', 'c', 'd', 'e']
        ['a', 'b', 'c', 'd']
        ['a', 'b', 'c', 'd', 'e', 'b']

    Args:
        source: The pipeline.
        num_workers: The number of worker processes; 0 runs in this process.
        streams: The number of logical streams of the whole job, a multiple of `world_size * num_workers`.
            None: `world_size * max(1, num_workers)`, or the number in the state that is loaded.
        seed: The seed of all nodes that have none of their own.
        rank: This rank among those that read different data; None asks `torch.distributed`, then torchrun's
            environment.
        world_size: The number of such ranks; given with `rank`.
        uneven: What happens when streams end at different times: "allow", "drop" or "pad".
        prefetch_factor: How many outputs each worker makes ahead.
        pin_memory: Whether tensors are copied to pinned memory.
        persistent_workers: Whether workers live on between passes.
        mp_context: How workers are started: "fork", "spawn", "forkserver", or None for the platform's default.
        timeout: Seconds to wait for an output of a worker; 0 is without limit.
        on_error: The policy for nodes that have none of their own: "raise", "skip" or `callable(error, key)`.
        tolerance: How many elements in a row may be skipped for errors at one node.
        on_restore_error: What happens after a resume to a buffered element that cannot be rebuilt: "raise", "skip" (it
            is dropped and counted) or `callable(error, key)`.

    Returns:
        A `Loader` with `state_dict` and `load_state_dict`.

    Raises:
        TypeError: If a number or the seed is no integer.
        ValueError: If the numbers do not fit each other, a node cannot run where it is to run, lengths that
            `uneven` needs are not known, or the graph cannot be pickled for "spawn" and "forkserver".
    """
    num_workers, prefetch_factor = (
        plain_int("a loader", "num_workers", num_workers),
        plain_int("a loader", "prefetch_factor", prefetch_factor),
    )
    streams = None if streams is None else plain_int("a loader", "streams", streams)
    tolerance = plain_int("a loader", "tolerance", tolerance)
    if num_workers and prefetch_factor < 1:
        raise ValueError(f"a loader needs prefetch_factor >= 1, got prefetch_factor={prefetch_factor}")
    if timeout < 0:
        raise ValueError(f"a loader needs timeout >= 0, got timeout={timeout}")
    if mp_context not in (None, "fork", "spawn", "forkserver"):
        raise ValueError(f'a loader needs mp_context="fork", "spawn", "forkserver" or None, got {mp_context!r}')
    if tolerance < 0:
        raise ValueError(f"a loader needs tolerance >= 0, got tolerance={tolerance}")
    place, size = find_rank(rank, world_size)
    default = size * max(1, num_workers)
    topology = Topology(default if streams is None else streams, place, size, num_workers)
    context = Context(seed=seed, on_error=on_error, tolerance=tolerance, on_restore_error=on_restore_error)
    settings = WorkerSettings(prefetch_factor, pin_memory, persistent_workers, mp_context, timeout)
    return Loader(source, context, topology, uneven, settings, fixed=streams is not None)
