"""A cache pool in one process: fetching ahead, waiting, evicting, failing, ending."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import resource
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import energon_nodes as en
from energon_nodes.core.encoders import decode_value, encode_value
from tests.samples.gated import Gates


@pytest.fixture
def gates(request: pytest.FixtureRequest) -> Gates:
    return Gates(request.node.name.removeprefix("test_"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def nothing_is_left(folder: Path) -> Iterator[None]:
    before = {thread.name for thread in threading.enumerate()}
    yield
    gc.collect()
    wait_until(lambda: {thread.name for thread in threading.enumerate()} <= before)
    assert not folder.exists() or list(folder.iterdir()) == []


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_files_are_fetched_while_their_samples_wait(gates: Gates, folder: Path) -> None:
    with en.cache_pool(folder) as pool:
        lazies = [pool.lazy(gates.store, name) for name in ("a.txt", "b.txt")]
        wait_until(lambda: pool.counts().files == 2)
        gates.close("a.txt", "b.txt")  # from now on the store gives nothing
        assert [lazy.get() for lazy in lazies] == ["text 0", "text 1"]
        assert [lazy.get() for lazy in lazies] == ["text 0", "text 1"]
        assert (pool.counts().hits, pool.counts().direct) == (4, 0)
    assert sorted(gates.reads) == ["a.txt", "b.txt"]


def test_get_waits_for_its_own_file_and_for_no_other(gates: Gates, folder: Path) -> None:
    gates.close("a.txt", "b.txt")
    with en.cache_pool(folder, threads=2) as pool:
        a, b, c = (pool.lazy(gates.store, name) for name in ("a.txt", "b.txt", "c.txt"))
        gates.wait_for_read("a.txt")
        gates.wait_for_read("b.txt")
        assert c.get() == "text 2"  # no thread has time for it: it is read at once
        threading.Timer(0.05, gates.open, ["b.txt"]).start()
        assert b.get() == "text 1"
        gates.open("a.txt")
        assert a.get() == "text 0"
    assert sorted(gates.reads) == ["a.txt", "b.txt", "c.txt"]


def test_a_file_that_many_wait_for_is_fetched_once(gates: Gates, folder: Path) -> None:
    gates.close("a.txt")
    with en.cache_pool(folder) as pool:
        lazies = [pool.lazy(gates.store, "a.txt") for _ in range(5)]
        gates.wait_for_read("a.txt")
        gates.open("a.txt")
        assert {lazy.get() for lazy in lazies} == {"text 0"}
        assert pool.get(gates.store, "a.txt") == "text 0"
    assert gates.reads == ["a.txt"]


def test_an_error_shows_when_the_value_is_needed_and_names_the_file(gates: Gates, folder: Path) -> None:
    with en.cache_pool(folder) as pool:
        lazy = pool.lazy(gates.store, "A.txt")
        gates.wait_for_read("A.txt")
        with pytest.raises(en.NotInStoreError, match=r"no file 'A\.txt'") as caught:
            lazy.get()
        assert "through a cache pool" in caught.value.__notes__[0]
        assert pool.lazy(gates.store, "a.txt").get() == "text 0"


def test_get_notes_the_source_and_decodes_as_the_store_does(gates: Gates, folder: Path) -> None:
    raw = en.store(gates.store.path)
    with en.cache_pool(folder) as pool:
        sample: dict[str, Any] = {"__key__": "1"}
        assert pool.get(gates.store, "a.txt", sample) == "text 0"
        assert pool.lazy(raw, "a.txt").get(sample) == b"text 0"
        assert [source.index for source in sample["__sources__"]] == ["a.txt", "a.txt"]
        assert gates.store.lazy("b.txt", cache=pool) == gates.store.lazy("b.txt")
    assert gates.reads.count("a.txt") == 1


def test_what_was_evicted_is_read_again(gates: Gates, folder: Path) -> None:
    names = [f"{letter}.txt" for letter in "abcdef"]
    with en.cache_pool(folder, max_files=2) as pool:
        for name in names * 2:
            assert pool.get(gates.store, name) == gates.store[name]
        counts = pool.counts()
        assert counts.files <= 2
        assert counts.evicted >= 10


def test_a_pool_full_of_files_that_are_waited_for_pauses_and_evicts_none_of_them(gates: Gates, folder: Path) -> None:
    names = [f"{letter}.txt" for letter in "abcdefgh"]
    with en.cache_pool(folder, max_files=2, threads=1) as pool:
        lazies = [pool.lazy(gates.store, name) for name in names]
        wait_until(lambda: pool.counts().files == 2)
        gates.wait_for_read("c.txt")  # it stays in the hands of the thread
        assert lazies[7].get() == "text 7"  # nobody has begun with it
        assert [lazy.get() for lazy in lazies[:7]] == [f"text {n}" for n in range(7)]
    assert sorted(gates.reads) == names


def test_lazy_values_that_are_dropped_make_room(gates: Gates, folder: Path) -> None:
    with en.cache_pool(folder, max_files=1, threads=1) as pool:
        for letter in "abcd":
            lazy = pool.lazy(gates.store, f"{letter}.txt")
            wait_until(lambda letter=letter: f"{letter}.txt" in gates.reads)
            del lazy
        last = pool.lazy(gates.store, "z.txt")
        gates.wait_for_read("z.txt")
        assert last.get() == "text 25"


def test_many_threads_that_ask_take_and_drop_get_what_the_store_has_and_leave_no_pins(
    gates: Gates, folder: Path
) -> None:
    wrong: list[Any] = []

    def work(seed: int, pool: en.CachePool) -> None:
        rng = np.random.default_rng(seed)
        held: list[en.Lazy] = []
        for _ in range(300):
            number, action = int(rng.integers(26)), int(rng.integers(4))
            name = f"{chr(97 + number)}.txt"
            if action == 0:
                wrong.extend([] if pool.get(gates.store, name) == f"text {number}" else [name])
            elif action == 1 and held:
                lazy = held.pop(int(rng.integers(len(held))))
                wrong.extend([] if lazy.get() == gates.store[lazy.name] else [lazy.name])
            elif action == 2 and held:
                held.pop(0)
            else:
                held.append(pool.lazy(gates.store, name))

    with en.cache_pool(folder, max_files=6, threads=3) as pool:
        workers = [threading.Thread(target=work, args=(seed, pool)) for seed in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert wrong == []

        def nothing_is_pinned() -> bool:
            there = [path for path in Path(pool.root).iterdir() if len(path.name) == 32]
            counts = pool.counts()
            return len(there) == counts.files <= 6 and all(path.stat().st_nlink == 1 for path in there)

        wait_until(nothing_is_pinned)


def test_beyond_the_queue_files_are_read_when_they_are_needed(gates: Gates, folder: Path) -> None:
    gates.close("a.txt")
    with en.cache_pool(folder, threads=1, queue=1) as pool:
        a = pool.lazy(gates.store, "a.txt")
        gates.wait_for_read("a.txt")
        waiting, beyond = pool.lazy(gates.store, "b.txt"), pool.lazy(gates.store, "c.txt")
        gates.open("a.txt")
        wait_until(lambda: pool.counts().files == 2)
        assert gates.reads == ["a.txt", "b.txt"]
        assert [a.get(), waiting.get(), beyond.get()] == ["text 0", "text 1", "text 2"]


def test_after_close_values_are_read_from_their_stores(gates: Gates, folder: Path) -> None:
    pool = en.cache_pool(folder)
    lazy, kept = pool.lazy(gates.store, "a.txt"), pool.to_cache([1, 2], "numbers")
    pool.close()
    pool.close()
    assert list(folder.iterdir()) == []
    assert lazy.get() == pool.get(gates.store, "a.txt") == pool.lazy(gates.store, "a.txt").get() == "text 0"
    with pytest.raises(en.SampleError, match=r"the value 'numbers' is not in the cache pool .* any more"):
        kept.get()
    assert pool.to_cache([1], "one").get() == [1]


def test_a_pool_that_nobody_holds_any_more_cleans_up(gates: Gates, folder: Path) -> None:
    pool = en.cache_pool(folder)
    lazy = pool.lazy(gates.store, "a.txt")
    del pool
    assert lazy.get() == "text 0"
    assert list(folder.iterdir()) != []
    del lazy
    wait_until(lambda: list(folder.iterdir()) == [])


@dataclass
class Clip:
    frames: np.ndarray[Any, Any]
    rate: float


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"bytes",
        "text",
        None,
        [1, (2.5, {"a": b""})],
        np.arange(6).reshape(2, 3),
        torch.arange(4),
        Clip(np.ones(2), 2),
    ],
    ids=["empty", "bytes", "text", "None", "nested", "array", "tensor", "dataclass"],
)
def test_a_value_comes_back_equal(value: Any, folder: Path) -> None:
    with en.cache_pool(folder) as pool:
        lazy = pool.to_cache(value)
        assert pool.counts().files == 1
        for again in (lazy.get(), pickle.loads(pickle.dumps(lazy)).get(), decode_value(encode_value(lazy)).get()):
            assert type(again) is type(value)
            assert repr(again) == repr(value)


def test_an_image_comes_back_equal_and_its_file_goes_with_the_lazy_value(folder: Path) -> None:
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    with en.cache_pool(folder) as pool:
        lazy = pool.to_cache({"image": image}, "a picture")
        assert en.resolve({"__key__": "a", "x": lazy})["x"]["image"].tobytes() == image.tobytes()
        del lazy
        assert pool.counts().files == 0


def test_a_value_that_would_need_a_pickle_is_refused(folder: Path) -> None:
    with (
        en.cache_pool(folder) as pool,
        pytest.raises(TypeError, match=r"to_cache cannot keep this object.*register_encoder"),
    ):
        pool.to_cache(object())


def test_a_value_without_room_is_held_in_memory(folder: Path) -> None:
    with en.cache_pool(folder, max_bytes=100) as pool:
        lazies = [pool.to_cache(bytes([number]) * 60) for number in range(3)]
        assert pool.counts().files == 1
        assert [lazy.get() for lazy in lazies] == [bytes([number]) * 60 for number in range(3)]


def test_a_folder_that_cannot_be_used_gives_one_warning_and_direct_reads(
    gates: Gates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "energon_nodes"), en.cache_pool(tmp_path / "file", max_bytes=100) as pool:
        assert [pool.lazy(gates.store, "a.txt").get() for _ in range(3)] == ["text 0"] * 3
        assert pool.to_cache(b"x").get() == b"x"
    assert len(caplog.records) == 1
    assert "cannot be used" in caplog.text


def test_a_disk_that_takes_no_more_gives_one_warning_and_direct_reads(
    gates: Gates, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with caplog.at_level(logging.WARNING, "energon_nodes"), en.cache_pool(folder) as pool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3, before[1]))
        try:
            assert [pool.get(gates.store, "a.txt") for _ in range(3)] == ["text 0"] * 3
            assert pool.to_cache(b"12345").get() == b"12345"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(caplog.records) == 1
    assert "cannot be used any more" in caplog.text


def test_settings_out_of_range_are_refused() -> None:
    for settings in ({"max_files": 0}, {"threads": 0}, {"queue": 0}, {"max_bytes": 0}, {"max_bytes": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            en.cache_pool(**settings)
    with pytest.raises(ValueError, match="local disk"):
        en.cache_pool("s3://bucket/cache")
    with en.cache_pool() as pool, pytest.raises(TypeError, match="fetches from a store"):
        pool.lazy({"a.txt": b""}, "a.txt")  # type: ignore[arg-type]


def test_a_pickled_pool_is_the_same_pool_in_its_process(folder: Path) -> None:
    with en.cache_pool(folder) as pool:
        assert pickle.loads(pickle.dumps(pool)) is pool
        assert oct(os.stat(pool.root).st_mode & 0o777) == "0o700"


def test_what_never_lay_in_the_folder_is_read_directly(gates: Gates, folder: Path) -> None:
    with en.cache_pool(folder, max_bytes=1) as pool:
        waiting = [pool.lazy(gates.store, name) for name in ("a.txt", "a.txt", "b.txt")]
        assert [lazy.get() for lazy in waiting] == ["text 0", "text 0", "text 1"]
        assert pool.get(gates.store, "c.txt") == "text 2"
        counts = pool.counts()
        assert (counts.hits, counts.direct, counts.fetched, counts.files) == (0, 4, 0, 0)
    assert sorted(gates.reads) == ["a.txt", "b.txt", "c.txt"]


def test_reads_without_a_folder_are_counted(gates: Gates, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with en.cache_pool(tmp_path / "file" / "cache", max_bytes=1000) as pool:
        assert [pool.lazy(gates.store, "a.txt").get(), pool.get(gates.store, "b.txt")] == ["text 0", "text 1"]
        assert pool.counts() == type(pool.counts())(direct=2)


@pytest.mark.parametrize("value", ["1GB", True, 0, float("nan"), [1]])
def test_the_bound_is_a_number_of_bytes(value: Any, folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"max_bytes as a number of bytes >= 1, such as 64e9, or None .* got max_bytes="
    ):
        en.cache_pool(folder, max_bytes=value)
    en.cache_pool(folder, max_bytes=np.int64(1000)).close()  # pyright: ignore[reportArgumentType]


def test_the_pool_asks_for_files_by_text(gates: Gates, folder: Path) -> None:
    name: Any = None
    with en.cache_pool(folder, max_bytes=1000) as pool:
        for ask in (pool.lazy, pool.get):
            with pytest.raises(TypeError, match=r"names of files in the store .* got None"):
                ask(gates.store, name)
