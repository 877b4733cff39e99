"""Whether every split of the streams into ranks and workers gives one order, also across a resume."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from energon_nodes.loading.loader import Loader
from energon_nodes.loading.loader import loader as make_loader
from energon_nodes.loading.state import merge_states
from energon_nodes.testing.report import compare
from energon_nodes.testing.runs import Make, dump, fresh, load, spread
from energon_nodes.testing.streams import cut_off, interleave

__all__ = ["check_topologies"]


def check_topologies(
    make: Make, *, streams: int = 6, num_workers: Sequence[int] = (0,), cuts: int = 3, most: int = 24
) -> None:
    """Check that all splits of the streams into ranks and workers deliver the same outputs in the same order.

    The ranks are simulated in this process. The states of all ranks of each split are merged, go through a file, and
    are loaded under each split; the outputs of a rank are those of its turns.

    Args:
        make: Builds the pipeline.
        streams: The number of logical streams.
        num_workers: The numbers of workers of a rank that are tried, where they divide its streams.
        cuts: The most points at which each split is saved.
        most: The most elements of a stream in a pass that are looked at.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_topologies(lambda: en.items(range(40)).shuffle(3).batch(2), streams=4)
    """
    check = "check_topologies"
    expected = interleave(make, streams, passes=2, most=most)
    splits = [
        _Split(make, streams, ranks, workers)
        for ranks in range(1, streams + 1)
        for workers in num_workers
        if streams % (ranks * max(1, workers)) == 0
    ]
    for split in splits:
        loaders = split.loaders()
        for number, elements in enumerate(expected):
            split.compare(check, f"pass {number + 1}", loaders, elements, most, fresh_run=True)
        states: list[tuple[int | None, bytes]] = [
            (turn, split.saved_at(expected[0], turn)) for turn in _points(expected[0], split.ranks, streams, cuts)
        ]
        if not cut_off(expected[0], streams, most):
            states.append((None, split.saved_at(expected[0], None)))
        for turn, state in states:
            for other in splits:
                if turn is None:  # a loader that resumes at the end of a pass gives the next one
                    other.compare(
                        check, f"saved by {split} at the end of pass 1", other.loaders(state), expected[1], most
                    )
                elif turn % other.ranks == 0:
                    rest = [(at, value) for at, value in expected[0] if at >= turn]
                    other.compare(check, f"saved by {split} at turn {turn}", other.loaders(state), rest, most)


class _Split:
    """Run one split of the streams: the loaders of all its ranks."""

    def __init__(self, make: Make, streams: int, ranks: int, workers: int) -> None:
        self.make, self.streams, self.ranks, self.workers = make, streams, ranks, workers

    def __str__(self) -> str:
        return f"{self.ranks} ranks with {self.workers} workers"

    def loaders(self, state: bytes | None = None) -> list[Loader[Any]]:
        made = [
            make_loader(
                fresh(self.make), streams=self.streams, num_workers=self.workers, rank=rank, world_size=self.ranks
            )
            for rank in range(self.ranks)
        ]
        if state is not None:
            for loader in made:
                loader.load_state_dict(load(state))
        return made

    def compare(
        self,
        check: str,
        what: str,
        loaders: list[Loader[Any]],
        elements: list[tuple[int, Any]],
        most: int,
        fresh_run: bool = False,
    ) -> None:
        """Compare the rest of the running pass of all ranks with the turns that are theirs.

        After a resume a rank that has no turn left is not asked: it would give its next pass.
        """
        for rank, loader in enumerate(loaders):
            turns = [(turn, value) for turn, value in elements if turn % self.ranks == rank]
            mine = [value for _, value in turns]
            ends = not cut_off(turns, self.streams, most)
            if mine or fresh_run:
                got = list(loader if ends else islice(loader, len(mine)))
                where = f"{what}: rank {rank} of {self}, {self.streams} streams"
                compare(check, where, fresh(self.make), mine, got)

    def saved_at(self, elements: list[tuple[int, Any]], turn: int | None) -> bytes:
        """Return the merged state of all ranks after the outputs of the turns before `turn`; None runs to the end."""
        loaders = self.loaders()
        for rank, loader in enumerate(loaders):
            count = sum(1 for at, _ in elements if turn is not None and at < turn and at % self.ranks == rank)
            got = list(loader) if turn is None else list(islice(loader, count)) if count else []
            del got
        state = dump(merge_states([loader.state_dict() for loader in loaders]))
        for loader in loaders:
            loader.close()
        return state


def _points(elements: list[tuple[int, Any]], ranks: int, streams: int, cuts: int) -> list[int]:
    """Return turns at which all ranks stand at the same step: the round before has an output of each."""
    there = {turn for turn, _ in elements}
    last = max(there, default=-1) + 1
    rounds = [turn for turn in range(ranks, last, ranks) if all(turn - 1 - rank in there for rank in range(ranks))]
    common = [turn for turn in rounds if turn % streams == 0]
    return sorted({rounds[n] for n in spread(len(rounds), cuts)} | set(common[-1:]))
