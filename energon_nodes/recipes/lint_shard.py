"""Check one shard: its members, its samples, and whether the indices agree with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.recipes.lint_index import check_index, check_sqlite
from energon_nodes.recipes.lint_samples import ContentChecks
from energon_nodes.recipes.problems import Problem
from energon_nodes.storage import paths
from energon_nodes.storage.runs import Run, Runs
from energon_nodes.storage.shard_names import is_writable
from energon_nodes.storage.tar import TarError

__all__ = ["MOST_PARTS", "ShardReport", "ShardTask", "check_shard", "hash_of"]

MOST_PARTS = 100
"""More names of parts than this are taken for file names with dots in them."""

_ODD = re.compile(r"[^\w.+-]")
"""What does not stand in a name of a part that somebody chose: `0 (Clean Version).mp3`."""


class ShardTask(NamedTuple):
    """Say what to check in one shard.

    Example:
        >>> ShardTask("/data", 0, "0.tar").samples is None
        True

    Args:
        root: The folder of the dataset.
        number: The number of the shard in the info file.
        name: The shard, relative to the dataset.
        samples: The samples that the info file says it has; None where the dataset was never prepared.
        excluded: The keys that the split excludes.
        sqlite: The path of `index.sqlite`, if it is to be compared.
        content: What checks the content of samples, or None.
        seek: Hashes of keys that come more than once in the dataset, to find their places; None for a whole check.
    """

    root: str
    number: int
    name: str
    samples: int | None = None
    excluded: frozenset[str] = frozenset()
    sqlite: str | None = None
    content: ContentChecks | None = None
    seek: frozenset[int] | None = None


@dataclass(eq=False)
class ShardReport:
    """Hold what the check of one shard found.

    Example:
        >>> ShardReport(0).problems
        []

    Args:
        number: The number of the shard.
        problems: What is wrong.
        hashes: A hash of each key, uint64 of shape `(samples,)`.
        parts: The names of the parts, one more than `MOST_PARTS` at most.
        places: Where the keys with the hashes that were looked for stand: hash, key and byte.
    """

    number: int
    problems: list[Problem] = field(default_factory=list[Problem])
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    parts: set[str] = field(default_factory=set[str])
    places: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])


def hash_of(key: str) -> int:
    """Return a hash of a key that is the same in every process, 64 bits.

    Example:
        >>> hash_of("a") == hash_of("a"), hash_of("a") < 2**64
        (True, True)

    Args:
        key: A key.

    Returns:
        The hash.
    """
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def check_shard(task: ShardTask) -> ShardReport:
    """Check one shard.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        ...     _ = made.write(b"not a tar")
        ...     made.flush()
        ...     report = check_shard(ShardTask("/", 0, made.name.removeprefix("/")))
        >>> [problem.code for problem in report.problems]
        ['damaged-shard']

    Args:
        task: What to check.

    Returns:
        What was found. Errors of any kind stand in it; none is raised for what lies in the shard.
    """
    report = ShardReport(task.number)
    if task.seek is not None:
        _seek(task, task.seek, report)
        return report
    found = report.problems
    if not is_writable(task.name):
        text = "it holds braces, backslashes, control characters or bytes that are no UTF-8"
        found.append(Problem("bad-shard-name", text, task.name))
    runs: list[Run] = []
    seen: dict[str, Run] = {}
    path = paths.join(task.root, task.name)
    walk = Runs(path)
    try:
        for run in walk:
            runs.append(run)
            report.parts.update(part.name for part in run.parts if len(report.parts) <= MOST_PARTS)
            found += _problems_of(run, seen.get(run.key), task.name)
            seen.setdefault(run.key, run)
            if task.content is not None and run.key not in task.excluded:
                found += task.content.problems(task.name, run)
            found += _odd_members(walk, task.name)
    except TarError as error:
        code = "compressed-shard" if "compressed" in error.reason else "damaged-shard"
        found.append(Problem(code, error.reason, task.name, offset=error.offset))
    except FileNotFoundError:
        found.append(Problem("missing-shard", f"{path} does not exist", task.name))
    except OSError as error:
        found.append(Problem("unreadable-shard", f"{path}: {error}", task.name))
    report.hashes = np.array([hash_of(key) for key in seen], np.uint64)
    found += _odd_members(walk, task.name)
    if walk.end is not None:
        _after(task, report, seen, runs, walk.end)
    return report


def _after(task: ShardTask, report: ShardReport, seen: dict[str, Run], runs: list[Run], end: int) -> None:
    """Check what can be checked when the whole shard is known."""
    found = report.problems
    if not runs:
        found.append(Problem("empty-shard", "there is no sample in it", task.name))
    found += [
        Problem("unknown-exclude", f"exclude has {task.name}/{key}, and the shard has no sample of that key", task.name)
        for key in sorted(task.excluded - seen.keys())
    ]
    if task.samples is None:
        return
    if task.samples != len(runs):
        text = f"the info file says {task.samples} samples, the shard has {len(runs)}"
        found.append(Problem("wrong-count", text, task.name))
    found += check_index(task.root, task.name, [*(run.start for run in runs), end])
    if task.sqlite is not None:
        found += check_sqlite(task.sqlite, task.number, task.name, runs, end)


def _odd_members(walk: Runs, shard: str) -> Iterator[Problem]:
    """Report members that no reader reads, once."""
    odd, walk.odd = walk.odd, []
    for member in odd:
        if member.kind == "sparse":
            yield Problem("sparse-member", f"{member.name!r} is stored sparse", shard, offset=member.start)
            continue
        top = member.name.partition("/")[0]
        if len(top) < 4 or not (top.startswith("__") and top.endswith("__")):  # those are meant for no sample
            text = f"{member.name!r} has no key, dot and part"
            yield Problem("ignored-file", text, shard, offset=member.start)


def _problems_of(run: Run, before: Run | None, shard: str) -> Iterator[Problem]:
    names: set[str] = set()
    for part in run.parts:
        if part.name in names:
            text = (
                f"part {part.name!r} stands twice in the sample: reading it is an error here, and Megatron-Energon "
                "keeps the last one in silence"
            )
            yield Problem("repeated-part", text, shard, run.key, part.name, part.offset)
        names.add(part.name)
        if _ODD.search(part.name):
            text = f"the file {run.key}.{part.name} is taken for sample {run.key!r} and part {part.name!r}"
            yield Problem("dotted-part", text, shard, run.key, part.name, part.offset)
    if before is None:
        return
    if names.isdisjoint(part.name for part in before.parts):
        text = f"its other parts stand at byte {before.start}, with other samples in between"
        yield Problem("interleaved-key", text, shard, run.key, offset=run.start)
    else:
        text = f"a sample of that key stands at byte {before.start} of the shard already"
        yield Problem("duplicate-key", text, shard, run.key, offset=run.start)


def _seek(task: ShardTask, wanted: frozenset[int], report: ShardReport) -> None:
    seen: set[str] = set()
    try:
        for run in Runs(paths.join(task.root, task.name)):
            number = hash_of(run.key)
            if number in wanted and run.key not in seen:
                seen.add(run.key)
                report.places.append((number, run.key, run.start))
    except (TarError, OSError):  # reported by the first check
        pass
