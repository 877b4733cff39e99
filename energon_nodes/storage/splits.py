"""Which shards belong to which part of a split: by ratio, by pattern, or as a file says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import expand
from energon_nodes.storage.shard_names import nearest_shards
from energon_nodes.storage.split_text import parse_lists

__all__ = ["PARTS", "FromFile", "Patterns", "Ratios", "Rule", "Split", "parse_rule", "read_lists"]

PARTS = ("train", "val", "test")
"""The names of the parts where a split gives three numbers and no names."""

_NUMBERS = re.compile(r"\s*[0-9.]+(\s*[,:/]\s*[0-9.]+)*\s*")
_SIGNED = re.compile(r"(?:[-+\d.\s]|nan|inf)+(?:[,:/](?:[-+\d.\s]|nan|inf)+)+", re.IGNORECASE)


@dataclass(frozen=True)
class Split:
    """Hold which shards the parts have.

    Args:
        parts: The shards of each part, in order.
        exclude: Shards, and samples as `SHARD/KEY`, that no reader delivers.

    Example:
        >>> Split({"train": ["0.tar"], "val": []}).counts
        {'train': 1, 'val': 0}
    """

    parts: dict[str, list[str]]
    exclude: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The number of shards of each part."""
        return {part: len(shards) for part, shards in self.parts.items()}


@dataclass(frozen=True)
class Ratios:
    """Divide the shards in the given proportions, the first part first.

    Args:
        ratios: The share of each part; they need not add up to 1.

    Raises:
        ValueError: A share is negative or no number, or all of them are 0.

    Example:
        >>> Ratios({"train": 7, "val": 2, "test": 1}).divide([f"{k}.tar" for k in range(10)]).counts
        {'train': 7, 'val': 2, 'test': 1}
    """

    ratios: Mapping[str, float | Fraction]

    def __post_init__(self) -> None:
        self._shares  # noqa: B018 - checks them

    @cached_property
    def _shares(self) -> dict[str, Fraction]:
        shares: dict[str, Fraction] = {}
        for part, ratio in self.ratios.items():
            try:
                # As it is written in decimal: 0.1 is a tenth, whatever its binary form is.
                shares[part] = Fraction(str(ratio))
            except (ValueError, ZeroDivisionError):
                raise ValueError(f"a share of a split must be a number of at least 0, got {part}: {ratio!r}") from None
            if shares[part] < 0:
                raise ValueError(f"a share of a split must be at least 0, got {part}: {ratio!r}")
        total = sum(shares.values())
        if not total:
            raise ValueError(f"a split needs a share above 0, got {dict(self.ratios)!r}")
        return {part: share / total for part, share in shares.items()}

    def divide(self, shards: Sequence[str]) -> Split:
        """Return the split: a part ends at the last whole shard before its exact end, as Megatron-Energon has it.

        Where this leaves nothing for the largest part, as with a single shard, each shard goes where most is missing.
        """
        parts: dict[str, list[str]] = {}
        reached, begin = Fraction(0), 0
        for part, share in self._shares.items():
            reached += share
            end = int(reached * len(shards))
            parts[part] = list(shards[begin:end])
            begin = end
        largest = max(self._shares, key=self._shares.__getitem__)
        return Split(parts) if parts[largest] else self.extend(Split({part: [] for part in parts}), shards)

    def extend(self, split: Split, shards: Sequence[str]) -> Split:
        """Return a split with further shards, each put where most is missing."""
        parts = {part: list(split.parts.get(part, ())) for part in (*self._shares, *split.parts)}
        for shard in shards:
            total = sum(map(len, parts.values())) + 1
            missing = {part: share * total - len(parts[part]) for part, share in self._shares.items()}
            parts[max(missing, key=missing.__getitem__)].append(shard)
        return Split(parts, split.exclude)


@dataclass(frozen=True)
class Patterns:
    r"""Put shards into the parts whose pattern fits the start of their name.

    Args:
        patterns: Regular expressions for each part; braces in them are expanded first, as in `{a,b}/.*` or
            `part_{00..07}`.

    Raises:
        ValueError: A pattern is no regular expression.

    Example:
        >>> Patterns({"train": ["train/"], "val": ["val_{0..1}\\.tar"]}).divide(["train/0.tar", "val_0.tar"]).parts
        {'train': ['train/0.tar'], 'val': ['val_0.tar']}
    """

    patterns: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        self._compiled  # noqa: B018 - checks them

    @cached_property
    def _compiled(self) -> dict[str, list[re.Pattern[str]]]:
        compiled: dict[str, list[re.Pattern[str]]] = {}
        for part, patterns in self.patterns.items():
            compiled[part] = [_compile(pattern) for written in patterns for pattern in expand(written)]
        return compiled

    def part_of(self, shard: str) -> list[str]:
        """Return the parts that a shard belongs to."""
        return [part for part, patterns in self._compiled.items() if any(one.match(shard) for one in patterns)]

    def divide(self, shards: Sequence[str]) -> Split:
        """Return the split.

        Raises:
            DatasetError: A part gets no shard.
        """
        split = self.extend(Split({part: [] for part in self.patterns}), shards)
        for part, found in split.parts.items():
            if not found:
                shown = listed(self.patterns[part])
                raise DatasetError(
                    f"no shard belongs to the split part {part!r}: no name begins as the pattern {shown} says"
                    f"{nearest_shards(self.patterns[part], shards)}"
                )
        return split

    def extend(self, split: Split, shards: Sequence[str]) -> Split:
        """Return a split with further shards."""
        parts = {part: list(found) for part, found in split.parts.items()}
        for shard in shards:
            for part in self.part_of(shard):
                parts.setdefault(part, []).append(shard)
        return Split(parts, split.exclude)


@dataclass(frozen=True)
class FromFile:
    """Take the split from a file.

    Args:
        path: The file, in the format of `split.yaml`.

    Example:
        >>> FromFile("my_split.yaml").path
        'my_split.yaml'
    """

    path: str

    def divide(self, shards: Sequence[str]) -> Split:
        """Return the split.

        Raises:
            DatasetError: The file has another form, or names a shard that is not there.
        """
        split = read_lists(self.path)
        known = set(shards)
        for part, names in split.parts.items():
            for name in names:
                if name not in known:
                    near = nearest_shards([name], shards)
                    raise DatasetError(f"{self.path}: split part {part!r} names the shard {name!r}, not found{near}")
        return split

    def extend(self, split: Split, shards: Sequence[str]) -> Split:
        """Return the split as it is: the file does not know the further shards."""
        return split


Rule = Ratios | Patterns | FromFile
"""What decides to which parts a shard belongs."""


def parse_rule(split: object) -> Rule | None:
    """Read what a user writes to divide shards into parts.

    Example:
        >>> parse_rule("8,1,1"), parse_rule({"train": ["a.*"], "val": ["b.*"]})
        (Ratios(ratios={'train': 8, 'val': 1, 'test': 1}),
         Patterns(patterns={'train': ('a.*',), 'val': ('b.*',)}))

    Args:
        split: Three numbers, as a sequence or as text such as `"8,1,1"`; a mapping of part names to numbers, or to
            patterns; the path of a `.yaml` or `.json` file; or None.

    Returns:
        The rule; None for None.

    Raises:
        ValueError: It is none of these.
        TypeError: It is of another type.
    """
    if split is None:
        return None
    if isinstance(split, os.PathLike):
        return _from_file(os.fspath(cast("os.PathLike[str]", split)))
    if isinstance(split, str):
        if _NUMBERS.fullmatch(split):
            return _three([_number(text) for text in re.split(r"[,:/]", split)], split)
        return _from_file(split)
    if isinstance(split, Mapping):
        return _by_name(cast("Mapping[Any, Any]", split))
    if isinstance(split, Iterable):
        numbers = list(cast("Iterable[Any]", split))
        return _three(numbers, numbers)
    raise TypeError(f"split must be three numbers, a mapping of part names, or a file, got {split!r}")


def read_lists(path: str) -> Split:
    r"""Read a file in the format of `split.yaml`.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/lists.yaml", b"split_parts:\n  train: ['{0..1}.tar']\n")
        >>> read_lists("memory://lists.yaml")
        Split(parts={'train': ['0.tar', '1.tar']}, exclude=())

    Args:
        path: The file, `.yaml` or `.json`.

    Returns:
        The split, all braces expanded.

    Raises:
        DatasetError: It does not exist or has another form.
    """
    try:
        text = paths.read_text(path)
        content: Any = json.loads(text) if path.endswith(".json") else parse_lists(text)
    except FileNotFoundError:
        raise DatasetError(f"the split file {path} does not exist") from None
    except ValueError as error:
        raise DatasetError(f"the split file {path} cannot be parsed: {error}") from error
    fields = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    parts: Any = fields.get("split_parts")
    exclude: Any = fields.get("exclude") or []
    if not isinstance(parts, dict) or not isinstance(exclude, list) or fields.keys() - {"split_parts", "exclude"}:
        raise DatasetError(
            f"the split file {path} must hold split_parts, a mapping of part names to lists of shards, and may hold "
            "exclude, a list"
        )
    lists: dict[str, list[str]] = {}
    for part, names in cast("dict[Any, Any]", parts).items():
        if names not in (None, "") and not isinstance(names, list):
            raise DatasetError(f"the split file {path}: split part {part!r} must be a list of shards, got {names!r}")
        lists[str(part)] = [name for entry in cast("list[Any]", names or []) for name in expand(str(entry))]
    return Split(lists, tuple(str(entry) for entry in cast("list[Any]", exclude)))


def _from_file(path: str) -> Rule:
    if _SIGNED.fullmatch(path):
        raise ValueError(f"a share of a split must be a number of at least 0, got {path!r}")
    if not path.endswith((".yaml", ".json")):
        raise ValueError(
            f"split={path!r} is neither three numbers such as '8,1,1' nor the path of a .yaml or .json file; patterns "
            "are given as a mapping: {'train': 'PATTERN'}"
        )
    return FromFile(path)


def _three(numbers: list[Any], split: object) -> Rule:
    if len(numbers) != len(PARTS) or not all(_is_number(number) for number in numbers):
        raise ValueError(
            f"split needs three numbers, for {', '.join(PARTS)}, got {split!r}; other parts are given by their names: "
            "{'train': 0.8, 'holdout': 0.2}"
        )
    return Ratios(dict(zip(PARTS, numbers, strict=True)))


def _by_name(split: Mapping[Any, Any]) -> Rule:
    for part in split:
        if not isinstance(part, str) or not part:
            raise ValueError(f"split needs part names that are text, got {part!r}")
    if split and all(_is_number(value) for value in split.values()):
        return Ratios(dict(split))
    patterns: dict[str, tuple[str, ...]] = {}
    for part, value in split.items():
        patterns[part] = (value,) if isinstance(value, str) else tuple(value) if _is_listing(value) else ()
        if not patterns[part] or not all(isinstance(one, str) for one in cast("tuple[Any, ...]", patterns[part])):
            raise ValueError(
                f"split needs a number for every part, or a pattern or list of patterns for every part, got "
                f"{part}: {value!r}"
            )
    if not patterns:
        raise ValueError("split needs at least one part, got an empty mapping")
    return Patterns(patterns)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def _is_listing(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, bytes)


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"the split pattern {pattern!r} is no regular expression ({error}); for any text write '.*', for a dot "
            r"'\.'"
        ) from None
