"""`prepare(update=True)` indexes what changed, and ends where preparing all of it would end."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

import energon_nodes as en
from energon_nodes.storage import shard_rows
from energon_nodes.storage.scan import ShardContents, read_contents
from tests.storage.tars import samples_of, write_tar


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the names of the shards that are read."""
    names: list[str] = []

    def noted(path: str) -> ShardContents:
        names.append(Path(path).name)
        return read_contents(path)

    monkeypatch.setattr(shard_rows, "read_contents", noted)
    return names


def shard(root: Path, number: int, first: int | None = None, samples: int = 5) -> None:
    first = number * 100 if first is None else first
    write_tar(root / f"{number:02d}.tar", samples_of(first, first + samples))


def shards(root: Path, count: int = 10) -> Path:
    for number in range(count):
        shard(root, number)
    return root


def state(root: Path) -> dict[str, Any]:
    """Return all that the files say, without what is another one each time."""
    meta = root / ".nv-meta"
    with closing(sqlite3.connect(f"file:{meta}/index.sqlite?mode=ro&immutable=1", uri=True)) as database:
        tables = {
            table: sorted(database.execute(f"SELECT * FROM {table}").fetchall())
            for table in ("samples", "sample_parts")
        }
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    files = {path.name: path.read_bytes() for path in root.glob("*.tar.idx") if path.with_suffix("").exists()}
    texts = {name: (meta / name).read_text() for name in (".info.json", "split.yaml", "dataset.yaml")}
    record = json.loads((meta / "prepared.json").read_text())
    record.pop("uuid")
    return {**tables, **files, **texts, "record": record}


def test_only_new_and_changed_shards_are_read(tmp_path: Path, indexed: list[str]) -> None:
    en.prepare(shards(tmp_path), split="8,1,1")
    indexed.clear()
    shard(tmp_path, 3, samples=7)
    (tmp_path / "05.tar").unlink()
    write_tar(tmp_path / "025.tar", samples_of(9000, 9003))
    prepared = en.prepare(tmp_path, update=True)
    assert indexed == ["025.tar", "03.tar"]
    assert list(prepared.shards) == sorted(path.name for path in tmp_path.glob("*.tar"))
    assert prepared.samples == 9 * 5 + 2 + 3
    assert prepared.parts == {"txt": 50, "cls": 50}
    updated = state(tmp_path)
    store = en.store(tmp_path)
    for key in ("000000", "000306", "009002", "000904"):
        assert store[f"{key}.txt"] == dict(samples_of(int(key), int(key) + 1))[f"{key}.txt"]
    assert "000500.txt" not in store
    # The same as if all of it were prepared again, with the split that there is.
    indexed.clear()
    en.prepare(tmp_path, overwrite=True)
    assert len(indexed) == 10
    assert state(tmp_path) == updated


def test_without_a_change_nothing_is_read_and_nothing_written(tmp_path: Path, indexed: list[str]) -> None:
    first = en.prepare(shards(tmp_path), split="8,1,1", exclude="07")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    indexed.clear()
    again = en.prepare(tmp_path, update=True)
    assert indexed == []
    assert again.written == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert (again.shards, again.splits, again.parts, again.bytes) == (
        *(first.shards, first.splits, first.parts, first.bytes),
    )


def test_a_shard_that_was_only_touched_is_read_again(tmp_path: Path, indexed: list[str]) -> None:
    en.prepare(shards(tmp_path, 3))
    indexed.clear()
    os.utime(tmp_path / "01.tar")
    en.prepare(tmp_path, update=True)
    assert indexed == ["01.tar"]


def test_new_shards_go_where_the_ratios_say_and_the_others_stay(tmp_path: Path) -> None:
    en.prepare(shards(tmp_path), split="8,1,1", shuffle=True)
    before = {part: [s["__shard__"] for s in en.shards(tmp_path, split=part)] for part in ("train", "val", "test")}
    for number in range(10, 20):
        shard(tmp_path, number)
    assert en.prepare(tmp_path, update=True).splits == {"train": 16, "val": 2, "test": 2}
    after = {part: [s["__shard__"] for s in en.shards(tmp_path, split=part)] for part in before}
    assert all(after[part][: len(before[part])] == before[part] for part in before)


def test_new_shards_go_where_the_patterns_say(tmp_path: Path) -> None:
    en.prepare(shards(tmp_path, 4), split={"even": "0[02468]", "odd": "0[13579]"})
    shard(tmp_path, 4)
    shard(tmp_path, 5)
    assert en.prepare(tmp_path, update=True).splits == {"even": 3, "odd": 3}


def test_what_was_excluded_stays_excluded_and_a_new_pattern_counts(tmp_path: Path) -> None:
    en.prepare(shards(tmp_path, 4), exclude="02")
    shard(tmp_path, 4)
    assert list(en.prepare(tmp_path, update=True).shards) == ["00.tar", "01.tar", "03.tar", "04.tar"]
    assert list(en.prepare(tmp_path, update=True, exclude="03").shards) == ["00.tar", "01.tar", "02.tar", "04.tar"]


def test_a_new_split_or_type_is_written_without_reading_shards(tmp_path: Path, indexed: list[str]) -> None:
    en.prepare(shards(tmp_path, 4))
    indexed.clear()
    prepared = en.prepare(tmp_path, update=True, split="1,1,0", sample_type="TextSample", field_map={"text": "txt"})
    assert (indexed, prepared.splits) == ([], {"train": 2, "val": 2, "test": 0})
    assert next(iter(en.dataset(tmp_path, split="val"))).text == "text 200 "


def test_a_split_and_a_dataset_file_written_by_hand_are_kept(tmp_path: Path) -> None:
    en.prepare(shards(tmp_path, 4))
    meta = tmp_path / ".nv-meta"
    split = "# mine\nsplit_parts:\n  train: ['0{0..2}.tar']\n  val: [03.tar]\nexclude: [01.tar/000101, 03.tar/000300]\n"
    (meta / "split.yaml").write_text(split)
    (meta / "dataset.yaml").write_text("# mine\n__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    shard(tmp_path, 2, samples=6)
    en.prepare(tmp_path, update=True)
    assert (meta / "split.yaml").read_text() == split
    assert (meta / "dataset.yaml").read_text().startswith("# mine")
    (tmp_path / "03.tar").unlink()
    en.prepare(tmp_path, update=True)
    assert (meta / "split.yaml").read_text() == (
        'split_parts:\n  train:\n  - "{00..02}.tar"\n  val: []\nexclude:\n- "01.tar/000101"\n'
    )
    assert len(list(en.shards(tmp_path, split="train"))) == 15


def test_a_dataset_of_another_program_is_updated_by_reading_all_of_it(tmp_path: Path, indexed: list[str]) -> None:
    en.prepare(shards(tmp_path, 4), split="1,1,0")
    (tmp_path / ".nv-meta/prepared.json").unlink()
    shard(tmp_path, 4)
    indexed.clear()
    prepared = en.prepare(tmp_path, update=True)
    assert len(indexed) == 5
    assert prepared.splits == {"train": 3, "val": 2, "test": 0}
    assert prepared.warnings == ("1 new shards were put into the split part 'train': say split= for another",)


def test_an_index_that_is_damaged_is_made_anew(tmp_path: Path, indexed: list[str]) -> None:
    en.prepare(shards(tmp_path, 4))
    expected = state(tmp_path)
    with closing(sqlite3.connect(tmp_path / ".nv-meta/index.sqlite")) as database, database:
        database.execute("DELETE FROM samples WHERE tar_file_id = 2 AND sample_index = 1")
    shard(tmp_path, 4)
    indexed.clear()
    prepared = en.prepare(tmp_path, update=True)
    assert "was of no use (it has 4 samples of 02.tar, which has 5)" in prepared.warnings[0]
    assert len(indexed) == 5
    assert state(tmp_path)["samples"][:20] == expected["samples"]
    (tmp_path / ".nv-meta/index.sqlite").write_bytes(b"nonsense" * 1000)
    shard(tmp_path, 5)
    assert "was of no use" in en.prepare(tmp_path, update=True).warnings[0]
    assert len(state(tmp_path)["samples"]) == 30


def test_a_key_that_a_new_shard_repeats_is_named(tmp_path: Path) -> None:
    en.prepare(shards(tmp_path, 4))
    shard(tmp_path, 4, first=302)
    with pytest.raises(en.DuplicateKeysError, match=r"'000302' in 03\.tar and 04\.tar"):
        en.prepare(tmp_path, update=True)
    shard(tmp_path, 4)
    assert en.prepare(tmp_path, update=True).samples == 25
    assert en.store(tmp_path)["000304.cls"] == b"4"


def test_the_first_time_an_update_prepares_all(tmp_path: Path) -> None:
    assert en.prepare(shards(tmp_path), update=True, split="8,1,1").samples == 50


@pytest.mark.parametrize("seed", range(6))
def test_after_any_changes_an_update_ends_where_preparing_anew_does(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    number = 0
    en.prepare(shards(tmp_path, 6), split="3,2,1")
    for _ in range(3):
        for _ in range(random.randrange(1, 5)):
            number += 1
            there = sorted(tmp_path.glob("*.tar"))
            what = random.choice(["add", "change", "remove"])
            if what == "add":
                write_tar(
                    tmp_path / f"{random.randrange(100):02d}x{number}.tar", samples_of(number * 1000, number * 1000 + 3)
                )
            elif what == "change":
                write_tar(random.choice(there), samples_of(number * 1000, number * 1000 + random.randrange(6)))
            elif len(there) > 2:
                random.choice(there).unlink()
        en.prepare(tmp_path, update=True)
        updated = state(tmp_path)
        en.prepare(tmp_path, overwrite=True)
        again = state(tmp_path)
        assert again == updated


# Media


def test_media_of_shards_that_did_not_change_are_kept(tmp_path: Path) -> None:
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", [(f"{number}.png", png(tmp_path, number + 1)), (f"{number}.txt", b"x")])
    en.prepare(tmp_path, media="extension")
    assert en.store(tmp_path).media("1.png")["width"] == 2
    again = en.prepare(tmp_path, overwrite=True)
    assert (again.warnings, en.store(tmp_path).media("2.png")["width"]) == ((), 3)
    write_tar(tmp_path / "1.tar", [("1.png", png(tmp_path, 9))])
    changed = en.prepare(tmp_path, update=True)
    assert changed.warnings == (
        "1 entries about media are gone, because their shards changed: read them anew with media=",
    )
    store = en.store(tmp_path)
    assert [store.media(f"{number}.png")["width"] for number in (0, 2)] == [1, 3]
    with pytest.raises(en.EnergonNodesError, match=r"no media metadata of '1\.png'"):
        store.media("1.png")
    en.prepare(tmp_path, update=True, media="extension")
    assert en.store(tmp_path).media("1.png")["width"] == 9


def test_media_that_no_part_is_are_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    shards(tmp_path, 2)
    with pytest.raises(en.DatasetError, match="media='extension' asks for none of its parts, 'txt', 'cls'"):
        en.prepare(tmp_path, media="extension")
    assert not (tmp_path / ".nv-meta").exists()
    with pytest.raises(ValueError, match='media must be "extension"'):
        en.prepare(tmp_path, media="pictures")


def png(folder: Path, width: int) -> bytes:
    path = folder / "picture.png"
    Image.new("RGB", (width, 2)).save(path)
    data = path.read_bytes()
    path.unlink()
    return data
