"""What happens when streams end at different times: how many outputs each gives in a pass."""

from __future__ import annotations

import logging
from math import inf, isinf
from typing import Any, Literal, TypeAlias

from energon_nodes.core.node import Node
from energon_nodes.loading.topology import Topology

__all__ = ["Uneven", "quota_of", "rank_length", "warn_of_uneven_ranks"]

Uneven: TypeAlias = Literal["allow", "drop", "pad"]
"""Let streams end when they end, cut all to the shortest, or fill all up to the longest."""

_log = logging.getLogger("energon_nodes")


def quota_of(node: Node[Any], streams: int, uneven: Uneven) -> int | None:
    """Return how many outputs every stream gives in a pass, None where each gives what it has.

    Cutting and filling go by streams, not by ranks. So a pass is the same under every number of ranks, all streams are
    always within one turn of each other, and what a checkpoint must know is the stream's own count of turns.

    Args:
        node: The root of the graph.
        streams: The number of streams of the whole job.
        uneven: "allow", "drop" or "pad".

    Raises:
        ValueError: If the lengths that "drop" and "pad" need are not known, or a stream has no outputs.

    Example:
        >>> import energon_nodes as en
        >>> [quota_of(en.items(range(10)), 4, uneven) for uneven in ("allow", "drop", "pad")]
        [None, 2, 3]
    """
    if uneven not in ("allow", "drop", "pad"):
        raise ValueError(f'a loader needs uneven="allow", "drop" or "pad", got {uneven!r}')
    if uneven == "allow":
        return None
    lengths = [node.length(stream, streams) for stream in range(streams)]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        raise ValueError(
            f"uneven={uneven!r} needs to know how many outputs each stream gives, and {node!r} cannot tell (a node in "
            "it yields a number that depends on data): end the pipeline with .repeat().epochize(n), where n is the "
            f"outputs of a pass and a multiple of streams={streams}"
        )
    if min(known) == inf:
        return None
    if min(known) == 0:
        raise ValueError(
            f"uneven={uneven!r} needs at least one output in each of streams={streams}, and stream {known.index(0)} "
            "has none: use fewer streams"
        )
    if inf in known:
        raise ValueError(f"uneven={uneven!r} needs streams that all end or all go on, and some of {node!r} end")
    return int(min(known) if uneven == "drop" else max(known))


def rank_length(node: Node[Any], topology: Topology, quota: int | None) -> float | None:
    """Return the number of outputs of a rank in a pass: `math.inf` without end, None where it is not known."""
    if quota is not None:
        return quota * len(topology.hosted)
    lengths = [node.length(stream, topology.streams) for stream in topology.hosted]
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


def warn_of_uneven_ranks(node: Node[Any], topology: Topology, quota: int | None) -> None:
    """Say in the log of the first rank that ranks may give different numbers of outputs."""
    if topology.world_size == 1 or topology.rank or quota is not None:
        return
    lengths = [
        rank_length(node, Topology(topology.streams, rank, topology.world_size), None)
        for rank in range(topology.world_size)
    ]
    if None in lengths:
        if not any(length is not None and isinf(length) for length in lengths):
            _log.warning(
                "the %d ranks may give different numbers of outputs in a pass, since %r does not know its length: a "
                "loop that synchronises the ranks would wait for ever at the end. Use .repeat().epochize(n)",
                topology.world_size,
                node,
            )
    elif len(set(lengths)) > 1:
        known = [length for length in lengths if length is not None]
        _log.warning(
            "the %d ranks give from %g to %g outputs in a pass: a loop that synchronises them would wait for ever at "
            'the end. Use uneven="drop" or "pad", or .repeat().epochize(n)',
            topology.world_size,
            min(known),
            max(known),
        )
