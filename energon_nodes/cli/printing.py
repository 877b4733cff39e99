"""Print what the data hold, without letting it act on the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import click

__all__ = ["columns", "plain_text", "print_json", "readable_json", "readable_size", "shortened"]


def print_json(value: Any) -> None:
    r"""Print a value as JSON, in ASCII: names of files may hold bytes that are no text.

    Example:
        >>> print_json({"a": "é"})
        {
          "a": "\u00e9"
        }

    Args:
        value: Plain data.
    """
    click.echo(json.dumps(value, indent=2))


def readable_size(size: float) -> str:
    """Return a number of bytes as people say it.

    Example:
        >>> readable_size(999), readable_size(23_400), readable_size(2_050_000_000)
        ('999 B', '23.4 kB', '2.05 GB')

    Args:
        size: A number of bytes.

    Returns:
        The text, with a unit of 1000.
    """
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5 or unit == "TB":
            return f"{size:.3g} {unit}"
    raise AssertionError


def plain_text(text: str) -> str:
    r"""Return text in which nothing moves the cursor, changes colours or rings: such characters are escaped.

    Example:
        >>> plain_text("a\x1b[31m\tb\nc")
        'a\\x1b[31m\\tb\\nc'

    Args:
        text: Any text.

    Returns:
        Text that can be printed; lone surrogates are escaped too.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shortened(text: str, length: int) -> str:
    """Return the beginning of a text, with what was left out counted.

    Example:
        >>> shortened("abcdefghij", 4), shortened("abcd", 4)
        ('abcd… (6 more)', 'abcd')

    Args:
        text: Any text.
        length: How many characters are kept.

    Returns:
        The text.
    """
    return text if len(text) <= length else f"{text[:length]}… ({len(text) - length} more)"


def readable_json(value: Any, width: int = 60, indent: str = "") -> str:
    """Return JSON with what is short in one line, and the rest in lines below each other.

    Example:
        >>> print(readable_json({"size": [640, 480], "name": "a" * 12}, width=20))
        {
          "size": [640, 480],
          "name": "aaaaaaaaaaaa"
        }

    Args:
        value: What JSON can hold.
        width: The most characters of a value in one line.
        indent: What stands in front of each line but the first.

    Returns:
        The text.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) <= width or not isinstance(value, dict | list):
        return flat
    deeper = indent + "  "
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {readable_json(item, width, deeper)}" for key, item in items]
        opening, closing = "{}"
    else:
        lines = [readable_json(item, width, deeper) for item in cast("list[Any]", value)]
        opening, closing = "[]"
    inner = f",\n{deeper}".join(lines)
    return f"{opening}\n{deeper}{inner}\n{indent}{closing}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns.

    Example:
        >>> columns([["jpg", "5"], ["txt", "12"]], right=[1])
        ['jpg   5', 'txt  12']

    Args:
        rows: The cells.
        right: The columns that are aligned to the right.

    Returns:
        A line for each row.
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
