"""Find the name that somebody may have meant."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile
from os.path import splitext

__all__ = ["did_you_mean", "listed"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to put behind an error about an unknown name, or nothing where no name is close.

    Example:
        >>> did_you_mean("feild_map", ["sample_type", "field_map"])
        "; did you mean 'field_map'?"
        >>> did_you_mean("jpg", ["JPG"]), did_you_mean("colour", ["field_map"])
        ("; did you mean 'JPG'?", '')
        >>> did_you_mean("pet05.jpg", ["pet01.jpg", "pet04.jpg", "pet95.jpg"])
        "; did you mean 'pet04.jpg'?"

    Args:
        name: What was written.
        known: The names that exist.

    Returns:
        Text that continues a sentence, or "".
    """
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.strip().lower(), candidate)
    close = _closest(name.strip().lower(), list(by_lower))
    return f"; did you mean {by_lower[close]!r}?" if close is not None else ""


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the name that is most alike: of several, one with the same ending, start, and place in the alphabet."""
    close = get_close_matches(name, known, n=max(1, len(known)))
    if not close:
        return None
    best = _likeness(close[0], name)
    alike = sorted(takewhile(lambda each: _likeness(each, name) == best, close))
    at, ending = bisect(alike, name), splitext(name)[1]
    places = {each: at - 1 - number if number < at else number - at for number, each in enumerate(alike)}
    return min(alike, key=lambda each: (splitext(each)[1] != ending, -_same_start(each, name), places[each]))


def _same_start(known: str, name: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, name, strict=False)))


def _likeness(known: str, name: str) -> float:
    return SequenceMatcher(None, known, name).ratio()


def listed(names: Iterable[object]) -> str:
    """Return names for an error message: quoted, in their order, and no more than twenty.

    Example:
        >>> listed(["jpg", "txt"]), listed([])
        ("'jpg', 'txt'", 'none')

    Args:
        names: What to list.

    Returns:
        The text.
    """
    shown = [repr(name) for name in names]
    if len(shown) > 20:
        shown = [*shown[:20], f"and {len(shown) - 20} more"]
    return ", ".join(shown) or "none"
