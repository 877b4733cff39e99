import gzip
import logging
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from energon_nodes.core.errors import DatasetError, ShardError
from energon_nodes.storage import open_shards as module
from energon_nodes.storage.discovery import find_shards
from energon_nodes.storage.fds import FILES
from energon_nodes.storage.open_shards import open_shards
from tests.storage.tars import prepare_by_hand, samples_of, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("x/0.tar", "x/1.tar", "y/0.tar")):
        write_tar(tmp_path / name, samples_of(10 * number, 10 * (number + 1)))
    return tmp_path


def keys(shards: Any) -> list[int]:
    return [int(sample["__key__"]) for sample in shards.read(range(shards.count))]


# ---- finding ---------------------------------------------------------------------------------


def test_folders_patterns_files_and_lists_find_the_same_shards(folder: Path):
    expected = (str(folder), ("x/0.tar", "x/1.tar", "y/0.tar"))
    listed = [folder / "x/0.tar", str(folder / "x/1.tar"), folder / "y"]
    for path in (
        folder,
        str(folder) + "/",
        f"file://{folder}",
        f"{folder}/**/*.tar",
        f"{folder}/{{x/{{0..1}},y/0}}.tar",
        listed,
    ):
        assert find_shards(path) == expected
    assert find_shards(folder / "x/1.tar") == (str(folder / "x"), ("1.tar",))


def test_braces_and_lists_keep_their_order_and_globs_are_sorted(folder: Path):
    assert find_shards(f"{folder}/{{y,x}}/0.tar").names == ("y/0.tar", "x/0.tar")
    assert find_shards([folder / "y/0.tar", folder / "x/0.tar"]).names == ("y/0.tar", "x/0.tar")
    assert find_shards(f"{folder}/x/?.tar").names == ("0.tar", "1.tar")


def test_names_with_brackets_are_files_where_such_files_exist(tmp_path: Path):
    write_tar(tmp_path / "a[1].tar", [("a.txt", b"1")])
    assert find_shards(tmp_path / "a[1].tar").names == ("a[1].tar",)


def test_relative_paths_work(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    assert find_shards("x") == ("x", ("0.tar", "1.tar"))
    assert find_shards("x/*.tar") == ("x", ("0.tar", "1.tar"))
    assert keys(open_shards("x/0.tar")) == list(range(10))
    monkeypatch.chdir(folder / "x")
    assert find_shards("0.tar") == ("", ("0.tar",))
    assert keys(open_shards("*.tar")) == list(range(20))


def test_remote_folders_and_patterns_work(folder: Path):
    for tar in folder.rglob("*.tar"):
        MemoryFileSystem().pipe(f"/found/{tar.relative_to(folder)}", tar.read_bytes())
    for path in ("memory://found", "memory://found/**/*.tar", "memory://found/{x/0,x/1,y/0}.tar"):
        assert keys(open_shards(path)) == list(range(30))
        assert open_shards(path).names == ("x/0.tar", "x/1.tar", "y/0.tar")


@pytest.mark.parametrize("path", ["nothing", "x/9.tar", "x/9*.tar", "z/*.tar", "", []])
def test_a_path_that_leads_nowhere_is_named(folder: Path, path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    with pytest.raises(DatasetError) as caught:
        open_shards(path)
    assert (path or "path") in str(caught.value)
    if path == "x/9*.tar":
        assert "x has 0.tar, 1.tar" in str(caught.value)


def test_one_missing_shard_of_a_brace_pattern_is_named(folder: Path):
    with pytest.raises(DatasetError, match=r"x/2.tar"):
        open_shards(f"{folder}/x/{{0..2}}.tar")


def test_a_folder_without_shards_is_an_error(tmp_path: Path):
    with pytest.raises(DatasetError, match="no shards"):
        open_shards(tmp_path)


# ---- prepared --------------------------------------------------------------------------------


def test_a_prepared_folder_gives_the_train_part_by_default(folder: Path):
    prepare_by_hand(folder, {"train": ["y/0.tar", "x/0.tar"], "val": ["x/1.tar"]})
    assert keys(open_shards(folder)) == [*range(20, 30), *range(10)]
    assert keys(open_shards(folder, split="val")) == list(range(10, 20))
    with pytest.raises(DatasetError, match=r"no split part 'test'; its parts are 'train', 'val'"):
        open_shards(folder, split="test")


def test_a_prepared_remote_dataset_is_read_in_the_same_way(folder: Path):
    prepare_by_hand(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            MemoryFileSystem().pipe(f"/prepared/{file.relative_to(folder)}", file.read_bytes())
    assert keys(open_shards("memory://prepared")) == list(range(30))


def test_a_split_of_data_that_was_never_prepared_is_refused(folder: Path):
    with pytest.raises(DatasetError, match="never prepared"):
        open_shards(folder, split="train")


def test_opening_touches_neither_shards_nor_indices(folder: Path):
    prepare_by_hand(folder)
    for file in [*folder.rglob("*.tar"), *folder.rglob("*.idx")]:
        file.unlink()
    shards = open_shards(folder)
    assert shards.count == 30
    with pytest.raises(DatasetError, match=r"0.tar.idx does not exist"):
        shards.read([0])


def test_open_files_stay_bounded_over_many_shards(tmp_path: Path):
    for number in range(300):
        write_tar(tmp_path / f"{number:03d}.tar", samples_of(number, number + 1))
    prepare_by_hand(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    assert keys(open_shards(tmp_path)) == list(range(300))
    assert len(os.listdir("/proc/self/fd")) - before <= FILES.limit
    FILES.close_idle()


def test_preparing_again_is_seen(folder: Path):
    prepare_by_hand(folder)
    assert open_shards(folder).count == 30
    write_tar(folder / "z.tar", samples_of(30, 33))
    prepare_by_hand(folder)
    assert open_shards(folder).count == 33


# ---- never prepared --------------------------------------------------------------------------


def test_shards_are_scanned_once_in_a_process(folder: Path, monkeypatch: pytest.MonkeyPatch):
    scanned: list[str] = []
    original = module.scan_shard
    monkeypatch.setattr(module, "scan_shard", lambda file: scanned.append(file) or original(file))
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(open_shards, [folder] * 8))
    assert all(shards is opened[0] for shards in opened)
    part = open_shards(folder / "x")
    assert part.count == 20
    assert len(scanned) == 3


def test_a_shard_that_was_written_anew_is_scanned_again(folder: Path):
    assert open_shards(folder).count == 30
    write_tar(folder / "y/0.tar", samples_of(20, 35))
    assert open_shards(folder).count == 35


def test_a_long_scan_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(module, "_REPORT_AFTER", -1.0)
    with caplog.at_level(logging.WARNING):
        shards = open_shards(folder)
    assert shards.count == 30
    assert "indexed 1 of 3 shards" in caplog.text


def test_empty_shards_are_a_warning_and_nothing_else(folder: Path, caplog: pytest.LogCaptureFixture):
    write_tar(folder / "x/1.tar", [])
    with caplog.at_level(logging.WARNING):
        shards = open_shards(folder)
    assert keys(shards) == [*range(10), *range(20, 30)]
    assert "1 of 3 shards" in caplog.text
    assert "x/1.tar" in caplog.text


def test_only_empty_shards_make_an_empty_set(tmp_path: Path):
    shards = open_shards(write_tar(tmp_path / "0.tar", []))
    assert (shards.count, shards.read([])) == (0, [])


# ---- cache -----------------------------------------------------------------------------------


def test_a_cache_keeps_one_index_per_shard_and_spares_the_scan(folder: Path, tmp_path_factory: Any, monkeypatch: Any):
    cache = tmp_path_factory.mktemp("cache")
    assert keys(open_shards(folder, cache=cache)) == list(range(30))
    assert len(list(cache.iterdir())) == 3
    monkeypatch.setattr(module, "scan_shard", None)
    module._sets.clear()
    assert keys(open_shards(folder, cache=cache)) == list(range(30))


def test_a_cache_is_made_anew_for_a_shard_that_changed(folder: Path, tmp_path_factory: Any):
    cache = tmp_path_factory.mktemp("cache")
    open_shards(folder, cache=cache)
    write_tar(folder / "y/0.tar", samples_of(20, 35))
    assert keys(open_shards(folder, cache=cache)) == list(range(35))


def test_a_cache_remembers_what_is_wrong(folder: Path, tmp_path_factory: Any):
    cache = tmp_path_factory.mktemp("cache")
    path = folder / "x/1.tar"
    path.write_bytes(path.read_bytes()[:5000])
    for _ in range(2):
        module._sets.clear()
        module._scanned.clear()
        samples = open_shards(folder, cache=cache).read(range(23))
        assert [number for number, sample in enumerate(samples) if isinstance(sample, ShardError)] == [12]
        assert "byte 5000: the file ends here" in str(samples[12])


def test_a_damaged_cache_says_what_to_do(folder: Path, tmp_path_factory: Any):
    cache = tmp_path_factory.mktemp("cache")
    open_shards(folder, cache=cache)
    module._sets.clear()
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(DatasetError, match="delete it"):
        open_shards(folder, cache=cache)


# ---- pickles and forks -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["prepared", "scanned", "cached"])
def test_a_set_is_the_same_object_after_a_pickle_in_one_process(folder: Path, tmp_path_factory: Any, kind: str):
    if kind == "prepared":
        prepare_by_hand(folder)
    shards = open_shards(folder, cache=tmp_path_factory.mktemp("cache") if kind == "cached" else None)
    data = pickle.dumps(shards)
    assert len(data) < 1500
    assert pickle.loads(data).fingerprint == shards.fingerprint
    assert pickle.loads(data) is pickle.loads(data)


def test_a_set_that_was_scanned_needs_no_scan_in_another_process(folder: Path):
    path = folder / "x/1.tar"
    path.write_bytes(path.read_bytes()[:5001])
    shards = open_shards(folder)
    program = (
        "import pickle, sys; from energon_nodes.storage import open_shards as m; m.scan_shard = None\n"
        "shards = pickle.loads(sys.stdin.buffer.read())\n"
        "print(shards.fingerprint, [type(s).__name__ for s in shards.read(range(shards.count))])"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(shards), capture_output=True, check=True)
    names = [type(sample).__name__ for sample in shards.read(range(shards.count))]
    assert done.stdout.decode().strip() == f"{shards.fingerprint} {names}"
    assert names.count("ShardError") == 1


def test_the_fingerprint_stands_for_names_and_counts(folder: Path):
    first = open_shards(folder).fingerprint
    assert open_shards(f"{folder}/{{x/0,x/1,y/0}}.tar").fingerprint == first
    assert open_shards(f"{folder}/{{x/1,x/0,y/0}}.tar").fingerprint != first
    write_tar(folder / "y/0.tar", samples_of(20, 31))
    assert open_shards(folder).fingerprint != first


def test_a_place_is_found_by_index(folder: Path):
    shards = open_shards(folder)
    assert shards.locate(12)[:2] == ("x/1.tar", 2)
    assert shards.locate(12).offset == shards.locate(2).offset
    with pytest.raises(IndexError):
        shards.locate(30)


@pytest.mark.parametrize(("name", "data"), [("a.yaml", b"a: 1\n"), ("x.jsonl.gz", gzip.compress(b"{}\n")), ("x", b"")])
def test_a_file_that_is_no_tar_by_name_and_bytes_is_refused(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DatasetError, match=r"neither a tar nor a \.jsonl file"):
        open_shards(tmp_path / name)


def test_a_tar_of_any_name_is_opened(tmp_path: Path):
    assert open_shards(write_tar(tmp_path / "data.bin", [("a.txt", b"1")])).count == 1
