"""`dataset`: a pipeline for torchdata's `StatefulDataLoader` and torch's plain `DataLoader`."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from energon_nodes.core import graph
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import Context, ErrorPolicy
from energon_nodes.loading.entries import plain_dumps, plain_loads
from energon_nodes.loading.topology import find_rank

__all__ = ["PipelineDataset", "dataset"]

X = TypeVar("X", covariant=True)
_log = logging.getLogger("energon_nodes")
_SLOTS = 1024  # workers that can be told apart; torch has no way to ask for their number here


class PipelineDataset(IterableDataset[X]):
    """Offer a pipeline to DataLoaders of torch and torchdata; `pipeline.dataset()` makes it.

    A DataLoader may make its workers anew for every pass, and then they know nothing of the passes before. So the
    dataset keeps for each worker how many passes were begun (in shared memory), and where the last complete one
    ended (in a file, since that is more than a number: an `epochize` goes on in its source).

    Example:
        >>> import energon_nodes as en
        >>> from torch.utils.data import DataLoader
        >>> loader = DataLoader(en.items("abc").repeat().epochize(2).dataset(), batch_size=None)
        >>> list(loader), list(loader)
        (['a', 'b'], ['c', 'a'])
    """

    def __init__(self, node: Node[X], context: Context, rank: int, world_size: int) -> None:
        self._node = node.clone()
        self._context = context
        self._rank, self._world_size = rank, world_size
        self._passes = cast("torch.Tensor", torch.zeros(_SLOTS, dtype=torch.int64).share_memory_())
        self._folder = tempfile.mkdtemp(prefix="energon_nodes_")
        weakref.finalize(self, _remove, self._folder, os.getpid())

    def __iter__(self) -> Iterator[X]:
        info = get_worker_info()
        slot, workers = (0, 0) if info is None else (info.id, info.num_workers)
        if slot >= _SLOTS:
            raise ValueError(f"a dataset serves up to {_SLOTS} workers, got worker {slot}; use pipeline.loader(...)")
        for part in graph.walk(self._node) if workers else ():
            part.check_worker()
        stream = slot * self._world_size + self._rank
        context = replace(self._context, stream=stream, streams=self._world_size * max(1, workers))
        begun = _Begun(self._passes[slot], Path(self._folder) / f"{stream}-of-{context.streams}.pass")
        return _Pass(self._node.clone(), context, begun, alone=workers == 0)


class _Begun:
    """Know how many passes a worker's stream has begun, and a point in one of them to count from."""

    def __init__(self, passes: torch.Tensor, path: Path) -> None:
        self._passes = passes
        self._path = path
        self.number = -1
        """The number of the present pass."""

    def count(self) -> None:
        """Begin a pass."""
        self.number = int(self._passes)
        self._passes += 1

    def go_to(self, node: Node[Any]) -> None:
        """Set a fresh node to the beginning of the present pass."""
        known = 0
        if self._path.exists():
            known, state = plain_loads(self._path.read_bytes())
            node.reset(state)
        for _ in range(self.number - known):
            node.rewind()

    def keep(self, node: Node[Any]) -> None:
        """Keep where a node stands in the present pass."""
        try:
            data = plain_dumps((self.number, node.get_state()))
        except TypeError as error:
            _log.warning(
                "where a pass of %r has ended cannot be kept (%s): workers that are made anew begin the next one as "
                "if its nodes had only been rewound",
                node,
                error,
            )
            return
        temporary = self._path.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(self._path)


class _Pass(Iterator[X]):
    """Run one pass of one worker's stream; the state of a StatefulDataLoader lives here and nowhere else."""

    def __init__(self, node: Node[X], context: Context, begun: _Begun, *, alone: bool) -> None:
        self._node = node
        self._begun = begun
        self._alone = alone  # whether nobody pulls ahead: a worker cannot know whether the others have more to give
        self._resumed = False  # whether it goes on where a state was taken, without an output so far
        node.bind(context)
        begun.count()
        begun.go_to(node)

    def __next__(self) -> X:
        resumed, self._resumed = self._resumed and self._alone, False
        try:
            return next(self._node)
        except StopIteration:
            self._begun.keep(self._node)
            if not resumed:
                raise
        # The state was taken behind the last output of its pass: an empty pass helps nobody.
        self._node.reset(None)
        self._begun.count()
        return self.__next__()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker's stream."""
        return self._node.get_state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to a saved state; the next pass follows its pass.

        Raises:
            StateError: If the state belongs to another pipeline, seed, or number of workers.
        """
        streams, own = state_dict.get("streams"), self._node.context.streams
        if streams != own:
            raise StateError(
                f"the checkpoint has {streams} streams, one for each worker of each rank, this DataLoader makes {own}: "
                "StatefulDataLoader resumes with the same num_workers and ranks only; pipeline.loader(...) with any"
            )
        self._node.reset(state_dict)
        self._begun.keep(self._node)
        self._resumed = not state_dict["ended"]


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked worker
        shutil.rmtree(folder, ignore_errors=True)


@add_verb
def dataset(
    source: Node[X],
    *,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    on_error: ErrorPolicy = "raise",
    tolerance: int = 100,
    on_restore_error: ErrorPolicy = "raise",
) -> PipelineDataset[X]:
    """Make a dataset for torchdata's `StatefulDataLoader` or torch's `DataLoader`.

    Every worker runs one stream. Give `batch_size=None` to the DataLoader, since pipelines batch
    themselves. A resume through `StatefulDataLoader` needs the same number of workers;
    `pipeline.loader` needs not. Every iteration is the next pass, also in workers that are made anew for
    each; so give each DataLoader a dataset of its own, or they take turns in counting.

    Example:
        >>> import energon_nodes as en
        >>> from torchdata.stateful_dataloader import StatefulDataLoader
        >>> loader = StatefulDataLoader(en.items(range(4)).batch(2).dataset(), batch_size=None)
        >>> list(loader)
        [[0, 1], [2, 3]]

    Args:
        source: The pipeline.
        seed: The seed of all nodes that have none of their own.
        rank: This rank among those that read different data; None asks `torch.distributed`, then torchrun's
            environment.
        world_size: The number of such ranks; given with `rank`.
        on_error: The policy for nodes that have none of their own: "raise", "skip" or `callable(error, key)`.
        tolerance: How many elements in a row may be skipped for errors at one node.
        on_restore_error: What happens after a resume to a buffered element that cannot be rebuilt: "raise", "skip" (it
            is dropped and counted) or `callable(error, key)`.

    Returns:
        An `IterableDataset` whose iterators have `state_dict` and `load_state_dict`.
    """
    context = Context(seed=seed, on_error=on_error, tolerance=tolerance, on_restore_error=on_restore_error)
    return PipelineDataset(source, context, *find_rank(rank, world_size))
