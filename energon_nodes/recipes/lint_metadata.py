"""Check the metadata of a prepared dataset against each other and against the files that are there."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.recipes.datasets import sample_maker
from energon_nodes.recipes.lint_index import connect
from energon_nodes.recipes.problems import Problem
from energon_nodes.storage import paths
from energon_nodes.storage.dataset_config import read_dataset_config
from energon_nodes.storage.discovery import SUFFIXES
from energon_nodes.storage.key_lookup import read_footer
from energon_nodes.storage.key_table import KEYS_FILE, belongs_to
from energon_nodes.storage.metadata import META_FOLDER, Info, expand, info_file, read_info, split_file
from energon_nodes.storage.splits import read_lists

__all__ = ["Metadata", "check_metadata", "read_split_lists"]

_ROWS_OF_OTHERS = "SELECT DISTINCT tar_file_id FROM samples WHERE tar_file_id < 0 OR tar_file_id >= ? LIMIT 1"


@dataclass
class Metadata:
    """Hold what the metadata say, as far as it can be used, for the checks of the shards.

    Example:
        >>> Metadata().counts
        {}

    Args:
        counts: The samples of each shard, by name.
        excluded: The keys that the split excludes, by shard.
        sqlite: The path of `index.sqlite`, where it can be read.
        make: Makes typed samples, where the dataset file says how.
    """

    counts: dict[str, int] = field(default_factory=dict[str, int])
    excluded: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    sqlite: str | None = None
    make: Callable[[dict[str, Any]], Any] | None = None


def check_metadata(
    root: str, metadata: Metadata, dataset_config: str | None, split_config: str | None, trust: bool
) -> Iterator[Problem]:
    """Check everything in `.nv-meta`, and fill in what the checks of the shards need.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/lint-meta/.nv-meta/.info.json", b'{"counts": {}}')
        >>> [problem.code for problem in check_metadata("memory://lint-meta", Metadata(), None, None, False)]
        ['bad-metadata']

    Args:
        root: The folder of the dataset.
        metadata: Gets what is found.
        dataset_config: The dataset file in `.nv-meta`; None for `dataset.yaml`.
        split_config: The split file in `.nv-meta`; None for `split.yaml` or `split.json`.
        trust: Whether Python beside the data may run.

    Yields:
        What is wrong.
    """
    try:
        info = read_info(root)
    except (DatasetError, OSError) as error:
        yield Problem("bad-metadata", str(error))
        return
    metadata.counts = info.shard_counts
    on_disk = paths.list_files(root, SUFFIXES)
    for name in on_disk:
        if name not in info.shard_counts:
            yield Problem("unlisted-shard", f"it lies in the folder, and {info_file(root)} does not list it", name)
    yield from _check_split(root, info, metadata, split_config)
    yield from _check_dataset_config(root, metadata, dataset_config, trust)
    yield from _check_sqlite(root, info, metadata)


def read_split_lists(root: str, config: str | None) -> tuple[dict[str, list[str]], list[str]]:
    r"""Read all parts of a split, braces expanded, without asking whether the shards exist.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> split = b"split_parts:\n  train: ['{0..1}.tar']\n  val: []\nexclude: [1.tar]\n"
        >>> filesystem("memory://")[0].pipe("/lists/.nv-meta/split.yaml", split)
        >>> read_split_lists("memory://lists", None)
        ({'train': ['0.tar', '1.tar'], 'val': []}, ['1.tar'])

    Args:
        root: The folder of the dataset.
        config: The file in `.nv-meta`; None for the default.

    Returns:
        The shards of each part, and the exclude entries.

    Raises:
        DatasetError: The file does not exist or has another form.
    """
    split = read_lists(split_file(root, config))
    return split.parts, [name for entry in split.exclude for name in expand(entry)]


def _check_split(root: str, info: Info, metadata: Metadata, config: str | None) -> Iterator[Problem]:
    try:
        parts, exclude = read_split_lists(root, config)
    except DatasetError as error:
        yield Problem("bad-metadata", str(error))
        return
    gone: set[str] = set()
    excluded: dict[str, set[str]] = {}
    for entry in exclude:
        shard = _longest(entry, info)
        if shard is None:
            yield Problem("unknown-exclude", f"exclude has {entry!r}, which begins with no shard")
        elif shard == entry:
            gone.add(shard)
        else:
            excluded.setdefault(shard, set()).add(entry[len(shard) + 1 :])
    metadata.excluded = {shard: frozenset(keys) for shard, keys in excluded.items()}
    places: Counter[str] = Counter()
    holders: dict[str, list[str]] = {}
    for part, names in parts.items():
        for name in names:
            if name not in info.shard_counts:
                yield Problem("unknown-split-shard", f"split part {part!r} names it, and the info file does not", name)
            places[name] += 1
            holders.setdefault(name, []).append(part)
    for name, count in places.items():
        if count > 1:
            yield Problem("shared-shard", f"it stands {count} times in the split: {', '.join(holders[name])}", name)
    for name in info.shard_counts:
        if name not in places and name not in gone:
            yield Problem("unsplit-shard", "the info file lists it, and no part of the split does", name)
    if not any(name in info.shard_counts and name not in gone for name in places):
        yield Problem("empty-split", f"{split_file(root, config)} leaves no shard in any part")


def _longest(entry: str, info: Info) -> str | None:
    """Return the shard that an exclude entry begins with; keys may hold slashes as well as shards."""
    head = entry
    while head and head not in info.shard_counts:
        head = head.rpartition("/")[0]
    return head or None


def _check_dataset_config(root: str, metadata: Metadata, config: str | None, trust: bool) -> Iterator[Problem]:
    place = paths.join(root, f"{META_FOLDER}/{config or 'dataset.yaml'}")
    if not paths.exists(place):
        yield Problem("missing-dataset-config", f"{place} does not exist")
        return
    try:
        read = read_dataset_config(root, config)
        for key, remedy in read.unused.items():
            yield Problem("unused-setting", f"{place} has the key {key!r}: {remedy}")
        make, _ = sample_maker(read, trust, read.subflavors)
    except TrustError as error:
        yield Problem("needs-trust", str(error))
    except DatasetError as error:
        yield Problem("bad-metadata", str(error))
    else:
        metadata.make = None if read.crude else make


def _check_key_table(root: str, info: Info) -> Iterator[Problem]:
    path = paths.join(root, f"{META_FOLDER}/{KEYS_FILE}")
    if not paths.exists(path):  # it is made at the first lookup
        return
    with open(path, "rb") as file:
        footer = read_footer(file.fileno())
    if footer is None:
        yield Problem("stale-key-table", f"{path} is not whole")
    elif footer.get("belongs_to") != belongs_to(root, info):
        yield Problem("stale-key-table", f"{path} was made from another index.sqlite")


def _check_sqlite(root: str, info: Info, metadata: Metadata) -> Iterator[Problem]:
    shards = len(info.shard_counts)
    path = paths.join(root, f"{META_FOLDER}/index.sqlite")
    if not paths.exists(path):
        yield Problem("missing-sqlite", f"{path} does not exist")
        return
    name = paths.join(root, f"{META_FOLDER}/index.uuid")
    try:
        uuid.UUID(paths.read_text(name))
    except (OSError, ValueError) as error:
        yield Problem("bad-uuid", f"{name}: {error}")
    if paths.is_url(path):  # SQLite reads local files only; whoever looks something up copies it first
        return
    try:
        with closing(connect(path)) as connection:
            row = connection.execute(_ROWS_OF_OTHERS, (shards,)).fetchone()
    except sqlite3.Error as error:
        yield Problem("stale-sqlite", f"{path} cannot be read: {error}")
        return
    metadata.sqlite = path
    yield from _check_key_table(root, info)
    if row is not None:
        yield Problem("stale-sqlite", f"{path} has rows of shard number {row[0]}, and there are {shards} shards")
