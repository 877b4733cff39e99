"""The records of a JSON Lines file, by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from energon_nodes.core.errors import NotInStoreError, ShardError
from energon_nodes.storage import paths
from energon_nodes.storage.jsonl_set import open_lines

__all__ = ["LineEntries"]


class LineEntries:
    r"""Read records of a JSON Lines file by names such as "17.json" or "17"; the first record is 0.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/entries.jsonl", b'{"a": 1}\n{"b": 2}')
        >>> entries = LineEntries("memory://entries.jsonl")
        >>> entries.read("1.json"), entries.read("0"), "2" in entries
        (b'{"b": 2}', b'{"a": 1}', False)

    Args:
        root: The file or URL.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._lines = open_lines(root, parse=False)

    def __len__(self) -> int:
        return self._lines.count

    def names(self) -> Iterator[str]:
        """Yield the names of all records in their order."""
        return (f"{number}.json" for number in range(len(self)))

    def split(self, name: str) -> tuple[str, str]:
        """Return the number as text, and "json"."""
        return name.removesuffix(".json"), "json"

    def shard_of(self, name: str) -> str:
        """Return the name of the file."""
        return self._lines.names[0]

    def __contains__(self, name: str) -> bool:
        return self._number(name) is not None

    def read(self, name: str) -> bytes:
        """Return the text of a record.

        Args:
            name: Its name.

        Returns:
            The text without blanks around it.

        Raises:
            NotInStoreError: There is no such record.
            ShardError: The file cannot be read.
        """
        return self.read_many([name])[0]

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Return the text of many records.

        Args:
            names: Their names; one may stand several times.

        Returns:
            The text of each, in order.

        Raises:
            NotInStoreError: One or more do not exist.
            ShardError: The file cannot be read.
        """
        numbers = [number for number in map(self._number, names) if number is not None]
        if len(numbers) < len(names):
            name = next(name for name in names if name not in self)
            last = f"its records are 0.json to {len(self) - 1}.json" if len(self) else "it has no records"
            raise NotInStoreError(f"no record {name!r} in {self.root}: {last}")
        if not numbers:
            return []
        wanted, places = np.unique(numbers, return_inverse=True)
        begins, ends = self._lines.offsets.entries(0, wanted)
        try:
            found: list[bytes] = paths.read_ranges([paths.Ranges(self.root, begins.tolist(), ends.tolist())])
        except OSError as error:
            raise ShardError(f"{self.root} cannot be read, with record {wanted[0]} in it: {error}") from error
        for number, data, begin, end in zip(wanted.tolist(), found, begins.tolist(), ends.tolist(), strict=True):
            if len(data) < end - begin:
                raise ShardError(f"{self.root} ends inside record {number}: it was cut; restore it, or index it again")
        return [found[int(place)].removeprefix(b"\xef\xbb\xbf").strip() for place in places]

    def _number(self, name: str) -> int | None:
        text = name.removesuffix(".json")
        if not text.isdecimal() or not text.isascii() or (text != "0" and text[0] == "0"):
            return None
        number = int(text) if len(text) < 19 else len(self)
        return number if number < len(self) else None
