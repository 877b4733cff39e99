"""`blend`: mix several sources by weight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import accumulate
from math import inf, isfinite
from typing import Literal, TypeVar

from energon_nodes.combinators.calls import check_sources
from energon_nodes.combinators.concat import locate_in_branch, restore_branches, total_length
from energon_nodes.core.fields import state
from energon_nodes.core.node import Node
from energon_nodes.core.randomness import Draws
from energon_nodes.core.restore import Key

__all__ = ["Blend", "blend"]

X = TypeVar("X")


class Blend(Node[X], verb="blend"):
    """Mix several sources: each element comes from a source drawn at random by weight.

    The restore key has the number of the source in front. Nodes in different branches draw
    independently, also where the branches are the same pipeline.

    Example:
        >>> import energon_nodes as en
        >>> mixed = list(en.blend(en.items([1] * 900), en.items([2] * 900), weights=[2, 1], on_end="stop"))
        >>> 0.6 < mixed.count(1) / len(mixed) < 0.73
        True

    Args:
        sources: The nodes to read from.
        weights: One positive number for each source; only their ratios count. None: all equal.
        on_end: What happens when a source ends. "drop": the others go on, until all have ended.
            "stop": the blend ends. "repeat": that source starts its next pass, so the blend has no end.
        seed: A seed for this node; None takes the one of the loader.

    Raises:
        ValueError: If the weights are not positive, or not as many as the sources.
    """

    sources: tuple[Node[X], ...]
    _: KW_ONLY
    weights: Sequence[float] | None = None
    on_end: Literal["drop", "stop", "repeat"] = "drop"
    seed: int | None = None
    drawn: int = state(int)
    ended: list[int] = state(list)
    started: list[int] = state(list)

    def check(self) -> None:
        check_sources("blend", self.sources)
        if self.weights is not None:
            self.weights = [float(weight) for weight in self.weights]  # plain numbers are compared on load
        weights = [1.0] * len(self.sources) if self.weights is None else self.weights
        if len(weights) != len(self.sources):
            raise ValueError(
                f"blend needs one weight for each source, got {len(weights)} for {len(self.sources)} sources"
            )
        if not all(weight > 0 and isfinite(weight) for weight in weights):
            raise ValueError(f"blend needs positive, finite weights, got {weights}; leave out a source with weight 0")
        if self.on_end not in ("drop", "stop", "repeat"):
            raise ValueError(f'blend needs on_end="drop", "stop" or "repeat", got {self.on_end!r}')

    def run(self) -> Iterator[tuple[X, Key]]:
        context = self.context
        seed = context.seed if self.seed is None else self.seed
        draws = Draws(seed, "blend", self.identity, context.stream, context.streams, self.epoch)
        pairs = [source.pairs() for source in self.sources]
        while not self.ended or (self.on_end != "stop" and len(self.ended) < len(pairs)):
            open_branches = [branch for branch in range(len(pairs)) if branch not in self.ended]
            weights = [1.0 if self.weights is None else float(self.weights[branch]) for branch in open_branches]
            bounds = list(accumulate(weights))
            scale = bounds[-1] / 4294967296.0
            bounds[-1] = float("inf")  # rounding must not draw past the last one
            while True:
                branch = open_branches[bisect_right(bounds, draws.word(self.drawn) * scale)]
                try:
                    value, key = next(pairs[branch])
                except StopIteration:
                    break
                self.drawn += 1
                if self.on_end == "repeat" and branch not in self.started:
                    self.started.append(branch)
                yield value, (branch, *key)
            if self.on_end == "repeat" and branch in self.started:
                self.started.remove(branch)
                self.sources[branch].rewind()
                pairs[branch] = self.sources[branch].pairs()
            else:
                self.ended = [*self.ended, branch]

    def restore_many(self, keys: Sequence[Key]) -> list[X]:
        return restore_branches(self.sources, keys)

    def locate(self, key: Key) -> str | None:
        return locate_in_branch(self.sources, key)

    def length(self, stream: int, streams: int) -> float | None:
        if self.on_end == "drop":
            return total_length(self.sources, stream, streams)
        if self.on_end == "stop":
            return None
        return 0 if all(source.length(stream, streams) == 0 for source in self.sources) else inf

    def draws_random(self) -> bool:
        return len(self.sources) > 1


def blend(
    *sources: Node[X],
    weights: Sequence[float] | None = None,
    on_end: Literal["drop", "stop", "repeat"] = "drop",
    seed: int | None = None,
) -> Node[X]:
    """Mix several sources: each element comes from a source drawn at random by weight.

    Example:
        >>> import energon_nodes as en
        >>> text, images = en.items(["a", "b"]), en.items([1, 2, 3])
        >>> sorted(en.blend(text, images, weights=[1, 3]), key=str)
        [1, 2, 3, 'a', 'b']

    Args:
        *sources: The nodes to read from.
        weights: One positive number for each source; only their ratios count. None: all equal.
        on_end: What happens when a source ends. "drop": the others go on, until all have ended.
            "stop": the blend ends. "repeat": that source starts its next pass, so the blend has no end.
        seed: A seed for this node; None takes the one of the loader.

    Returns:
        A node of the mixture.

    Raises:
        ValueError: If the weights are not positive, or not as many as the sources.
    """
    return Blend(sources, weights=weights, on_end=on_end, seed=seed)
