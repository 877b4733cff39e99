"""Find the name that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "listed"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to put behind an error about an unknown name, or nothing where no name is close.

    Example:
        >>> did_you_mean("feild_map", ["sample_type", "field_map"])
        "; did you mean 'field_map'?"
        >>> did_you_mean("jpg", ["JPG"]), did_you_mean("colour", ["field_map"])
        ("; did you mean 'JPG'?", '')

    Args:
        name: What was written.
        known: The names that exist.

    Returns:
        Text that continues a sentence, or "".
    """
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.strip().lower(), candidate)
    close = get_close_matches(name.strip().lower(), list(by_lower), n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


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
