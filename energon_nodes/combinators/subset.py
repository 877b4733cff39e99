"""`subset`: a pipeline over a part of its data."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from energon_nodes.combinators.blend import Blend
from energon_nodes.combinators.concat import Concat
from energon_nodes.combinators.filter import Filter
from energon_nodes.combinators.flat_map import FlatMap
from energon_nodes.combinators.join import Join
from energon_nodes.combinators.map import Map
from energon_nodes.combinators.parallel_map import ParallelMap
from energon_nodes.combinators.prefetch import Prefetch
from energon_nodes.combinators.shuffle import Shuffle
from energon_nodes.combinators.sort_window import SortWindow
from energon_nodes.combinators.tap import Tap
from energon_nodes.combinators.watching import Watching
from energon_nodes.combinators.with_keys import WithKeys
from energon_nodes.core.node import Node, add_verb
from energon_nodes.sources.subset import Bound, is_relative, plain_sections
from energon_nodes.sources.wrap import Wrap

__all__ = ["subset"]

X = TypeVar("X")

# One element for each of the source's: what is cut below is cut here.
_ONE_FOR_ONE = (Map, ParallelMap, Tap, WithKeys, Watching, Prefetch, Shuffle, SortWindow)
# Any number of elements for each: half of the data is a share of them, but sample numbers would count something else.
_BY_SHARE = (Filter, FlatMap, Concat, Blend)


@add_verb
def subset(source: Node[X], first: Bound, last: Bound) -> Node[X]:
    """Take a part of the data that a pipeline reads: a fold, a split for validation, a share to try things out.

    The data are cut where they are read, in their own order and before any shuffling, so every pass has the same
    samples, and parts that meet, such as `("0%", "50%")` and `("50%", "100%")`, have every sample once. A restore key
    stands for the sample that it stands for in the whole. A subset of a subset is a part of that part: 50 % to 100 %
    of the first half are 25 % to 50 % of all.

    The verb goes down to the sources: through `map` and what else gives one element for each sample; in fractions also
    through `filter` and `flat_map` (it cuts what goes into them), and into every branch of `blend` and `concat`. Of a
    `join` it cuts the first side. Behind anything else it is refused: write it behind the source, or use `skip` and
    `limit`, which count what flows there.

    Example:
        >>> import energon_nodes as en
        >>> numbers = en.items(range(10)).map(str)
        >>> list(numbers.subset("0%", "30%")), list(numbers.subset(7, "end"))
        (['0', '1', '2'], ['7', '8', '9'])
        >>> list(numbers.subset(0.0, 0.5).subset(0.5, 1.0))
        ['2', '3', '4']

    Args:
        source: A pipeline over `shards`, `jsonl`, `items` or a dataset.
        first: Where the part begins: a fraction from 0.0 to 1.0, a percentage, or the number of a sample. Fractions are
            taken exactly, and the number of samples is rounded down.
        last: Where it ends, a bound of the same kind; that sample is not in it. "end" goes with a number.

    Returns:
        The same pipeline, over the part.

    Raises:
        ValueError: If the bounds do not fit together or to the data, leave nothing, or something in the pipeline does
            not know what a part of it is.
    """
    is_relative((first, last))  # a mistake in the bounds is reported as such, whatever the pipeline
    return cast("Node[X]", _narrowed(source, *plain_sections([(first, last)])))


def _narrowed(node: Node[Any], first: Bound, last: Bound) -> Node[Any]:
    narrow = getattr(node, "narrowed", None)
    if narrow is not None:
        return narrow(first, last)
    if isinstance(node, Join):  # its rows are the samples of the first side; the others are looked up
        rows = _narrowed(node.sources[0], first, last)
        return dataclasses.replace(cast("Any", node), sources=(rows, *node.sources[1:]))
    if isinstance(node, _ONE_FOR_ONE) or (isinstance(node, _BY_SHARE) and is_relative((first, last))):
        below = [_narrowed(each, first, last) for each in node.sources_of()]
        several = any(field.name == "sources" for field in dataclasses.fields(cast("Any", node)))
        changes: dict[str, Any] = {"sources": tuple(below)} if several else {"source": below[0]}
        return dataclasses.replace(cast("Any", node), **changes)
    raise ValueError(f"subset({first!r}, {last!r}) cannot cut {node!r}: {_remedy(node)}")


def _remedy(node: Node[Any]) -> str:
    if isinstance(node, Wrap):
        return "a foreign iterable has no access by number; skip(n) and limit(n) count its elements as they come"
    if isinstance(node, _BY_SHARE):
        return (
            "what sample numbers mean behind it depends on the data; give fractions or percentages, write subset "
            "behind the source, or count what comes out with skip(n) and limit(n)"
        )
    return "write subset in front of it, behind the source; skip(n) and limit(n) count what comes out"
