"""Datasets that `prepare` makes are those of Megatron-Energon, file by file, and both read the same samples."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import energon_nodes as en
from energon_nodes.storage.splits import read_lists
from tests.interop import folders, megatron
from tests.interop.test_same_samples import contents, read
from tests.interop.test_same_types import FIELD_MAPS, assert_samples_are_same, parts


def webdataset_writer(folder: Path) -> None:
    """Write shards with the writer of webdataset, which puts a PAX header in front of every file."""
    folder.mkdir(exist_ok=True)
    for shard in range(2):
        with webdataset.TarWriter(str(folder / f"w{shard}.tar")) as writer:
            for number in range(30):
                writer.write({"__key__": f"d/{shard}{number:04d}", "txt": f"text {number}", "json": {"n": number}})


def odd_shard_names(folder: Path) -> None:
    """Write shards whose names YAML could take for something else."""
    for number, name in enumerate(
        ["on", "1e3", "ä ö", "a: b", "#x", "it's", "- y", 'q"q', "[z]", "007", "true", "p+q=r@s"]
    ):
        folders.write_tar(folder / f"{name}.tar", folders.pairs(f"{number}_", 2))


def an_empty_one(folder: Path) -> None:
    """Write a shard without samples among full ones."""
    for number in range(3):
        folders.write_tar(folder / f"{number}.tar", folders.pairs(f"{number}_", 3 * (number != 1)))


KINDS = [*folders.KINDS, webdataset_writer]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Path]]:
    """Return a function that makes the same folder twice, and prepares one with each library."""

    def make(write: Callable[[Path], None], options: tuple[str, ...], settings: dict[str, Any]) -> tuple[Path, Path]:
        theirs = tmp_path_factory.mktemp("theirs") / write.__name__
        theirs.mkdir()
        write(theirs)
        ours = tmp_path_factory.mktemp("ours") / write.__name__
        shutil.copytree(theirs, ours)
        megatron.prepare(theirs, *options)
        en.prepare(ours, **settings)
        return ours, theirs

    return make


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database:
        return database.execute(query).fetchall()


def schema(folder: Path) -> dict[str, Any]:
    """Return the tables and indices with their columns, and the settings of the file."""
    found: dict[str, Any] = {}
    names = rows(
        folder, "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'media%' AND name NOT LIKE '%media%'"
    )
    for kind, name in names:
        if name != "sqlite_sequence":
            found[name] = rows(folder, f"PRAGMA {kind}_info({name})")
    pragmas = ("page_size", "encoding", "user_version", "application_id", "journal_mode", "auto_vacuum")
    return found | {pragma: rows(folder, f"PRAGMA {pragma}") for pragma in pragmas}


def same_files(ours: Path, theirs: Path) -> None:
    """Compare all that both have written."""
    mine, other = (json.loads((folder / ".nv-meta/.info.json").read_text()) for folder in (ours, theirs))
    assert list(mine["shard_counts"].items()) == list(other["shard_counts"].items())
    assert mine.keys() == other.keys()
    for name in mine["shard_counts"]:
        index = Path(name).with_suffix(".tar.idx")
        assert (ours / index).read_bytes() == (theirs / index).read_bytes()
    splits = [read_lists(str(folder / ".nv-meta/split.yaml")) for folder in (ours, theirs)]
    assert splits[0] == splits[1]
    assert schema(ours) == schema(theirs)
    for table in ("samples", "sample_parts"):
        assert sorted(rows(ours, f"SELECT * FROM {table}")) == sorted(rows(theirs, f"SELECT * FROM {table}"))
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", (ours / ".nv-meta/index.uuid").read_text())
    assert len((theirs / ".nv-meta/index.uuid").read_text()) == 36


@pytest.mark.parametrize("write", KINDS, ids=lambda write: write.__name__)
def test_the_same_files_are_written_and_the_same_samples_read(both: Any, write: Callable[[Path], None]) -> None:
    ours, theirs = both(write, megatron.RATIO, {"split": "1,0,0"})
    same_files(ours, theirs)
    expected = contents(megatron.read(theirs))
    assert contents(read(ours)) == contents(read(theirs)) == expected
    assert contents(megatron.read(ours)) == expected


SPLITS = {
    "ratio": (folders.ten, ("--split-ratio", "8,1,1"), {"split": "8,1,1"}),
    "ratio that is exact": (folders.ten, ("--split-ratio", "0.7,0.2,0.1"), {"split": (0.7, 0.2, 0.1)}),
    "shuffled": (folders.ten, ("--split-ratio", "6,2,2", "--shuffle-tars"), {"split": "6,2,2", "shuffle": True}),
    "by name": (
        folders.trains_and_vals,
        ("--split-parts", "train:train/.*", "--split-parts", "holdout:{val,extra}/"),
        {"split": {"train": "train/.*", "holdout": "{val,extra}/"}},
    ),
    "excluded": (
        folders.ten,
        ("--split-ratio", "1,1,0", "--exclude", "part_0[2-4]"),
        {"split": "1,1,0", "exclude": "part_0[2-4]"},
    ),
    "subfolders": (
        folders.subfolders,
        ("--split-parts", "a:a", "--split-parts", "s:[sZ]"),
        {"split": {"a": "a", "s": "[sZ]"}},
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits_are_the_same(both: Any, name: str) -> None:
    write, options, settings = SPLITS[name]
    ours, theirs = both(write, options, settings)
    same_files(ours, theirs)
    for split, shards in read_lists(str(ours / ".nv-meta/split.yaml")).parts.items():
        if shards:
            assert contents(read(ours, split)) == contents(megatron.read(ours, split)) == contents(read(theirs, split))


def test_no_shard_is_lost_where_the_other_loses_one(both: Any) -> None:
    ours, theirs = both(folders.ten, ("--split-ratio", "7,2,1"), {"split": "7,2,1"})
    assert read_lists(str(theirs / ".nv-meta/split.yaml")).counts == {"train": 7, "val": 2, "test": 0}
    assert read_lists(str(ours / ".nv-meta/split.yaml")).counts == {"train": 7, "val": 2, "test": 1}
    assert len(megatron.read(ours, "test")) == 11


@pytest.mark.parametrize("write", [odd_shard_names, an_empty_one], ids=lambda write: write.__name__)
def test_what_the_other_cannot_prepare_it_can_read(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    en.prepare(tmp_path, split="1,1,0")
    count = 0
    for split in ("train", "val"):
        assert contents(read(tmp_path, split)) == contents(megatron.read(tmp_path, split))
        count += len(read(tmp_path, split))
    assert count == sum(json.loads((tmp_path / ".nv-meta/.info.json").read_text())["shard_counts"].values())


def test_excluded_samples_of_a_split_from_a_file_are_left_out_by_both(tmp_path: Path) -> None:
    folders.ten(tmp_path)
    (tmp_path / "mine.yaml").write_text(
        "split_parts: {train: ['part_{00..04}.tar'], rest: [part_09.tar]}\n"
        "exclude: [part_01.tar, 'part_03.tar/3_00000{1,3}', part_09.tar/9_000000]\n"
    )
    en.prepare(tmp_path, split=tmp_path / "mine.yaml")
    for split, count in (("train", 15), ("rest", 10)):
        assert len(read(tmp_path, split)) == count
        assert contents(read(tmp_path, split)) == contents(megatron.read(tmp_path, split))


# Types


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    for shard in range(2):
        members: list[folders.Member] = []
        for number in range(shard * 3, shard * 3 + 3):
            members += [(f"k{number}.{part}", payload) for part, payload in parts(number)]
        folders.write_tar(folder / f"{shard}.tar", members)
    en.prepare(folder)
    return folder


@pytest.mark.parametrize("name", FIELD_MAPS)
def test_every_type_is_read_as_by_us(typed: Path, name: str) -> None:
    config = f"made_{name}.yaml"
    en.prepare(
        typed,
        update=True,
        dataset_yaml=config,
        sample_type=name,
        field_map=FIELD_MAPS[name],
        subflavors={"on": "yes", "010": 10, "nested": {"a": [1.5, None, True, "null"]}},
    )
    assert_samples_are_same(typed, config)


def test_a_sample_loader_is_read_as_by_us(typed: Path) -> None:
    (typed / ".nv-meta/loader.py").write_text(
        "def make(raw):\n    return {'text': raw['txt'].upper()}\n\ndef wanted(part):\n    return part == 'txt'\n"
    )
    for number, part_filter in enumerate(("loader.py:wanted", ["txt", "detail.txt"])):
        en.prepare(
            typed,
            update=True,
            dataset_yaml=f"loaded{number}.yaml",
            sample_type="TextSample",
            sample_loader="loader.py:make",
            part_filter=part_filter,
        )
        assert_samples_are_same(typed, f"loaded{number}.yaml")


# The tools of the other side


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    energon = Path(sys.executable).with_name("energon")
    return subprocess.run([energon, *words, folder], capture_output=True, text=True)


def test_the_other_side_describes_and_checks_our_dataset(tmp_path: Path) -> None:
    folders.write_tar(tmp_path / "0.tar", folders.pairs("a", 5))
    en.prepare(tmp_path, sample_type="TextSample", field_map={"text": "txt"})
    told = command(tmp_path, "info")
    assert told.returncode == 0, told.stderr
    assert "5" in told.stdout
    checked = command(tmp_path, "lint", "--split-parts", "train")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("write", [folders.subfolders, folders.formats], ids=lambda write: write.__name__)
def test_the_other_side_finds_every_file_by_its_name(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    en.prepare(tmp_path)
    energon = import_module("megatron.energon")
    reader = import_module("megatron.energon.flavors.webdataset.itar_reader").SqliteITarEntryReader(
        energon.epathlib.EPath(tmp_path), key_is_full_entryname=True
    )
    found = 0
    for tar in sorted(tmp_path.rglob("*.tar")):
        if ".hidden" in str(tar):
            continue
        with tarfile.open(tar) as archive:
            for member in archive:
                data, _ = reader[member.name]
                assert data == archive.extractfile(member).read()  # pyright: ignore[reportOptionalMemberAccess]
                found += 1
    assert found > 30


def test_the_other_side_can_prepare_our_dataset_again_and_we_theirs(tmp_path: Path) -> None:
    folders.ten(tmp_path)
    en.prepare(tmp_path, split="8,1,1")
    before = contents(read(tmp_path))
    megatron.prepare(tmp_path, "--split-ratio", "8,1,1", "--force-overwrite")
    assert contents(read(tmp_path)) == contents(megatron.read(tmp_path)) == before
    assert en.store(tmp_path)["3_000001.json"] == b'{"n": 1}'
    folders.write_tar(tmp_path / "part_10.tar", folders.pairs("new_", 3))
    assert en.prepare(tmp_path, update=True).samples == sum(range(2, 12)) + 3
    assert contents(read(tmp_path)) == contents(megatron.read(tmp_path))
    assert np.fromfile(tmp_path / "part_10.tar.idx", "<u8").tolist()[0] == 0
