"""A part of a sample range, in fractions, percent or numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["Bound", "resolve_subset"]

Bound = int | float | str
"""A fraction (float), a percentage such as "25%", a sample number (int), or "end"."""


def resolve_subset(subset: tuple[Bound, Bound], count: int) -> tuple[int, int]:
    """Return the samples that a subset stands for.

    Example:
        >>> resolve_subset((0.25, 0.5), 10), resolve_subset(("50%", "100%"), 10), resolve_subset((3, "end"), 10)
        ((2, 5), (5, 10), (3, 10))

    Args:
        subset: Two bounds: both relative (fractions from 0.0 to 1.0, percentages) and rounded down, or both sample
            numbers, of which the second may be "end".
        count: How many samples there are.

    Returns:
        The first sample and the one behind the last.

    Raises:
        ValueError: The bounds are of different kinds, out of range, or leave no sample.
    """
    pair: Any = subset
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f'subset needs two bounds such as (0.0, 0.5), ("0%", "50%") or (100, "end"), got {subset!r}')
    low, high = _fraction(subset[0]), _fraction(subset[1])
    if low is not None and high is not None:
        start, stop = int(count * low), int(count * high)
    elif low is None and high is None:
        start, stop = _number(subset, 0, count), _number(subset, 1, count)
    else:
        raise ValueError(
            f"subset needs two relative bounds or two sample numbers, got {subset!r}; "
            "fractions are floats, numbers are ints"
        )
    if not 0 <= start <= stop <= count:
        raise ValueError(
            f"subset needs 0 <= first <= last <= {count} samples, got {subset!r}: samples {start} to {stop}"
        )
    if start == stop and count:
        raise ValueError(f"subset {subset!r} leaves none of the {count} samples; take a wider one")
    return start, stop


def _fraction(bound: Bound) -> float | None:
    """Return a relative bound as a fraction, None for a sample number or "end"."""
    if isinstance(bound, str):
        if bound == "end":
            return None
        digits = bound.strip()
        try:
            value = float(digits[:-1]) / 100 if digits.endswith("%") else -1.0
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise ValueError(f'a bound of a subset is a percentage from "0%" to "100%", or "end", got {bound!r}')
        return value
    if isinstance(bound, bool) or not isinstance(bound, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"a bound of a subset is a float, an int or text, got {bound!r}")
    if isinstance(bound, int):
        return None
    if not 0 <= bound <= 1:
        raise ValueError(f"a fraction of a subset lies between 0.0 and 1.0, got {bound!r}; sample numbers are ints")
    return bound


def _number(subset: tuple[Bound, Bound], place: int, count: int) -> int:
    bound = subset[place]
    if bound == "end":
        if place == 0:
            raise ValueError(f'only the second bound of a subset may be "end", got {subset!r}')
        return count
    return int(bound)
