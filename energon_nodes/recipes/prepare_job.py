"""Carry out what was planned: index the shards, write the files of the dataset, put them in their places."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import uuid
from contextlib import ExitStack
from typing import BinaryIO, cast

from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.prepare_found import Found, StaleIndexError, Tables, Work, gather
from energon_nodes.recipes.prepare_plan import Plan
from energon_nodes.recipes.prepared import Duplicate, DuplicateKeysError, Prepared
from energon_nodes.storage import paths
from energon_nodes.storage.index import index_path
from energon_nodes.storage.index_rows import index_rows
from energon_nodes.storage.key_building import KeyTableWriter
from energon_nodes.storage.key_files import local_copy
from energon_nodes.storage.key_table import KEYS_FILE, describe_index
from energon_nodes.storage.media_carry import carry_media
from energon_nodes.storage.metadata import META_FOLDER, Info, info_text, split_file
from energon_nodes.storage.placing import Built, Offsets, place_files, preparing, scratch_file, write_indices
from energon_nodes.storage.prepared_record import RECORD_FILE, Record
from energon_nodes.storage.shard_names import collapse
from energon_nodes.storage.split_text import format_lists, quoted
from energon_nodes.storage.splits import Split, read_lists
from energon_nodes.storage.writing import remove

__all__ = ["FORMAT_VERSION", "carry_out"]

FORMAT_VERSION = "7.4.1"
"""The release of Megatron-Energon whose format is written."""

_SQLITE, _UUID = "index.sqlite", "index.uuid"


def carry_out(plan: Plan, dataset_yaml: str, work: Work) -> Prepared:
    """Index the shards of a plan and write what it asks for.

    Args:
        plan: What is to be done.
        dataset_yaml: The name of the dataset file.
        work: Where shards are indexed.

    Returns:
        What was found and written.

    Raises:
        DuplicateKeysError: Samples of different shards have the same key; everything else is written.
        DatasetError: Shards cannot be prepared; nothing is written.
        OSError: Files cannot be written.
    """
    root = plan.root
    with ExitStack() as stack:
        stack.enter_context(preparing(root, {name.rpartition("/")[0] for name in plan.versions}))
        kept = _kept(plan)
        if _nothing_to_do(plan, kept):
            counts = {name: kept[name][1] for name in plan.names}
            return _result(plan, counts, dict(cast("Record", plan.record).parts), [], [])
        scratch = [stack.enter_context(scratch_file(root, name)) for name in (_SQLITE, "prepared-keys")]
        offsets = Offsets(cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile())))
        tables = Tables(scratch[0], stack.enter_context(open(scratch[1], "wb+")), offsets)
        try:
            found = gather(plan, kept, tables, work)
        except StaleIndexError as reason:
            plan.warnings.append(f"{_SQLITE} was of no use ({reason}), so all shards were indexed again")
            os.truncate(tables.sqlite, 0)
            kept.clear()
            found = gather(plan, kept, tables, work)
        stack.callback(found.close)
        if not found.duplicates:
            _carry_media(plan, found, tables)
        written = _place(plan, found, dataset_yaml, tables)
    counts = {name: shard.samples for name, shard in found.shards.items()}
    result = _result(plan, counts, dict(found.parts), found.duplicates, written)
    if found.duplicates:
        raise DuplicateKeysError(result)
    return result


def _finish_keys(found: Found, tables: Tables, owner: str, counts: dict[str, int]) -> None:
    """Finish the key table, and fill it before where rows were copied from an older index."""
    writer = found.key_table
    if writer is None:
        writer = found.key_table = KeyTableWriter(tables.keys, os.path.dirname(tables.keys.name))
        for arguments in index_rows(tables.sqlite, Info(counts)):
            writer.add(*arguments)
    writer.finish(owner)


def _carry_media(plan: Plan, found: Found, tables: Tables) -> None:
    """Keep the media metadata of shards that are as they were."""
    old = paths.join(plan.root, f"{META_FOLDER}/{_SQLITE}")
    if plan.old is None or not paths.exists(old):
        return
    before = None if plan.record is None else plan.record.shards
    unchanged = [
        number
        for number, name in enumerate(found.shards)
        if (name in plan.old.shard_counts if before is None else before.get(name) == found.shards[name])
    ]
    try:
        with local_copy(old) as copy:
            carried = carry_media(copy, tables.sqlite, unchanged)
    except sqlite3.DatabaseError as error:
        plan.warnings.append(f"what the old {_SQLITE} knew about media is lost: {error}")
        return
    if carried.lost:
        plan.warnings.append(
            f"{carried.lost:,} entries about media are gone, because their shards changed: read them anew with media="
        )


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


def _place(plan: Plan, found: Found, dataset_yaml: str, tables: Tables) -> list[str]:
    """Write all files; at every moment the old dataset or the new one can be read, and the info file comes last."""
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
        _finish_keys(found, tables, describe_index(tables.sqlite, number, Info(counts)), counts)
        files += [(_UUID, number), (_SQLITE, Built(tables.sqlite)), (KEYS_FILE, Built(tables.keys.name))]
    if plan.split is not None or plan.old is None or plan.old.shard_counts != counts:
        if paths.exists(f"{meta}/.info.yaml"):
            files.append((".info.yaml", _info_yaml(counts)))
        files.append((".info.json", info_text(counts, FORMAT_VERSION)))
    written = write_indices(root, tables.offsets)
    between = _between(plan, counts)
    with ExitStack() as stack:
        place_files(stack, root, files)
        if between is not None:
            with ExitStack() as before:
                place_files(before, root, [(".info.json", info_text(between, FORMAT_VERSION))])
        if found.duplicates:
            for name in (_SQLITE, _UUID, KEYS_FILE):
                remove(f"{meta}/{name}")
    return written + [f"{META_FOLDER}/{name}" for name, _ in files]


def _between(plan: Plan, counts: dict[str, int]) -> dict[str, int] | None:
    """Return counts with which the old split and the new one can be read, if they need others.

    Old shards keep their numbers, so that the old index goes on to be right, and new ones come behind them.
    """
    if plan.old is None or list(plan.old.shard_counts.items()) == list(counts.items()):
        return None
    return {name: counts.get(name, count) for name, count in plan.old.shard_counts.items()} | counts


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
