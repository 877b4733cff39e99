"""From byte ranges to samples: read many at once, parse them together, keep every error in its place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import ShardError
from energon_nodes.storage import paths
from energon_nodes.storage.columns import Table, read_columns
from energon_nodes.storage.layout import layout_of
from energon_nodes.storage.provenance import Origin, Sources
from energon_nodes.storage.scan import Problem, refuse_compressed
from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name

__all__ = ["Group", "PartFilter", "Sample", "Span", "read_group"]

Sample: TypeAlias = dict[str, Any]
PartFilter: TypeAlias = Callable[[str], bool]

_tuple: Any = tuple
_new_tuple: Callable[[type[Sources], Any], Sources] = _tuple.__new__

_FEW = 8  # samples; numpy costs more than it saves on fewer
_LAYOUTS = 4  # different layouts that are tried in a group before the rest is read one by one


class Span(NamedTuple):
    """Describe wanted samples of one shard, in the order of the shard.

    Example:
        >>> Span("/data/0.tar", "0.tar", 0, np.array([3]), np.array([0]), np.array([1024]), {}, frozenset()).shard
        '0.tar'

    Args:
        path: Where the shard lies.
        shard: Its name in the dataset.
        first: The global index of the first sample of the shard.
        numbers: The numbers of the samples in the shard, ascending, int64 of shape `(k,)`.
        begins: The first byte of each, same shape.
        ends: The byte after the last, same shape.
        problems: What is wrong with samples, by number.
        excluded: Keys that are not delivered.
    """

    path: str
    shard: str
    first: int
    numbers: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    problems: dict[int, Problem]
    excluded: frozenset[str]


class Group(NamedTuple):
    """Describe samples that are read together.

    Example:
        >>> Group("/data", [], None).spans
        []

    Args:
        root: The folder of the dataset.
        spans: The samples of each shard.
        wants: Tells which parts are read; None for all.
    """

    root: str
    spans: list[Span]
    wants: PartFilter | None


def read_group(group: Group) -> list[Sample | ShardError | None]:
    """Read the samples of a group.

    Example:
        >>> read_group(Group("/data", [], None))
        []

    Args:
        group: Which samples.

    Returns:
        For each sample, in order: the sample, a `ShardError` that says what is wrong with it, or None where the
        dataset excludes it.
    """
    if not group.spans:
        return []
    buffer, failed = _fetch(group.spans)
    begins = np.concatenate([span.begins for span in group.spans])
    ends = np.concatenate([span.ends for span in group.spans])
    sizes = ends - begins
    stops = np.cumsum(sizes)
    starts = stops - sizes
    samples: list[Any] = [None] * len(sizes)
    pending = _pending(group, starts, failed, samples)
    if not ((begins | ends) & (BLOCK - 1)).any():
        pending = _read_together(group, buffer, starts, stops, pending, samples)
    _read_one_by_one(group, buffer, starts, stops, pending, samples)
    if any(span.excluded for span in group.spans):
        _drop_excluded(group, samples)
    return samples


def _fetch(spans: list[Span]) -> tuple[bytes, dict[int, OSError]]:
    """Read the bytes of all samples; shards that cannot be read give zeros and an error."""
    wanted = [_ranges(span) for span in spans]
    try:
        return paths.gather(wanted), {}
    except OSError:
        pieces: list[bytes] = []
        failed: dict[int, OSError] = {}
        for number, ranges in enumerate(wanted):
            try:
                pieces.append(paths.gather([ranges]))
            except OSError as error:
                failed[number] = error
                pieces.append(bytes(sum(ranges.stops) - sum(ranges.starts)))
        return b"".join(pieces), failed


def _ranges(span: Span) -> paths.Ranges:
    """Join samples that are neighbours in the shard into one range."""
    breaks = np.flatnonzero(span.begins[1:] != span.ends[:-1]) + 1
    if not len(breaks):
        return paths.Ranges(span.path, [int(span.begins[0])], [int(span.ends[-1])])
    firsts = np.append(0, breaks)
    lasts = np.append(breaks - 1, len(span.ends) - 1)
    return paths.Ranges(span.path, span.begins[firsts].tolist(), span.ends[lasts].tolist())


def _pending(
    group: Group, starts: NDArray[np.int64], failed: dict[int, OSError], samples: list[Any]
) -> NDArray[np.int64]:
    """Return the rows that are to be parsed; put errors in place of those known to be bad."""
    if not failed and not any(span.problems for span in group.spans):
        return np.arange(len(starts))
    good = np.ones(len(starts), np.bool_)
    row = 0
    for number, span in enumerate(group.spans):
        for sample in span.numbers.tolist():
            if number in failed:
                samples[row] = _error(
                    span, sample, None, int(span.begins[0]), f"the shard cannot be read: {failed[number]}"
                )
            elif sample in span.problems:
                samples[row] = _error(span, sample, None, *span.problems[sample])
            good[row] = samples[row] is None
            row += 1
    return np.flatnonzero(good)


def _read_together(
    group: Group,
    buffer: bytes,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    pending: NDArray[np.int64],
    samples: list[Any],
) -> NDArray[np.int64]:
    """Parse samples of like layout as columns and return the rows that are left."""
    for _ in range(_LAYOUTS):
        if len(pending) < _FEW:
            break
        layout = layout_of(buffer, int(starts[pending[0]]), int(stops[pending[0]]))
        if layout is None:
            break
        whole = len(pending) == len(starts)
        table = read_columns(buffer, starts if whole else starts[pending], stops if whole else stops[pending], layout)
        if whole and len(table.rows) == len(starts):
            samples[:] = _assemble(group, buffer, table, None)
            return pending[:0]
        rows = pending[table.rows]
        for row, sample in zip(rows.tolist(), _assemble(group, buffer, table, rows), strict=True):
            samples[row] = sample
        rest = np.ones(len(pending), np.bool_)
        rest[table.rows] = False
        pending = pending[rest]
    return pending


def _assemble(group: Group, buffer: bytes, table: Table, rows: NDArray[np.int64] | None) -> list[Sample]:
    """Make the samples of a table; this is the loop that the speed of reading hangs on."""
    chosen = [number for number, part in enumerate(table.parts) if group.wants is None or group.wants(part)]
    parts = [table.parts[number] for number in chosen]
    shards, origins, indices = _labels(group, tuple(parts), rows)
    sources = map(_new_tuple, repeat(Sources), zip(origins, indices, table.keys, strict=False))
    labels = zip(table.keys, shards, sources, strict=False)
    ranges = [column for number in chosen[:2] for column in (table.starts[number], table.stops[number])]
    # Literals are the quickest way to make a dict; two parts, a picture and its text, are the usual case.
    if len(parts) >= 2:
        one, two = parts[:2]
        samples: list[Sample] = [
            {"__key__": key, "__shard__": shard, "__sources__": source, one: buffer[a:b], two: buffer[c:d]}
            for (key, shard, source), a, b, c, d in zip(labels, *ranges, strict=True)
        ]
    elif parts:
        one = parts[0]
        samples = [
            {"__key__": key, "__shard__": shard, "__sources__": source, one: buffer[a:b]}
            for (key, shard, source), a, b in zip(labels, *ranges, strict=True)
        ]
    else:
        samples = [{"__key__": key, "__shard__": shard, "__sources__": source} for key, shard, source in labels]
    for number, part in zip(chosen[2:], parts[2:], strict=True):
        for sample, start, stop in zip(samples, table.starts[number], table.stops[number], strict=True):
            sample[part] = buffer[start:stop]
    return samples


def _labels(
    group: Group, parts: tuple[str, ...], rows: NDArray[np.int64] | None
) -> tuple[Iterable[str], Iterable[Origin], list[int]]:
    """Return for each row the name of the shard, what its sources have in common, and the global index."""
    spans = group.spans
    origins = [Origin(group.root, span.shard, parts) for span in spans]
    if len(spans) == 1:
        indices = spans[0].numbers if rows is None else spans[0].numbers[rows]
        return repeat(spans[0].shard), repeat(origins[0]), (indices + spans[0].first).tolist()
    every = np.concatenate([span.numbers + span.first for span in spans])
    counts = [len(span.numbers) for span in spans]
    if rows is not None:
        every = every[rows]
        counts = np.bincount(np.repeat(np.arange(len(spans)), counts)[rows], minlength=len(spans)).tolist()
    shards = chain.from_iterable(repeat(span.shard, count) for span, count in zip(spans, counts, strict=True))
    shared = chain.from_iterable(repeat(origin, count) for origin, count in zip(origins, counts, strict=True))
    return shards, shared, every.tolist()


def _read_one_by_one(
    group: Group,
    buffer: bytes,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    pending: NDArray[np.int64],
    samples: list[Any],
) -> None:
    """Parse samples exactly, whatever they hold."""
    if not len(pending):
        return
    firsts = [0, *accumulate(len(span.numbers) for span in group.spans)]
    for row in pending.tolist():
        at = bisect_right(firsts, row) - 1
        data = buffer[int(starts[row]) : int(stops[row])]
        samples[row] = _read_exactly(group, group.spans[at], row - firsts[at], data)


def _read_exactly(group: Group, span: Span, place: int, data: bytes) -> Sample | ShardError:
    number, begin, end = int(span.numbers[place]), int(span.begins[place]), int(span.ends[place])
    key: str | None = None
    found: dict[str, bytes] = {}
    names: list[str] = []

    def read(offset: int, size: int) -> bytes:
        return data[offset - begin : offset - begin + size]

    try:
        at = begin
        while at < end:
            member = next_member(read, at)
            if member.kind == "end":
                raise TarError(at, "zeros stand where the index says that a sample is")
            if member.stop > end:
                raise TarError(at, f"{member.name!r} reaches to byte {member.stop}, the index ends its sample at {end}")
            pair = split_name(member.name) if member.kind != "other" else None
            if pair is not None:
                if key is not None and pair[0] != key:
                    raise TarError(at, f"files of two keys, {key!r} and {pair[0]!r}, stand in one sample of the index")
                key = pair[0]
                if member.kind == "sparse":
                    raise TarError(
                        at, f"{member.name!r} is a sparse file, which is not supported: write it as a plain file"
                    )
                if pair[1] in names:
                    raise TarError(at, f"the file {member.name!r} stands twice in one sample: write every name once")
                names.append(pair[1])
                if group.wants is None or group.wants(pair[1]):
                    found[pair[1]] = read(member.payload, member.size)
            at = member.stop
        if key is None:
            raise TarError(begin, f"no file of a sample stands between here and byte {end}")
    except TarError as error:
        return _error(span, number, key, *_explained(span, error, end))
    sources = Sources.of(Origin(group.root, span.shard, tuple(found)), span.first + number, key)
    return {"__key__": key, "__shard__": span.shard, "__sources__": sources, **found}


def _explained(span: Span, error: TarError, end: int) -> Problem:
    """Look at the shard as a whole for the reason of an error in one sample."""
    try:
        refuse_compressed(paths.read_range(span.path, 0, BLOCK))
        size = paths.size(span.path)
    except TarError as compressed:
        return compressed.offset, compressed.reason
    except OSError:
        return error.offset, error.reason
    if end > size:
        return (
            size,
            f"the shard ends here, its index expects this sample up to byte {end}: the file was cut or replaced",
        )
    return error.offset, error.reason


def _error(span: Span, number: int, key: str | None, offset: int, reason: str) -> ShardError:
    name = f"sample {number}" + (f" ({key!r})" if key is not None else "")
    return ShardError(
        f"{name} of shard {span.path} is unreadable at byte {offset}: {reason}. "
        "Repair or replace the shard and prepare the dataset again, or skip such samples with on_error='skip'"
    )


def _drop_excluded(group: Group, samples: list[Any]) -> None:
    row = 0
    for span in group.spans:
        for _ in range(len(span.numbers)):
            sample = samples[row]
            if span.excluded and type(sample) is dict and sample["__key__"] in span.excluded:
                samples[row] = None
            row += 1


def reorder(samples: Sequence[Any], order: NDArray[np.int64]) -> list[Any]:
    """Put samples that were read in another order back: `samples[i]` goes to place `order[i]`.

    Example:
        >>> reorder(["a", "b", "c"], np.array([2, 0, 1]))
        ['b', 'c', 'a']

    Args:
        samples: What was read.
        order: The place of each, int64 of shape `(n,)`, a permutation.

    Returns:
        The samples in their places.
    """
    if len(samples) < 2:
        return list(samples)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return list(itemgetter(*places.tolist())(samples))
