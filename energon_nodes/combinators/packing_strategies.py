"""Which elements go into one pack: algorithms on lengths alone, without a pipeline."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from energon_nodes.core.checks import check_size

__all__ = ["STRATEGIES", "Choice", "Strategy", "check_packing", "choose", "pack_lengths"]

Strategy: TypeAlias = Literal["best_fit", "first_fit", "knapsack", "sequential"]
"""How packs are filled, see `pack_lengths`."""

STRATEGIES: tuple[str, ...] = get_args(Strategy)

_FULL = 0.98  # a pack that is at least as full as this never waits for better company
_CODE_BITS = 62  # a length and a position stand in one integer


def pack_lengths(
    lengths: ArrayLike,
    capacity: int,
    *,
    strategy: Strategy = "best_fit",
    max_per_pack: int | None = None,
    buffer_size: int | None = None,
) -> list[list[int]]:
    """Distribute lengths over packs of at most `capacity`: the choice that `pack_to` makes, without a pipeline.

    | strategy | what it does |
    |---|---|
    | `best_fit` | the longest first, each into the open pack with the least room for it (best fit decreasing) |
    | `knapsack` | one pack after the other: the longest that is left, then always the longest that fits |
    | `first_fit` | in the order given, each into the first pack that has room for it |
    | `sequential` | in the order given, each into the last pack, or else into a new one (next fit) |

    Over all lengths at once, the first two need at most 11/9 of the fewest packs possible, and one more (Johnson,
    "Near-optimal bin packing algorithms", MIT 1973), `first_fit` 1.7 times and `sequential` twice as many. Of many
    short lengths all but the last make packs that are almost full. Members of a pack stand in the order given, and
    packs in the order of their first members: packs of long members do not all come first. The result depends on
    nothing but the arguments.

    Example:
        >>> pack_lengths([5, 7, 3, 4, 1], 10)
        [[0, 3, 4], [1, 2]]
        >>> pack_lengths([5, 7, 3, 4, 1], 10, strategy="sequential")
        [[0], [1, 2], [3, 4]]

    Args:
        lengths: Ints from 0 to `capacity`, shape `(n,)`.
        capacity: The most that the lengths of a pack may add up to, at least 1.
        strategy: One of the four above.
        max_per_pack: The most members of a pack; None sets no bound.
        buffer_size: How many lengths are looked at together, as by `pack_to`: those of packs that are not full wait
            for the next lengths, once. None looks at all of them. `sequential` needs no buffer.

    Returns:
        Lists of positions in `lengths`; every position is in exactly one of them.

    Raises:
        TypeError: If the lengths are not integers.
        ValueError: If a setting or a length is out of its range.
    """
    check_packing("pack_lengths", capacity, strategy, max_per_pack, buffer_size)
    column = np.asarray(lengths)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise TypeError(f"pack_lengths needs a sequence of ints, got an array of {column.dtype} and {column.shape}")
    column = column.astype(np.int64)
    for wrong in np.flatnonzero((column < 0) | (column > capacity))[:1]:
        raise ValueError(
            f"pack_lengths needs lengths from 0 to capacity={capacity}, got {column[wrong]} at position {wrong}"
        )
    step = len(column) if buffer_size is None or strategy == "sequential" else buffer_size
    chosen: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    sizes: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    waiting = np.empty(0, np.int64)
    kept = pulled = 0
    while pulled < len(column) or len(waiting):
        more = min(step - len(waiting), len(column) - pulled)
        waiting = np.concatenate([waiting, np.arange(pulled, pulled + more)])
        pulled += more
        final = pulled == len(column) if buffer_size is None else len(waiting) < step  # a full buffer may have more
        choice = choose(column[waiting], capacity, strategy, max_per_pack, kept=kept, final=final)
        chosen.append(waiting[choice.order])
        sizes.append(choice.sizes)
        waiting = waiting[choice.rest]
        kept = len(waiting)
    members: list[int] = np.concatenate(chosen).tolist()
    ends: list[int] = np.cumsum(np.concatenate(sizes)).tolist()
    return [members[start:end] for start, end in pairwise(ends)]


class Choice(NamedTuple):
    """Say what goes into packs and what waits.

    Args:
        order: The positions that were chosen, pack after pack, int64.
        sizes: The number of members of each pack, int64.
        rest: The positions that wait, in their order, int64.
    """

    order: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rest: NDArray[np.int64]


def choose(
    lengths: NDArray[np.int64],
    capacity: int,
    strategy: Strategy,
    most: int | None,
    *,
    kept: int = 0,
    final: bool = True,
) -> Choice:
    """Choose packs from a buffer of lengths; unless it is the last one, keep some of those that are not full.

    Up to an eighth of the packs is kept back, the emptiest, and nothing is kept back twice: an element waits for two
    choices at most, and is placed before those that are new. Over a stream that raises the utilisation: the last packs
    of each buffer have no good company left. `sequential` keeps the last pack, which may go on.

    Example:
        >>> choose(np.array([6, 4, 3, 9, 1]), 10, "best_fit", None)
        Choice(order=array([0, 1, 2, 3, 4]), sizes=array([2, 1, 2]), rest=array([], dtype=int64))
        >>> choose(np.array([6, 4, 3, 9, 1, 8, 2]), 10, "best_fit", None, final=False)
        Choice(order=array([0, 1, 3, 4, 5, 6]), sizes=array([2, 2, 2]), rest=array([2]))

    Args:
        lengths: The lengths in their order, at least one; one beyond the capacity makes a pack of its own.
        capacity: As for `pack_lengths`.
        strategy: As for `pack_lengths`.
        most: The most members of a pack, or None.
        kept: How many of the lengths, at the front, were kept back before.
        final: Whether no more lengths will come, so that nothing is kept back.

    Returns:
        The choice; of two packs or more it takes at least half.
    """
    fits = lengths <= capacity
    if strategy == "sequential" or fits.all():
        where = _ASSIGN[strategy](lengths, capacity, most, kept)
    else:
        where = np.empty(len(lengths), np.int64)
        inside = np.flatnonzero(fits)
        where[inside] = _ASSIGN[strategy](lengths[inside], capacity, most, int(np.searchsorted(inside, kept)))
        alone = np.flatnonzero(~fits)
        where[alone] = np.arange(len(alone)) + (where[inside].max(initial=-1) + 1)
    count = int(where.max()) + 1
    oldest = np.empty(count, np.int64)
    oldest[where[::-1]] = np.arange(len(where) - 1, -1, -1)  # the last assignment counts: that of the first member
    rank = np.empty(count, np.uint16 if count < 1 << 16 else np.int64)  # small numbers are sorted in less time
    rank[np.argsort(oldest)] = np.arange(count)
    sizes = np.empty(count, np.int64)
    sizes[rank] = np.bincount(where, minlength=count)
    order = np.argsort(rank[where], kind="stable")
    if final:
        return Choice(order, sizes, np.empty(0, np.int64))
    loads = np.empty(count)
    loads[rank] = np.bincount(where, lengths, count)
    oldest.sort()
    back = np.zeros(count, bool)
    if strategy == "sequential":
        back[-1] = count > 1
    else:
        open_ = np.flatnonzero((loads < _FULL * capacity) & (oldest >= kept) & (sizes < (most or len(where) + 1)))
        back[open_[np.argsort(loads[open_], kind="stable")][: (count + 6) // 8]] = True
    waits = np.repeat(back, sizes)
    return Choice(order[~waits], sizes[~back], np.sort(order[waits]))


def check_packing(
    who: str, capacity: object, strategy: object, max_per_pack: object, buffer_size: object, buffer_least: int = 1
) -> None:
    """Raise a ValueError unless these are settings of a packing."""
    check_size(who, "capacity", capacity, 1)
    if strategy not in STRATEGIES:
        raise ValueError(f"{who} needs a strategy of {', '.join(map(repr, STRATEGIES))}, got {strategy!r}")
    if max_per_pack is not None:
        check_size(who, "max_per_pack", max_per_pack, 1)
    if buffer_size is not None:
        check_size(who, "buffer_size", buffer_size, buffer_least)


# ---- the algorithms: lengths that fit, in; the number of the pack of each, out --------------------------------


def _best_fit(lengths: NDArray[np.int64], capacity: int, most: int | None, kept: int) -> NDArray[np.int64]:
    """Put the longest first, each into the fullest pack that has room for it; those that were kept before the others.

    Room and number of an open pack stand in one integer, so that one sorted list finds and orders them.
    """
    codes, shift, mask = _descending(lengths, capacity)
    if kept:
        last = (codes & mask) >= len(lengths) - kept  # places count from the end
        codes = np.concatenate([codes[last], codes[~last]])
    parts: list[int] = ((codes >> shift) << shift).tolist()
    whole, least = capacity << shift, int(lengths.min(initial=0)) << shift
    opened: list[int] = []
    placed: list[int] = []
    count = 0
    held = [0] * len(parts) if most else []
    find, put, take, place = bisect_left, insort, opened.pop, placed.append
    for part in parts:
        at = find(opened, part)
        if at < len(opened):
            code = take(at) - part
        else:
            code = (whole | count) - part
            count += 1
        place(code)
        if most:
            pack = code & mask
            held[pack] += 1
            if held[pack] == most:
                continue
        if code >= least:
            put(opened, code)
    return _at_their_places(codes & mask, np.array(placed, np.int64) & mask)


def _knapsack(lengths: NDArray[np.int64], capacity: int, most: int | None, kept: int) -> NDArray[np.int64]:
    """Fill one pack after the other: with the longest that is left, then always with the longest that fits.

    As long as there are any that were kept, a pack begins with one of them.
    """
    codes, shift, mask = _descending(lengths, capacity)
    before = (codes[::-1] & mask) >= len(lengths) - kept  # places count from the end
    urgent: list[int] = codes[::-1][before].tolist()
    left: list[int] = codes[::-1][~before].tolist()
    whole, most = (capacity << shift) | mask, most or len(lengths)
    places: list[int] = []
    packs: list[int] = []
    count = 0
    while left or urgent:
        room, held = whole, 0
        for waiting in (urgent, left) if urgent else (left,):
            at = bisect_right(waiting, room)
            while at and held < most:
                code = waiting.pop(at - 1)
                places.append(code & mask)
                packs.append(count)
                held += 1
                room -= (code >> shift) << shift
                at = bisect_right(waiting, room)
        count += 1
    return _at_their_places(np.array(places, np.int64), packs)


def _first_fit(lengths: NDArray[np.int64], capacity: int, most: int | None, kept: int) -> NDArray[np.int64]:
    """Put each, in the order given, into the first pack with room for it.

    A tree over the packs holds the largest room below each of its knots; those not opened yet have all of it.
    """
    leaves = 1 << max(len(lengths) - 1, 0).bit_length()
    room = [capacity] * (2 * leaves)
    held = [0] * leaves
    packs: list[int] = []
    for length in lengths.tolist():
        at = 1
        while at < leaves:
            at *= 2
            if room[at] < length:
                at += 1
        pack = at - leaves
        packs.append(pack)
        held[pack] += 1
        now = -1 if held[pack] == most else room[at] - length
        while room[at] != now:
            room[at] = now
            if at == 1:
                break
            at >>= 1
            now = max(room[2 * at], room[2 * at + 1])
    return np.array(packs, np.int64)


def _sequential(lengths: NDArray[np.int64], capacity: int, most: int | None, kept: int) -> NDArray[np.int64]:
    """Put each, in the order given, into the last pack, or into a new one if it does not fit."""
    packs: list[int] = []
    pack, load, held = 0, 0, 0
    most = most or len(lengths) + 1
    for length in lengths.tolist():
        if held and (load + length > capacity or held == most):
            pack, load, held = pack + 1, 0, 0
        load += length
        held += 1
        packs.append(pack)
    return np.array(packs, np.int64)


_Assign: TypeAlias = Callable[[NDArray[np.int64], int, int | None, int], NDArray[np.int64]]
_ASSIGN: dict[str, _Assign] = {
    "best_fit": _best_fit,
    "knapsack": _knapsack,
    "first_fit": _first_fit,
    "sequential": _sequential,
}


def _descending(lengths: NDArray[np.int64], capacity: int) -> tuple[NDArray[np.int64], int, int]:
    """Return the longest first, and of equal ones the first: length and position from the end in one integer each."""
    shift = max(len(lengths).bit_length(), 1)
    if capacity.bit_length() + shift > _CODE_BITS:
        raise ValueError(f"packing {len(lengths)} lengths together needs capacity < 2**{_CODE_BITS - shift}")
    codes = (lengths << shift) | np.arange(len(lengths) - 1, -1, -1)
    codes.sort()
    return codes[::-1], shift, (1 << shift) - 1


def _at_their_places(places: NDArray[np.int64], packs: Sequence[Any] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the packs in the order of the lengths; `places` count from the end."""
    where = np.empty(len(packs), np.int64)
    where[len(packs) - 1 - places] = packs
    return where
