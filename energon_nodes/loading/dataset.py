"""`dataset`: a pipeline for torchdata's `StatefulDataLoader` and torch's plain `DataLoader`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from energon_nodes.combinators.epochize import Epochize
from energon_nodes.core import graph
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import Context, ErrorPolicy
from energon_nodes.loading.topology import find_rank

__all__ = ["PipelineDataset", "dataset"]

X = TypeVar("X", covariant=True)
_SLOTS = 1024  # workers that can be told apart; torch has no way to ask for their number here


class PipelineDataset(IterableDataset[X]):
    """Offer a pipeline to DataLoaders of torch and torchdata; `pipeline.dataset()` makes it."""

    def __init__(self, node: Node[X], context: Context, rank: int, world_size: int) -> None:
        self._node = node.clone()
        self._context = context
        self._rank, self._world_size = rank, world_size
        # Workers that do not live on find the number of the next pass of their slot here.
        self._passes = cast("torch.Tensor", torch.zeros(_SLOTS, dtype=torch.int64).share_memory_())
        self._ends: str | None = None
        if any(isinstance(part, Epochize) for part in graph.walk(node)):
            # Where a virtual epoch has stopped is more than a number: it is kept in a file for each slot.
            self._ends = tempfile.mkdtemp(prefix="energon_nodes_")
            weakref.finalize(self, shutil.rmtree, self._ends, ignore_errors=True)

    def __iter__(self) -> Iterator[X]:
        info = get_worker_info()
        slot, workers = (0, 0) if info is None else (info.id, info.num_workers)
        if slot >= _SLOTS:
            raise ValueError(f"a dataset serves up to {_SLOTS} workers, got worker {slot}; use pipeline.loader(...)")
        for part in graph.walk(self._node) if workers else ():
            part.check_worker()
        stream = slot * self._world_size + self._rank
        context = replace(self._context, stream=stream, streams=self._world_size * max(1, workers))
        end = None if self._ends is None else Path(self._ends) / f"{slot}.state"
        return _Pass(self._node.clone(), context, self._passes[slot], end, alone=workers == 0)


class _Pass(Iterator[X]):
    """Run one pass of one worker's stream; the state of a StatefulDataLoader lives here and nowhere else."""

    def __init__(self, node: Node[X], context: Context, passes: torch.Tensor, end: Path | None, *, alone: bool) -> None:
        self._node = node
        self._passes = passes
        self._end = end
        self._alone = alone  # whether nobody pulls ahead: a worker cannot know whether the others have more to give
        self._resumed = False  # whether it goes on where a state was taken, without an output so far
        node.bind(context)
        number = int(passes)
        passes += 1
        if end is not None and end.exists():
            node.reset(torch.load(end, weights_only=True))
            number = node.epoch + 1
            node.rewind()
        for _ in range(number - node.epoch):
            node.rewind()

    def __next__(self) -> X:
        resumed, self._resumed = self._resumed and self._alone, False
        try:
            return next(self._node)
        except StopIteration:
            self._keep_end()
            if not resumed:
                raise
        # The state was taken behind the last output of its pass: an empty pass helps nobody.
        self._node.reset(None)
        self._passes += 1
        return self.__next__()

    def _keep_end(self) -> None:
        if self._end is not None:
            temporary = self._end.with_suffix(".new")
            torch.save(self._node.get_state(), temporary)
            temporary.replace(self._end)

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
        self._passes.fill_(self._node.epoch + 1)
        if state_dict["ended"]:
            self._keep_end()
        else:
            self._resumed = True


@add_verb
def dataset(
    source: Node[X],
    *,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    on_error: ErrorPolicy = "raise",
    tolerance: int = 100,
) -> PipelineDataset[X]:
    """Make a dataset for torchdata's `StatefulDataLoader` or torch's `DataLoader`.

    Every worker runs one stream. Give `batch_size=None` to the DataLoader, since pipelines batch
    themselves. A resume through `StatefulDataLoader` needs the same number of workers;
    `pipeline.loader` needs not.

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

    Returns:
        An `IterableDataset` whose iterators have `state_dict` and `load_state_dict`.
    """
    context = Context(seed=seed, on_error=on_error, tolerance=tolerance)
    return PipelineDataset(source, context, *find_rank(rank, world_size))
