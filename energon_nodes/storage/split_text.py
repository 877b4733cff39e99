"""The text of split files: lists of shard names, mostly plain, at times any YAML."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["parse_lists"]

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
