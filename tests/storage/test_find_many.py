"""Samples of a split by their keys: through the table of a prepared dataset, or from the headers of plain tars."""

from __future__ import annotations

import json
import logging
import pickle
import tarfile
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import key_search
from energon_nodes.storage.jsonl_set import open_lines
from energon_nodes.storage.open_shards import open_shards
from tests.storage.tars import prepare_by_hand, samples_of, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_tar(tmp_path / f"{number}.tar", samples_of(10 * number, 10 * (number + 1)))
    return tmp_path


def split(folder: Path, shards: list[str], exclude: list[str] | None = None) -> None:
    text = json.dumps({"split_parts": {"train": shards}, "exclude": exclude or []})
    (folder / ".nv-meta" / "split.yaml").write_text(text)


KEYS = ["000035", "000000", "x", "000012", "000012", "000029", ""]


def test_indices_count_in_the_split_and_follow_its_order(folder: Path) -> None:
    en.prepare(folder)
    split(folder, ["3.tar", "0.tar", "1.tar"])
    shards = open_shards(folder)
    assert shards.find_many(KEYS).tolist() == [5, 10, -1, 22, 22, -1, -1]
    assert shards.find_many([]).tolist() == []
    found = [sample["__key__"] for sample in shards.read(range(shards.count)) if isinstance(sample, dict)]
    assert shards.find_many(found).tolist() == list(range(shards.count))


def test_of_a_shard_that_stands_twice_the_first_place_is_found(folder: Path) -> None:
    en.prepare(folder)
    split(folder, ["1.tar", "0.tar", "1.tar"])
    assert open_shards(folder).find_many(["000012", "000002"]).tolist() == [2, 12]


def test_excluded_samples_and_shards_are_not_there(folder: Path) -> None:
    en.prepare(folder)
    split(folder, ["{0..3}.tar"], ["1.tar", "2.tar/000025", "0.tar/000035"])
    shards = open_shards(folder)
    assert shards.find_many(["000012", "000025", "000035", "000026"]).tolist() == [-1, -1, 25, 16]
    assert shards.read([15])[0] is None


def test_a_dataset_prepared_by_another_program_gets_a_table(folder: Path) -> None:
    en.prepare(folder)
    (folder / ".nv-meta" / "keys.table").unlink()
    assert open_shards(folder).find_many(KEYS).tolist() == [35, 0, -1, 12, 12, 29, -1]
    assert (folder / ".nv-meta" / "keys.table").exists()


@pytest.mark.parametrize("prepared", [False, True])
def test_without_an_index_the_keys_are_read_from_the_headers(folder: Path, prepared: bool) -> None:
    if prepared:
        prepare_by_hand(folder)
    shards = open_shards(folder)
    assert shards.find_many(KEYS).tolist() == [35, 0, -1, 12, 12, 29, -1]
    assert pickle.loads(pickle.dumps(shards)).find_many(["000029"]).tolist() == [29]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_folders_and_unicode_are_found_in_headers(tmp_path: Path, form: int) -> None:
    long = "l" * (60 if form == tarfile.USTAR_FORMAT else 200)
    names = [f"{long}/{long}", "größe", "a.b/c", "./d", "dir/"]
    files = [(f"{name}.txt" if name != "dir/" else "dir/.txt", b"x" * 700) for name in names]
    write_tar(tmp_path / "0.tar", [("no_sample", b""), *files, ("__meta__/y.txt", b"")], form)
    shards = open_shards(tmp_path)
    assert shards.find_many([*names, "no_sample", "d"]).tolist() == [0, 1, 2, 3, 4, -1, -1]


def test_a_key_in_two_shards_is_an_error_only_when_it_is_looked_up(folder: Path) -> None:
    write_tar(folder / "9.tar", samples_of(5, 7))
    shards = open_shards(folder)
    assert shards.count == 42
    assert shards.find_many(["000004", "000007"]).tolist() == [4, 7]
    expected = r"the key '000005' stands in 2 places of .*: 0\.tar, 9\.tar; .* 2 of the keys"
    with pytest.raises(DatasetError, match=expected):
        shards.find_many(["000004", "000005", "000006"])
    assert open_shards([folder / "0.tar", folder / "1.tar"]).find_many(["000005"]).tolist() == [5]


def test_damaged_samples_have_no_key_to_be_found_by(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 10240 - 600])
    shards = open_shards(path)
    found = shards.find_many([f"{number:06d}" for number in range(10)]).tolist()
    whole = [sample["__key__"] if isinstance(sample, dict) else None for sample in shards.read(range(shards.count))]
    assert found == [whole.index(key) if (key := f"{number:06d}") in whole else -1 for number in range(10)]
    assert -1 in found


def test_keys_of_remote_shards_are_read_from_their_headers(folder: Path) -> None:
    for path in folder.iterdir():
        MemoryFileSystem().pipe(f"/find_many/{path.name}", path.read_bytes())
    assert open_shards("memory://find_many").find_many(KEYS).tolist() == [35, 0, -1, 12, 12, 29, -1]


def test_the_keys_of_many_plain_samples_stay_in_the_cache_folder_until_the_shards_change(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENERGON_NODES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(key_search, "_CACHED_FROM", 10)
    monkeypatch.setattr(key_search, "_REPORT_AFTER", -1.0)

    def scans() -> int:
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="energon_nodes.storage"):
            assert open_shards(folder).find_many(["000035"]).tolist() == [35]
        return len(caplog.records)

    assert scans() > 0
    assert len(list((tmp_path / "cache" / "keys").iterdir())) == 1
    assert scans() == 0
    write_tar(folder / "0.tar", samples_of(100, 110))
    assert open_shards(folder).find_many(["000005", "000105", "000035"]).tolist() == [-1, 5, 35]


def test_records_of_json_lines_are_found_by_their_numbers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n" * 3)
    lines = open_lines(tmp_path)
    keys = [sample["__key__"] for sample in lines.read(range(6)) if isinstance(sample, dict)]
    assert lines.find_many(keys).tolist() == list(range(6))
    assert lines.find_many(["6", "-1", "01", "x", "", "٣", "9" * 30, "0"]).tolist() == [-1] * 7 + [0]
