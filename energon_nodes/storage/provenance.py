"""Where a sample came from, as plain data that costs next to nothing until somebody looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, SupportsIndex, overload

from energon_nodes.core.encoders import register_encoder

__all__ = ["Origin", "Source", "Sources"]


_tuple: Any = tuple  # its methods see what a `Sources` holds, not what it stands for


class Source(NamedTuple):
    """Say which files of which shard a sample was made from.

    Example:
        >>> Source("/data/coco", 17, "train/0.tar", ("000017.jpg", "000017.txt")).shard_name
        'train/0.tar'

    Args:
        dataset_path: The folder or URL of the dataset.
        index: The index of the sample in its split, or the name of the file where it was looked up by name.
        shard_name: The shard, relative to the dataset.
        file_names: The full names of the files that were read.
    """

    dataset_path: str
    index: int | str  # pyright: ignore[reportIncompatibleMethodOverride]  # Megatron-Energon's name for it
    shard_name: str
    file_names: tuple[str, ...]


class Origin(NamedTuple):
    """Hold what the sources of many samples have in common.

    Example:
        >>> Origin("/data/coco", "train/0.tar", ("jpg", "txt")).parts
        ('jpg', 'txt')

    Args:
        dataset_path: The folder or URL of the dataset.
        shard_name: The shard, relative to the dataset.
        parts: What follows in the names of the files after key and dot.
    """

    dataset_path: str
    shard_name: str
    parts: tuple[str, ...]


class Sources(tuple[Source, ...]):
    """Be the tuple of `Source` records that it stands for; they are put together when they are looked at.

    Readers make one for every sample, and few are ever looked at. It holds an `Origin`, an index and a key for each
    record; sums of two are of this type too, copies and pickles are plain tuples.

    Example:
        >>> sources = Sources.of(Origin("/data/coco", "0.tar", ("jpg", "txt")), 17, "000017")
        >>> sources[0].file_names
        ('000017.jpg', '000017.txt')
        >>> len(sources + sources), sources == (Source("/data/coco", 17, "0.tar", ("000017.jpg", "000017.txt")),)
        (2, True)
    """

    __slots__ = ()

    @classmethod
    def of(cls, origin: Origin, index: int, key: str) -> Sources:
        """Make the sources of one sample.

        Args:
            origin: What it has in common with its neighbours.
            index: Its index in the split.
            key: Its key.

        Returns:
            The sources.
        """
        return _tuple.__new__(cls, (origin, index, key))

    def _plain(self) -> tuple[Source, ...]:
        held = _tuple.__iter__(self)
        return tuple(
            [
                Source(origin.dataset_path, index, origin.shard_name, tuple([f"{key}.{part}" for part in origin.parts]))
                for origin, index, key in zip(held, held, held, strict=True)
            ]
        )

    def __len__(self) -> int:
        return _tuple.__len__(self) // 3

    def __iter__(self) -> Iterator[Source]:
        return iter(self._plain())

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Source: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Source, ...]: ...
    def __getitem__(self, key: Any, /) -> Any:
        plain: Any = self._plain()
        return plain[key]

    def __contains__(self, key: object, /) -> bool:
        return key in self._plain()

    def __eq__(self, value: object, /) -> bool:
        return self._plain() == (value[:] if isinstance(value, Sources) else value)

    def __ne__(self, value: object, /) -> bool:
        return not self == value

    def __lt__(self, value: tuple[Source, ...], /) -> bool:
        return self._plain() < tuple(value)

    def __le__(self, value: tuple[Source, ...], /) -> bool:
        return self._plain() <= tuple(value)

    def __gt__(self, value: tuple[Source, ...], /) -> bool:
        return self._plain() > tuple(value)

    def __ge__(self, value: tuple[Source, ...], /) -> bool:
        return self._plain() >= tuple(value)

    def __hash__(self) -> int:
        return hash(self._plain())

    def __add__(self, value: tuple[Any, ...], /) -> tuple[Any, ...]:
        if isinstance(value, Sources):
            return _tuple.__new__(Sources, _tuple.__add__(self, value))
        return self._plain() + tuple(value)

    def __radd__(self, value: tuple[Any, ...], /) -> tuple[Any, ...]:
        return tuple(value) + self._plain()

    def __mul__(self, value: SupportsIndex, /) -> tuple[Source, ...]:
        return self._plain() * value

    def __rmul__(self, value: SupportsIndex, /) -> tuple[Source, ...]:
        return self._plain() * value

    def count(self, value: Any, /) -> int:
        """Count the records that are equal to `value`."""
        return self._plain().count(value)

    def index(self, value: Any, start: SupportsIndex = 0, stop: SupportsIndex = 2**63 - 1, /) -> int:
        """Return the place of the record that is equal to `value`."""
        return self._plain().index(value, start, stop)

    def __repr__(self) -> str:
        return repr(self._plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self._plain()),)

    def __copy__(self) -> tuple[Source, ...]:
        return self._plain()

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[Source, ...]:
        return self._plain()


def _encoded(sources: Sources) -> list[Any]:
    return [tuple(source) for source in sources]


register_encoder(Source, "source", tuple, lambda fields: Source(*fields))
register_encoder(Sources, "sources", _encoded, lambda sources: tuple([Source(*fields) for fields in sources]))
