"""Whether a pipeline that is split into streams is still one pipeline: counts, elements, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from math import isinf
from typing import Any

from energon_nodes.core.node import Node
from energon_nodes.testing.report import canonical, require
from energon_nodes.testing.resuming import check_resume
from energon_nodes.testing.runs import Make, fresh, on_stream, run_passes

__all__ = ["check_counts", "check_once", "check_streams", "cut_off", "interleave"]

_ABSENT: Any = object()


def interleave(
    make: Make, streams: int, *, passes: int = 1, most: int = 256, **settings: Any
) -> list[list[tuple[int, Any]]]:
    """Return what a loader must deliver: turn after turn, the turns of streams that have ended left out.

    Args:
        make: Builds the pipeline.
        streams: The number of streams; turn `t` belongs to stream `t % streams`.
        passes: The number of passes.
        most: The most elements of a stream in a pass.
        **settings: More of what `Context` takes, such as `seed`.

    Returns:
        For each pass a list of pairs of turn and element.

    Example:
        >>> import energon_nodes as en
        >>> interleave(lambda: en.items("abcde"), streams=3)
        [[(0, 'a'), (1, 'b'), (2, 'c'), (3, 'd'), (4, 'e')]]
        >>> interleave(lambda: en.items("abcde").batch(2), streams=3)
        [[(0, ['a', 'd']), (1, ['b', 'e']), (2, ['c'])]]
    """
    each = [run_passes(on_stream(make, stream, streams, **settings)(), passes, most) for stream in range(streams)]
    rounds = [list(zip_longest(*(run[number] for run in each), fillvalue=_ABSENT)) for number in range(passes)]
    return [
        [(turn, value) for turn, value in enumerate(value for row in rows for value in row) if value is not _ABSENT]
        for rows in rounds
    ]


def cut_off(elements: list[tuple[int, Any]], streams: int, most: int) -> bool:
    """Return whether `interleave` may have cut a pass off: its longest stream has `most` elements."""
    return any(turn // streams >= most - 1 for turn, _ in elements)


def check_counts(
    make: Make, total: int, *, streams: Sequence[int] = (1, 2, 3, 4, 6, 7), passes: int = 2, most: int = 256
) -> None:
    """Check that a pass has `total` elements over all streams, however many there are, and so has the next one.

    Args:
        make: Builds the pipeline.
        total: The number of elements of a pass of the whole pipeline.
        streams: The numbers of streams that are tried.
        passes: The number of passes.
        most: The most elements of a stream in a pass.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_counts(lambda: en.items(range(9)).repeat(1.5), total=13)
    """
    check = "check_counts"
    for several in streams:
        for number, elements in enumerate(interleave(make, several, passes=passes, most=most)):
            what = f"the number of elements of pass {number + 1} under {several} streams"
            require(len(elements) == total, check, what, fresh(make), expected=total, got=len(elements))


def check_once(make: Make, *, streams: Sequence[int] = (2, 3, 6), most: int = 256) -> None:
    """Check that the streams together deliver each element of a pass exactly once, and the same as one stream does.

    For pipelines without nodes that gather elements (a batch holds what its stream has) and without an order in
    which streams have other parts of a random choice.

    Args:
        make: Builds the pipeline.
        streams: The numbers of streams that are tried.
        most: The most elements of a stream in a pass.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_once(lambda: en.items(range(20), shuffle=True).map(str).shuffle(5))
    """
    check = "check_once"
    (alone, later) = run_passes(fresh(make), 2, most)
    for several in streams:
        for number, elements in enumerate(interleave(make, several, passes=2, most=most)):
            expected = Counter(canonical(value) for value in (alone, later)[number])
            got = Counter(canonical(value) for _, value in elements)
            missing, more = list((expected - got).elements())[:8], list((got - expected).elements())[:8]
            what = f"the elements of pass {number + 1} under {several} streams; missing {missing}, too many {more}"
            require(
                expected == got,
                check,
                what,
                fresh(make),
                expected=sorted(expected.elements()),
                got=sorted(got.elements()),
            )


def check_streams(
    make: Make, *, streams: Sequence[int] = (1, 2, 6), most: int = 64, ordered: bool = True, lengths: bool = True
) -> None:
    """Check each stream by itself: the length it announces, and a resume at some points.

    Args:
        make: Builds the pipeline.
        streams: The numbers of streams that are tried.
        most: The most elements of a pass that are looked at.
        ordered: Whether the order is promised.
        lengths: Whether what `length` says is exact; False where functions or error policies drop elements, which
            no length can know of.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_streams(lambda: en.items(range(20)).shuffle(3).batch(2))
    """
    check = "check_streams"
    for several in streams:
        for stream in range(several):
            placed = on_stream(make, stream, several)
            node = placed()
            for number, elements in enumerate(run_passes(node, 2, most)):
                if lengths:
                    _check_length(check, node, stream, several, number, len(elements), most)
            check_resume(placed, most=most, cuts=4, ordered=ordered)


def _check_length(check: str, node: Node[Any], stream: int, streams: int, number: int, count: int, most: int) -> None:
    length = node.length(stream, streams)
    if length is None:
        return
    what = f"length({stream}, {streams}), against the elements of pass {number + 1}"
    if count == most:
        require(length >= most, check, what, node, expected=f"at least {most}", got=length)
    else:
        require(length == count, check, what, node, expected=count, got=length)
    if streams == 1 and not isinf(length):
        require(len(node) == length, check, "len() of the pipeline", node, expected=length, got=len(node))
