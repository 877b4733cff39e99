"""From byte ranges of JSON Lines files to samples; every damaged line keeps its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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
_decode = json.JSONDecoder().raw_decode  # half the time of json.loads, which first looks for the encoding


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
        value, after = _decode(text)
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
        The samples and, in place of those that cannot be read, errors.
    """
    if not group.spans:
        return Read([], True)
    buffer, failed = fetch_spans(group.spans)
    _, _, starts, stops = offsets_of(group.spans)
    begins, ends = starts.tolist(), stops.tolist()
    samples: list[Any] = []
    for place, span in enumerate(group.spans):
        if place in failed:
            samples += [_unreadable(span, number, failed[place]) for number in span.numbers.tolist()]
            continue
        first = len(samples)
        last = first + len(span.numbers)
        pieces = [buffer[begin:end] for begin, end in zip(begins[first:last], ends[first:last], strict=True)]
        samples += (_parsed if parse else _raw)(span, pieces, line_at)
    clean = all(type(sample) is dict for sample in samples)
    if order is not None:
        samples = [samples[place] for place in places_of(order).tolist()]
    return Read(samples, clean)


def _parsed(span: Span, pieces: list[bytes], line_at: Callable[[str, int], int | None]) -> list[Any]:
    """Parse the records of one file; this is the loop that the speed of reading hangs on."""
    shard, first, origin = span.shard, span.first, Origin(span.path, span.shard, _PARTS)
    sources, ends, decode = Sources.of, _ENDS, _decode
    samples: list[Any] = []
    for number, data in zip(span.numbers.tolist(), pieces, strict=True):
        index = first + number
        try:
            text = data.decode()
            value, after = decode(text)
            regular = type(value) is dict and text[after:] in ends
        except (ValueError, RecursionError):
            regular, value = False, None
        if not regular:
            try:
                value = parse_line(_without_mark(span, number, data))
            except ValueError as error:
                samples.append(_damaged(span, len(samples), data, error, line_at))
                continue
        samples.append(
            {
                "__key__": str(index),
                "__shard__": shard,
                "__sources__": sources(origin, index, str(number)),
                "json": value,
            }
        )
    return samples


def _raw(span: Span, pieces: list[bytes], line_at: Callable[[str, int], int | None]) -> list[Sample]:
    origin = Origin(span.path, span.shard, _PARTS)
    return [
        {
            "__key__": str(span.first + number),
            "__shard__": span.shard,
            "__sources__": Sources.of(origin, span.first + number, str(number)),
            "json": _without_mark(span, number, data).strip(),
        }
        for number, data in zip(span.numbers.tolist(), pieces, strict=True)
    ]


def _without_mark(span: Span, number: int, data: bytes) -> bytes:
    return data.removeprefix(BOM) if number == 0 else data


def _damaged(
    span: Span, place: int, data: bytes, error: ValueError, line_at: Callable[[str, int], int | None]
) -> SampleError:
    number, begin, end = int(span.numbers[place]), int(span.begins[place]), int(span.ends[place])
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
