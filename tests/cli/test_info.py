"""`info`: counts, sizes, splits, parts, of any kind of data."""

import json
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from tests.cli.running import run
from tests.recipes.prepared import png
from tests.storage.tars import prepare_by_hand, samples_of, write_tar

TOP = [
    "path",
    "kind",
    "shards",
    "samples",
    "bytes",
    "energon_version",
    "sample_type",
    "field_map",
    "sample_loader",
    "subflavors",
    "splits",
    "unsplit_shards",
    "parts",
    "media",
    "indexed",
    "warnings",
]


def read(*arguments: str | Path) -> dict:
    return json.loads(run("info", *arguments, "--json").output)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four shards of five samples; every other sample has a picture."""
    for number in range(4):
        members = []
        for key in range(5 * number, 5 * number + 5):
            members.append((f"{key:03d}.txt", b"x" * 100))
            members += [(f"{key:03d}.png", png((1, 2, 3)))] * (key % 2)
        write_tar(tmp_path / f"{number}.tar", members)
    return tmp_path


def test_a_prepared_dataset(folder: Path):
    en.prepare(folder, split="3,1,0", sample_type="TextSample", field_map={"text": "txt"}, media="extension")
    found = read(folder)
    assert list(found) == TOP
    size = sum(path.stat().st_size for path in folder.glob("*.tar"))
    assert (found["kind"], found["shards"], found["samples"], found["bytes"]) == ("prepared", 4, 20, size)
    assert (found["sample_type"], found["field_map"]) == ("megatron.energon:TextSample", {"text": "txt"})
    assert found["splits"]["train"] == {
        "shards": 3,
        "samples": 15,
        "bytes": 3 * size // 4,
        "percent": 75.0,
        "excluded_shards": 0,
        "excluded_samples": 0,
    }
    assert (found["splits"]["val"]["samples"], found["splits"]["test"]["samples"]) == (5, 0)
    assert found["parts"]["txt"] == {"samples": 20, "percent": 100.0, "bytes": 2000, "mean_bytes": 100.0}
    assert (found["parts"]["png"]["samples"], found["parts"]["png"]["percent"]) == (10, 50.0)
    assert (found["media"], found["indexed"], found["warnings"]) == (10, True, [])
    output = run("info", folder).output
    for text in ("prepared dataset", "text ← txt", "75.0 %", "10 entries"):
        assert text in output


def test_parts_are_the_same_with_and_without_index_sqlite(folder: Path):
    en.prepare(folder)
    with_sqlite = read(folder)
    (folder / ".nv-meta" / "index.sqlite").unlink()
    without = read(folder)
    assert without.pop("indexed") is False
    assert with_sqlite.pop("indexed") is True
    assert without == with_sqlite


def test_tars_that_were_never_prepared(folder: Path):
    found = read(folder)
    assert (found["kind"], found["shards"], found["samples"], found["splits"]) == ("tars", 4, 20, {})
    assert found["parts"]["png"]["samples"] == 10
    assert read(folder / "0.tar")["samples"] == 5
    assert read(folder, "--no-parts")["parts"] is None


def test_crude_data(folder: Path):
    en.prepare(folder, sample_type="crude")
    assert read(folder)["sample_type"] == "crude"
    assert "crude" in run("info", folder).output


def test_json_lines(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n{"a": 2}\n[3]\n')
    found = read(path)
    assert (found["kind"], found["samples"], found["bytes"], found["indexed"]) == ("jsonl", 3, 23, False)
    assert "line 4" in found["warnings"][0]
    en.prepare(path)
    assert read(path)["indexed"] is True


def test_excludes_and_shards_without_a_part_are_counted(folder: Path):
    prepare_by_hand(folder, {"train": ["0.tar", "1.tar"], "val": ["2.tar"]}, ["1.tar", "0.tar/000", "2.tar/010"])
    found = read(folder)
    assert found["splits"]["train"]["excluded_shards"] == found["splits"]["val"]["excluded_samples"] == 1
    assert (found["splits"]["train"]["samples"], found["unsplit_shards"]) == (5, 1)
    output = run("info", folder).output
    assert "(none)" in output
    assert "1 shards, 1 samples" in output


def test_what_is_broken_is_a_warning(folder: Path):
    en.prepare(folder)
    (folder / "3.tar").unlink()
    (folder / ".nv-meta" / "dataset.yaml").write_text("x: 1")
    (folder / ".nv-meta" / "split.yaml").write_text("x: 1")
    (folder / ".nv-meta" / "index.sqlite").write_bytes(b"no database " * 400)
    warnings = read(folder)["warnings"]
    assert len(warnings) == 4
    for text in ("'3.tar' does not exist", "dataset.yaml", "split.yaml", "index.sqlite"):
        assert any(text in warning for warning in warnings), text


def test_damaged_shards_are_counted_up_to_the_damage(folder: Path):
    path = folder / "1.tar"
    path.write_bytes(path.read_bytes()[:4000])
    found = read(folder)
    assert found["samples"] < 20
    assert "'1.tar' at byte" in found["warnings"][0]


def test_data_on_a_remote_store(folder: Path):
    en.prepare(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            MemoryFileSystem().pipe(f"/info-remote/{file.relative_to(folder)}", file.read_bytes())
    found, local = read("memory://info-remote"), read(folder)
    assert {**found, "path": ""} == {**local, "path": ""}


def test_names_that_are_no_text_and_control_characters_do_no_harm(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.\udcff", b"1"), ("b.\x1b[31m", b"2"), *samples_of(0, 1)])
    assert "\x1b" not in run("info", tmp_path).output
    assert set(read(tmp_path)["parts"]) == {"\udcff", "\x1b[31m", "txt", "cls"}
