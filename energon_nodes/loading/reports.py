"""What a loader tells about itself: where its streams run, and what its nodes have skipped."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf
from typing import Any

from energon_nodes.core import graph
from energon_nodes.core.node import Node
from energon_nodes.loading.entries import body_of
from energon_nodes.loading.topology import Topology
from energon_nodes.loading.uneven import rank_length

__all__ = ["counts_of", "plan_of"]


def counts_of(node: Node[Any], entries: Iterable[bytes]) -> dict[str, dict[str, int]]:
    """Return how many elements each node has dropped in the streams of these entries."""
    found: dict[str, dict[str, int]] = {}
    for data in entries:
        _add_counts(found, node, body_of(data)[0])
    return found


def _add_counts(found: dict[str, dict[str, int]], node: Node[Any], snapshot: Any) -> None:
    while not node.in_checkpoints:  # it has no part in the snapshot, and drops nothing
        (node,) = node.sources_of()
    (_, skipped, failed), _, below = snapshot
    if skipped or failed:
        entry = found.setdefault(repr(node), {"skipped": 0, "failed": 0})
        entry["skipped"] += skipped
        entry["failed"] += failed
    for source, part in zip(node.sources_of(), below, strict=True):
        _add_counts(found, source, part)


def plan_of(node: Node[Any], topology: Topology, quota: int | None) -> str:
    """Return which streams run where, what each of them buffers, and how they end, as text."""
    workers = topology.num_workers
    each = len(topology.hosted) // max(1, workers)
    where = f"{each} in each of {workers} workers" if workers else "in this process"
    ranks = f"{topology.world_size} rank" + "s" * (topology.world_size > 1)
    lines = [
        f"{topology.streams} streams on {ranks}; rank {topology.rank} hosts {len(topology.hosted)}, {where}",
        _outputs(node, topology, quota),
    ]
    place = "each worker" if workers else "this process"
    for part in graph.walk(node):
        if graph.buffers_of(part):
            short = ", and each may end with a short one" if getattr(part, "drop_last", None) is False else ""
            lines.append(f"{part!r}: one for each stream, {each} in {place}{short}")
    return "\n".join(lines)


def _outputs(node: Node[Any], topology: Topology, quota: int | None) -> str:
    total = rank_length(node, topology, quota)
    if total is None:
        return "the number of outputs in a pass is not known: a node yields a number that depends on data"
    if isinf(total):
        return "a pass has no end"
    lengths = [node.length(stream, topology.streams) if quota is None else quota for stream in topology.hosted]
    shown = sorted({int(length or 0) for length in lengths}, reverse=True)
    each = " each" * (len(shown) == 1)
    return f"{total:g} outputs of this rank in a pass; the streams give {', '.join(map(str, shown))}{each}"
