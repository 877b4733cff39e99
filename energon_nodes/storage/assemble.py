"""From columns to samples, one at a time and only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from energon_nodes.storage.columns import Table
from energon_nodes.storage.layout import Layout
from energon_nodes.storage.provenance import Origin, Sources
from energon_nodes.storage.scan import Problem

__all__ = ["Group", "PartFilter", "Sample", "Span", "assemble", "places_of"]

Sample: TypeAlias = dict[str, Any]
PartFilter: TypeAlias = Callable[[str], bool]

_tuple: Any = tuple
_new_tuple: Callable[[type[Sources], Any], Sources] = _tuple.__new__


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
        known: Layouts that samples of the dataset had before, the last one first; the reader puts new ones there.
    """

    root: str
    spans: list[Span]
    wants: PartFilter | None
    known: list[Layout] | None = None


def assemble(
    group: Group, buffer: bytes, table: Table, rows: NDArray[np.int64] | None, order: NDArray[np.int64] | None
) -> Iterator[Sample]:
    """Make the samples of a table; this is the loop that the speed of reading hangs on.

    It makes them as they are taken: a thousand dictionaries at once would keep the garbage collector busy, and their
    memory would have left the caches of the processor before they are used.

    Example:
        >>> none = np.zeros(0, np.int64)
        >>> list(assemble(Group("/data", [], None), b"", Table(none, [], (), [], []), none, none))
        []

    Args:
        group: What was read.
        buffer: Its bytes.
        table: Where the parts are in them.
        rows: Which samples of the group the table has, int64 of shape `(k,)`; None for all.
        order: The place of each of them in the output, a permutation of shape `(k,)`, or None for the same place.

    Returns:
        The samples.
    """
    keys, starts, stops = table.keys, table.starts, table.stops
    if order is not None and len(order) > 1:
        places = places_of(order)
        rows = places if rows is None else rows[places]
        keys = itemgetter(*places.tolist())(keys)
        starts, stops = [column[places] for column in starts], [column[places] for column in stops]
    chosen = [number for number, part in enumerate(table.parts) if group.wants is None or group.wants(part)]
    parts = tuple([table.parts[number] for number in chosen])
    shards, origins, indices = _labels(group, parts, rows)
    sources = map(_new_tuple, repeat(Sources), zip(origins, indices, keys, strict=False))
    ranges = [column[number].tolist() for number in chosen for column in (starts, stops)]
    # Literals are the quickest way to make a dict; one part, or a picture and its text, are the usual cases.
    if len(parts) == 1:
        (one,) = parts
        return (
            {"__key__": key, "__shard__": shard, "__sources__": source, one: buffer[a:b]}
            for key, shard, source, a, b in zip(keys, shards, sources, *ranges, strict=False)
        )
    if len(parts) == 2:
        one, two = parts
        return (
            {"__key__": key, "__shard__": shard, "__sources__": source, one: buffer[a:b], two: buffer[c:d]}
            for key, shard, source, a, b, c, d in zip(keys, shards, sources, *ranges, strict=False)
        )
    slices = [
        map(buffer.__getitem__, map(slice, begin, end)) for begin, end in zip(ranges[::2], ranges[1::2], strict=True)
    ]
    names = ("__key__", "__shard__", "__sources__", *parts)
    return (dict(zip(names, row, strict=True)) for row in zip(keys, shards, sources, *slices, strict=False))


def places_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn round a permutation: where element `i` goes to place `order[i]`, say which element comes to each place.

    Example:
        >>> places_of(np.array([2, 0, 1])).tolist()
        [1, 2, 0]

    Args:
        order: A permutation, int64 of shape `(n,)`.

    Returns:
        Its inverse.
    """
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _labels(
    group: Group, parts: tuple[str, ...], rows: NDArray[np.int64] | None
) -> tuple[Iterable[str], Iterable[Origin], list[int]]:
    """Return for each row the name of the shard, what its sources have in common, and the global index."""
    spans = group.spans
    origins = [Origin(group.root, span.shard, parts) for span in spans]
    if len(spans) == 1:
        numbers = spans[0].numbers if rows is None else spans[0].numbers[rows]
        return repeat(spans[0].shard), repeat(origins[0]), (numbers + spans[0].first).tolist()
    if not spans:
        return (), (), []
    indices = np.concatenate([span.numbers + span.first for span in spans])
    which = np.repeat(np.arange(len(spans)), [len(span.numbers) for span in spans])
    if rows is not None:
        indices, which = indices[rows], which[rows]
    places = which.tolist()
    return map([span.shard for span in spans].__getitem__, places), map(origins.__getitem__, places), indices.tolist()
