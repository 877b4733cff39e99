"""Find the samples to look at, prepared or not, and read no more than these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.lint_metadata import read_split_lists
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import find_shards
from energon_nodes.storage.jsonl_index import RecordScan, scan_records
from energon_nodes.storage.metadata import is_prepared, read_info
from energon_nodes.storage.open_shards import open_shards
from energon_nodes.storage.runs import Part, Run, Runs
from energon_nodes.storage.shard_set import ShardSet
from energon_nodes.storage.tar import TarError

__all__ = ["Glance", "Look", "peek"]


@dataclass(frozen=True)
class Glance:
    """Say where a sample to look at lies.

    Example:
        >>> Glance("/data/0.tar", "0.tar", 0, 0, "a", (Part("txt", 512, 3),)).key
        'a'

    Args:
        path: The path of its shard.
        shard: The shard, relative to the dataset.
        index: Its number, counted from the first one that could be looked at; None where it was found by key.
        offset: Its first byte.
        key: Its key.
        parts: Where its parts lie.
        error: Why it cannot be read.
    """

    path: str
    shard: str
    index: int | None
    offset: int
    key: str
    parts: tuple[Part, ...] = ()
    error: str | None = None

    def read(self, part: Part, most: int) -> bytes:
        """Return the content of a part, or its first `most` bytes."""
        return paths.read_range(self.path, part.offset, part.offset + min(part.size, most))


@dataclass(frozen=True)
class Look:
    """Hold the samples to look at, and how many there are of them.

    Example:
        >>> list(Look("/data", None, None, iter(())).samples)
        []

    Args:
        root: The dataset.
        split: The split part that they come from, if it has parts.
        total: How many samples could be looked at; None where nobody has counted them.
        samples: The samples; nothing is read before they are taken.
    """

    root: str
    split: str | None
    total: int | None
    samples: Iterator[Glance]


def peek(
    path: str,
    *,
    start: int = 0,
    count: int = 5,
    keys: Sequence[str] = (),
    split: str | None = None,
    split_config: str | None = None,
) -> Look:
    """Find samples to look at.

    Example:
        >>> import io, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as archive:
        ...         for name in ("a.txt", "b.txt", "c.txt"):
        ...             archive.addfile(tarfile.TarInfo(name))
        ...     [glance.key for glance in peek(folder, start=1).samples]
        ['b', 'c']

    Args:
        path: A prepared dataset, a folder of tars, a tar, a pattern, a `.jsonl` file, or a URL of these.
        start: How many are passed over.
        count: How many are found at most.
        keys: Find these instead, wherever they are in the split.
        split: The split part of a prepared dataset; None takes "train", or else the first one with shards.
        split_config: The split file in `.nv-meta`.

    Returns:
        Where they lie.

    Raises:
        DatasetError: There is no dataset, no such split, or no sample of one of the keys.
    """
    text = paths.folder(path)
    if text.endswith(".jsonl"):
        if not paths.exists(text):
            raise DatasetError(f"{text} does not exist; correct the path")
        found = _chosen(_of_lines(text), start, count, keys, text)
        return Look(text, None, None, found)
    if not is_prepared(text):
        if split is not None or split_config is not None:
            raise DatasetError(f"{text} was never prepared, so it has no splits: leave out --split and --split-config")
        shards = find_shards(path)
        return Look(text, None, None, _chosen(_of_tars(shards.root, shards.names), start, count, keys, text))
    if split is None:
        split = _first_split(text, split_config)
    opened = open_shards(text, split=split, split_config=split_config)
    return Look(text, split, opened.count, _of_prepared(text, opened, start, count, keys, split))


def _first_split(root: str, config: str | None) -> str:
    lists = read_split_lists(root, config)[0]
    known = read_info(root).shard_counts
    filled = [part for part, names in lists.items() if any(name in known for name in names)]
    return "train" if "train" in filled or not filled else filled[0]


def _of_prepared(
    root: str, shards: ShardSet, start: int, count: int, keys: Sequence[str], split: str
) -> Iterator[Glance]:
    indices = range(start, min(start + count, shards.count))
    wanted: Sequence[int] = indices
    if keys:
        wanted = shards.find_many(keys).tolist()
        missing = [key for key, index in zip(keys, wanted, strict=True) if index < 0]
        if missing:
            raise _no_such_key(missing, f"split part {split!r} of {root}")
    for index in wanted:
        place = shards.locate(index)
        file = paths.join(root, place.shard)
        yield _first(file, place.shard, index, place.offset)


def _first(path: str, shard: str, index: int, offset: int) -> Glance:
    """Return the sample that begins at a byte."""
    try:
        run = next(iter(Runs(path, offset)), None)
    except (TarError, OSError) as error:
        reason = error.reason if isinstance(error, TarError) else str(error)
        return Glance(path, shard, index, offset, "", (), f"it cannot be read: {reason} (see lint)")
    if run is None:
        return Glance(path, shard, index, offset, "", (), "there is no sample: the index is out of step (see lint)")
    return _of_run(path, shard, index, run)


def _of_run(path: str, shard: str, index: int, run: Run) -> Glance:
    parts = {part.name: part for part in run.parts}
    error = None
    if len(parts) < len(run.parts):
        seen: set[str] = set()
        twice = next(part.name for part in run.parts if part.name in seen or seen.add(part.name))
        error = f"it cannot be read: the part {twice!r} stands twice in it (see lint)"
    return Glance(path, shard, index, run.start, run.key, tuple(parts.values()), error)


def _of_tars(root: str, names: Sequence[str]) -> Iterator[Glance]:
    index = 0
    for name in names:
        path = paths.join(root, name)
        try:
            for run in Runs(path):
                yield _of_run(path, name, index, run)
                index += 1
        except TarError as error:
            text = f"the rest of the shard cannot be read: {error.reason} (see lint)"
            yield Glance(path, name, index, error.offset, "", (), text)
            index += 1


def _of_lines(path: str) -> Iterator[Glance]:
    begin, index = 0, -1
    name = path.rpartition("/")[2]
    for entries in scan_records(path, RecordScan()):
        for entry in entries.tolist():
            if index >= 0:
                yield Glance(path, name, index, begin, str(index), (Part("json", begin, entry - begin),))
            begin, index = entry, index + 1


def _chosen(found: Iterator[Glance], start: int, count: int, keys: Sequence[str], where: str) -> Iterator[Glance]:
    if not keys:
        yield from islice(found, start, start + count)
        return
    left = list(keys)
    for glance in found:
        if glance.key in left and (glance.error is None or glance.parts):
            left.remove(glance.key)
            yield glance
            if not left:
                return
    raise _no_such_key(left, where)


def _no_such_key(keys: Sequence[str], where: str) -> DatasetError:
    return DatasetError(f"{where} has no sample with the key {', '.join(map(repr, keys))}; keys are shown by preview")
