"""Which streams a rank hosts, and which worker runs them.

Turn `t` of the whole job belongs to stream `t mod streams`. Rank `r` of `R` hosts the streams `s` with
`s mod R == r`; the `l`-th of them runs on worker `l mod W`. So the order of the outputs depends on
the number of streams alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Topology", "find_rank"]


@dataclass(frozen=True)
class Topology:
    """Place streams on ranks and workers.

    Args:
        streams: The number of logical streams of the whole job.
        rank: This rank, in `[0, world_size)`.
        world_size: The number of ranks that read different data.
        num_workers: Worker processes of this rank; 0 runs the streams in this process.

    Raises:
        ValueError: If the streams cannot be spread evenly over ranks and workers.

    Example:
        >>> Topology(streams=8, rank=1, world_size=2, num_workers=2).hosted
        [1, 3, 5, 7]
        >>> Topology(streams=7, rank=0, world_size=2, num_workers=2)
        Traceback (most recent call last):
        ...
        ValueError: streams=7 cannot be spread evenly over 2 ranks with 2 workers each: use streams=4 or streams=8
    """

    streams: int
    rank: int = 0
    world_size: int = 1
    num_workers: int = 0

    def __post_init__(self) -> None:
        for name, least in (("streams", 1), ("world_size", 1), ("num_workers", 0), ("rank", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"a loader needs {name} >= {least}, got {name}={value!r}")
        if self.rank >= self.world_size:
            raise ValueError(f"a loader needs rank < world_size, got rank={self.rank}, world_size={self.world_size}")
        unit = self.world_size * max(1, self.num_workers)
        if self.streams % unit:
            below, above = self.streams // unit * unit, -(-self.streams // unit) * unit
            allowed = f"streams={below} or streams={above}" if below else f"streams={above}"
            raise ValueError(
                f"streams={self.streams} cannot be spread evenly over {self.world_size} ranks with "
                f"{self.num_workers} workers each: use {allowed}"
            )

    @cached_property
    def hosted(self) -> list[int]:
        """The numbers of this rank's streams, in the order of its turns."""
        return list(range(self.rank, self.streams, self.world_size))

    def stream_at(self, turn: int) -> int:
        """Return the stream that the rank's own turn number `turn` belongs to."""
        return turn % (self.streams // self.world_size) * self.world_size + self.rank

    def due(self, turns: Sequence[int | None]) -> int:
        """Return the rank's own turn that is due.

        Args:
            turns: For each of the `hosted` streams how many turns it has had, None if it has ended.

        Example:
            >>> Topology(streams=3).due([2, 1, 1]), Topology(streams=3).due([2, None, 2])
            (4, 6)
        """
        each = len(self.hosted)
        return min((had * each + place for place, had in enumerate(turns) if had is not None), default=0)

    def of_worker(self, worker: int) -> list[int]:
        """Return the numbers of the streams that a worker runs."""
        return self.hosted[worker :: self.num_workers]

    def worker_of(self, turn: int) -> int:
        """Return the worker that makes the output of the rank's own turn number `turn`."""
        return turn % max(1, self.num_workers)


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return rank and world size: as given, else of `torch.distributed`, else of torchrun's environment.

    Raises:
        ValueError: If only one of the two is given.

    Example:
        >>> find_rank(1, 4)
        (1, 4)
    """
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise ValueError(
            f"a loader needs both rank and world_size or neither, got rank={rank}, world_size={world_size}"
        )
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
