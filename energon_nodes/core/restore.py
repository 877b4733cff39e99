"""Restore keys and the buffers whose state consists of them.

A restore key is a nested tuple of ints and strings that says where an element came from. A buffer
saves the keys of what it holds; after a resume its values are `LAZY` until a node has rebuilt them
through its source's random access.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.encoders import decode_value, encode_value, register_encoder
from energon_nodes.core.errors import StateError

__all__ = ["DROPPED", "LAZY", "Buffer", "ColumnBuffer", "Key", "Pair", "Rebuild"]

Key: TypeAlias = tuple[Any, ...]
X = TypeVar("X")
Pair: TypeAlias = tuple[X, Key]


class _Mark:
    """The type of `LAZY` and `DROPPED`, of which each process has one object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


LAZY: Final[Any] = _Mark("LAZY")
"""Stands for a value that was not rebuilt yet."""

DROPPED: Final[Any] = _Mark("DROPPED")
"""Stands for a value that could not be rebuilt and is to be left out."""

# A buffer that saves values may hold elements that came in as keys, from a checkpoint taken when they were restorable.
register_encoder(_Mark, "lazy", lambda mark: None, lambda encoded: LAZY)


class Rebuild(Protocol):
    """Rebuild elements from their restore keys, as `Node.rebuilt` does."""

    def __call__(self, keys: Sequence[Key]) -> Sequence[Any]:
        """Return the values of `keys`, in their order; `DROPPED` for those to leave out."""
        ...


class Buffer(list[tuple[Any, Key]]):
    """Hold pairs in a list; for the small buffers of batches, joins and work in flight.

    Args:
        pairs: The pairs to begin with.

    Example:
        >>> held = Buffer([("a", (0, 3)), ("b", (0, 4))])
        >>> again = Buffer.load(held.snapshot(values=False))
        >>> again
        [(LAZY, (0, 3)), (LAZY, (0, 4))]
        >>> again.rebuild(lambda keys: [f"element {index}" for _, index in keys])
        >>> again
        [('element 3', (0, 3)), ('element 4', (0, 4))]
    """

    def snapshot(self, values: bool) -> tuple[Any, ...]:
        """Return the plain state: the keys, and the encoded values if `values` is true."""
        keys = _encode_keys([key for _, key in self])
        return (keys, [encode_value(value) for value, _ in self]) if values else (keys,)

    @classmethod
    def load(cls, snapshot: Any) -> Buffer:
        """Return the buffer of a snapshot; values that were not saved are lazy."""
        keys = _decode_keys(snapshot[0])
        return cls(zip(_decode_values(snapshot, len(keys)), keys, strict=True))

    def rebuild(self, rebuild: Rebuild) -> None:
        """Rebuild all lazy values at once; those that give `DROPPED` leave the buffer."""
        where = [number for number, (value, _) in enumerate(self) if value is LAZY]
        if where:
            keys = [self[number][1] for number in where]
            for number, key, value in zip(where, keys, rebuild(keys), strict=True):
                self[number] = (value, key)
            self[:] = [pair for pair in self if pair[0] is not DROPPED]


class ColumnBuffer:
    """Hold pairs by number, with flat integer keys in columns beside the values.

    The columns make the state of a large buffer cheap: it is copied, not built. Keys of another
    shape make the buffer fall back to a list of keys.

    Example:
        >>> held = ColumnBuffer()
        >>> held.extend([("a", (0, 3)), ("b", (0, 4)), ("c", (0, 5))])
        >>> held.swap(1, ("d", (0, 6)))
        ('b', (0, 4))
        >>> held.remove(0), len(held)
        (('a', (0, 3)), 2)
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.columns: list[array[int]] | None = []
        self.keys: list[Key] = []
        self.lazy = 0

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Any, Key]]:
        return ((value, self.key(number)) for number, value in enumerate(self.values))

    def key(self, number: int) -> Key:
        """Return the key of pair `number`."""
        return self.keys[number] if self.columns is None else tuple([column[number] for column in self.columns])

    def extend(self, pairs: Iterable[tuple[Any, Key]]) -> None:
        """Append pairs; if pulling one raises, those before it have been appended."""
        for value, key in pairs:
            if self.columns is not None and not self._append_flat(key):
                self.use_list()
            if self.columns is None:
                self.keys.append(key)
            self.values.append(value)

    def swap(self, number: int, pair: tuple[Any, Key]) -> tuple[Any, Key]:
        """Replace pair `number` and return the old one."""
        old = (self.values[number], self.key(number))
        if self.columns is not None:
            if len(pair[1]) == len(self.columns) and _is_flat(pair[1]):
                for column, part in zip(self.columns, pair[1], strict=True):
                    column[number] = part
            else:
                self.use_list()
        if self.columns is None:
            self.keys[number] = pair[1]
        self.values[number] = pair[0]
        self.lazy -= old[0] is DROPPED
        return old

    def remove(self, number: int) -> tuple[Any, Key]:
        """Remove pair `number`, move the last one into its place, and return the removed one."""
        old = (self.values[number], self.key(number))
        self.values[number] = self.values[-1]
        del self.values[-1]
        for column in [self.keys] if self.columns is None else self.columns:
            column[number] = column[-1]  # type: ignore[assignment]
            del column[-1]
        self.lazy -= old[0] is DROPPED
        return old

    def use_list(self) -> None:
        """Keep the keys in a list from now on, since one of them is not a flat tuple of ints."""
        if self.columns is not None:
            self.keys = list(zip(*self.columns, strict=True)) if self.columns else []
            self.columns = None

    def snapshot(self, values: bool) -> tuple[Any, ...]:
        """Return the plain state: the keys, and the encoded values if `values` is true."""
        if self.columns is None:
            keys = _encode_keys(self.keys)
        else:
            keys = (len(self.values), [_pack(np.frombuffer(column, np.int64)) for column in self.columns])
        return (keys, [encode_value(value) for value in self.values]) if values else (keys,)

    @classmethod
    def load(cls, snapshot: Any) -> ColumnBuffer:
        """Return the buffer of a snapshot; values that were not saved are lazy."""
        result = cls()
        keys = _decode_keys(snapshot[0])
        result.extend(zip(_decode_values(snapshot, len(keys)), keys, strict=True))
        result.lazy = sum(value is LAZY for value in result.values)
        return result

    def rebuild(self, rebuild: Rebuild, numbers: Iterable[int] | None = None) -> None:
        """Rebuild the lazy values among `numbers` (default: all) at once.

        Values that give `DROPPED` leave the buffer if all are rebuilt. Among `numbers` they keep their
        places and count as lazy until they are taken out, since the numbers of the others must not change.
        """
        if not self.lazy:
            return
        values = self.values
        wanted = range(len(values)) if numbers is None else dict.fromkeys(numbers)
        where = [number for number in wanted if values[number] is LAZY]
        if where:
            for number, value in zip(where, rebuild([self.key(number) for number in where]), strict=True):
                values[number] = value
                self.lazy -= value is not DROPPED
        if numbers is None and self.lazy:
            kept = [pair for pair in self if pair[0] is not DROPPED]
            self.values, self.columns, self.keys, self.lazy = [], [], [], 0
            self.extend(kept)

    def _append_flat(self, key: Key) -> bool:
        columns = cast("list[array[int]]", self.columns)
        if not self.values and not columns:
            if not _is_flat(key):
                return False
            columns.extend(array("q") for _ in key)
        if len(key) != len(columns) or not _is_flat(key):
            return False
        for column, part in zip(columns, key, strict=True):
            column.append(part)
        return True


def _is_flat(key: Key) -> bool:
    return all(type(part) is int and -(2**63) <= part < 2**63 for part in key) and len(key) > 0


def _pack(column: NDArray[np.int64]) -> Any:
    """Return a column as (dtype, bytes) in the smallest type, or as an int where all values are equal."""
    low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
    if low == high:
        return low
    for kind in ("<u1", "<u2", "<u4") if low >= 0 else ("<i1", "<i2", "<i4"):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return (kind, column.astype(kind).tobytes())
    return ("<i8", column.astype("<i8").tobytes())


def _encode_keys(keys: Sequence[Key]) -> Any:
    """Return keys as a plain value: (count, columns) for flat integer keys of one width, else a list."""
    width = len(keys[0]) if keys else 0
    if width and all(len(key) == width and _is_flat(key) for key in keys):
        flat = np.fromiter(chain.from_iterable(keys), np.int64, len(keys) * width).reshape(-1, width)
        return (len(keys), [_pack(np.ascontiguousarray(flat[:, number])) for number in range(width)])
    return list(keys)


def _decode_keys(encoded: Any) -> list[Key]:
    if isinstance(encoded, list):
        return [_as_key(key) for key in cast("list[Any]", encoded)]
    try:
        count, columns = encoded
        unpacked = [
            [column] * count if isinstance(column, int) else np.frombuffer(column[1], column[0]).tolist()
            for column in columns
        ]
        return list(zip(*unpacked, strict=True)) if unpacked else []
    except (TypeError, ValueError) as error:
        raise StateError("the checkpoint holds a buffer whose keys cannot be read; the file is damaged") from error


def _as_key(value: Any) -> Any:
    return tuple([_as_key(part) for part in cast("list[Any]", value)]) if isinstance(value, (list, tuple)) else value


def _decode_values(snapshot: Any, count: int) -> Sequence[Any]:
    return [decode_value(value) for value in snapshot[1]] if len(snapshot) > 1 else [LAZY] * count
