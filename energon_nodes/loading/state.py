"""The state of a loader: flat, one `bytes` for each stream, and what refuses a wrong one.

The layout suits `torch.distributed.checkpoint`: under it the keys of all ranks are one namespace,
so another number of ranks can load them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from energon_nodes.core import graph
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node
from energon_nodes.loading.entries import ENDED, body_of, header_of, plain_dumps, plain_loads

__all__ = ["Position", "Run", "check_shape", "load_position", "merge_states", "save_position"]

_INTS = ("format", "seed", "streams", "world_size", "pass", "step", "turn")


@dataclass(frozen=True)
class Run:
    """Say which run a state belongs to; only a loader of an equal run can load it.

    Args:
        node: The root of the graph.
        seed: The seed of the loader.
        uneven: How streams of different lengths end.
    """

    node: Node[Any]
    seed: int
    uneven: str

    @cached_property
    def graph(self) -> bytes:
        """The signature of the graph, which does not change."""
        return plain_dumps(graph.signature(self.node))


@dataclass
class Position:
    """Say where the streams of one rank stand.

    Args:
        passes: How many passes have been left behind.
        step: How many outputs the rank has received in this pass.
        entries: The entry of each stream, by number; a stream without one has not begun.
        turn: The rank's turn behind the last output.
    """

    passes: int = 0
    step: int = 0
    turn: int = 0
    entries: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def has_ended(self) -> bool:
        """Return whether all streams have delivered all outputs of the pass."""
        return bool(self.entries) and all(header_of(data).phase == ENDED for data in self.entries.values())


def save_position(run: Run, position: Position, streams: int, world_size: int) -> dict[str, Any]:
    """Return the state of a loader as a flat dictionary of plain values."""
    state: dict[str, Any] = {
        "format": graph.FORMAT,
        "graph": run.graph,
        "seed": run.seed,
        "uneven": run.uneven,
        "streams": streams,
        "world_size": world_size,
        "pass": position.passes,
        "step": position.step,
        "turn": position.turn * world_size,
    }
    return state | {f"stream.{number}": data for number, data in position.entries.items()}


def load_position(state: Any, run: Run, hosted: Sequence[int], world_size: int) -> Position:
    """Return where the `hosted` streams of a rank stand in a state.

    Raises:
        StateError: If the state is damaged or of another run, lacks streams, or was taken where this number of
            ranks cannot go on.
    """
    found = check_shape(state)
    graph.check_format(found["format"])
    if found["seed"] != run.seed:
        raise StateError(
            f"the checkpoint was saved with seed={found['seed']}, this loader has seed={run.seed}: the orders differ; "
            f"build it with seed={found['seed']}"
        )
    _check_graph(run.node, found["graph"])
    if found["uneven"] != run.uneven:
        raise StateError(
            f"the checkpoint was saved with uneven={found['uneven']!r}, this loader has uneven={run.uneven!r}: their "
            f"passes end at different outputs; build it with uneven={found['uneven']!r}"
        )
    missing = [stream for stream in hosted if f"stream.{stream}" not in found]
    if missing:
        raise StateError(
            f"the checkpoint lacks the streams {_few(missing)} of {found['streams']}, which this rank of {world_size} "
            "hosts: it is the state of one rank of several. Merge those of all ranks with energon_nodes.merge_states, "
            f"or, under torch.distributed.checkpoint, build the loader with streams={found['streams']} before loading"
        )
    entries = {stream: found[f"stream.{stream}"] for stream in hosted}
    saved = [header_of(value) for name, value in found.items() if name.startswith("stream.")]
    for data in entries.values():
        body_of(data)  # damaged bytes are reported here, not in a worker
    if found["turn"] % world_size and not any(header.phase == ENDED for header in saved):
        raise StateError(
            f"the checkpoint stands at turn {found['turn']}, in the middle of a round of {world_size} ranks: "
            "save after a number of outputs that the number of ranks divides"
        )
    step = found["step"] * found["world_size"] // world_size
    return Position(found["pass"], step, found["turn"] // world_size, entries)


def merge_states(states: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge the loader states of several ranks into one that any number of ranks can load.

    Ranks that read the same data (those of one tensor-parallel group, say) may each give their state.

    Args:
        states: The result of `loader.state_dict()` of every rank, taken at the same step.

    Returns:
        One state with all streams.

    Raises:
        StateError: If the states are of different runs or numbers of ranks, were taken at different steps, or
            streams are missing.

    Example:
        >>> import energon_nodes as en
        >>> ranks = [en.items(range(8)).loader(rank=rank, world_size=2) for rank in range(2)]
        >>> merged = merge_states([loader.state_dict() for loader in ranks])
        >>> [key for key in merged if key.startswith("stream.")]
        ['stream.0', 'stream.1']
    """
    checked = [check_shape(state) for state in states]
    if not checked:
        raise StateError("merge_states needs the states of all ranks, got none")
    first, merged = checked[0], dict[str, Any]()
    for number, state in enumerate(checked):
        for name in ("format", "graph", "seed", "uneven", "streams", "world_size", "pass"):
            if state[name] != first[name]:
                shown = f": {first[name]!r} and {state[name]!r}" if name != "graph" else ""
                raise StateError(
                    f"state 0 and state {number} differ in {name}{shown}; give the states that the ranks of one "
                    "run took at the same step, and no older files"
                )
        for name in state:
            if name.startswith("stream.") and name in merged and merged[name] != state[name]:
                raise StateError(
                    f"state {number} and one before it hold different entries for {name}: give each rank once, and the "
                    "states of one step"
                )
        merged |= state
    _check_steps(checked)
    missing = [stream for stream in range(first["streams"]) if f"stream.{stream}" not in merged]
    if missing:
        raise StateError(f"the states lack the streams {_few(missing)} of {first['streams']}; give those of all ranks")
    return merged | {name: max(state[name] for state in checked) for name in ("step", "turn")}


def _check_steps(states: list[dict[str, Any]]) -> None:
    """Refuse states of different steps; a rank whose streams have all ended fits to every later step.

    Where streams have ended, ranks that have received equally many outputs stand at different turns.
    """
    going = [number for number, state in enumerate(states) if not _has_ended(state)]
    for number in going[1:]:
        one, other = states[going[0]], states[number]
        if one["step"] != other["step"] and one["turn"] != other["turn"]:
            raise StateError(
                f"state {going[0]} was taken after {one['step']} outputs of its rank in this pass, state {number} "
                f"after {other['step']}; take the states of all ranks at one step"
            )


def _has_ended(state: dict[str, Any]) -> bool:
    return all(header_of(value).phase == ENDED for name, value in state.items() if name.startswith("stream."))


def check_shape(state: Any) -> dict[str, Any]:
    """Return a state whose parts have the types that a loader gives them.

    Raises:
        StateError: If it is no such state.
    """
    if not isinstance(state, dict) or "streams" not in state or "format" not in state:
        raise StateError("this is no state of a loader: expected the dictionary that loader.state_dict() returned")
    found = cast("dict[str, Any]", state)
    kinds = dict.fromkeys(_INTS, int) | {"uneven": str, "graph": bytes}
    for name, kind in kinds.items():
        if not isinstance(found.get(name), kind) or (kind is int and found[name] < 0 and name != "seed"):
            raise StateError(f"the checkpoint's {name!r} is {found.get(name)!r}: the file is damaged")
    for name, value in found.items():
        if name.startswith("stream."):
            header_of(value)
    return found


def _check_graph(node: Node[Any], saved: bytes) -> None:
    try:
        graph.check_graph(node, plain_loads(saved))
    except StateError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError(f"the checkpoint's graph cannot be read ({error}); the file is damaged") from error


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + ("" if len(numbers) <= 10 else ", ...")
