"""What lies in `.nv-meta`: the shards with their sample counts, and the split into parts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from braceexpand import braceexpand  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.split_text import parse_lists

__all__ = [
    "META_FOLDER",
    "Info",
    "SplitPart",
    "expand",
    "info_file",
    "info_text",
    "is_prepared",
    "read_info",
    "read_split",
    "split_file",
]

META_FOLDER = ".nv-meta"

_ONE_RANGE = re.compile(r"([^{}\\,]*)\{([0-9]+)\.\.([0-9]+)\}([^{}\\,]*)")


@dataclass(frozen=True)
class Info:
    """Hold what `.info.json` says.

    Args:
        shard_counts: The number of samples of each shard; names relative to the dataset, their order matters.
        energon_version: The version that wrote it, if it says so.

    Example:
        >>> sum(Info({"0.tar": 4, "1.tar": 3}).shard_counts.values())
        7
    """

    shard_counts: dict[str, int]
    energon_version: str | None = None


@dataclass(frozen=True)
class SplitPart:
    """Hold one part of a split, `train` for instance.

    Args:
        shards: The shards in the order of the global sample range; excluded ones are gone.
        excluded: Samples that are never delivered, by shard.

    Example:
        >>> SplitPart(["0.tar"], {"0.tar": frozenset({"000003"})}).shards
        ['0.tar']
    """

    shards: list[str]
    excluded: dict[str, frozenset[str]]


def expand(pattern: str) -> list[str]:
    """Expand braces as a shell does.

    Example:
        >>> expand("part_{08..10}.tar"), expand("{a,b}/0.tar")
        (['part_08.tar', 'part_09.tar', 'part_10.tar'], ['a/0.tar', 'b/0.tar'])

    Args:
        pattern: Text, with braces or without.

    Returns:
        The expanded texts, in order.
    """
    if "{" not in pattern:
        return [pattern]
    one = _ONE_RANGE.fullmatch(pattern)
    if one is not None and len(one[2]) == len(one[3]) and one[2] <= one[3]:  # thousands of shards, 10 µs each otherwise
        return [f"{one[1]}{number:0{len(one[2])}}{one[4]}" for number in range(int(one[2]), int(one[3]) + 1)]
    return [str(text) for text in cast("Any", braceexpand)(pattern)]


def is_prepared(root: str) -> bool:
    """Tell whether a folder is a prepared dataset.

    Example:
        >>> is_prepared("memory://nothing/here")
        False

    Args:
        root: A folder or URL.

    Returns:
        True when it has an info file.
    """
    return any(paths.exists(_meta(root, name)) for name in (".info.json", ".info.yaml"))


def info_file(root: str) -> str:
    """Return the path of the info file of a prepared dataset.

    Example:
        >>> info_file("memory://nothing/here")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: memory://nothing/here is not a prepared dataset: ...

    Args:
        root: The folder of the dataset.

    Returns:
        The path of `.info.json`, or of the older `.info.yaml`.

    Raises:
        DatasetError: Neither exists.
    """
    for name in (".info.json", ".info.yaml"):
        if paths.exists(_meta(root, name)):
            return _meta(root, name)
    raise DatasetError(
        f"{root} is not a prepared dataset: it has no {META_FOLDER}/.info.json (correct the path, prepare it with "
        "energon_nodes.prepare, or read its shards with energon_nodes.shards, without a split)"
    )


def info_text(shard_counts: Mapping[str, int], energon_version: str) -> str:
    """Return the content of `.info.json`.

    Example:
        >>> json.loads(info_text({"0.tar": 4}, "7.4.1"))
        {'energon_version': '7.4.1', 'shard_counts': {'0.tar': 4}}

    Args:
        shard_counts: The number of samples of each shard, in the order of the numbers that an index gives them.
        energon_version: The version of the format.

    Returns:
        JSON.
    """
    content = {"energon_version": energon_version, "shard_counts": dict(shard_counts)}
    return json.dumps(content, indent=2)


def read_info(root: str) -> Info:
    """Read the shards of a prepared dataset and their sample counts.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/info/.nv-meta/.info.json", b'{"shard_counts": {"0.tar": 4}}')
        >>> read_info("memory://info").shard_counts
        {'0.tar': 4}

    Args:
        root: The folder of the dataset.

    Returns:
        The content of the info file.

    Raises:
        DatasetError: The file does not exist or has another form.
    """
    place = info_file(root)
    fields = _fields(place, {"shard_counts", "energon_version"})
    counts = fields.get("shard_counts")
    if not isinstance(counts, dict):
        raise DatasetError(f"{place}: shard_counts must be a mapping of shard names to sample counts, got {counts!r}")
    checked: dict[str, int] = {}
    for name, count in cast("dict[Any, Any]", counts).items():
        try:
            checked[str(name)] = int(count)
        except (TypeError, ValueError):
            checked[str(name)] = -1
        if checked[str(name)] < 0 or isinstance(count, bool | float):
            raise DatasetError(f"{place}: the sample count of {name!r} must be a whole number >= 0, got {count!r}")
    version = fields.get("energon_version")
    return Info(checked, str(version) if version else None)


def read_split(root: str, info: Info, part: str, config: str | None = None) -> SplitPart:
    r"""Read one part of a split: its shards in order, and what is excluded.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> split = b"split_parts:\n  train: ['{0..2}.tar']\nexclude: [1.tar, 2.tar/000004]\n"
        >>> filesystem("memory://")[0].pipe("/split/.nv-meta/split.yaml", split)
        >>> read_split("memory://split", Info({"0.tar": 5, "1.tar": 5, "2.tar": 5}), "train")
        SplitPart(shards=['0.tar', '2.tar'], excluded={'2.tar': frozenset({'000004'})})

    Args:
        root: The folder of the dataset.
        info: What the info file says.
        part: The name of the part.
        config: The file in `.nv-meta` to read; by default `split.yaml`, or `split.json` where that is missing.

    Returns:
        The part.

    Raises:
        DatasetError: The file, the part or a shard of it does not exist, or the file has another form.
    """
    place = split_file(root, config)
    fields = _fields(place, {"split_parts", "exclude"})
    parts = fields.get("split_parts")
    if not isinstance(parts, dict):
        raise DatasetError(f"{place}: split_parts must be a mapping of part names to lists of shards, got {parts!r}")
    lists = {str(name): value for name, value in cast("dict[Any, Any]", parts).items()}
    if part not in lists:
        raise DatasetError(f"{place} has no split part {part!r}; its parts are {_listed(lists)}")
    excluded_shards, excluded_samples = _excludes(_names(place, "exclude", fields.get("exclude")), info)
    shards: list[str] = []
    for name in _names(place, f"split part {part!r}", lists[part]):
        if name not in info.shard_counts:
            raise DatasetError(
                f"{place}: split part {part!r} names the shard {name!r}, which is not in {META_FOLDER}/.info.json; "
                "prepare the dataset again or correct the split"
            )
        if name not in excluded_shards:
            shards.append(name)
    if not shards:
        filled = [name for name, value in lists.items() if value]
        raise DatasetError(f"split part {part!r} of {place} has no shards; parts with shards: {_listed(filled)}")
    return SplitPart(shards, {shard: keys for shard, keys in excluded_samples.items() if shard in set(shards)})


def split_file(root: str, config: str | None = None) -> str:
    """Return the path of a split file.

    Example:
        >>> split_file("/data/coco", "split_small.yaml")
        '/data/coco/.nv-meta/split_small.yaml'

    Args:
        root: The folder of the dataset.
        config: The name of the file, or None for the default.

    Returns:
        The path.

    Raises:
        DatasetError: The name has another ending than `.yaml` or `.json`, or leads out of the folder.
    """
    if config is not None:
        if not config.endswith((".yaml", ".json")):
            raise DatasetError(f"split_config must name a .yaml or .json file in {META_FOLDER}, got {config!r}")
        if config.startswith("/") or ".." in config.split("/"):
            raise DatasetError(f"split_config must lie inside {META_FOLDER}, got {config!r}")
        return _meta(root, config)
    default = _meta(root, "split.yaml")
    if paths.exists(default) or not paths.exists(_meta(root, "split.json")):
        return default
    return _meta(root, "split.json")


def _excludes(entries: list[str], info: Info) -> tuple[set[str], dict[str, frozenset[str]]]:
    shards: set[str] = set()
    samples: dict[str, set[str]] = {}
    for entry in entries:
        if entry in info.shard_counts:
            shards.add(entry)
            continue
        # Keys may hold slashes as well as shards: the shard is the longest beginning that is one.
        head, slash, _ = entry.rpartition("/")
        while slash and head not in info.shard_counts:
            head, slash, _ = head.rpartition("/")
        if head in info.shard_counts:
            samples.setdefault(head, set()).add(entry[len(head) + 1 :])
    return shards, {shard: frozenset(keys) for shard, keys in samples.items()}


def _names(place: str, what: str, value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if not isinstance(value, list):
        raise DatasetError(f"{place}: {what} must be a list, got {value!r}")
    return [name for entry in cast("list[Any]", value) for name in expand(str(entry))]


def _fields(place: str, known: set[str]) -> Mapping[str, Any]:
    try:
        text = paths.read_text(place)
    except FileNotFoundError:
        raise DatasetError(f"{place} does not exist; prepare the dataset, or name another file") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place} is not UTF-8 text: {error}") from error
    try:
        content: Any = json.loads(text) if place.endswith(".json") else parse_lists(text)
    except ValueError as error:
        raise DatasetError(f"{place} cannot be parsed: {error}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{place} must hold a mapping with the keys {_listed(known)}")
    fields = cast("dict[str, Any]", content)
    unknown = sorted(str(key) for key in fields if key not in known)
    if unknown:
        raise DatasetError(f"{place} has unknown keys {_listed(unknown)}; known are {_listed(known)}")
    return fields


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"


def _meta(root: str, name: str) -> str:
    return paths.join(root, f"{META_FOLDER}/{name}")
