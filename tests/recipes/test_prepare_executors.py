"""Shards are indexed in any executor, and the result is the same everywhere."""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.core.errors import WorkerError
from energon_nodes.storage import indexing
from energon_nodes.storage.shard_rows import IndexedShard
from energon_nodes.storage.subprocesses import Subprocesses
from tests.recipes.dying import die
from tests.storage.tars import samples_of, write_tar

COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shards")
    for number in range(COUNT):
        write_tar(root / f"{number:03d}.tar", samples_of(number * 100, number * 100 + 1 + number % 7))
    return root


@pytest.fixture(autouse=True)
def small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put three shards into a call, so that there are many, and take processes for them."""
    monkeypatch.setattr(indexing, "_SHARDS", 3)
    monkeypatch.setattr(indexing, "_SMALL", 0)


@contextmanager
def dask() -> Iterator[Executor]:
    """Give the executor of a cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a port that is taken, and of the event loop at the end
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        )
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor()


@contextmanager
def new_processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


EXECUTORS = {
    "threads": lambda: ThreadPoolExecutor(3),
    "processes of ours": lambda: Subprocesses(2),
    "processes of the standard library": new_processes,
    "a Dask cluster": dask,
}


def files(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {path.name: path.read_bytes() for path in root.glob("*.idx")}
    with closing(sqlite3.connect(root / ".nv-meta/index.sqlite")) as database:
        for table in ("samples", "sample_parts"):
            found[table] = database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall()
    return found | {name: (root / ".nv-meta" / name).read_text() for name in (".info.json", "split.yaml")}


@pytest.mark.parametrize("kind", EXECUTORS)
def test_every_executor_gives_the_same_dataset(folder: Path, kind: str) -> None:
    en.prepare(folder, overwrite=True, split="8,1,1")
    expected = files(folder)
    for path in folder.glob("*.idx"):
        path.unlink()
    with EXECUTORS[kind]() as executor:
        prepared = en.prepare(folder, overwrite=True, split="8,1,1", executor=executor)
        assert prepared.samples == sum(1 + number % 7 for number in range(COUNT))
        assert files(folder) == expected
        assert executor.submit(os.getpid).result() > 0  # it was not shut down


def test_the_program_is_not_imported_by_the_processes(folder: Path) -> None:
    # This file would fail as a main program; nothing but a path and names is sent.
    assert en.prepare(folder, overwrite=True, workers=2).samples == sum(1 + number % 7 for number in range(COUNT))


class Counting(Executor):
    """Run calls late, and note how many wait."""

    def __init__(self) -> None:
        self.inner = ThreadPoolExecutor(1)
        self.most = self.open = 0
        self.lock = threading.Lock()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        future = self.inner.submit(fn, *args, **kwargs)
        future.result()
        return future

    def taken(self, shards: Iterator[IndexedShard]) -> Iterator[IndexedShard]:
        for number, shard in enumerate(shards):
            if number % 3 == 2:
                with self.lock:
                    self.open -= 1
            yield shard


@pytest.mark.parametrize(("workers", "most"), [(2, 6), (4, 10)])
def test_few_results_wait_at_any_time(folder: Path, workers: int, most: int) -> None:
    names = [f"{number:03d}.tar" for number in range(COUNT)]
    executor = Counting()
    shards = executor.taken(indexing.index_all(str(folder), names, [1] * COUNT, executor, workers))
    assert [shard.name for shard in shards] == names
    assert executor.most <= most
    executor.inner.shutdown()


def test_a_worker_that_dies_is_an_error_and_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    en.prepare(folder, overwrite=True, split="8,1,1")
    before = files(folder)
    monkeypatch.setattr(indexing, "index_shards", die)
    with pytest.raises(WorkerError, match="died in the middle of a call"):
        en.prepare(folder, overwrite=True, workers=2)
    assert files(folder) == before
    assert not [path for path in folder.rglob("*") if ".partial-" in path.name]


def test_what_is_wrong_in_other_processes_is_told_as_here(tmp_path: Path) -> None:
    for number in range(8):
        write_tar(tmp_path / f"{number}.tar", samples_of(number * 10, number * 10 + 3))
    (tmp_path / "3.tar").write_bytes(b"noise" * 300)
    (tmp_path / "7.tar").write_bytes((tmp_path / "7.tar").read_bytes()[:1300])
    messages: list[str] = []
    for workers in (1, 2):
        with pytest.raises(
            en.DatasetError, match=r"2 of 8 shards(.|\n)*3\.tar at byte 0(.|\n)*7\.tar at byte"
        ) as caught:
            en.prepare(tmp_path, workers=workers)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
