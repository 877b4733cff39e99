"""What Megatron-Energon prepared, energon_nodes reads to the same samples in the same order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from tests.interop import folders, megatron

PLAIN = [folders.plain, folders.long_shards, folders.subfolders, folders.formats, folders.names]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that makes a dataset of a kind, and makes it only once."""
    made: dict[Any, Path] = {}

    def prepare(write: Callable[[Path], None], *options: str) -> Path:
        asked = (write, *options)
        if asked not in made:
            folder = tmp_path_factory.mktemp(write.__name__)
            write(folder)
            made[asked] = megatron.prepare(folder, *options)
        return made[asked]

    return prepare


def read(folder: Path, split: str = "train", **settings: Any) -> list[dict[str, Any]]:
    return list(en.shards(folder, split=split, **settings))


def contents(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return key, shard and parts of samples, and their provenance as plain values."""
    return [{**parts_of(sample), "__key__": sample["__key__"], **provenance(sample)} for sample in samples]


def parts_of(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sample.items() if not name.startswith("__")}


def provenance(sample: dict[str, Any]) -> dict[str, Any]:
    (source,) = sample["__sources__"]
    names = ("index", "shard_name", "file_names")
    return {"__shard__": sample["__shard__"], **{name: getattr(source, name) for name in names}}


@pytest.mark.parametrize("write", PLAIN, ids=lambda write: write.__name__)
def test_samples_are_the_same_in_the_same_order(prepared: Callable[..., Path], write: Callable[[Path], None]) -> None:
    folder = prepared(write)
    assert contents(read(folder)) == contents(megatron.read(folder))


@pytest.mark.parametrize("options", [("--split-ratio", "8,1,1"), ("--split-ratio", "0.5,0.3,0.2", "--shuffle-tars")])
def test_each_part_of_a_ratio_split_is_the_same(prepared: Callable[..., Path], options: tuple[str, ...]) -> None:
    folder = prepared(folders.ten, *options)
    parts = {split: contents(read(folder, split)) for split in ("train", "val", "test")}
    assert parts == {split: contents(megatron.read(folder, split)) for split in parts}
    assert len({sample["__key__"] for samples in parts.values() for sample in samples}) == sum(range(2, 12))


def test_parts_that_were_named_by_patterns_are_the_same(prepared: Callable[..., Path]) -> None:
    parts = ("--split-parts", "train:train/.*", "--split-parts", "holdout:{val,extra}/")
    folder = prepared(folders.trains_and_vals, *parts)
    for split, count in (("train", 8), ("holdout", 8)):
        samples = read(folder, split)
        assert len(samples) == count
        assert contents(samples) == contents(megatron.read(folder, split))


def test_shards_excluded_while_preparing_are_gone(prepared: Callable[..., Path]) -> None:
    folder = prepared(folders.ten, *megatron.RATIO, "--exclude", "part_0[2-4]")
    samples = read(folder)
    assert len(samples) == sum(range(2, 12)) - 4 - 5 - 6
    assert contents(samples) == contents(megatron.read(folder))


SPLITS = {
    "a shard and a sample excluded": (
        "split_parts:\n  train: ['part_{00..03}.tar', part_07.tar]\n"
        "exclude: ['part_01.tar', 'part_03.tar/3_00000{1,3}', part_07.tar/7_000000]\n"
    ),
    "shards in another order": "split_parts:\n  train: [part_05.tar, part_02.tar, part_09.tar]\nexclude: []\n",
    "a shard listed twice": "split_parts:\n  train: [part_01.tar, part_02.tar, part_01.tar]\nexclude: []\n",
}


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_written_by_hand_means_the_same(prepared: Callable[..., Path], split: str) -> None:
    folder = prepared(folders.ten)
    written = folder / ".nv-meta" / "split.yaml"
    before = written.read_text()
    written.write_text(SPLITS[split])
    try:
        assert contents(read(folder)) == contents(megatron.read(folder))
    finally:
        written.write_text(before)


@pytest.mark.parametrize("sequence_length", [1, 7, 1_000])
def test_a_shuffled_pass_holds_the_same_samples(prepared: Callable[..., Path], sequence_length: int) -> None:
    folder = prepared(folders.long_shards)
    shuffled = contents(read(folder, shuffle=True, sequence_length=sequence_length))
    expected = contents(megatron.read(folder))
    assert shuffled != expected
    assert sorted(shuffled, key=lambda sample: sample["index"]) == expected


def test_the_length_is_the_number_of_samples(prepared: Callable[..., Path]) -> None:
    folder = prepared(folders.ten, "--split-ratio", "8,1,1")
    for split in ("train", "val", "test"):
        assert len(en.shards(folder, split=split)) == len(megatron.read(folder, split))


@pytest.mark.parametrize("write", PLAIN, ids=lambda write: write.__name__)
def test_a_folder_that_was_never_prepared_gives_the_same_samples(
    prepared: Callable[..., Path], tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    unprepared = contents(list(en.shards(tmp_path)))
    assert unprepared == contents(read(prepared(write)))
