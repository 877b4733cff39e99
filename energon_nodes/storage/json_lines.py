"""From byte ranges of JSON Lines files to samples; every damaged line keeps its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import SampleError, ShardError
from energon_nodes.storage import paths
from energon_nodes.storage.assemble import places_of
from energon_nodes.storage.jsonl_index import BOM
from energon_nodes.storage.provenance import Origin, Sources
from energon_nodes.storage.reading import Group, Read, Sample, Span, fetch_spans, offsets_of

__all__ = ["LineCounter", "parse_line", "read_lines"]

_PARTS = ("json",)
_ENDS = frozenset(("\n", "\r\n", ""))
_COUNTED = 1 << 30  # bytes that are looked through for the number of a line
_BLOCK = 4 << 20
_tuple: Any = tuple
_new_tuple: Callable[[type[Sources], Any], Sources] = _tuple.__new__
_decoder = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = cast("Any", _decoder).scan_once
"""What `raw_decode` calls; half the time of `json.loads`, which first looks for the encoding and for blank space."""


def parse_line(data: bytes) -> dict[str, Any]:
    """Parse the bytes of one record.

    Integers of any size are exact. `NaN`, `Infinity` and `-Infinity`, which JSON does not have, are read as Python's
    `json` writes them. Of a name that stands twice in an object, the last value counts.

    Example:
        >>> parse_line(b'{"id": 123456789012345678901234567890, "id": 2}')
        {'id': 2}
        >>> parse_line(b"[1, 2]")
        Traceback (most recent call last):
        ...
        ValueError: it holds a list, not an object

    Args:
        data: The line, with or without its end, and blank space around it.

    Returns:
        The object.

    Raises:
        ValueError: It is not UTF-8, no JSON, or no object; the message says which.
    """
    stripped = data.strip()
    try:
        text = stripped.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of it is not UTF-8 ({error.reason})") from error
    try:
        value, after = _decoder.raw_decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, at character {error.pos + 1} of it") from error
    except RecursionError:
        raise ValueError("it is nested too deep for Python's json") from None
    if after < len(text):
        raise ValueError(f"more stands behind the JSON value, from character {after + 1} on")
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    return value  # pyright: ignore[reportUnknownVariableType]


class LineCounter:
    r"""Tell the numbers of lines in local files, which an index of records does not hold: blank lines count too.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as made:
        ...     _ = made.write(b'{"a": 1}\n\n{"b": 2}\n'), made.flush()
        ...     LineCounter().line_at(made.name, 10)
        3
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def line_at(self, path: str, offset: int) -> int | None:
        """Return the number of the line at an offset, from 1; None where a look would take long.

        Args:
            path: The file.
            offset: The first byte of the line.

        Returns:
            The number.
        """
        at, lines = self._known.get(path, (0, 0))
        if at > offset:
            at, lines = 0, 0
        if paths.is_url(path) or offset - at > _COUNTED:
            return None
        try:
            while at < offset:
                data = paths.read_range(path, at, min(offset, at + _BLOCK))
                if not data:
                    return None
                lines += data.count(b"\n")
                at += len(data)
        except OSError:
            return None
        self._known[path] = (at, lines)
        return lines + 1


def read_lines(
    group: Group, order: NDArray[np.int64] | None, line_at: Callable[[str, int], int | None], *, parse: bool = True
) -> Read:
    """Read the samples of a group: dicts with `__key__`, `__shard__`, `__sources__` and the object as `json`.

    Example:
        >>> read_lines(Group("/data", [], None), None, LineCounter().line_at)
        Read(samples=[], clean=True)

    Args:
        group: Which records.
        order: The place of each in the result, a permutation of shape `(n,)`, or None for the same place.
        line_at: Gives the number of a line, for messages.
        parse: Whether `json` is the parsed object; False leaves it the bytes of the line.

    Returns:
        The samples and, in place of those that cannot be read, errors: made as they are taken.
    """
    if not group.spans:
        return Read([], True)
    buffer, failed = fetch_spans(group.spans)
    _, _, starts, stops = offsets_of(group.spans)
    spans = np.repeat(np.arange(len(group.spans)), [len(span.numbers) for span in group.spans])
    numbers = np.concatenate([span.numbers for span in group.spans])
    columns = [spans, numbers, starts, stops]
    if order is not None:
        places = places_of(order)
        columns = [column[places] for column in columns]
    lines = _Lines(group.spans, buffer, failed, line_at)
    rows = zip(*[column.tolist() for column in columns], strict=True)
    return Read((lines.parsed if parse else lines.raw)(rows), False)


class _Lines:
    """Make the samples of lines as they are taken.

    A thousand parsed objects at once would keep the garbage collector busy, and would have left the caches of the
    processor before they are used.
    """

    def __init__(
        self,
        spans: list[Span],
        buffer: bytes,
        failed: dict[int, OSError],
        line_at: Callable[[str, int], int | None],
    ) -> None:
        self._spans = spans
        self._buffer = buffer
        self._failed = failed
        self._line_at = line_at
        self._labels = [(span.shard, span.first, Origin(span.path, span.shard, _PARTS)) for span in spans]

    def parsed(self, rows: Iterator[tuple[int, ...]]) -> Iterator[Sample | SampleError]:
        """Parse records; this is the loop that the speed of reading hangs on."""
        buffer, labels, failed, ends, scan = self._buffer, self._labels, self._failed, _ENDS, _scan
        for at, number, begin, end in rows:
            try:
                text = buffer[begin:end].decode()
                value, after = scan(text, 0)
                regular = type(value) is dict and text[after:] in ends
            except (ValueError, RecursionError, StopIteration):
                regular, value = False, None
            if not regular:
                if at in failed:
                    yield _unreadable(self._spans[at], number, failed[at])
                    continue
                data = buffer[begin:end]
                try:
                    value = parse_line(_without_mark(number, data))
                except ValueError as error:
                    yield _damaged(self._spans[at], number, data, error, self._line_at)
                    continue
            shard, first, origin = labels[at]
            key = str(first + number)
            name = str(number) if first else key
            source = _new_tuple(Sources, (origin, first + number, name))
            yield {"__key__": key, "__shard__": shard, "__sources__": source, "json": value}

    def raw(self, rows: Iterator[tuple[int, ...]]) -> Iterator[Sample | SampleError]:
        """Give the bytes of records without a look at them."""
        for at, number, begin, end in rows:
            if at in self._failed:
                yield _unreadable(self._spans[at], number, self._failed[at])
                continue
            shard, first, origin = self._labels[at]
            key = str(first + number)
            name = str(number) if first else key
            source = _new_tuple(Sources, (origin, first + number, name))
            line = _without_mark(number, self._buffer[begin:end]).strip()
            yield {"__key__": key, "__shard__": shard, "__sources__": source, "json": line}


def _without_mark(number: int, data: bytes) -> bytes:
    return data.removeprefix(BOM) if number == 0 else data


def _damaged(
    span: Span, number: int, data: bytes, error: ValueError, line_at: Callable[[str, int], int | None]
) -> SampleError:
    place = int(np.searchsorted(span.numbers, number))
    begin, end = int(span.begins[place]), int(span.ends[place])
    offset = begin + len(data) - len(data.lstrip())
    line = line_at(span.path, offset)
    where = f"line {line}" if line is not None else f"record {number}"
    reason = str(error)
    if b"\0" in data:
        try:
            if paths.size(span.path) < end:
                reason = f"the file ends before byte {end}, up to which its index goes: it was cut or replaced"
        except OSError:
            pass
    damaged = SampleError(
        f"{where} of {span.path} (sample {str(span.first + number)!r}, at byte {offset}) is no JSON object: {reason}. "
        "Correct the line, or skip such lines with on_error='skip'"
    )
    damaged.__cause__ = error
    return damaged


def _unreadable(span: Span, number: int, error: OSError) -> ShardError:
    return ShardError(f"record {number} of {span.path} cannot be read: {error}")
