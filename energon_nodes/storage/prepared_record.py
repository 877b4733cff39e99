"""What preparing a dataset has to remember: which files it read, and how it divided them.

The files of the format have no room for it, so it lies in one of its own, `.nv-meta/prepared.json`, which other readers
do not look at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, cast

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import META_FOLDER, Info
from energon_nodes.storage.splits import Patterns, Ratios, Rule

__all__ = ["RECORD_FILE", "Record", "ShardRecord", "check_in_step", "read_record"]

RECORD_FILE = "prepared.json"
_FORMAT = 1


class ShardRecord(NamedTuple):
    """Say what a shard was when it was indexed.

    Example:
        >>> ShardRecord(4, 10240, 7).samples
        4

    Args:
        samples: The number of its samples.
        size: Its bytes.
        changed: Its time of change, see `paths.identity`.
    """

    samples: int
    size: int
    changed: int


@dataclass(frozen=True)
class Record:
    """Hold what was prepared, and how.

    Args:
        uuid: What `index.uuid` holds since then; empty where keys came twice, so that there is no index.
        shards: The shards, in the order of the info file.
        rule: How they were divided, as far as it is known.
        exclude: The patterns of shards that were left out.
        parts: How many samples have each part.

    Example:
        >>> Record("", {"0.tar": ShardRecord(4, 10240, 7)}, Ratios({"train": 1}), ()).text()[:40]
        '{"format": 1, "uuid": "", "exclude": [],'
    """

    uuid: str
    shards: Mapping[str, ShardRecord]
    rule: Rule | None = None
    exclude: tuple[str, ...] = ()
    parts: Mapping[str, int] = field(default_factory=dict[str, int])

    def text(self) -> str:
        """Return the content of the file."""
        content = {
            "format": _FORMAT,
            "uuid": self.uuid,
            "exclude": list(self.exclude),
            "split": _plain(self.rule),
            "parts": dict(self.parts),
            "shards": {name: list(shard) for name, shard in self.shards.items()},
        }
        return json.dumps(content, ensure_ascii=False) + "\n"


def read_record(root: str) -> Record | None:
    """Read what was remembered.

    Example:
        >>> read_record("memory://nothing/here") is None
        True

    Args:
        root: The folder of the dataset.

    Returns:
        The record; None where another program prepared the dataset, or nobody did, or the file is damaged.
    """
    try:
        content: Any = json.loads(paths.read_text(paths.join(root, f"{META_FOLDER}/{RECORD_FILE}")))
        if content["format"] != _FORMAT:
            return None
        shards = {str(name): ShardRecord(*map(int, shard)) for name, shard in content["shards"].items()}
        parts = {str(part): int(count) for part, count in content["parts"].items()}
        return Record(str(content["uuid"]), shards, _rule(content["split"]), tuple(map(str, content["exclude"])), parts)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def check_in_step(root: str, info: Info, uuid: str) -> None:
    """Raise if the index was written for other shards than the info file lists.

    A run of `prepare` that is killed between its last renames leaves such an index; the shards can be read, and by
    number the samples too, but the index must not be used: it would find other samples than it was asked for.

    Example:
        >>> check_in_step("memory://nothing/here", Info({}), "")

    Args:
        root: The folder of the dataset.
        info: What the info file says.
        uuid: What `index.uuid` holds.

    Raises:
        DatasetError: It was.
    """
    record = read_record(root)
    if record is None or not uuid or record.uuid != uuid:
        return
    indexed = [(name, shard.samples) for name, shard in record.shards.items()]
    if indexed != list(info.shard_counts.items()):
        raise DatasetError(
            f"{root}: index.sqlite belongs to other shards than {META_FOLDER}/.info.json lists, as when preparing was "
            "broken off at its end; prepare the dataset again"
        )


def _plain(rule: Rule | None) -> dict[str, Any] | None:
    if isinstance(rule, Ratios):
        return {"ratios": {part: str(ratio) for part, ratio in rule.ratios.items()}}
    if isinstance(rule, Patterns):
        return {"patterns": {part: list(patterns) for part, patterns in rule.patterns.items()}}
    return None  # a file given by the user may be another one today: the split itself is what is kept


def _rule(content: Any) -> Rule | None:
    if isinstance(content, dict):
        fields = cast("dict[str, dict[str, Any]]", content)
        if "ratios" in fields:
            return Ratios({part: Fraction(ratio) for part, ratio in fields["ratios"].items()})
        if "patterns" in fields:
            return Patterns({part: tuple(patterns) for part, patterns in fields["patterns"].items()})
    return None
