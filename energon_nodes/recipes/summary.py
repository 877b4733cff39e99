"""What is in a dataset: counts, sizes, splits, the type of its samples, and how many samples have each part."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.lint_index import connect
from energon_nodes.recipes.lint_metadata import read_split_lists
from energon_nodes.storage import paths
from energon_nodes.storage.dataset_config import read_dataset_config
from energon_nodes.storage.discovery import PathLike, find_shards
from energon_nodes.storage.jsonl_index import RecordScan, scan_records
from energon_nodes.storage.metadata import META_FOLDER, is_prepared, read_info
from energon_nodes.storage.runs import Runs
from energon_nodes.storage.tar import TarError

__all__ = ["PartSummary", "SplitSummary", "Summary", "summarize"]

_PARTS = (
    "SELECT part_name, count(*), sum(size) FROM (SELECT part_name, sum(content_byte_size) AS size FROM sample_parts "
    "GROUP BY tar_file_id, sample_index, part_name) GROUP BY part_name"
)
_MOST_PARTS = 1000


@dataclass
class SplitSummary:
    """Count what is in one part of a split.

    Example:
        >>> SplitSummary(8, 80, 81920, 80.0).percent
        80.0

    Args:
        shards: The shards, excluded ones left out.
        samples: The samples of these shards.
        bytes: The bytes of these shards.
        percent: The share of all samples, from 0 to 100.
        excluded_shards: Shards of the part that the split excludes.
        excluded_samples: Samples that the split excludes by key; they count in `samples`, as in lengths.
    """

    shards: int
    samples: int
    bytes: int
    percent: float
    excluded_shards: int = 0
    excluded_samples: int = 0


@dataclass
class PartSummary:
    """Count the samples that have a part.

    Example:
        >>> PartSummary(4, 100.0, 400, 100.0).mean_bytes
        100.0

    Args:
        samples: How many samples have it.
        percent: Their share of all samples, from 0 to 100.
        bytes: Its bytes in all of them.
        mean_bytes: Its bytes for a sample that has it.
    """

    samples: int
    percent: float
    bytes: int
    mean_bytes: float


@dataclass
class Summary:
    """Say what is in a dataset.

    Example:
        >>> Summary("/data/coco", "prepared", 4, 40, 81920).as_dict()["kind"]
        'prepared'

    Args:
        path: The dataset.
        kind: "prepared", "tars" that were never prepared, or "jsonl".
        shards: How many shards it has.
        samples: How many samples.
        bytes: The bytes of the shards.
        energon_version: What prepared it.
        sample_type: The type of the samples, or "crude"; None where no dataset file says it.
        field_map: The access for each field, if the dataset file has a map.
        sample_loader: The file and function beside the data that make the samples, if it has one.
        subflavors: What the dataset file says about all samples.
        splits: The parts of the split, by name.
        unsplit_shards: Shards that are in no part of the split.
        parts: The parts of samples, by name, the most frequent first; None if they were not asked for.
        media: How many entries of media metadata there are.
        indexed: Whether samples can be looked up by key (`index.sqlite`); for JSON lines whether there is an index.
        warnings: What could not be read, or is odd.
    """

    path: str
    kind: Literal["prepared", "tars", "jsonl"]
    shards: int
    samples: int
    bytes: int
    energon_version: str | None = None
    sample_type: str | None = None
    field_map: dict[str, str] | None = None
    sample_loader: str | None = None
    subflavors: dict[str, Any] = field(default_factory=dict[str, Any])
    splits: dict[str, SplitSummary] = field(default_factory=dict[str, SplitSummary])
    unsplit_shards: int = 0
    parts: dict[str, PartSummary] | None = None
    media: int = 0
    indexed: bool = False
    warnings: list[str] = field(default_factory=list[str])

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, with the keys of the arguments."""
        return asdict(self)


def summarize(
    path: PathLike,
    *,
    parts: bool = True,
    dataset_config: str | None = None,
    split_config: str | None = None,
    progress: bool | None = None,
) -> Summary:
    """Look through a dataset and say what is in it.

    Counts and parts come from the metadata where they are there (`.info.json`, `index.sqlite`), else from the headers
    of all shards.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as archive:
        ...         for name in ("a.txt", "a.cls", "b.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     found = summarize(folder)
        >>> found.kind, found.samples, {name: part.samples for name, part in found.parts.items()}
        ('tars', 2, {'txt': 2, 'cls': 1})

    Args:
        path: A prepared dataset, a folder of tars, a tar, a pattern, a `.jsonl` file, or a URL of these.
        parts: Whether parts are counted; that may mean reading the headers of all shards.
        dataset_config: The dataset file in `.nv-meta`; by default `dataset.yaml`.
        split_config: The split file in `.nv-meta`; by default `split.yaml`, or `split.json`.
        progress: Whether a bar shows how far it is, where headers are read; None shows one in a terminal.

    Returns:
        The summary.

    Raises:
        DatasetError: There is no dataset, or its info file cannot be used.
        OSError: A store cannot be reached.
    """
    text = paths.folder(path)
    if text.endswith(".jsonl"):
        return _of_lines(text)
    if is_prepared(text):
        return _of_prepared(text, parts, dataset_config, split_config, progress)
    if dataset_config is not None or split_config is not None:
        raise DatasetError(f"{text} was never prepared, so it has no dataset_config and no split_config")
    found = find_shards(path)
    summary = Summary(text, "tars", len(found.names), 0, 0)
    counts, sizes = _read_headers(found.root, found.names, summary, progress)
    summary.samples, summary.bytes = sum(counts.values()), sum(sizes.values())
    if not parts:
        summary.parts = None
    return summary


def _of_lines(path: str) -> Summary:
    if not paths.exists(path):
        raise DatasetError(f"{path} does not exist; correct the path")
    scan = RecordScan()
    for _ in scan_records(path, scan):
        pass
    size = paths.size(path)
    summary = Summary(path, "jsonl", 1, scan.records, size, sample_type="crude")
    summary.indexed = paths.exists(f"{path}.idx")
    summary.parts = {"json": _part(scan.records, size, scan.records)} if scan.records else {}
    if scan.odd_count:
        summary.warnings.append(
            f"{scan.odd_count} lines are no JSON objects, the first one is line {scan.odd[0].line}: see lint"
        )
    return summary


def _of_prepared(
    root: str, parts: bool, dataset_config: str | None, split_config: str | None, progress: bool | None
) -> Summary:
    info = read_info(root)
    counts = info.shard_counts
    summary = Summary(root, "prepared", len(counts), sum(counts.values()), 0, info.energon_version)
    sizes: dict[str, int] = {}
    for name in counts:
        try:
            sizes[name] = paths.size(paths.join(root, name))
        except OSError:
            summary.warnings.append(f"shard {name!r} does not exist or cannot be reached")
    summary.bytes = sum(sizes.values())
    _add_config(summary, root, dataset_config)
    _add_splits(summary, root, counts, sizes, split_config)
    path = paths.join(root, f"{META_FOLDER}/index.sqlite")
    summary.indexed = paths.exists(path)
    if summary.indexed and not paths.is_url(path):
        _read_sqlite(summary, path, parts)
    if parts and summary.parts is None:
        read, _ = _read_headers(root, [name for name in counts if name in sizes], summary, progress)
        wrong = [name for name, count in read.items() if count != counts[name]]
        if wrong:
            summary.warnings.append(f"{len(wrong)} shards have other counts than the info file says: see lint")
    return summary


def _add_config(summary: Summary, root: str, name: str | None) -> None:
    try:
        config = read_dataset_config(root, name)
    except DatasetError as error:
        summary.warnings.append(str(error))
        return
    summary.sample_type = "crude" if config.crude else str(config.sample_type)
    summary.field_map = config.field_map
    if config.sample_loader is not None:
        summary.sample_loader = f"{paths.relative(config.sample_loader.path, root)}:{config.sample_loader.name}"
    summary.subflavors = config.subflavors


def _add_splits(
    summary: Summary, root: str, counts: Mapping[str, int], sizes: Mapping[str, int], config: str | None
) -> None:
    try:
        lists, exclude = read_split_lists(root, config)
    except DatasetError as error:
        summary.warnings.append(str(error))
        return
    gone = {entry for entry in exclude if entry in counts}
    total = sum(counts.values()) or 1
    for part, names in lists.items():
        kept = [name for name in names if name in counts and name not in gone]
        samples = sum(counts[name] for name in kept)
        summary.splits[part] = SplitSummary(
            len(kept),
            samples,
            sum(sizes.get(name, 0) for name in kept),
            round(100 * samples / total, 3),
            sum(name in gone for name in names),
            sum(any(entry.startswith(f"{name}/") for name in kept) for entry in exclude if entry not in gone),
        )
    placed = {name for names in lists.values() for name in names}
    summary.unsplit_shards = sum(name not in placed for name in counts)


def _read_sqlite(summary: Summary, path: str, parts: bool) -> None:
    try:
        with closing(connect(path)) as connection:
            tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
            if "media_metadata" in tables:
                summary.media = int(connection.execute("SELECT count(*) FROM media_metadata").fetchone()[0])
            if parts and "sample_parts" in tables:
                rows = connection.execute(_PARTS).fetchmany(_MOST_PARTS + 1)
                summary.parts = _sorted({str(name): (int(count), int(size)) for name, count, size in rows}, summary)
    except sqlite3.Error as error:
        summary.parts = None
        summary.warnings.append(f"{path} cannot be read ({error}): see lint")


def _read_headers(
    root: str, names: Any, summary: Summary, progress: bool | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Count the samples of shards, and their parts into the summary; return samples and bytes by shard."""
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    repeated = 0
    for name in _shown(names, progress):
        path = paths.join(root, name)
        sizes[name], counts[name] = paths.size(path), 0
        try:
            for run in Runs(path):
                counts[name] += 1
                last = {part.name: part.size for part in run.parts}
                repeated += len(last) < len(run.parts)
                for part, size in last.items():
                    before = found.get(part, (0, 0))
                    if part in found or len(found) <= _MOST_PARTS:
                        found[part] = (before[0] + 1, before[1] + size)
        except TarError as error:
            summary.warnings.append(f"shard {name!r} at byte {error.offset}: {error.reason}")
    if repeated:
        summary.warnings.append(f"{repeated:,} samples have the same part twice and cannot be read: see lint")
    summary.parts = _sorted(found, summary, sum(counts.values()))
    return counts, sizes


def _sorted(
    found: Mapping[str, tuple[int, int]], summary: Summary, samples: int | None = None
) -> dict[str, PartSummary]:
    if len(found) > _MOST_PARTS:
        summary.warnings.append(f"there are more than {_MOST_PARTS} names of parts; not all of them are counted")
    total = summary.samples if samples is None else samples
    order = sorted(found, key=lambda name: (-found[name][0], name))
    return {name: _part(*found[name], total) for name in order[:_MOST_PARTS]}


def _part(samples: int, size: int, total: int) -> PartSummary:
    return PartSummary(samples, round(100 * samples / (total or 1), 3), size, round(size / (samples or 1), 3))


def _shown(names: Any, progress: bool | None) -> Iterator[str]:
    from tqdm import tqdm

    yield from tqdm(names, desc="reading headers", unit=" shards", disable=None if progress is None else not progress)
