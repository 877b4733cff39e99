"""How the state of a loader is laid out: flat, one `bytes` for each stream.

A stream's entry is a phase byte and a pickle of plain data, which is read by an unpickler that
refuses every class. The layout suits `torch.distributed.checkpoint`: under it the keys of all ranks
are one namespace, so another number of ranks can load them.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, cast

from energon_nodes.core import graph
from energon_nodes.core.errors import StateError
from energon_nodes.core.node import Node

__all__ = ["ENDED", "NEXT", "RUNNING", "check_loader_state", "entry", "in_phase", "merge_states", "plain_dumps", "plain_loads", "split_entry"]

RUNNING = b"R"
"""Phase of a stream in the middle of a pass."""
ENDED = b"E"
"""Phase of a stream that has delivered all elements of its pass."""
NEXT = b"N"
"""Phase of a stream that begins its next pass: it is rewound after loading."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise StateError(
            f"the checkpoint asks for {module_name}.{global_name}, but it may hold plain data only: the file is "
            "damaged or was not written by a loader"
        )


def plain_dumps(value: Any) -> bytes:
    """Return plain data as bytes."""
    return pickle.dumps(value, protocol=5)


def plain_loads(data: bytes) -> Any:
    """Read plain data from bytes; nothing in them can run code.

    Raises:
        StateError: If the bytes are damaged or ask for a class.

    Example:
        >>> plain_loads(plain_dumps({"a": [1, 2]}))
        {'a': [1, 2]}
        >>> plain_loads(pickle.dumps(print))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.StateError: the checkpoint asks for builtins.print, but it may hold plain data only: ...
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"the checkpoint's bytes cannot be read ({error}); the file is damaged") from error


def entry(phase: bytes, snapshot: Any) -> bytes:
    """Return the entry of one stream."""
    return phase + plain_dumps(snapshot)


def in_phase(data: bytes, phase: bytes) -> bytes:
    """Return the entry in another phase, its snapshot as it is."""
    return phase + data[1:]


def split_entry(data: bytes) -> tuple[bytes, Any]:
    """Return phase and snapshot of a stream's entry."""
    if data[:1] not in (RUNNING, ENDED, NEXT):
        raise StateError("an entry of the checkpoint has no phase that this release knows; the file is damaged")
    return data[:1], plain_loads(data[1:])


def check_loader_state(state: Any, node: Node[Any], seed: int) -> None:
    """Raise a StateError that names place and values if a state does not belong to this loader."""
    if not isinstance(state, dict) or "turn" not in state or "streams" not in state:
        raise StateError("this is no state of a loader: expected the dictionary that loader.state_dict() returned")
    found = cast("dict[str, Any]", state)
    graph.check_format(found["format"])
    if found["seed"] != seed:
        raise StateError(
            f"the checkpoint was saved with seed={found['seed']}, this loader has seed={seed}: the orders differ; "
            f"build it with seed={found['seed']}"
        )
    graph.check_graph(node, plain_loads(found["graph"]))


def merge_states(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the loader states of several ranks into one that any number of ranks can load.

    Args:
        states: The result of `loader.state_dict()` of every rank, taken at the same step.

    Returns:
        One state with all streams.

    Raises:
        StateError: If the states are of different runs or were taken at different steps, or streams are missing.

    Example:
        >>> import energon_nodes as en
        >>> ranks = [en.items(range(8)).loader(rank=rank, world_size=2) for rank in range(2)]
        >>> merged = merge_states([loader.state_dict() for loader in ranks])
        >>> [key for key in merged if key.startswith("stream.")]
        ['stream.0', 'stream.1']
    """
    if not states:
        raise StateError("merge_states needs the states of all ranks, got none")
    first = states[0]
    merged: dict[str, Any] = {}
    for number, state in enumerate(states):
        for name in ("format", "graph", "seed", "streams", "turn"):
            if state[name] != first[name]:
                shown = f": {first[name]!r} and {state[name]!r}" if name != "graph" else ""
                raise StateError(f"state 0 and state {number} differ in {name}{shown}; take the states of all ranks at one step")
        merged.update(state)
    missing = [stream for stream in range(first["streams"]) if f"stream.{stream}" not in merged]
    if missing:
        raise StateError(f"the states lack the streams {missing[:10]}; give those of all ranks")
    return merged
