"""`prepare_media`: store what pictures, audio and video are like, for lookup by name."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from urllib.parse import quote

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed
from energon_nodes.samples.media import MediaFilter, MediaRows, media_rows
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.key_files import local_copy
from energon_nodes.storage.key_table import belongs_to, retie_key_table
from energon_nodes.storage.media_table import add_media
from energon_nodes.storage.metadata import META_FOLDER, is_prepared, read_info
from energon_nodes.storage.placing import preparing
from energon_nodes.storage.subprocesses import Subprocesses
from energon_nodes.storage.writing import replacing

__all__ = ["PreparedMedia", "media_task", "prepare_media"]

_TOGETHER = 500  # files in one call
_FEW = 2000  # files that are looked at here: other processes would hardly have started
_OUTSTANDING = 64  # calls on their way to an executor that does not say how many workers it has
_NAMED = 20
_log = logging.getLogger("energon_nodes.recipes")

Member = tuple[str, int, int]
Task = list[tuple[str, list[Member]]]


@dataclass(frozen=True)
class PreparedMedia:
    """Say what `prepare_media` found.

    Example:
        >>> print(PreparedMedia("/data", 3, 2, 1))
        /data: metadata of 2 pictures and 1 audio or video files

    Args:
        path: The dataset or folder.
        files: How many files were looked at.
        images: How many pictures there are metadata of.
        av: How many audio and video files.
        unreadable: How many could not be read.
        problems: What was wrong, of at most 20 of these.
    """

    path: str
    files: int
    images: int
    av: int
    unreadable: int = 0
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.path}: metadata of {self.images:,} pictures and {self.av:,} audio or video files"
        return f"{text}; {self.unreadable:,} could not be read" if self.unreadable else text


def prepare_media(
    path: PathLike,
    *,
    media: str = "extension",
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> PreparedMedia:
    """Store width, height and format of pictures, and length and rate of audio and video, for `Store.media`.

    For a prepared dataset the entries are added to its `index.sqlite`. A plain folder gets a `.nv-meta/index.sqlite`
    with nothing else in it. Megatron-Energon reads both. The file is replaced as a whole at the end: an abort leaves
    the old one.

    Example:
        >>> import energon_nodes as en, tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (4, 3)).save(f"{folder}/a.png")
        ...     print(en.prepare_media(folder).images, en.store(folder).media("a.png"))
        1 {'width': 4, 'height': 3, 'format': 'PNG', 'mode': 'RGB'}

    Args:
        path: A prepared dataset, or a folder of files; a path or URL.
        media: Which files are looked at: "extension" those whose names end as those of media do
            (`PICTURE_EXTENSIONS`, `AV_EXTENSIONS`), "header" all that begin as media do or are named so, and
            "glob:*.jpg,thumbs/*" those that one of the patterns fits.
        workers: The number of processes; None for one per core, and none at all for a few files.
        executor: Where files are looked at: any `concurrent.futures.Executor`, whose workers need this library and the
            files under the same path.
        progress: Show a bar; None shows it in a terminal.

    Returns:
        What was found. Files that cannot be read are counted and named there, and in a logged warning.

    Raises:
        DatasetError: There is no such dataset or folder, or no file in it that is asked for.
        FatalSampleError: Audio or video is there, and the extra `av` is not installed.
        ValueError: A setting is wrong.
        OSError: The index cannot be written.
    """
    wanted = MediaFilter.parse(media)
    if workers is not None:
        check_size("prepare_media", "workers", workers, 1)
    root = paths.folder(path)
    prepared = is_prepared(root)
    if not prepared and not paths.is_dir(root):
        raise DatasetError(f"{root} is neither a prepared dataset nor a folder")
    database = paths.join(root, f"{META_FOLDER}/index.sqlite")
    if prepared and not paths.exists(database):
        raise DatasetError(f"{root} has no {META_FOLDER}/index.sqlite, which names its files: prepare it again")
    with preparing(root, []), local_copy(database) if paths.exists(database) else _nothing() as old:
        names: set[str] | None = None
        if prepared:
            tasks = _of_dataset(root, old, wanted)
        else:
            names = set(paths.list_files(root, ("",)))
            tasks = _of_folder(root, sorted(names), wanted)
        first = list(islice(tasks, _FEW // _TOGETHER))
        if not first:
            raise DatasetError(f"no file of {root} is asked for by media={media!r}{_there(old, names)}")
        found = _Found()
        owner = belongs_to(root, read_info(root)) if prepared else ""
        with replacing(database) as partial, _executor(executor, workers, len(first)) as pool:
            if old:
                shutil.copyfile(old, partial)
            results = _results(chain(first, tasks), wanted, pool, workers)
            rows = found.taken(_shown(results, old if prepared else "", names, wanted, progress))
            add_media(partial, rows, (wanted.strategy, ",".join(wanted.patterns)), names)
        if prepared:
            retie_key_table(root, owner)
    for problem in found.problems:
        _log.warning("no media metadata: %s", problem)
    if found.unreadable > len(found.problems):
        _log.warning("%d more files of %s cannot be read", found.unreadable - len(found.problems), root)
    return PreparedMedia(root, found.files, found.images, found.av, found.unreadable, tuple(found.problems))


def media_task(task: Task, media: MediaFilter) -> tuple[int, MediaRows]:
    """Look at some files; this is what runs in other processes and on other machines.

    Example:
        >>> media_task([], MediaFilter.parse("extension"))
        (0, MediaRows(rows=[], unreadable=[]))

    Args:
        task: Shards or files, and the name, first byte and size of each file in them.
        media: Which of these are looked at.

    Returns:
        How many files there were, and what was found.

    Raises:
        FatalSampleError: Audio or video is there, and the extra `av` is not installed.
    """
    found = MediaRows([], [])
    for path, members in task:
        rows, unreadable = media_rows(path, members, media)
        found.rows.extend(rows)
        found.unreadable.extend(unreadable)
    return sum(len(members) for _, members in task), found


class _Found:
    """Count what goes through."""

    def __init__(self) -> None:
        self.files = self.images = self.av = self.unreadable = 0
        self.problems: list[str] = []

    def taken(self, results: Iterator[tuple[int, MediaRows]]) -> Iterator[tuple[str, str, str]]:
        for files, (rows, unreadable) in results:
            self.files += files
            self.unreadable += len(unreadable)
            self.problems += unreadable[: _NAMED - len(self.problems)]
            for row in rows:
                self.images += row[1] == "image"
                self.av += row[1] == "av"
                yield row


@contextmanager
def _nothing() -> Generator[str]:
    yield ""


def _of_dataset(root: str, database: str, media: MediaFilter) -> Iterator[Task]:
    """Yield the files of every shard that are asked for, some hundred at a time."""
    with _reading(database) as connection:
        for number, shard in enumerate(read_info(root).shard_counts):
            rows = connection.execute(
                "SELECT sample_key || '.' || part_name, content_byte_offset, content_byte_size FROM sample_parts "
                "JOIN samples USING (tar_file_id, sample_index) WHERE tar_file_id = ? "
                "ORDER BY tar_file_id, sample_index, content_byte_offset",
                (number,),
            )
            members = (row for row in rows if media.takes(row[0]))
            while chosen := list(islice(members, _TOGETHER)):
                yield [(paths.join(root, shard), chosen)]


def _of_folder(root: str, names: Sequence[str], media: MediaFilter) -> Iterator[Task]:
    wanted = (name for name in names if media.takes(name))
    while chosen := list(islice(wanted, _TOGETHER)):
        files = [paths.join(root, name) for name in chosen]
        yield [(file, [(name, 0, paths.size(file))]) for name, file in zip(chosen, files, strict=True)]


@contextmanager
def _executor(executor: Executor | None, workers: int | None, tasks: int) -> Generator[Executor | None]:
    processes = workers or len(os.sched_getaffinity(0))
    if executor is not None or processes == 1 or (workers is None and tasks < _FEW // _TOGETHER):
        yield executor
        return
    pool = Subprocesses(processes)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _results(
    tasks: Iterator[Task], media: MediaFilter, pool: Executor | None, workers: int | None
) -> Iterator[tuple[int, MediaRows]]:
    if pool is None:
        yield from (media_task(task, media) for task in tasks)
        return
    known: object = workers or getattr(pool, "_max_workers", None)
    waiting: deque[Future[tuple[int, MediaRows]]] = deque()
    try:
        for task in islice(tasks, 2 * known + 1 if isinstance(known, int) else _OUTSTANDING):
            waiting.append(pool.submit(media_task, task, media))
        while waiting:
            result = waiting.popleft().result()
            for task in islice(tasks, 1):
                waiting.append(pool.submit(media_task, task, media))
            yield result
    finally:
        for future in waiting:
            future.cancel()


def _shown(
    results: Iterator[tuple[int, MediaRows]],
    database: str,
    names: set[str] | None,
    media: MediaFilter,
    progress: bool | None,
) -> Iterator[tuple[int, MediaRows]]:
    """Show how far the files are."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield from results
        return
    from tqdm import tqdm  # not needed by those who only read

    total = sum(map(media.takes, names)) if names is not None else None
    if names is None and media.strategy != "GLOB":  # patterns may ask for keys, and counting those is half the work
        with _reading(database) as connection:
            counts = connection.execute("SELECT part_name, count(*) FROM sample_parts GROUP BY part_name")
            total = sum(count for part, count in counts if media.takes(f"x.{part}"))
    with tqdm(total=total, unit="files", desc="reading headers", dynamic_ncols=True) as bar:
        for files, rows in results:
            yield files, rows
            bar.update(files)


def _there(database: str, names: set[str] | None) -> str:
    """Say what is there instead of media."""
    if names is not None:
        return f"; its files are {listed(sorted(names)[:21])}"
    with _reading(database) as connection:
        parts = connection.execute("SELECT DISTINCT part_name FROM sample_parts LIMIT 21").fetchall()
    return f"; its parts are named {listed([part for (part,) in parts])}"


def _reading(database: str) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{quote(os.path.abspath(database))}?mode=ro&immutable=1", uri=True))
