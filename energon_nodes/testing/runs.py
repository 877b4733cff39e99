"""How the checks run a pipeline: passes, cut points, and states that went through a file."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import torch

from energon_nodes.core.node import Node
from energon_nodes.core.share import Context

__all__ = [
    "Cut",
    "Make",
    "Trace",
    "dump",
    "fresh",
    "graft",
    "load",
    "on_stream",
    "resumed",
    "run_pass",
    "run_passes",
    "spread",
    "trace",
    "walk",
]

Make: TypeAlias = Callable[[], Node[Any]]
"""Builds the pipeline under test; every run of a check gets one of its own."""


def fresh(make: Make) -> Node[Any]:
    """Return a new pipeline, or raise a TypeError if `make` does not build one."""
    node: Any = make()
    if not isinstance(node, Node):
        raise TypeError(f"the checks need a function that builds a pipeline, and it returned a {type(node).__name__}")
    return cast("Node[Any]", node)


def on_stream(make: Make, stream: int, streams: int, **settings: Any) -> Make:
    """Return a function that builds the pipeline as one of several logical streams.

    Any check can be run on a stream in this way.

    Args:
        make: Builds the pipeline.
        stream: The number of the stream, in `[0, streams)`.
        streams: The number of streams.
        **settings: More of what `Context` takes, such as `seed`.

    Returns:
        A function like `make`.

    Example:
        >>> import energon_nodes as en
        >>> list(on_stream(lambda: en.items(range(7)), stream=1, streams=3)())
        [1, 4]
    """

    def build() -> Node[Any]:
        node = fresh(make)
        node.bind(Context(stream=stream, streams=streams, **settings))
        return node

    return build


def run_pass(node: Node[Any], most: int) -> list[Any]:
    """Return what is left of the running pass, at most `most` elements; an ended pass stays ended."""
    got: list[Any] = []
    while len(got) < most:
        try:
            got.append(next(node))
        except StopIteration:
            break
    return got


def run_passes(node: Node[Any], passes: int, most: int, taken: int = 0) -> list[list[Any]]:
    """Return the rest of the running pass and the passes after it, each cut off at `most` elements.

    Args:
        node: The pipeline.
        passes: How many passes to return.
        most: The most elements of a pass; where a pass is longer, the next one begins there.
        taken: How many elements of the running pass were taken before.
    """
    got = [run_pass(node, most - taken)]
    for _ in range(passes - 1):
        node.reset(None)
        got.append(run_pass(node, most))
    return got


def dump(state: Any) -> bytes:
    """Return a state as the bytes of a file."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def load(data: bytes) -> Any:
    """Read a state as a careful user does: nothing but plain data."""
    return torch.load(io.BytesIO(data), weights_only=True)


def resumed(make: Make, state: Any) -> Node[Any]:
    """Return a new pipeline that stands where the saved one stood; the state goes through a file."""
    node = fresh(make)
    node.reset(load(dump(state)))
    return node


def spread(n: int, most: int) -> list[int]:
    """Return up to `most` numbers that lie evenly in `range(n)`, both ends among them.

    Example:
        >>> spread(10, 4), spread(3, 10)
        ([0, 3, 6, 9], [0, 1, 2])
    """
    if n <= most or most < 2:
        return list(range(n))[:most]
    return sorted({round(number * (n - 1) / (most - 1)) for number in range(most)})


@dataclass(frozen=True)
class Cut:
    """A point at which a run was saved."""

    of_pass: int  # 0 for the first
    taken: int
    ended: bool  # whether the end of the pass was seen
    pickled: bytes

    @property
    def state(self) -> Any:
        """The state as it was then."""
        return pickle.loads(self.pickled)

    def __str__(self) -> str:
        where = "the end" if self.ended else f"element {self.taken}"
        return f"a resume at {where} of pass {self.of_pass + 1}"


@dataclass
class Trace:
    """What an uninterrupted run delivered, and its states at all cut points."""

    passes: list[list[Any]] = field(default_factory=list[list[Any]])
    cuts: list[Cut] = field(default_factory=list[Cut])

    def some(self, most: int) -> list[Cut]:
        """Return up to `most` cuts, those around the ends of passes always among them."""
        ends = [n for n, cut in enumerate(self.cuts) if cut.ended or cut.taken in (0, 1, len(self.passes[cut.of_pass]))]
        return [self.cuts[number] for number in sorted({*ends, *spread(len(self.cuts), most)})]


def trace(make: Make, most: int, passes: int = 3) -> Trace:
    """Run some passes and save before each element, after the last one, and after the end was seen."""
    node, found = fresh(make), Trace()
    for number in range(passes):
        if number:
            node.reset(None)
        got: list[Any] = []
        ended = False
        while len(got) < most and not ended:
            found.cuts.append(Cut(number, len(got), False, pickle.dumps(node.state_dict())))
            try:
                got.append(next(node))
            except StopIteration:
                ended = True
        found.cuts.append(Cut(number, len(got), ended, pickle.dumps(node.state_dict())))
        found.passes.append(got)
    return found


# ---- graphs ----------------------------------------------------------------------------------


def walk(node: Node[Any]) -> Iterator[Node[Any]]:
    """Yield a node and all below it."""
    yield node
    for source in node.sources_of():
        yield from walk(source)


def graft(node: Node[Any], change: Callable[[Node[Any], int], Node[Any]]) -> Node[Any]:
    """Return the graph with every leaf replaced by `change(leaf, number)`; the leaves count from the left."""
    count = iter(range(1_000_000))

    def visit(current: Node[Any]) -> Node[Any]:
        if not current.sources_of():
            return change(current, next(count))
        below: dict[str, Any] = {}
        for declared in dataclasses.fields(current):  # pyright: ignore[reportArgumentType]
            value: Any = getattr(current, declared.name)
            if not declared.init:
                continue
            if isinstance(value, Node):
                below[declared.name] = visit(cast("Node[Any]", value))
            elif isinstance(value, tuple) and any(isinstance(item, Node) for item in cast("tuple[Any, ...]", value)):
                below[declared.name] = tuple([visit(item) for item in cast("tuple[Node[Any], ...]", value)])
        return dataclasses.replace(current, **below)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]

    return visit(node)
