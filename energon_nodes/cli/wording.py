"""Errors of the library in the words of the command line: `--update` for `update=True`."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["for_command"]

_SETTINGS = (
    "dataset_config|dataset_yaml|exclude|field_map|index_only|media|overwrite|part_filter|sample_loader|sample_type|"
    "split_config|split|subflavors|trust|update|workers"
)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _entries(text: str) -> str:
    """Return the entries of a dict, written in Python, as options."""
    pairs = re.findall(r"'([^']*)': '([^']*)'", text)
    return " ".join(f"--field-map {field}={part}" for field, part in pairs)


_PHRASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"patterns are given as a mapping: \{'train': 'PATTERN'\}"),
        lambda _: "patterns are given with --split-parts NAME:PATTERN",
    ),
    (
        re.compile(r"other parts are given by their names: \{'train': 0\.8, 'holdout': 0\.2\}"),
        lambda _: "other parts are given with --split-parts NAME:PATTERN",
    ),
    (re.compile(r"a field_map, as in \{([^}]*)\}"), lambda found: f"a field map, as in {_entries(found[1])}"),
    (
        re.compile(r"part_filter=\[([^\]]*)\]"),
        lambda found: "--part-filter " + found[1].replace("'", "").replace(", ", ","),
    ),
    (re.compile(r",? (?:or|and) (?:skip|pass over) (?:them|such samples) with on_error='skip'"), lambda _: ""),
    (re.compile(rf"\b({_SETTINGS})=True\b"), lambda found: _option(found[1])),
    # `exclude='[0-9'` is a value that was given; `exclude=` alone is what may be given.
    (re.compile(rf"(?<![\w/.?&-])({_SETTINGS})=(?=['\"])"), lambda found: f"{_option(found[1])} "),
    (re.compile(rf"(?<![\w/.?&'\"-])({_SETTINGS})=(?![\w'\"/.\[{{(-])"), lambda found: _option(found[1])),
)


def for_command(text: str) -> str:
    """Return the text of an error in the words of the command line.

    Example:
        >>> for_command("say update=True, or leave them out with exclude=")
        'say --update, or leave them out with --exclude'
        >>> for_command("exclude='[' is no regular expression")
        "--exclude '[' is no regular expression"

    Args:
        text: What the library says.

    Returns:
        The same, with options in place of the arguments of Python functions.
    """
    for pattern, words in _PHRASES:
        text = pattern.sub(words, text)
    return text
