"""A cache pool in several processes: shared by workers, left by all, cleaned up by the last."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en

METHODS = ["fork", "spawn"]
ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, signal, sys
import energon_nodes as en


def load(number, texts, cache):
    return {"__key__": str(number), "text": cache.lazy(texts, f"{number % 9}.txt"), "pid": os.getpid()}


def pipeline(texts, pool):
    return en.items(range(200)).cook(load, aux={"texts": texts}, cache=pool).shuffle(20).resolve().batch(4)


if __name__ == "__main__":
    store, folder, method, end = sys.argv[1:]
    pool = en.cache_pool(None if folder == "None" else folder)
    loader = pipeline(en.store(store, decode=True), pool).loader(num_workers=2, mp_context=method)
    batches = iter(loader)
    first = next(batches)
    assert first[0]["pid"] != os.getpid()
    if end == "all":
        for batch in batches:
            pass
    elif end == "close":
        del batches
        loader.close()
    elif end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif end == "error":
        raise ValueError("the training failed")
    counts = pool.counts()
    print(counts.hits + counts.direct, counts.files)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    for number in range(9):
        (tmp_path / "store" / f"{number}.txt").write_text(f"text {number}")
    return tmp_path / "store"


def run(tmp_path: Path, store: Path, folder: str, method: str, end: str) -> str:
    """Run the program in a process of its own whose temporary files go to a folder, and return what it prints."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "temporary").mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "program.py"), str(store), folder, method, end]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert end in ("error", "killed") or result.returncode == 0, result.stderr
    return result.stdout


def caches(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if "cache" in name)


def read_in_child(pool: en.CachePool, texts: en.Store, kept: en.Lazy, sent: Any) -> None:
    sent.put((pool.get(texts, "0.txt"), pool.lazy(texts, "1.txt").get(), kept.get(), pool.counts().files))


@pytest.mark.parametrize("method", METHODS)
def test_what_one_process_fetched_the_others_find(store: Path, tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    texts = en.store(store, decode=True)
    with en.cache_pool(tmp_path / "cache") as pool:
        assert pool.get(texts, "0.txt") == "text 0"
        lazy, kept = pool.lazy(texts, "1.txt"), pool.to_cache(["kept"])
        assert lazy.get() == "text 1"
        (store / "0.txt").unlink()
        (store / "1.txt").unlink()
        received = context.Queue()
        child = context.Process(target=read_in_child, args=(pool, texts, kept, received))
        child.start()
        assert received.get(timeout=60) == ("text 0", "text 1", ["kept"], 3)
        child.join()
        assert child.exitcode == 0
        assert lazy.get() == "text 1"
        assert pool.get(texts, "0.txt") == "text 0"
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("method", "end"), [("fork", "all"), ("fork", "middle"), ("fork", "close"), ("fork", "error"), ("spawn", "middle")]
)
def test_nothing_is_left_however_a_program_ends(store: Path, tmp_path: Path, method: str, end: str) -> None:
    printed = run(tmp_path, store, "None", method, end)
    if end == "all":
        assert printed.split() == ["200", "9"]
    assert caches(tmp_path / "temporary") == []


def test_what_a_killed_program_left_is_removed_by_the_next_one(store: Path, tmp_path: Path) -> None:
    run(tmp_path, store, str(tmp_path / "cache"), "fork", "killed")
    foreign = tmp_path / "cache" / "mine.txt"
    foreign.write_text("mine")
    until = time.monotonic() + 60
    while list((tmp_path / "cache").iterdir()) != [foreign]:  # its workers may live a little longer
        assert time.monotonic() < until
        en.cache_pool(tmp_path / "cache").close()


def test_a_killed_worker_takes_nothing_from_the_others(store: Path, tmp_path: Path) -> None:
    texts = en.store(store, decode=True)
    with en.cache_pool(tmp_path / "cache") as pool:
        child = os.fork()
        if not child:
            pool.lazy(texts, "3.txt").get()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        (store / "3.txt").unlink()
        assert pool.get(texts, "3.txt") == "text 3"
    assert list((tmp_path / "cache").iterdir()) == []


def load(number: int, texts: en.Store, cache: en.CachePool) -> dict[str, Any]:
    return {"__key__": str(number), "text": cache.lazy(texts, f"{number % 9}.txt"), "length": number % 7 + 1}


def plainly(number: int, texts: en.Store) -> dict[str, Any]:
    return {"__key__": str(number), "text": texts.lazy(f"{number % 9}.txt"), "length": number % 7 + 1}


def packs(source: en.Node[Any]) -> en.Node[Any]:
    return source.shuffle(15).pack_to(12, length=length_of, buffer_size=30, encode=en.resolve)


def length_of(sample: dict[str, Any]) -> int:
    return sample["length"]


@pytest.mark.parametrize("method", METHODS)
def test_packs_are_the_same_with_and_without_a_pool_and_after_a_resume(
    store: Path, tmp_path: Path, method: str
) -> None:
    texts = en.store(store, decode=True)
    numbers = en.items(range(160), shuffle=True)
    expected = list(packs(numbers.cook(plainly, aux={"texts": texts})).loader(streams=2))
    with en.cache_pool(tmp_path / "cache", max_files=5, threads=2) as pool:
        pipeline = packs(numbers.cook(load, aux={"texts": texts}, cache=pool))
        loader = pipeline.loader(num_workers=2, streams=2, mp_context=method)
        batches = iter(loader)
        seen = [next(batches) for _ in range(5)]
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        assert seen + list(batches) == expected
        again = pipeline.loader(num_workers=0, streams=2)
        again.load_state_dict(state)
        assert list(again) == expected[5:]
        loader.close()  # the workers are in the folder too
        assert pool.counts().files <= 5
    assert len(pickle.dumps(state)) < 3000
    assert list((tmp_path / "cache").iterdir()) == []
