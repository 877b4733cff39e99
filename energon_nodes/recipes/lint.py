"""`lint`: check a dataset from end to end and list everything that is wrong."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import DatasetError, WorkerError
from energon_nodes.recipes.key_hashes import KeyHashes
from energon_nodes.recipes.lint_lines import check_lines
from energon_nodes.recipes.lint_metadata import Metadata, check_metadata
from energon_nodes.recipes.lint_samples import ContentChecks
from energon_nodes.recipes.lint_shard import MOST_PARTS, ShardReport, ShardTask, check_shard
from energon_nodes.recipes.problems import Problem
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import PathLike, find_shards
from energon_nodes.storage.metadata import is_prepared
from energon_nodes.storage.subprocesses import Subprocesses

__all__ = ["find_problems", "lint"]

_ONCE = ("needs-trust", "missing-package")
_ALONE = 32 << 20
"""Less data than this is checked in this process: starting another one would take longer."""


def lint(
    path: PathLike,
    *,
    decode: bool = True,
    trust: bool = False,
    dataset_config: str | None = None,
    split_config: str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> list[Problem]:
    """Check a dataset and return everything that is wrong with it.

    Prepared datasets, tars that were never prepared, and JSON lines files are checked: the tar format, keys and parts,
    the indices and the metadata against the data, the fields of typed samples, and whether every part can be decoded.
    Nothing is changed.

    Example:
        >>> import energon_nodes as en, io, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as archive:
        ...         for name in ("a.jpg", "a.json", "b.json", "a.txt"):
        ...             member = tarfile.TarInfo(name)
        ...             member.size = 2
        ...             archive.addfile(member, io.BytesIO(b"{}"))
        ...     for problem in en.lint(folder):
        ...         print(problem.code, problem.shard, problem.key, problem.offset)
        undecodable-part 0.tar a 512
        interleaved-key 0.tar a 3072

    Args:
        path: A prepared dataset, a folder of tars, a tar, a pattern, a `.jsonl` file, or a URL of these.
        decode: Whether every part is read and decoded; without it only headers are read.
        trust: Run Python that lies beside the data, and load pickled parts.
        dataset_config: The dataset file in `.nv-meta`; by default `dataset.yaml`.
        split_config: The split file in `.nv-meta`; by default `split.yaml`, or `split.json`.
        workers: How many processes check shards, or threads where code of the user is needed; None takes one for each
            core, and this process alone for little data.
        progress: Whether a bar shows how far it is; None shows one in a terminal.

    Returns:
        The problems: of the metadata, of the shards in their order, and keys that stand in several shards.

    Raises:
        DatasetError: There is no dataset.
        WorkerError: A worker process died.
        ValueError: A setting is out of its range.
    """
    return list(
        find_problems(
            path,
            decode=decode,
            trust=trust,
            dataset_config=dataset_config,
            split_config=split_config,
            workers=workers,
            progress=progress,
        )
    )


def find_problems(
    path: PathLike,
    *,
    decode: bool = True,
    trust: bool = False,
    dataset_config: str | None = None,
    split_config: str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Iterator[Problem]:
    """Check a dataset and give what is wrong as it is found; arguments and errors are those of `lint`.

    Memory does not grow with the dataset: a few shards are in work at a time, and hashes of the keys lie on disk.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     next(find_problems(folder))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: no shards (*.tar) in the folder ...

    Yields:
        The problems.
    """
    if workers is not None:
        check_size("lint", "workers", workers, 1)
    text = paths.folder(path)
    if text.endswith(".jsonl"):
        if not paths.exists(text):
            raise DatasetError(f"{text} does not exist; correct the path")
        yield from check_lines(text)
        return
    metadata = Metadata()
    prepared = is_prepared(text)
    if prepared:
        yield from check_metadata(text, metadata, dataset_config, split_config, trust)
        root, names = text, tuple(metadata.counts)
    else:
        if dataset_config is not None or split_config is not None:
            raise DatasetError(f"{text} was never prepared, so it has no dataset_config and no split_config")
        root, names = find_shards(path)
    content = ContentChecks(root, trust, metadata.make) if decode else None
    excluded = metadata.excluded
    tasks = [
        ShardTask(
            root,
            number,
            name,
            metadata.counts.get(name) if prepared else None,
            excluded.get(name, frozenset()),
            metadata.sqlite,
            content,
        )
        for number, name in enumerate(names)
    ]
    yield from _check_shards(tasks, workers, progress)


def _check_shards(tasks: Sequence[ShardTask], workers: int | None, progress: bool | None) -> Iterator[Problem]:
    sizes = [_size(task) for task in tasks]
    told: set[tuple[str, str | None]] = set()
    parts: set[str] = set()
    with _Work(workers, tasks, sum(sizes)) as work, KeyHashes() as hashes:
        for report in _shown(work.each(tasks), sizes, "checking", progress):
            hashes.add(report.number, report.hashes)
            parts |= report.parts if len(parts) <= MOST_PARTS else set()
            for problem in report.problems:
                if problem.code in _ONCE:
                    if (problem.code, problem.part) in told:
                        continue
                    told.add((problem.code, problem.part))
                yield problem
        if len(parts) > MOST_PARTS:
            some = ", ".join(repr(name) for name in sorted(parts)[:5])
            yield Problem("many-parts", f"there are more than {MOST_PARTS} different names of parts, such as {some}")
        yield from _across_shards(tasks, sizes, hashes, work, progress)


def _across_shards(
    tasks: Sequence[ShardTask], sizes: Sequence[int], hashes: KeyHashes, work: _Work, progress: bool | None
) -> Iterator[Problem]:
    """Report keys that stand in several shards: look again at those shards for where they are."""
    wanted: dict[int, set[int]] = {}
    for value, shards in hashes.repeated():
        for shard in shards:
            wanted.setdefault(shard, set()).add(value)
    chosen = [tasks[number]._replace(seek=frozenset(values)) for number, values in sorted(wanted.items())]
    first: dict[str, tuple[str, int]] = {}
    again = [sizes[task.number] for task in chosen]
    for task, report in zip(chosen, _shown(work.each(chosen), again, "comparing keys", progress), strict=True):
        for _, key, offset in report.places:
            if key not in first:
                first[key] = (task.name, offset)
                continue
            shard, place = first[key]
            text = f"a sample of that key stands in shard {shard!r} at byte {place} already"
            yield Problem("duplicate-key", text, task.name, key, offset=offset)


class _Work:
    """Check shards in this process or in others, a few at a time, in order."""

    def __init__(self, workers: int | None, tasks: Sequence[ShardTask], size: int) -> None:
        if workers is None:
            workers = 1 if size < _ALONE else len(os.sched_getaffinity(0))
        self._workers = min(workers, len(tasks))
        self._pool: Executor | None = None
        if self._workers > 1:
            self._pool = (Subprocesses if _goes_to_processes(tasks[0]) else ThreadPoolExecutor)(self._workers)

    def __enter__(self) -> _Work:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def each(self, tasks: Iterable[ShardTask]) -> Iterator[ShardReport]:
        if self._pool is None:
            yield from map(check_shard, tasks)
            return
        left = iter(tasks)
        running: deque[tuple[ShardTask, Future[ShardReport]]] = deque()
        while True:
            for task in islice(left, 2 * self._workers - len(running)):
                running.append((task, self._pool.submit(check_shard, task)))
            if not running:
                return
            task, report = running.popleft()
            try:
                yield report.result()
            except WorkerError as error:
                error.add_note(f"while checking shard {task.name!r}")
                raise


def _goes_to_processes(task: ShardTask) -> bool:
    """Return whether the quick processes, which know this library and nothing of the user's, can do a task."""
    if task.root.startswith("memory://"):  # of this process, where no other one sees it
        return False
    return task.content is None or (not task.content.trust and task.content.is_own)


def _shown(reports: Iterator[ShardReport], sizes: Sequence[int], what: str, progress: bool | None) -> Any:
    from tqdm import tqdm  # not needed by those who never check

    disable = None if progress is None else not progress
    with tqdm(total=sum(sizes), desc=what, unit="B", unit_scale=True, disable=disable, leave=False) as bar:
        for report, size in zip(reports, sizes, strict=True):
            yield report
            bar.update(size)


def _size(task: ShardTask) -> int:
    try:
        return paths.size(paths.join(task.root, task.name))
    except OSError:  # the check of the shard reports it
        return 0
