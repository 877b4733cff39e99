"""From byte ranges to samples: read many at once, parse them together, keep every error in its place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import SampleError, ShardError
from energon_nodes.storage import paths
from energon_nodes.storage.alike import read_alike
from energon_nodes.storage.assemble import Group, PartFilter, Sample, Span, assemble, places_of
from energon_nodes.storage.columns import Table, read_columns
from energon_nodes.storage.layout import layout_of
from energon_nodes.storage.provenance import Origin, Sources
from energon_nodes.storage.scan import Problem, refuse_compressed
from energon_nodes.storage.tar import BLOCK, TarError, next_member, split_name

__all__ = ["Group", "PartFilter", "Read", "Sample", "Span", "fetch_spans", "offsets_of", "read_group"]

_FEW = 8  # samples; numpy costs more than it saves on fewer
_LAYOUTS = 4  # different layouts that are tried in a group before the rest is read one by one


class Read(NamedTuple):
    """Hold the result of a read.

    Example:
        >>> Read([], True).clean
        True

    Args:
        samples: For each sample, in order: the sample, a `ShardError` that says what is wrong with it, or None where
            the dataset excludes it. They can be gone through once.
        clean: Whether all of them are samples.
    """

    samples: Iterable[Sample | SampleError | None]
    clean: bool


def read_group(group: Group, order: NDArray[np.int64] | None = None) -> Read:
    """Read the samples of a group.

    Example:
        >>> read_group(Group("/data", [], None))
        Read(samples=[], clean=True)

    Args:
        group: Which samples.
        order: The place of each in the result, a permutation of shape `(n,)`, or None for the same place.

    Returns:
        The samples and what came in place of them.
    """
    if not group.spans:
        return Read([], True)
    buffer, failed = fetch_spans(group.spans)
    begins, ends, starts, stops = offsets_of(group.spans)
    aligned = not np.count_nonzero((begins | ends) & (BLOCK - 1))
    excludes = any(span.excluded for span in group.spans)
    known = any(span.problems for span in group.spans) or bool(failed)
    if aligned and not known and not excludes and len(begins) >= _FEW:
        table = _read_alike(group, buffer, starts, stops)
        if table is not None:
            return Read(assemble(group, buffer, table, None, order), True)
    samples: list[Any] = [None] * len(begins)
    pending = _pending(group, failed, samples) if known else np.arange(len(begins))
    for _ in range(_LAYOUTS if aligned else 0):
        if len(pending) < _FEW:
            break
        layout = layout_of(buffer, int(starts[pending[0]]), int(stops[pending[0]]))
        if layout is None:
            break
        table = read_columns(buffer, starts[pending], stops[pending], layout)
        rows = pending[table.rows]
        if len(rows) == len(samples) and not excludes:
            return Read(assemble(group, buffer, table, rows, order), True)
        for row, sample in zip(rows.tolist(), assemble(group, buffer, table, rows, None), strict=True):
            samples[row] = sample
        pending = np.setdiff1d(pending, rows, assume_unique=True)
    _read_one_by_one(group, buffer, starts, stops, pending, samples)
    if excludes:
        _drop_excluded(group, samples)
    if order is not None:
        samples = [samples[place] for place in places_of(order).tolist()]
    return Read(samples, all(type(sample) is dict for sample in samples))


def offsets_of(spans: list[Span]) -> tuple[NDArray[np.int64], ...]:
    """Return where samples begin and end, first in their shards, then in what `fetch_spans` gives.

    Example:
        >>> span = Span("/0.tar", "0.tar", 0, np.array([3]), np.array([512]), np.array([1536]), {}, frozenset())
        >>> [places.tolist() for places in offsets_of([span])]
        [[512], [1536], [0], [1024]]

    Args:
        spans: The samples of each shard, at least one.

    Returns:
        Four int64 arrays of shape `(samples,)`.
    """
    if len(spans) == 1 and np.count_nonzero(spans[0].begins[1:] != spans[0].ends[:-1]) == 0:
        begins, ends = spans[0].begins, spans[0].ends
        return begins, ends, begins - begins[0], ends - begins[0]
    begins = np.concatenate([span.begins for span in spans])
    ends = np.concatenate([span.ends for span in spans])
    sizes = ends - begins
    stops = np.cumsum(sizes)
    return begins, ends, stops - sizes, stops


def _read_alike(group: Group, buffer: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Table | None:
    """Read all samples at once if they have the layout of those before, or that of the first one."""
    known = group.known if group.known is not None else []
    tried = known[0] if known else None
    table = read_alike(buffer, starts, stops, tried) if tried is not None else None
    if table is None:
        layout = layout_of(buffer, int(starts[0]), int(stops[0]))
        if layout is not None and layout is not tried:
            known[:] = [layout]
            table = read_alike(buffer, starts, stops, layout)
    return table


def fetch_spans(spans: list[Span]) -> tuple[bytes, dict[int, OSError]]:
    """Read the bytes of all samples of spans, those that are neighbours in one read.

    Example:
        >>> fetch_spans([])
        (b'', {})

    Args:
        spans: The samples of each shard.

    Returns:
        The bytes of one sample behind the other, and the errors of shards that cannot be read, by the number of the
        span: zeros stand for their samples.
    """
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


def _pending(group: Group, failed: dict[int, OSError], samples: list[Any]) -> NDArray[np.int64]:
    """Return the rows that are to be parsed; put errors in place of those known to be bad."""
    good = np.ones(len(samples), np.bool_)
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
