"""What concerns a graph as a whole: placing it into a run, its signature, its state, its pictures."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from energon_nodes.core.encoders import EMPTY_BYTES, PLAIN_TYPES
from energon_nodes.core.errors import StateError
from energon_nodes.core.fields import kind_of
from energon_nodes.core.share import Context

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = [
    "FORMAT",
    "buffers_of",
    "check_functions",
    "check_graph",
    "check_state",
    "copy_plain",
    "diagram",
    "explain",
    "is_stateful",
    "place",
    "report_saved_values",
    "settings",
    "signature",
    "state_of",
    "walk",
]

_log = logging.getLogger("energon_nodes")
_reported: set[str] = set()

FORMAT = 1
"""The version of the state format; a change of it needs a new golden file."""


# ---- placing ---------------------------------------------------------------------------------


def place(node: Node[Any], context: Context, branch: tuple[int, ...] = ()) -> int:
    """Bind a graph to a context, sources first, and give every node its identity.

    The identity is the number of random nodes below plus the numbers of the branches that lead to
    the node, so a node that draws nothing can be added or removed without changing any order.

    Returns:
        The number of random nodes on the longest path from here down.
    """
    sources = node.sources_of()
    several = len(sources) > 1
    below = [place(source, context, (*branch, number) if several else branch) for number, source in enumerate(sources)]
    ordinal = max(below, default=0)
    node._context = context  # pyright: ignore[reportPrivateUsage]
    node._live = _own_copies(node)  # pyright: ignore[reportPrivateUsage]
    node.identity = (branch, ordinal)
    node.fixed = all(source.fixed for source in sources) if sources else bool(getattr(node, "fixed_epoch", False))
    node.bound()
    return ordinal + node.draws_random()


def is_stateful(value: Any) -> bool:
    """Return whether a callable carries a state that checkpoints must hold."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _own_copies(node: Node[Any]) -> dict[str, Any]:
    """Copy the stateful callables of a node, so that every stream has its own."""
    config = ((field.name, getattr(node, field.name)) for field in node._config)  # pyright: ignore[reportPrivateUsage]
    return {name: copy.deepcopy(value) for name, value in config if callable(value) and is_stateful(value)}


def report_saved_values(node: Node[Any]) -> None:
    """Say in the log, once for each, which buffers of a graph make checkpoints hold values, and for what reason."""
    for holder in walk(node):
        if all(holder.restorable(name) for name in buffers_of(holder)):
            continue
        causes = [below for below in walk(holder) if not below.restorable() and _all_restorable(below.sources_of())]
        message = f"checkpoints hold the values in the buffer of {holder!r}, since {causes} cannot rebuild elements"
        if message not in _reported:
            _reported.add(message)
            _log.info(message)


def _all_restorable(sources: Iterable[Node[Any]]) -> bool:
    return all(source.restorable() for source in sources)


# ---- state -----------------------------------------------------------------------------------


def state_of(node: Node[Any], *, touched: bool, ended: bool) -> dict[str, Any]:
    """Return the state of a root node, with all that is needed to refuse a wrong one."""
    context = node.context
    return {
        "format": FORMAT,
        "graph": signature(node),
        "seed": context.seed,
        "stream": context.stream,
        "streams": context.streams,
        "touched": touched,
        "ended": ended,
        "nodes": node.snapshot(),
    }


def check_state(node: Node[Any], state: Any) -> None:
    """Raise a StateError that names place and values if a state does not belong to this graph."""
    parts = ("format", "graph", "seed", "stream", "streams", "touched", "ended", "nodes")
    if not isinstance(state, dict) or any(part not in state for part in parts):
        raise StateError("this is no state of a pipeline: expected the dictionary that state_dict() returned")
    check_format(cast("dict[str, Any]", state)["format"])
    check_graph(node, state["graph"])
    context = node.context
    for name in ("seed", "stream", "streams"):
        if state[name] != getattr(context, name):
            raise StateError(
                f"the checkpoint was saved with {name}={state[name]}, this run has {getattr(context, name)}"
            )


def check_format(version: Any) -> None:
    """Raise a StateError if the format version is not one that this release reads."""
    if version != FORMAT:
        raise StateError(f"the checkpoint has format {version!r}; this release reads format {FORMAT}")


def signature(node: Node[Any]) -> tuple[Any, ...]:
    """Return the graph as nested plain data: type, what shapes the order, sources."""
    node = _in_checkpoints(node)
    config = {field.name: _shaping(getattr(node, field.name)) for field in node._config if kind_of(field) == "config"}  # pyright: ignore[reportPrivateUsage]
    config = {name: value for name, value in config.items() if value is not NotImplemented}
    return (type(node).__name__, config | node.facts(), tuple([signature(source) for source in node.sources_of()]))


def _shaping(value: Any) -> Any:
    """Return a setting as plain data; functions, nodes and paths do not count and give NotImplemented."""
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    for kind in cast("tuple[Any, ...]", (int, float, str, bytes)):  # an enumeration of such values, for instance
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, dict):
        value = sorted(cast("dict[Any, Any]", value).items(), key=repr)
    if isinstance(value, (list, tuple)):
        items = [_shaping(item) for item in cast("list[Any]", value)]
        return NotImplemented if any(item is NotImplemented for item in items) else tuple(items)
    return NotImplemented


def check_graph(node: Node[Any], saved: Any, place: str = "") -> None:
    """Compare a saved signature with this graph."""
    node = _in_checkpoints(node)
    where = f"at {place}" if place else "at the root"
    try:
        name, config, below = saved
        config = dict(config)
    except (TypeError, ValueError) as error:
        raise StateError(f"the checkpoint's description of the graph cannot be read ({where})") from error
    if name != type(node).__name__:
        raise StateError(f"the checkpoint holds a {name} where this pipeline has a {type(node).__name__} ({where})")
    own = signature(node)[1]
    for setting in node._config:  # pyright: ignore[reportPrivateUsage]
        # A release before the setting did what its default does now.
        if setting.name in own and setting.name not in config and getattr(node, setting.name) is setting.default:
            del own[setting.name]
    for field in [*own, *(field for field in config if field not in own)]:
        if _tuples(config.get(field)) != own.get(field):
            meaning = ", which stands for the names, order and counts of the shards" if field == "fingerprint" else ""
            shown = node.written_as.get(field, field)
            raise StateError(
                f"the checkpoint was saved with {shown}={config.get(field)!r} where this pipeline has "
                f"{shown}={own.get(field)!r}{meaning} ({name} {where}): build the pipeline as it was, or start afresh"
            )
    sources = node.sources_of()
    if len(below) != len(sources):
        raise StateError(f"the checkpoint's {name} has {len(below)} sources, this pipeline's {len(sources)} ({where})")
    for number, (source, part) in enumerate(zip(sources, below, strict=True)):
        step = "source" if len(sources) == 1 else f"sources[{number}]"
        check_graph(source, part, f"{place}.{step}" if place else step)


def check_functions(node: Node[Any], saved: dict[str, Any]) -> None:
    """Raise a StateError unless the functions of a node that have a state are those whose states were saved."""
    stateful: dict[str, Any] = node._live  # pyright: ignore[reportPrivateUsage]
    for setting in node._config:  # pyright: ignore[reportPrivateUsage]
        name = setting.name
        if (name in stateful) != (name in saved):
            shown = node.written_as.get(name, name)
            before, now = ("without", "that has") if name in stateful else ("with", "that has none")
            raise StateError(
                f"the checkpoint was saved with a function {before} a state where {node!r} has one {now} ({shown}): "
                "use the function as it was when the checkpoint was saved, or start afresh"
            )


def _in_checkpoints(node: Node[Any]) -> Node[Any]:
    """Return the first node from here down that checkpoints know of."""
    while not node.in_checkpoints:
        (node,) = node.sources_of()
    return node


def _tuples(value: Any) -> Any:
    return tuple([_tuples(item) for item in cast("list[Any]", value)]) if isinstance(value, (list, tuple)) else value


def copy_plain(value: Any, what: str) -> Any:
    """Return a copy of plain data for a checkpoint, or raise a TypeError that names what is not plain."""
    if type(value) in PLAIN_TYPES:
        return EMPTY_BYTES if type(value) is bytes and not value else value
    if isinstance(value, (list, tuple)):
        items = [copy_plain(item, what) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: copy_plain(item, what) for key, item in cast("dict[Any, Any]", value).items()}
    raise TypeError(
        f"a state field holds int, float, str, bytes, bool, None, list, tuple or dict; {what} holds a "
        f"{type(value).__name__}: keep it in a buffer, or save what it is made from"
    )


def walk(node: Node[Any]) -> Iterator[Node[Any]]:
    """Give all nodes of a graph, the root first."""
    yield node
    for source in node.sources_of():
        yield from walk(source)


def buffers_of(node: Node[Any]) -> list[str]:
    """Return the names of a node's buffer fields."""
    return [field.name for field in node._by_kind.get("buffer", ())]  # pyright: ignore[reportPrivateUsage]


# ---- pictures --------------------------------------------------------------------------------


def settings(node: Node[Any]) -> list[str]:
    """Return the settings that differ from their defaults as `name=value`."""
    shown: list[str] = []
    described = getattr(node, "describe", None)
    if described is not None:
        return list(described())
    for field in node._config:  # pyright: ignore[reportPrivateUsage]
        value = getattr(node, field.name)
        if value is not field.default and value != field.default and not _holds_nodes(node, value):
            shown.append(f"{node.written_as.get(field.name, field.name)}={_short(value)}")
    return shown


def _holds_nodes(node: Node[Any], value: Any) -> bool:
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return any(item is source for item in items for source in node.sources_of())


def _short(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return name.replace("<locals>.", "")
    if type(value).__repr__ is object.__repr__:
        return type(value).__qualname__  # the default repr is an address
    text = str(value) if isinstance(value, PurePath) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def explain(node: Node[Any], first: str = "", rest: str = "") -> str:
    """Return the graph as an indented tree."""
    lines = [first + repr(node)]
    sources = node.sources_of()
    for number, source in enumerate(sources):
        last = number == len(sources) - 1
        lines.append(explain(source, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))
    return "\n".join(lines)


def diagram(node: Node[Any]) -> str:
    """Return the graph as a Mermaid flowchart, data flowing downwards."""
    lines: list[str] = []
    edges: list[str] = []

    def visit(current: Node[Any]) -> str:
        below = [visit(source) for source in current.sources_of()]
        name = f"n{len(lines)}"
        text = repr(current).replace('"', "#quot;")
        lines.append(f'    {name}["{text}"]')
        edges.extend(f"    {source} --> {name}" for source in below)
        return name

    visit(node)
    return "\n".join(["flowchart TD", *lines, *edges])
