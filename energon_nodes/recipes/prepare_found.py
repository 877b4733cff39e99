"""Gather what the shards of a dataset have, in tables for lookup and in numbers for people."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed
from energon_nodes.recipes.prepare_plan import Plan
from energon_nodes.recipes.prepared import Duplicate
from energon_nodes.storage import paths
from energon_nodes.storage.index_sqlite import IndexWriter
from energon_nodes.storage.indexing import index_all, local_executor
from energon_nodes.storage.key_building import KeyTableWriter
from energon_nodes.storage.key_files import local_copy
from energon_nodes.storage.metadata import META_FOLDER
from energon_nodes.storage.placing import Offsets
from energon_nodes.storage.prepared_record import Record, ShardRecord
from energon_nodes.storage.shard_rows import IndexedShard, Trouble

__all__ = ["Found", "StaleIndexError", "Tables", "Work", "gather"]

_MOST_PARTS = 1000
_MANY_PARTS = 100
_MOST_DUPLICATES = 1000
_MOST_TROUBLES = 100


class StaleIndexError(Exception):
    """Say that the index of an earlier run cannot be used, and why.

    Example:
        >>> str(StaleIndexError("it is damaged"))
        'it is damaged'
    """


class Work(NamedTuple):
    """Say where shards are indexed.

    Example:
        >>> Work().executor is None
        True

    Args:
        executor: Any executor; None for processes of this machine, or for none at all.
        workers: How many workers it has, or how many processes to start.
        progress: Whether a bar is shown; None for one in a terminal.
    """

    executor: Executor | None = None
    workers: int | None = None
    progress: bool | None = None


class Tables(NamedTuple):
    """Name the files that are filled while shards are indexed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as keys:
        ...     Tables("/data/.nv-meta/.partial-index.sqlite-x", keys, Offsets(keys)).offsets.names
        []

    Args:
        sqlite: A local file for `index.sqlite`, empty.
        keys: A local file for the key table, empty, open for reading and writing.
        offsets: What goes into the `.tar.idx` files.
    """

    sqlite: str
    keys: BinaryIO
    offsets: Offsets


class Found:
    """Hold what the shards of a dataset have.

    Args:
        key_table: The key table, to be finished; None where it cannot be made on the way.

    Example:
        >>> Found(None).samples
        0
    """

    def __init__(self, key_table: KeyTableWriter | None) -> None:
        self.key_table = key_table
        self.shards: dict[str, ShardRecord] = {}
        self.parts: Counter[str] = Counter()
        self.duplicates: list[Duplicate] = []
        self.troubles: list[Trouble] = []
        self.more_troubles = 0

    @property
    def samples(self) -> int:
        """The samples of all shards."""
        return sum(shard.samples for shard in self.shards.values())

    def close(self) -> None:
        """Give up the key table, unless it was finished."""
        if self.key_table is not None:
            self.key_table.close()

    def add_parts(self, parts: dict[str, int]) -> None:
        """Count parts; names beyond a thousand are not kept, they are file names with dots most likely."""
        for part, count in parts.items():
            if part in self.parts or len(self.parts) < _MOST_PARTS:
                self.parts[part] += count

    def add_troubles(self, shard: IndexedShard) -> None:
        """Note what is wrong: one place of every shard, and more of them while there is room."""
        room = max(1, _MOST_TROUBLES - len(self.troubles))
        self.troubles += shard.troubles[:room]
        self.more_troubles += shard.more + len(shard.troubles[room:])


def gather(plan: Plan, kept: dict[str, tuple[int, int]], tables: Tables, work: Work) -> Found:
    """Index the shards of a plan and fill the tables.

    Args:
        plan: What is to be done; warnings are added to it.
        kept: The shards whose rows are taken from the index that is there: their number in it, and their samples.
        tables: The files to fill.
        work: Where shards are indexed.

    Returns:
        What was found.

    Raises:
        StaleIndexError: The index that is there cannot be used; without `kept` it works.
        DatasetError: Shards cannot be prepared, or the dataset file fits none of the samples.
        OSError: The files cannot be written.
    """
    names = plan.names
    numbers = {name: number for number, name in enumerate(names)}
    with ExitStack() as stack, IndexWriter(tables.sqlite) as index:
        key_table = None if kept else KeyTableWriter(tables.keys, os.path.dirname(tables.keys.name))
        found = Found(key_table)
        stack.callback(found.close)
        if kept:
            _copy_old(plan, kept, numbers, index, found)
        todo = {name: plan.versions[name][0] for name in names if name not in kept}
        for shard in _shown(_indexed(plan.root, todo, work), todo, work.progress):
            if shard.troubles:
                found.add_troubles(shard)
            if found.troubles:
                continue
            _add(shard, numbers[shard.name], index, found, tables.offsets, names)
        found.shards = {name: found.shards[name] for name in names if name in found.shards}
        _check(plan, found)
        stack.pop_all()
    return found


def _add(
    shard: IndexedShard, number: int, index: IndexWriter, found: Found, offsets: Offsets, names: list[str]
) -> None:
    rows = shard.rows()
    for key, first in index.add(number, rows):
        if len(found.duplicates) < _MOST_DUPLICATES:
            found.duplicates.append(Duplicate(key, names[first], shard.name))
    offsets.add(shard.name, rows.offsets)
    if found.key_table is not None and not found.duplicates:
        keys = shard.keys.split(b"\0")
        del keys[-1]
        lengths = np.diff(rows.offsets)
        columns = (rows.part_names, rows.names, rows.starts, rows.sizes)
        found.key_table.add(number, keys, rows.offsets[:-1], lengths, np.diff(rows.part_starts), *columns)
    found.shards[shard.name] = ShardRecord(len(shard), *shard.version)
    counts = np.bincount(rows.names, minlength=len(rows.part_names)).tolist()
    found.add_parts(dict(zip(rows.part_names, counts, strict=True)))


def _copy_old(
    plan: Plan, kept: dict[str, tuple[int, int]], numbers: dict[str, int], index: IndexWriter, found: Found
) -> None:
    record = cast("Record", plan.record)
    moved = {before: numbers[name] for name, (before, _) in kept.items()}
    try:
        with local_copy(paths.join(plan.root, f"{META_FOLDER}/index.sqlite")) as old:
            counts = index.copy(old, moved)
    except sqlite3.DatabaseError as error:
        raise StaleIndexError(str(error)) from error
    for name, (_, count) in kept.items():
        if counts.get(numbers[name], 0) != count:
            raise StaleIndexError(f"it has {counts.get(numbers[name], 0)} samples of {name}, which has {count}")
        found.shards[name] = record.shards[name]
    found.add_parts(index.part_counts())


def _indexed(root: str, sizes: dict[str, int], work: Work) -> Iterator[IndexedShard]:
    names, totals = list(sizes), list(sizes.values())
    if work.executor is not None:
        yield from index_all(root, names, totals, work.executor, work.workers)
        return
    with local_executor(root, sum(totals), work.workers) as local:
        yield from index_all(root, names, totals, local)


def _shown(shards: Iterator[IndexedShard], sizes: dict[str, int], progress: bool | None) -> Iterator[IndexedShard]:
    """Show how far the shards are."""
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        yield from shards
        return
    from tqdm import tqdm  # not needed by those who only read

    samples = 0
    with tqdm(total=sum(sizes.values()), unit="B", unit_scale=True, desc="indexing shards", dynamic_ncols=True) as bar:
        for shard in shards:
            samples += len(shard)
            bar.set_postfix_str(f"{samples:,} samples", refresh=False)
            bar.update(sizes[shard.name])
            yield shard


def _lines(troubles: list[Trouble]) -> list[str]:
    """Return a line for each reason in each shard: places with one reason, as those of a key, are one problem."""
    places: dict[tuple[str, str], list[Trouble]] = {}
    for trouble in troubles:
        places.setdefault((trouble.shard, trouble.reason), []).append(trouble)
    lines: list[str] = []
    for (shard, reason), found in places.items():
        offsets = [str(trouble.offset) for trouble in found if trouble.offset is not None]
        if len(offsets) < 2:
            lines.append(f"  {found[0]}")
        else:
            lines.append(f"  shard {shard} at bytes {', '.join(offsets[:-1])} and {offsets[-1]}: {reason}")
    return lines


def _check(plan: Plan, found: Found) -> None:
    """Raise if the shards cannot be prepared; note what may be wrong."""
    if found.troubles:
        lines = _lines(found.troubles)
        if found.more_troubles:
            lines.append(f"  and {found.more_troubles:,} more places in these shards")
        shards = len({trouble.shard for trouble in found.troubles})
        raise DatasetError(
            f"{plan.root}: {shards} of {len(plan.versions)} shards cannot be prepared, and nothing was written:\n"
            + "\n".join(lines)
            + "\nRepair these shards, or leave them out with exclude="
        )
    empty = [name for name, shard in found.shards.items() if not shard.samples]
    if len(empty) == len(found.shards):
        raise DatasetError(f"{plan.root}: the shards {listed(empty)} have no samples, and nothing was written")
    if empty:
        plan.warnings.append(f"{len(empty)} shards have no samples: {listed(empty)}")
    if len(found.parts) > _MANY_PARTS:
        plan.warnings.append(
            f"there are {'more than ' * (len(found.parts) >= _MOST_PARTS)}{len(found.parts)} names of parts, such as "
            f"{listed(list(found.parts)[:3])}: the key of a sample ends at the first dot of the file name, so file "
            "names may have dots in them that are not meant so"
        )
    media = plan.media
    if media is not None and not media.patterns and not any(media.takes(f"x.{part}") for part in found.parts):
        raise DatasetError(f"{plan.root}: media={str(media)!r} asks for none of its parts, {listed(found.parts)}")
    if plan.sample_file is not None:
        problem = plan.sample_file.problem(found.parts, found.samples)
        if problem is not None:
            raise DatasetError(f"{plan.root}: {problem}; nothing was written")
        plan.warnings += plan.sample_file.warnings(found.parts, found.samples)
