"""What preparing a dataset will do: which shards, in which parts, with which dataset file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed
from energon_nodes.recipes.prepare_fields import try_fields
from energon_nodes.recipes.prepare_types import SampleFile, sample_file
from energon_nodes.samples.media import MediaFilter
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import find_shards
from energon_nodes.storage.metadata import META_FOLDER, Info, is_prepared, read_info, split_file
from energon_nodes.storage.prepared_record import Record, read_record
from energon_nodes.storage.shard_names import check_shard_names, nearest_shards
from energon_nodes.storage.splits import FromFile, Ratios, Rule, Split, read_lists

__all__ = ["Plan", "plan_indices", "plan_shards"]

_THREADS = 16


@dataclass
class Plan:
    """Hold what is to be done.

    Args:
        root: The folder or URL of the dataset.
        versions: The shards, with the size and time of change of each.
        split: The split; None where the one that is there stays untouched.
        rule: How new shards will be divided, as far as it is known.
        exclude: The patterns of shards that are left out.
        sample_file: The dataset file to write, if any.
        old: What the info file said before.
        record: What an earlier run remembered.
        update: Whether shards that did not change need not be indexed again.
        media: Which files are media that are looked at.
        warnings: What may not be meant so.

    Example:
        >>> Plan("/data", {"0.tar": (10240, 7)}).names
        ['0.tar']
    """

    root: str
    versions: dict[str, tuple[int, int]]
    split: Split | None = None
    rule: Rule | None = None
    exclude: tuple[str, ...] = ()
    sample_file: SampleFile | None = None
    old: Info | None = None
    record: Record | None = None
    update: bool = False
    media: MediaFilter | None = None
    warnings: list[str] = field(default_factory=list[str])

    @property
    def names(self) -> list[str]:
        """The shards, in the order of the info file."""
        return list(self.versions)

    @property
    def sizes(self) -> list[int]:
        """The bytes of each shard."""
        return [size for size, _ in self.versions.values()]


def plan_indices(root: str) -> Plan:
    """Plan to make the indices of a prepared dataset anew, and to leave everything else as it is.

    Example:
        >>> plan_indices("memory://nothing/here")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: memory://nothing/here is not a prepared dataset: ...

    Args:
        root: The folder or URL of the dataset.

    Raises:
        DatasetError: It was never prepared, or a shard does not exist.
    """
    info, record = read_info(root), read_record(root)
    versions = _versions(root, list(info.shard_counts))
    rule, exclude = (None, ()) if record is None else (record.rule, record.exclude)
    return Plan(root, versions, None, rule, exclude, None, info, record)


def plan_shards(
    root: str,
    rule: Rule | None,
    exclude: Iterable[str],
    shuffle: bool,
    seed: int,
    sample_type: Any,
    sample: Mapping[str, Any],
    dataset_yaml: str,
    update: bool,
    overwrite: bool = False,
) -> Plan:
    """Plan to prepare all shards of a folder.

    Example:
        >>> plan_shards("memory://nothing/here", None, (), False, 42, None, {}, "dataset.yaml", False)
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: memory://nothing/here does not exist

    Args:
        root: The folder or URL of the dataset.
        rule: How to divide the shards, or None.
        exclude: Regular expressions; a shard is left out if one fits anywhere in its name.
        shuffle: Whether shards are mixed before they are divided.
        seed: The seed for this.
        sample_type: What the samples are, or None.
        sample: The other arguments of `sample_file`.
        dataset_yaml: The name of the dataset file.
        update: Whether what an earlier run was told still holds.
        overwrite: Whether a split file of a folder that was never prepared may be replaced if it fits no longer.

    Raises:
        DatasetError: Nothing is there, or the settings do not fit what is there.
        ValueError: A setting is wrong.
    """
    if not paths.is_dir(root):
        raise DatasetError(f"{root} {'is no folder' if paths.exists(root) else 'does not exist'}")
    old = read_info(root) if is_prepared(root) else None
    record = None if old is None else read_record(root)
    patterns = tuple(exclude)
    if update and record is not None and not patterns:
        patterns = record.exclude
    found = list(find_shards(root).names)
    plan = Plan(root, {}, None, rule, patterns, None, old, record, update)
    names = _without(found, patterns, plan.warnings)
    check_shard_names(names)
    mixed = list(names)
    if shuffle:
        Random(seed).shuffle(mixed)
    if rule is None and old is None and paths.exists(split_file(root)):
        plan.split = _split_of_others(plan, mixed, found, overwrite)
    else:
        plan.split = _split_of(plan, mixed, rule)
    config = paths.join(root, f"{META_FOLDER}/{dataset_yaml}")
    if sample_type is not None:
        plan.sample_file = sample_file(root, sample_type, **sample)
    elif not paths.exists(config):
        plan.sample_file = sample_file(root, "crude", **sample)
    elif any(value is not None for value in sample.values()):
        given = listed([name for name, value in sample.items() if value is not None])
        raise ValueError(f"{config} exists and would be kept, so {given} would do nothing: give the sample_type too")
    plan.versions = _versions(root, names)
    if plan.sample_file is not None:
        plan.warnings += try_fields(root, names, plan.sample_file)
    return plan


def _without(names: Sequence[str], patterns: Iterable[str], warnings: list[str]) -> list[str]:
    left = list(names)
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"exclude={pattern!r} is no regular expression ({error})") from None
        if not any(compiled.search(name) for name in names):
            warnings.append(f"exclude={pattern!r} fits no shard{nearest_shards([pattern], names)}")
        left = [name for name in left if not compiled.search(name)]
    if not left:
        raise DatasetError(f"exclude leaves no shard: {listed(patterns)} fit all of {listed(names)}")
    return left


def _split_of(plan: Plan, names: Sequence[str], rule: Rule | None) -> Split:
    if rule is None:
        return _kept_split(plan, names)
    split = rule.divide(names)
    place = split_file(plan.root)
    if plan.old is None and paths.exists(place) and _differs(place, split):
        plan.warnings.append(f"{place}, which was there before the dataset was prepared, is replaced")
    if isinstance(rule, Ratios):
        shares = {part: float(ratio) for part, ratio in rule.ratios.items()}
        plan.warnings += [
            f"split part {part!r} got no shard: {len(names)} are too few for a share of {shares[part]:g}"
            for part, shards in split.parts.items()
            if not shards and shares[part]
        ]
    _warn_of_places(plan, split, names)
    return split


def _differs(place: str, split: Split) -> bool:
    try:
        return read_lists(place) != split
    except DatasetError:
        return True


def _warn_of_places(plan: Plan, split: Split, names: Sequence[str]) -> None:
    """Warn of shards that are in no part of the split, and of those that are in several."""
    left_over = set(names).difference(*split.parts.values())
    if left_over:
        plan.warnings.append(
            f"{len(left_over)} of {len(names)} shards are in no part of the split: {listed(sorted(left_over)[:5])}"
        )
    holders: dict[str, list[str]] = {}
    for part, shards in split.parts.items():
        for shard in shards:
            holders.setdefault(shard, []).append(part)
    shared: dict[tuple[str, ...], list[str]] = {}
    for shard, parts in holders.items():
        if len(parts) > 1:
            shared.setdefault(tuple(parts), []).append(shard)
    for parts, shards in shared.items():
        which = f"{len(shards)} shards are" if len(shards) > 1 else "a shard is"
        more = f" and {len(shards) - 5} more" if len(shards) > 5 else ""
        plan.warnings.append(
            f"{which} in several parts of the split ({' and '.join(map(repr, parts))}), so the samples of one part "
            f"leak into the other: {', '.join(map(repr, shards[:5]))}{more}"
        )


def _split_of_others(plan: Plan, names: Sequence[str], found: Sequence[str], overwrite: bool) -> Split:
    """Return the split of a file that lies in a folder that was never prepared: somebody wrote it by hand."""
    place = split_file(plan.root)
    try:
        there = read_lists(place)
        gone = sorted({name for shards in there.parts.values() for name in shards} - set(found))
        problem = f"{place} names the shards {listed(gone[:5])}, which do not exist" if gone else ""
        if not problem and not any(there.parts.values()):
            problem = f"{place} has no shard in any part"
    except DatasetError as error:
        there, problem = Split({}), str(error)
    if problem and overwrite:
        plan.warnings.append(f"{problem}; it is replaced, and all shards are put into 'train'")
        return _kept_split(plan, names)
    if problem:
        raise DatasetError(
            f"{problem}. The file was there before the dataset was prepared, so it is not replaced unasked: correct "
            "or remove it, say split= to divide the shards in another way, or overwrite=True to replace it"
        )
    known = set(names)
    parts = {part: [name for name in shards if name in known] for part, shards in there.parts.items()}
    split = Split(parts, there.exclude)
    plan.warnings.append(f"the split of {place}, which was there before the dataset was prepared, is kept")
    _warn_of_places(plan, split, [name for name in names if name not in there.exclude])
    return split


def _kept_split(plan: Plan, names: Sequence[str]) -> Split:
    """Return the split that is there, without shards that are gone, and with those that are new."""
    place = split_file(plan.root)
    if plan.old is None or not paths.exists(place):  # one of a folder that was never prepared is looked at before
        plan.rule = Ratios({"train": 1, "val": 0, "test": 0})
        return plan.rule.divide(names)
    before, known = read_lists(place), set(names)
    gone = {name for shards in before.parts.values() for name in shards} - known
    kept = Split(
        {part: [name for name in shards if name in known] for part, shards in before.parts.items()},
        tuple(entry for entry in before.exclude if not _is_of(entry, gone)),
    )
    if plan.record is not None:
        plan.rule = plan.record.rule
    # The info file of a run that was killed lists shards that no split knows yet.
    seen = plan.old.shard_counts if plan.record is None else plan.record.shards
    inside = {name for shards in kept.parts.values() for name in shards}
    new = [name for name in names if name not in seen and name not in inside]
    if not new:
        return kept
    if plan.rule is None or isinstance(plan.rule, FromFile):
        part = next(iter(kept.parts), "train")
        plan.warnings.append(f"{len(new)} new shards were put into the split part {part!r}: say split= for another")
        return Ratios({part: 1}).extend(kept, new)
    return plan.rule.extend(kept, new)


def _is_of(entry: str, shards: set[str]) -> bool:
    return entry in shards or any(entry.startswith(f"{shard}/") for shard in shards)


def _versions(root: str, names: list[str]) -> dict[str, tuple[int, int]]:
    files = [paths.join(root, name) for name in names]
    try:
        if paths.is_url(root):
            with ThreadPoolExecutor(_THREADS, "energon_nodes-look") as pool:
                return dict(zip(names, pool.map(paths.identity, files), strict=True))
        return {name: paths.identity(file) for name, file in zip(names, files, strict=True)}
    except FileNotFoundError as error:
        raise DatasetError(f"a shard does not exist: {error}; bring it back, or prepare the dataset again") from None
