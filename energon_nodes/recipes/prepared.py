"""What preparing a dataset found and wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from energon_nodes.core.errors import DatasetError

__all__ = ["Duplicate", "DuplicateKeysError", "Prepared"]

_SHOWN = 10


class Duplicate(NamedTuple):
    """Name a key that samples of two shards have.

    Example:
        >>> str(Duplicate("cat", "0.tar", "1.tar"))
        "'cat' in 0.tar and 1.tar"

    Args:
        key: The key.
        shard: The shard of the first sample.
        other: The shard of the other one.
    """

    key: str
    shard: str
    other: str

    def __str__(self) -> str:
        return f"{self.key!r} in {self.shard} and {self.other}"


@dataclass(frozen=True)
class Prepared:
    """Say what `prepare` found and wrote.

    Example:
        >>> print(Prepared("/data", 4, {"0.tar": 4}, {"train": 1}, {"train": 4}, {"txt": 4}, 10240))
        /data: 4 samples in 1 shard (10,240 bytes); train: 4 samples in 1 shard; parts: txt 4

    Args:
        path: The dataset.
        samples: How many samples it has.
        shards: The samples of each shard.
        splits: The shards of each split part.
        samples_per_split: The samples of each split part.
        parts: For each name of a part how many samples have it; at most 1,000 names are kept.
        bytes: The bytes of all shards.
        duplicates: Keys that samples of two shards have, at most 1,000 of them.
        warnings: What may not be meant so.
        written: The files that were written, relative to `path`.
    """

    path: str
    samples: int
    shards: dict[str, int]
    splits: dict[str, int]
    samples_per_split: dict[str, int]
    parts: dict[str, int]
    bytes: int
    duplicates: tuple[Duplicate, ...] = ()
    warnings: tuple[str, ...] = ()
    written: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        within = _counted(self.samples, len(self.shards))
        pieces = [f"{self.path}: {within} ({self.bytes:,} bytes)"]
        pieces += [f"{part}: {_counted(self.samples_per_split[part], count)}" for part, count in self.splits.items()]
        parts = [f"{part} {count:,}" for part, count in self.parts.items()]
        shown = parts[:_SHOWN] + ([f"and {len(parts) - _SHOWN} more"] if len(parts) > _SHOWN else [])
        return "; ".join([*pieces, f"parts: {', '.join(shown)}"])


def _counted(samples: int, shards: int) -> str:
    return f"{samples:,} sample{'s' * (samples != 1)} in {shards:,} shard{'s' * (shards != 1)}"


class DuplicateKeysError(DatasetError):
    """Report that samples of different shards have the same key: they can be read, but not looked up by it.

    Everything is written except for what lookup needs.

    Args:
        prepared: What was found and written.

    Example:
        >>> prepared = Prepared("/data", 2, {}, {}, {}, {}, 0, (Duplicate("cat", "0.tar", "1.tar"),))
        >>> raise DuplicateKeysError(prepared)
        Traceback (most recent call last):
        ...
        energon_nodes.recipes.prepared.DuplicateKeysError: /data: samples of different shards have the same key, ...
    """

    def __init__(self, prepared: Prepared) -> None:
        shown = "; ".join(map(str, prepared.duplicates[:_SHOWN]))
        more = len(prepared.duplicates) - _SHOWN
        super().__init__(
            f"{prepared.path}: samples of different shards have the same key, so index.sqlite was not written: {shown}"
            f"{f'; and {more:,} more' if more > 0 else ''}. The dataset can be read in sequence; for lookup by key "
            "rename the files of one of each, and prepare it again"
        )
        self.prepared = prepared

    def __reduce__(self) -> tuple[type[DuplicateKeysError], tuple[Prepared]]:
        return type(self), (self.prepared,)
