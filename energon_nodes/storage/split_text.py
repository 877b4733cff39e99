"""The text of split files: lists of shard names, mostly plain, at times any YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["format_lists", "parse_lists", "quoted"]

_KEY = re.compile(r"( *)([A-Za-z_][\w.-]*):(?: +\[\])? *")
_ITEM = re.compile(r"( *)- ([A-Za-z0-9_./][^\s#:'\"\[\]]*) *")


def parse_lists(text: str) -> Any:
    r"""Parse YAML with all scalars as text: `yes` and `010` are good names of parts and shards.

    Example:
        >>> parse_lists("split_parts:\n  on:\n  - 010\nexclude: []")
        {'split_parts': {'on': ['010']}, 'exclude': []}

    Args:
        text: The content of a file.

    Returns:
        Dicts, lists and text.

    Raises:
        ValueError: It is no YAML.
    """
    simple = _block_lists(text)
    if simple is not None:
        return simple
    import yaml  # pyright: ignore[reportMissingModuleSource]  # 15 ms, more than all else that opening a dataset takes

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _block_lists(text: str) -> dict[str, Any] | None:
    """Parse the plain form that `prepare` writes, lists of names one per line; None for anything else."""
    content: dict[str, Any] = {}
    parts: dict[str, list[str]] | None = None
    target: list[str] | None = None
    indent = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        item, key = _ITEM.fullmatch(line), _KEY.fullmatch(line)
        if item is not None and target is not None and len(item[1]) >= indent:
            target.append(item[2])
        elif key is not None and not key[1] and key[2] not in content:
            indent, target = 0, []
            if key[2] == "split_parts":
                parts, target = {}, None
            content[key[2]] = target if parts is None or target is not None else parts
        elif key is not None and key[1] and parts is not None and key[2] not in parts:
            if indent not in (0, len(key[1])) or next(reversed(content)) != "split_parts":
                return None
            indent, target = len(key[1]), []
            parts[key[2]] = target
        else:
            return None
    return content if parts else None


def format_lists(parts: Mapping[str, Sequence[str]], exclude: Sequence[str] = ()) -> str:
    """Write the text of a split file, one name a line.

    Example:
        >>> print(format_lists({"train": ["a_{0..7}.tar"], "val": []}), end="")
        split_parts:
          train:
          - a_{0..7}.tar
          val: []
        exclude: []

    Args:
        parts: The shards of each part.
        exclude: What no reader delivers.

    Returns:
        YAML that every reader of the format takes.
    """
    lines = ["split_parts:" if parts else "split_parts: {}"]
    for part, names in parts.items():
        lines += _entries(f"  {quoted(part)}:", names, "  ")
    lines += _entries("exclude:", exclude, "")
    return "\n".join(lines) + "\n"


def _entries(head: str, names: Sequence[str], indent: str) -> list[str]:
    return [head, *(f"{indent}- {quoted(name)}" for name in names)] if names else [f"{head} []"]


def quoted(text: str) -> str:
    r"""Write text as YAML, plain where no parser can misread it.

    Example:
        >>> quoted("a_{0..7}.tar"), quoted("on"), quoted("a: b"), quoted("010")
        ('a_{0..7}.tar', '"on"', '"a: b"', '"010"')

    Args:
        text: Any text.

    Returns:
        A scalar that is read as text.
    """
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


_INNER = "[A-Za-z0-9_./ {}+=@~-]*"
_PLAIN = re.compile(rf"[A-Za-z_](?:{_INNER}[A-Za-z0-9_./{{}}+=@~-])?|[0-9]{_INNER}\.tar")
_WORDS = frozenset("y n yes no true false on off null none nan inf".split())
