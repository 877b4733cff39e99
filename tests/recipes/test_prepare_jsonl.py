"""Preparing JSON Lines writes their index, and tells what is odd about them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.prepare_jsonl import prepare_jsonl


def test_the_index_is_written_and_used(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 0}\r\n\r\n{"n": 1}')
    prepared = prepare_jsonl(path)
    assert np.fromfile(tmp_path / "a.jsonl.idx", "<u8").tolist() == [0, 12, 20]
    assert (prepared.path, prepared.samples, prepared.shards) == (str(path), 2, {"a.jsonl": 2})
    assert (prepared.parts, prepared.bytes, prepared.written) == ({"json": 2}, 20, ("a.jsonl.idx",))
    assert (prepared.splits, prepared.samples_per_split, prepared.warnings) == ({}, {}, ())
    assert [sample["json"]["n"] for sample in en.jsonl(path, index="file")] == [0, 1]


def test_all_files_of_a_folder_are_indexed(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl"):
        (tmp_path / name).write_text('{"n": 0}\n')
    prepared = prepare_jsonl(tmp_path)
    assert prepared.written == ("a.jsonl.idx", "b.jsonl.idx", "deep/c.jsonl.idx")
    assert len(en.jsonl(tmp_path, index="file")) == 3


def test_a_file_that_grew_is_prepared_again(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 0}\n')
    prepare_jsonl(path)
    with path.open("a") as file:
        file.write('{"n": 1}\n')
    with pytest.raises(DatasetError, match="out of step"):
        en.jsonl(path)
    prepare_jsonl(path)
    assert len(en.jsonl(path)) == 2


def test_lines_that_look_like_no_objects_are_named_and_counted(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 0}\n\n[1]\n{"n": 1\n' + "x\n" * 20)
    (warning,) = prepare_jsonl(path).warnings
    assert "22 of 23 lines are no JSON objects" in warning
    assert "line 3 (sample 1, byte 10), line 4 (sample 2, byte 14), line 5" in warning
    assert "and 12 more" in warning


def test_a_file_without_records_is_a_warning(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("\n")
    prepared = prepare_jsonl(tmp_path / "a.jsonl")
    assert (prepared.samples, prepared.warnings) == (0, (f"{tmp_path}/a.jsonl has no records",))


def test_a_compressed_file_is_refused_and_nothing_is_left(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(DatasetError, match="compressed"):
        prepare_jsonl(tmp_path / "a.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_progress_is_shown_on_demand_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n')
    prepare_jsonl(tmp_path / "a.jsonl")
    assert capfd.readouterr() == ("", "")
    prepare_jsonl(tmp_path / "a.jsonl", progress=True)
    assert "indexing" in capfd.readouterr().err


def test_a_url_is_prepared_in_place():
    store = MemoryFileSystem()
    store.pipe("/prepare_lines/a.jsonl", b'{"n": 0}\n{"n": 1}\n')
    assert prepare_jsonl("memory://prepare_lines/a.jsonl").samples == 2
    assert store.size("/prepare_lines/a.jsonl.idx") == 24


# ---- en.dataset ------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(5)))
    return path


def test_a_dataset_of_lines_gives_crude_samples(lines: Path):
    samples = list(en.dataset(lines, subset=(1, 3)))
    assert [type(sample) for sample in samples] == [en.CrudeSample] * 2
    assert [(sample["__key__"], sample["json"]) for sample in samples] == [("1", {"n": 1}), ("2", {"n": 2})]
    assert [sample["__subflavors__"] for sample in samples] == [None, None]


def test_subflavors_of_a_dataset_of_lines_are_given_to_each_sample(lines: Path):
    first, second, *_ = en.dataset(lines, subflavors={"language": "en"})
    assert first["__subflavors__"] == second["__subflavors__"] == {"language": "en"}
    assert first["__subflavors__"] is not second["__subflavors__"]


def test_a_dataset_of_lines_is_shuffled_and_skips_damaged_lines(lines: Path):
    with lines.open("a") as file:
        file.write("x\n")
    node = en.dataset(lines, shuffle=True, sequence_length=1, on_error="skip")
    passes = [[sample["json"]["n"] for sample in node] for _ in range(4)]
    assert all(sorted(one) == list(range(5)) for one in passes)
    assert len({tuple(one) for one in passes}) > 1


@pytest.mark.parametrize(
    "options", [{"split": "val"}, {"dataset_config": "d.yaml"}, {"image": "pil"}, {"resize": (2, 2)}, {"exif": True}]
)
def test_what_lines_do_not_have_is_refused_by_name(lines: Path, options: dict[str, object]):
    (name,) = options
    with pytest.raises(DatasetError, match=f"a.jsonl is a JSON Lines file.*leave out {name}="):
        en.dataset(lines, **options)  # pyright: ignore[reportArgumentType]
