"""`blend`: mix several sources by weight, or each so many times in a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from math import inf, isfinite, isinf
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeVar, cast

import numpy as np

from energon_nodes.combinators.batch import Batch
from energon_nodes.combinators.branch_order import ByWeight, Exact, Mixing
from energon_nodes.combinators.calls import check_sources
from energon_nodes.combinators.concat import locate_in_branch, restore_branches, total_length
from energon_nodes.combinators.repeat import Repeat
from energon_nodes.core import graph
from energon_nodes.core.fields import state, tuning
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.restore import Key

__all__ = ["Blend", "blend", "blend_epochized", "find_blend", "mix_batches"]

X = TypeVar("X")
OnEnd = Literal["drop", "stop", "repeat"]


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
        weights: One positive number for each source; only their ratios count. None: all equal. "length": every source
            gives all its elements, in an order that is random over the whole pass.
        on_end: What happens when a source ends. "drop": the others go on, until all have ended.
            "stop": the blend ends. "repeat": that source starts its next pass, so the blend has no end.
        mixing: "random": each source is drawn at random. "smooth": the elements of each are spread evenly, so that
            every stretch has the mixture within a few elements, and so has one output of every stream of a loader.
        name: What `loader.set_weights` calls this blend.
        seed: A seed for this node; None takes the one of the loader.

    Raises:
        ValueError: If the weights are not positive, or not as many as the sources; or lengths that they need are not
            known.
    """

    sources: tuple[Node[X], ...]
    _: KW_ONLY
    weights: Sequence[float] | Literal["length"] | None = None
    on_end: OnEnd = "drop"
    mixing: Mixing = "random"
    name: str | None = tuning(default=None)
    seed: int | None = None
    drawn: int = state(int)
    ended: list[int] = state(list)
    started: list[int] = state(list)
    current: list[float] = state(list, per_pass=False)  # weights that took the place of the configured ones

    def check(self) -> None:
        check_sources("blend", self.sources)
        if self.on_end not in ("drop", "stop", "repeat"):
            raise ValueError(f'blend needs on_end="drop", "stop" or "repeat", got {self.on_end!r}')
        if self.mixing not in ("random", "smooth"):
            raise ValueError(f'blend needs mixing="random" or "smooth", got {self.mixing!r}')
        if isinstance(self.weights, str):
            self._check_lengths()
        elif self.weights is not None:
            self.weights = self.checked(self.weights)

    def _check_lengths(self) -> None:
        if self.weights != "length":
            raise ValueError(f'blend needs numbers as weights, "length" or None, got {self.weights!r}')
        if self.on_end != "drop":
            raise ValueError(f'blend(weights="length") needs on_end="drop", got {self.on_end!r}: all sources end')
        for source in self.sources:
            length = source.length(0, 1)
            if length is None or isinf(length):
                what = "has no end" if length else "has no known length"
                raise ValueError(f'blend(weights="length") needs sources of known length, and {source!r} {what}')

    def checked(self, weights: Sequence[float]) -> list[float]:
        """Return weights as a list of floats, one for each source.

        Raises:
            TypeError: They are no sequence, or one is no number.
            ValueError: They are not positive and finite numbers, or not as many as the sources.
        """
        if isinstance(weights, (str, bytes, Mapping)) or not hasattr(weights, "__iter__"):
            raise TypeError(f"blend needs a sequence of weights, one for each source, got {weights!r}")
        numbers = [_plain_weight(weight) for weight in weights]  # plain numbers are compared on load
        if len(numbers) != len(self.sources):
            raise ValueError(
                f"blend needs one weight for each source, got {len(numbers)} for {len(self.sources)} sources"
            )
        if not all(weight > 0 and isfinite(weight) for weight in numbers):
            raise ValueError(f"blend needs positive, finite weights, got {numbers}; leave out a source with weight 0")
        return numbers

    def change(self, weights: Sequence[float]) -> None:
        """Go on with other weights, in this pass and those that follow; they are part of the state.

        Raises:
            ValueError: The weights do not fit, or the blend has none.
        """
        if self.weights == "length":
            raise ValueError(f'{self!r} gives every source as often as it is long; its weights="length" cannot be set')
        self.current = self.checked(weights)
        self.stop()

    def run(self) -> Iterator[tuple[X, Key]]:
        seed = self.context.seed if self.seed is None else self.seed
        if self.weights == "length" and self.mixing == "random":
            yield from self._run_exactly(seed)
            return
        context = self.context
        order = ByWeight(self.mixing, (seed, self.identity, self.epoch), context.stream, context.streams)
        weights = self._weights()
        pairs = [source.pairs() for source in self.sources]
        repeats = self.on_end == "repeat"
        fresh = [branch not in self.started for branch in range(len(pairs))]
        while not self.ended or (self.on_end != "stop" and len(self.ended) < len(pairs)):
            open_branches = [branch for branch in range(len(pairs)) if branch not in self.ended]
            branch = -1
            for branch in order.branches(self.drawn, open_branches, [weights[branch] for branch in open_branches]):
                try:
                    value, key = next(pairs[branch])
                except StopIteration:
                    break
                self.drawn += 1
                if repeats and fresh[branch]:
                    fresh[branch] = False
                    self.started.append(branch)
                yield value, (branch, *key)
            else:
                continue
            if repeats and branch in self.started:
                self.started.remove(branch)
                fresh[branch] = True
                self.sources[branch].rewind()
                pairs[branch] = self.sources[branch].pairs()
            else:
                self.ended = [*self.ended, branch]

    def _run_exactly(self, seed: int) -> Iterator[tuple[X, Key]]:
        """Give every source its number of draws; one that has fewer elements, because some failed, loses only them."""
        context = self.context
        order = Exact(self._lengths(), (seed, self.identity, context.stream, context.streams, self.epoch))
        pairs = [source.pairs() for source in self.sources]
        while self.drawn < order.total:
            for branch in order.branches(self.drawn):
                for value, key in pairs[branch]:
                    self.drawn += 1
                    yield value, (branch, *key)
                    break
                else:
                    self.drawn += 1

    def _weights(self) -> Sequence[float]:
        if self.weights == "length":
            return [float(length) or 1.0 for length in self._lengths()]  # an empty one ends when it is drawn
        return self.current or self.weights or [1.0] * len(self.sources)

    def _lengths(self) -> list[int]:
        context = self.context
        return [int(source.length(context.stream, context.streams) or 0) for source in self.sources]

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
    weights: Sequence[float] | Literal["length"] | None = None,
    on_end: OnEnd = "drop",
    mixing: Mixing = "random",
    name: str | None = None,
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
        weights: One positive number for each source; only their ratios count. None: all equal. "length": every source
            gives all its elements, in an order that is random over the whole pass.
        on_end: What happens when a source ends. "drop": the others go on, until all have ended.
            "stop": the blend ends. "repeat": that source starts its next pass, so the blend has no end.
        mixing: "random": each source is drawn at random. "smooth": the elements of each are spread evenly, so that
            every stretch has the mixture within a few elements, and so has one output of every stream of a loader.
        name: What `loader.set_weights` calls this blend.
        seed: A seed for this node; None takes the one of the loader.

    Returns:
        A node of the mixture.

    Raises:
        TypeError: If the weights are no sequence of numbers.
        ValueError: If the weights are not positive, or not as many as the sources; or lengths that they need are not
            known.
    """
    if any(isinstance(source, Mapping) for source in sources):
        raise TypeError("blend needs nodes and weights=[...]; blend_epochized takes a dict of nodes and repetitions")
    return Blend(sources, weights=weights, on_end=on_end, mixing=mixing, name=name, seed=seed)


def blend_epochized(
    repetitions: Mapping[Node[X], float] | Sequence[tuple[Node[X], float]],
    *,
    mixing: Mixing = "random",
    seed: int | None = None,
) -> Node[X]:
    """Mix sources so that one pass has each of them a given number of times, exactly.

    A pass has every element of a source `floor(n)` times, and of the rest a fraction that moves on from pass
    to pass, see `repeat`. The counts of a pass are always the same, under any number of streams.

    Example:
        >>> import energon_nodes as en
        >>> rare, usual = en.items(["r"]), en.items("abcd")
        >>> pipeline = en.blend_epochized({rare: 3, usual: 1.5})
        >>> len(pipeline), sorted(pipeline), sorted(pipeline)
        (9, ['a', 'a', 'b', 'b', 'c', 'd', 'r', 'r', 'r'], ['a', 'b', 'c', 'c', 'd', 'd', 'r', 'r', 'r'])

    Args:
        repetitions: How often each source is gone through in a pass, a positive number; pairs of source and number
            where one source stands twice.
        mixing: "random" or "smooth", as for `blend`.
        seed: A seed for the order of the mixture; None takes the one of the loader.

    Returns:
        A node of the mixture.

    Raises:
        TypeError: If it is neither a dict of nodes nor a sequence of pairs.
        ValueError: If a number is not positive, or a source's length is not known or infinite.
    """
    pairs = _pairs_of(repetitions)
    for source, count in pairs:
        if not _is_positive(count):
            raise ValueError(
                f"blend_epochized needs positive, finite repetitions, got {count!r} for {source!r}; leave out a source "
                "that is not wanted"
            )
    sources = tuple([source if count == 1 else Repeat(source, count) for source, count in pairs])
    return Blend(sources, weights="length", mixing=mixing, seed=seed)


def find_blend(root: Node[Any], name: str | None) -> int:
    """Return the number of a blend with weights among the nodes of a graph, in the order of `graph.walk`.

    Example:
        >>> import energon_nodes as en
        >>> find_blend(en.blend(en.items("a"), en.items("b")).batch(2), None)
        1

    Args:
        root: The root of the graph.
        name: Its name; None where there is only one.

    Returns:
        Its number, the root's being 0.

    Raises:
        ValueError: There is no such blend, or more than one.
    """
    blends = {
        number: node
        for number, node in enumerate(graph.walk(root))
        if isinstance(node, Blend) and node.weights != "length"
    }
    found = [number for number, node in blends.items() if name is None or node.name == name]
    if len(found) == 1:
        return found[0]
    known = ", ".join(repr(node.name) for node in blends.values()) or "none"
    if not found:
        wanted = "a blend" if name is None else f"the blend {name!r}"
        raise ValueError(f"the pipeline has not {wanted} whose weights can be set; the names of its blends: {known}")
    raise ValueError(
        f"the pipeline has {len(found)} blends that could be meant (their names: {known}): give each a name, "
        "en.blend(..., name=...), and say which one"
    )


def _pairs_of(repetitions: Any) -> list[tuple[Any, Any]]:
    rule = "blend_epochized needs a dict of nodes and repetitions such as {node: 2}, or pairs such as [(node, 2)]"
    if isinstance(repetitions, (str, bytes, Node)) or not hasattr(repetitions, "__iter__"):
        raise TypeError(f"{rule}, got {repetitions!r}")
    mapping = isinstance(repetitions, Mapping)
    found: list[Any] = list(cast("Any", repetitions).items() if mapping else repetitions)
    for number, pair in enumerate(found):
        if not isinstance(pair, (tuple, list)) or len(cast("Any", pair)) != 2 or not isinstance(pair[0], Node):
            hint = ": write 1 beside a node that comes once" if isinstance(pair, Node) else ""
            raise TypeError(f"{rule}, got {pair!r} as number {number}{hint}")
    return found


def _is_positive(count: Any) -> bool:
    number = isinstance(count, (int, float, np.integer)) and not isinstance(count, bool)
    return number and 0 < float(cast("Any", count)) < inf


def _plain_weight(weight: Any) -> float:
    if isinstance(weight, (SupportsFloat, SupportsIndex)) and not isinstance(weight, bool):
        try:
            return float(weight)
        except TypeError:  # an array of several numbers
            pass
    raise TypeError(f"blend needs a number as weight of each source, got {weight!r}")


@add_verb
def mix_batches(
    source: Node[X],
    *others: Node[X],
    size: int,
    weights: Sequence[float] | None = None,
    on_end: OnEnd = "drop",
    mixing: Mixing = "random",
    drop_last: bool = False,
    seed: int | None = None,
) -> Node[list[X]]:
    """Mix batches of several sources: all elements of a batch come from one source.

    It is `blend(source.batch(size), ...)`; batch the sources yourself for other sizes or collations.

    Example:
        >>> import energon_nodes as en
        >>> sorted(en.items("aaaa").mix_batches(en.items("bbbb"), size=2))
        [['a', 'a'], ['a', 'a'], ['b', 'b'], ['b', 'b']]

    Args:
        source: The first source.
        *others: The other sources.
        size: The number of elements in a batch.
        weights: One positive number for each source, of batches; None: all equal.
        on_end: What happens when a source ends, see `blend`.
        mixing: "random" or "smooth", see `blend`.
        drop_last: Whether a last batch with fewer elements is left out.
        seed: A seed for the order of the mixture; None takes the one of the loader.

    Returns:
        A node of lists.

    Raises:
        ValueError: If `size` is less than 1, or the weights do not fit.
    """
    batches = tuple([Batch(one, size, drop_last=drop_last) for one in (source, *others)])
    return Blend(batches, weights=weights, on_end=on_end, mixing=mixing, seed=seed)
