"""Where a sample came from, as plain data that costs next to nothing."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Source"]


class Source(NamedTuple):
    """Say which files of which shard a sample was made from.

    `__sources__` of a sample is a tuple of these. The names of the files follow from key and
    parts, so they are put together only when somebody asks.

    Example:
        >>> source = Source("/data/coco", 17, "train/0.tar", "000017", ("jpg", "txt"))
        >>> source.file_names
        ('000017.jpg', '000017.txt')

    Args:
        dataset_path: The folder or URL of the dataset.
        index: The index of the sample in its split, or the name of the file where it was looked up by name.
        shard_name: The shard, relative to the dataset.
        key: What the names of the files begin with.
        parts: What follows in each name after the dot, in the order of reading; None where the key is the name.
    """

    dataset_path: str
    index: int | str  # pyright: ignore[reportIncompatibleMethodOverride]  # the name that Megatron-Energon gave it
    shard_name: str
    key: str
    parts: tuple[str, ...] | None

    @property
    def file_names(self) -> tuple[str, ...]:
        """The full names of the files that were read."""
        if self.parts is None:
            return (self.key,)
        return tuple(f"{self.key}.{part}" for part in self.parts)
