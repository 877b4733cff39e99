"""Carry out what was planned: index the shards, write the files of the dataset, put them in their places."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import BinaryIO, cast

import numpy as np

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed
from energon_nodes.recipes.prepare_plan import Plan
from energon_nodes.recipes.prepared import Duplicate, DuplicateKeysError, Prepared
from energon_nodes.storage import paths
from energon_nodes.storage.index import index_path
from energon_nodes.storage.index_sqlite import IndexWriter
from energon_nodes.storage.indexing import index_all, local_executor
from energon_nodes.storage.key_files import local_copy
from energon_nodes.storage.key_table import KEYS_FILE, write_key_table
from energon_nodes.storage.metadata import META_FOLDER, info_text, split_file
from energon_nodes.storage.placing import Built, Offsets, place_files, preparing, scratch_file, write_indices
from energon_nodes.storage.prepared_record import RECORD_FILE, Record, ShardRecord
from energon_nodes.storage.shard_names import collapse
from energon_nodes.storage.shard_rows import IndexedShard, Trouble
from energon_nodes.storage.split_text import format_lists, quoted
from energon_nodes.storage.splits import Split, read_lists
from energon_nodes.storage.writing import remove

__all__ = ["FORMAT_VERSION", "carry_out"]

FORMAT_VERSION = "7.4.1"
"""The release of Megatron-Energon whose format is written."""

_SQLITE, _UUID = "index.sqlite", "index.uuid"
_MOST_PARTS = 1000
_MANY_PARTS = 100
_MOST_DUPLICATES = 1000
_MOST_TROUBLES = 100


class _Stale(Exception):
    """Say that the old index cannot be used."""


class _Found:
    """Gather what the shards have."""

    def __init__(self) -> None:
        self.shards: dict[str, ShardRecord] = {}
        self.parts: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self.more_troubles = 0
        self.duplicates: list[Duplicate] = []

    def add_parts(self, parts: dict[str, int]) -> None:
        for part, count in parts.items():
            if part in self.parts or len(self.parts) < _MOST_PARTS:
                self.parts[part] += count

    def add_troubles(self, shard: IndexedShard) -> None:
        # One of every shard, however many there are; all of a shard while there is room.
        room = max(1, _MOST_TROUBLES - len(self.troubles))
        self.troubles += shard.troubles[:room]
        self.more_troubles += shard.more + len(shard.troubles[room:])


def carry_out(
    plan: Plan, dataset_yaml: str, executor: Executor | None, workers: int | None, progress: bool | None
) -> Prepared:
    """Index the shards of a plan and write what it asks for.

    Args:
        plan: What is to be done.
        dataset_yaml: The name of the dataset file.
        executor: Where shards are indexed; None for processes of this machine.
        workers: How many workers it has, or how many processes to use.
        progress: Whether a bar is shown; None for one where somebody may look at it.

    Returns:
        What was found and written.

    Raises:
        DuplicateKeysError: Samples of different shards have the same key; everything else is written.
        DatasetError: Shards cannot be prepared; nothing is written.
        OSError: Files cannot be written.
    """
    root = plan.root
    with (
        preparing(root, {name.rpartition("/")[0] for name in plan.versions}),
        scratch_file(root, _SQLITE) as built,
        cast("BinaryIO", tempfile.TemporaryFile()) as file,
    ):
        offsets = Offsets(file)
        kept = _kept(plan)
        if _nothing_to_do(plan, kept):
            counts = {name: kept[name][1] for name in plan.names}
            return _result(plan, counts, dict(cast("Record", plan.record).parts), [], [])
        try:
            found = _index(plan, kept, built, offsets, executor, workers, progress)
        except _Stale as reason:
            plan.warnings.append(f"{_SQLITE} was of no use ({reason}), so all shards were indexed again")
            os.truncate(built, 0)
            found = _index(plan, {}, built, offsets, executor, workers, progress)
        written = _place(plan, found, dataset_yaml, built, offsets)
    counts = {name: shard.samples for name, shard in found.shards.items()}
    if not found.duplicates:
        try:
            write_key_table(root)
            written.append(f"{META_FOLDER}/{KEYS_FILE}")
        except OSError as error:  # it is made when it is needed
            plan.warnings.append(f"{KEYS_FILE} was not written: {error}")
    result = _result(plan, counts, dict(found.parts), found.duplicates, written)
    if found.duplicates:
        raise DuplicateKeysError(result)
    return result


def _kept(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the shards whose rows can be taken from the old index: their old number and their count."""
    if not plan.update or plan.record is None or plan.old is None or not plan.record.uuid:
        return {}
    meta = paths.join(plan.root, META_FOLDER)
    try:
        if paths.read_text(f"{meta}/{_UUID}") != plan.record.uuid or not paths.exists(f"{meta}/{_SQLITE}"):
            return {}
    except OSError:
        return {}
    if list(plan.old.shard_counts) != list(plan.record.shards):
        return {}
    kept: dict[str, tuple[int, int]] = {}
    for number, (name, shard) in enumerate(plan.record.shards.items()):
        is_same = name in plan.versions and shard[1:] == plan.versions[name]
        if is_same and _index_size(plan.root, name) == 8 * (shard.samples + 1):
            kept[name] = (number, shard.samples)
    return kept


def _index_size(root: str, shard: str) -> int:
    try:
        return paths.size(paths.join(root, index_path(shard)))
    except OSError:
        return -1


def _nothing_to_do(plan: Plan, kept: dict[str, tuple[int, int]]) -> bool:
    if plan.record is None or plan.sample_file is not None or list(plan.record.shards) != plan.names:
        return False
    same_rules = (plan.rule, plan.exclude) == (plan.record.rule, plan.record.exclude)
    return len(kept) == len(plan.versions) > 0 and same_rules and not _has_new_split(plan)


def _has_new_split(plan: Plan) -> bool:
    if plan.split is None:
        return False
    try:
        return read_lists(split_file(plan.root)) != plan.split
    except DatasetError:
        return True


def _index(
    plan: Plan,
    kept: dict[str, tuple[int, int]],
    built: str,
    offsets: Offsets,
    executor: Executor | None,
    workers: int | None,
    progress: bool | None,
) -> _Found:
    found = _Found()
    names = plan.names
    numbers = {name: number for number, name in enumerate(names)}
    with IndexWriter(built) as index:
        if kept:
            _copy_old(plan, kept, numbers, index, found)
        todo = [name for name in names if name not in kept]
        sizes = [plan.versions[name][0] for name in todo]
        shards = _with_executor(plan.root, todo, sizes, executor, workers)
        for shard in _shown(shards, dict(zip(todo, sizes, strict=True)), progress):
            if shard.troubles:
                found.add_troubles(shard)
            if found.troubles:
                continue
            rows = shard.rows()
            offsets.add(shard.name, rows.offsets)
            found.shards[shard.name] = ShardRecord(len(shard), *shard.version)
            found.add_parts(_count_parts(shard))
            number = numbers[shard.name]
            for key, first in index.add(number, rows):
                if len(found.duplicates) < _MOST_DUPLICATES:
                    found.duplicates.append(Duplicate(key, names[first], shard.name))
        found.shards = {name: found.shards[name] for name in names if name in found.shards}
        _check(plan, found)
    return found


def _copy_old(
    plan: Plan, kept: dict[str, tuple[int, int]], numbers: dict[str, int], index: IndexWriter, found: _Found
) -> None:
    record = cast("Record", plan.record)
    moved = {before: numbers[name] for name, (before, _) in kept.items()}
    try:
        with local_copy(paths.join(plan.root, f"{META_FOLDER}/{_SQLITE}")) as old:
            counts = index.copy(old, moved)
    except sqlite3.DatabaseError as error:
        raise _Stale(str(error)) from error
    for name, (_, count) in kept.items():
        if counts.get(numbers[name], 0) != count:
            raise _Stale(f"it has {counts.get(numbers[name], 0)} samples of {name}, which has {count}")
        found.shards[name] = record.shards[name]
    found.add_parts(index.part_counts())


def _with_executor(
    root: str, names: list[str], sizes: list[int], executor: Executor | None, workers: int | None
) -> Iterator[IndexedShard]:
    if executor is not None:
        yield from index_all(root, names, sizes, executor, workers)
        return
    with local_executor(root, sum(sizes), workers) as local:
        yield from index_all(root, names, sizes, local)


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


def _count_parts(shard: IndexedShard) -> dict[str, int]:
    counts = np.bincount(shard.names, minlength=len(shard.part_names)).tolist()
    return dict(zip(shard.part_names, counts, strict=True))


def _check(plan: Plan, found: _Found) -> None:
    """Raise if the shards cannot be prepared; note what may be wrong."""
    if found.troubles:
        lines = [f"  {trouble}" for trouble in found.troubles]
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
    if plan.sample_file is not None:
        samples = sum(shard.samples for shard in found.shards.values())
        problem = plan.sample_file.problem(found.parts, samples)
        if problem is not None:
            raise DatasetError(f"{plan.root}: {problem}; nothing was written")
        plan.warnings += plan.sample_file.warnings(found.parts, samples)


def _place(plan: Plan, found: _Found, dataset_yaml: str, built: str, offsets: Offsets) -> list[str]:
    """Write all files; the old dataset is whole until the last rename, that of the info file."""
    root, meta = plan.root, paths.join(plan.root, META_FOLDER)
    counts = {name: shard.samples for name, shard in found.shards.items()}
    number = "" if found.duplicates else str(uuid.uuid4())
    record = Record(number, found.shards, plan.rule, plan.exclude, found.parts)
    files: list[tuple[str, str | Built]] = []
    if plan.split is not None and _has_new_split(plan):
        lists = {part: collapse(shards) for part, shards in plan.split.parts.items()}
        files.append(("split.yaml", format_lists(lists, plan.split.exclude)))
    if plan.sample_file is not None:
        files.append((dataset_yaml, plan.sample_file.text))
    # The uuid comes before what it stands for: in between, and up to the info file, `check_in_step` refuses the index.
    files.append((RECORD_FILE, record.text()))
    if not found.duplicates:
        files += [(_UUID, number), (_SQLITE, Built(built))]
    if plan.split is not None or plan.old is None or plan.old.shard_counts != counts:
        if paths.exists(f"{meta}/.info.yaml"):
            files.append((".info.yaml", _info_yaml(counts)))
        files.append((".info.json", info_text(counts, FORMAT_VERSION)))
    written = write_indices(root, offsets)
    with ExitStack() as stack:
        place_files(stack, root, files)
        if found.duplicates:
            for name in (_SQLITE, _UUID, KEYS_FILE):
                remove(f"{meta}/{name}")
    return written + [f"{META_FOLDER}/{name}" for name, _ in files]


def _info_yaml(counts: dict[str, int]) -> str:
    lines = [f"  {quoted(name)}: {count}" for name, count in counts.items()]
    return "\n".join([f'energon_version: "{FORMAT_VERSION}"', "shard_counts:", *lines]) + "\n"


def _result(
    plan: Plan, counts: dict[str, int], parts: dict[str, int], duplicates: list[Duplicate], written: list[str]
) -> Prepared:
    split = plan.split
    if split is None:
        try:
            split = read_lists(split_file(plan.root))
        except DatasetError:
            split = Split({})
    left_out = set(split.exclude)
    per_split = {
        part: sum(counts.get(shard, 0) for shard in shards if shard not in left_out)
        for part, shards in split.parts.items()
    }
    return Prepared(
        plan.root,
        sum(counts.values()),
        counts,
        split.counts,
        per_split,
        parts,
        sum(plan.sizes),
        tuple(duplicates),
        tuple(plan.warnings),
        tuple(written),
    )
