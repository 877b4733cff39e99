"""A part of a range of samples, in fractions, percent or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from operator import index
from typing import Any, TypeAlias, cast

__all__ = ["Bound", "Section", "is_relative", "plain_sections", "resolve_sections", "resolve_subset"]

Bound: TypeAlias = int | float | str
"""A fraction (float), a percentage such as "25%", a sample number (int), or "end"."""

Section: TypeAlias = tuple[Bound, Bound]
"""Where a part begins, and where it ends."""


def resolve_subset(subset: Section, count: int) -> tuple[int, int]:
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
    return resolve_sections([subset], count)


def resolve_sections(sections: Sequence[Section], count: int) -> tuple[int, int]:
    """Return the samples that are left when subsets are taken of one another, the first one of all samples.

    Fractions of fractions are multiplied exactly, and rounded down once, at the end: so parts that meet have no sample
    twice and miss none, however deep they lie. `0.29` and "29%" are 29/100, also where a float is a bit less.

    Example:
        >>> resolve_sections([("0%", "50%"), ("50%", "100%")], 100), resolve_sections([(10, 30), (0.5, 1.0)], 100)
        ((25, 50), (20, 30))

    Args:
        sections: The subsets, each as in `resolve_subset`; sample numbers count what the ones before it left.
        count: How many samples there are.

    Returns:
        The first sample and the one behind the last.

    Raises:
        ValueError: The bounds of one are of different kinds or out of range, or no sample is left.
    """
    start, stop = 0, count  # by numbers
    low, high = Fraction(0), Fraction(1)  # of these
    for section in map(_plain, sections):
        first, last = _start_and_stop(start, stop, low, high)
        if is_relative(section):
            begin, end = Fraction(_fraction(section[0]) or 0), Fraction(_fraction(section[1]) or 0)
            if begin > end:
                raise _out_of_range(section, last - first, floor((last - first) * begin), floor((last - first) * end))
            low, high = low + begin * (high - low), low + end * (high - low)
        else:
            begin, end = _number(section, 0, last - first), _number(section, 1, last - first)
            if not 0 <= begin <= end <= last - first:
                raise _out_of_range(section, last - first, begin, end)
            start, stop, low, high = first + begin, first + end, Fraction(0), Fraction(1)
    first, last = _start_and_stop(start, stop, low, high)
    if first == last and count:
        shown = " of ".join(repr(section) for section in reversed(sections))
        raise ValueError(f"subset {shown} leaves none of the {count} samples; take a wider one")
    return first, last


def is_relative(section: Section) -> bool:
    """Return whether the bounds are fractions or percentages, not sample numbers.

    Example:
        >>> is_relative(("0%", 0.5)), is_relative((0, "end"))
        (True, False)

    Raises:
        ValueError: One is and the other is not, or the section is none.
    """
    pair: Any = section
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f'subset needs two bounds such as (0.0, 0.5), ("0%", "50%") or (100, "end"), got {section!r}')
    section = _plain(section)
    low, high = _fraction(section[0]), _fraction(section[1])
    if (low is None) != (high is None):
        raise ValueError(
            f"subset needs two relative bounds or two sample numbers, got {section!r}; "
            "fractions are floats, numbers are ints"
        )
    return low is not None


def plain_sections(sections: Sequence[Section]) -> Any:
    """Return subsets as checkpoints hold them: None, one pair, or several.

    Example:
        >>> plain_sections([]), plain_sections([(0.0, 0.5)]), plain_sections([[0.0, 0.5], (0, 3)])
        (None, (0.0, 0.5), ((0.0, 0.5), (0, 3)))
    """
    pairs = tuple([tuple(_plain(section)) for section in sections])
    return pairs if len(pairs) > 1 else pairs[0] if pairs else None


def _plain(section: Section) -> Any:
    """Return a section with numbers of numpy as those of Python; what is none of these stays."""
    pair: Any = section
    return tuple([_plain_bound(bound) for bound in cast("list[Any]", pair)]) if isinstance(pair, tuple | list) else pair


def _plain_bound(bound: Any) -> Any:
    if isinstance(bound, bool | str):
        return bound
    if isinstance(bound, float):
        return float(bound)
    try:
        return index(bound)
    except TypeError:
        return bound


def _start_and_stop(start: int, stop: int, low: Fraction, high: Fraction) -> tuple[int, int]:
    return start + floor((stop - start) * low), start + floor((stop - start) * high)


def _out_of_range(section: Section, count: int, first: int, last: int) -> ValueError:
    return ValueError(f"subset needs 0 <= first <= last <= {count} samples, got {section!r}: samples {first} to {last}")


def _fraction(bound: Bound) -> Fraction | None:
    """Return a relative bound as a fraction, None for a sample number or "end"."""
    if isinstance(bound, str):
        if bound == "end":
            return None
        digits = bound.strip()
        try:
            value = Fraction(digits[:-1]) / 100 if digits.endswith("%") else Fraction(-1)
        except (ValueError, ZeroDivisionError):
            value = Fraction(-1)
        if not 0 <= value <= 1:
            raise ValueError(f'a bound of a subset is a percentage from "0%" to "100%", or "end", got {bound!r}')
        return value
    if isinstance(bound, bool) or not isinstance(bound, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"a bound of a subset is a float, an int or text, got {bound!r}")
    if isinstance(bound, int):
        return None
    if not 0 <= bound <= 1:
        raise ValueError(f"a fraction of a subset lies between 0.0 and 1.0, got {bound!r}; sample numbers are ints")
    return Fraction(str(float(bound)))  # as it is written: 0.29 is meant as 29/100


def _number(section: Section, place: int, count: int) -> int:
    bound = section[place]
    if bound == "end":
        if place == 0:
            raise ValueError(f'only the second bound of a subset may be "end", got {section!r}')
        return count
    return int(bound)
