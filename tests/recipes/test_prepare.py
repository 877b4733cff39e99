"""`prepare` makes a dataset of a folder of tars, or says what is wrong and writes nothing."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.storage.prepared_record import read_record
from tests.storage.tars import offsets_by_tarfile, read_by_tarfile, samples_of, write_tar

TABLES = {
    "samples": [
        ("tar_file_id", "INTEGER", 1),
        ("sample_key", "TEXT", 1),
        ("sample_index", "INTEGER", 1),
        ("byte_offset", "INTEGER", 0),
        ("byte_size", "INTEGER", 0),
    ],
    "sample_parts": [
        ("tar_file_id", "INTEGER", 0),
        ("sample_index", "INTEGER", 0),
        ("part_name", "TEXT", 0),
        ("content_byte_offset", "INTEGER", 0),
        ("content_byte_size", "INTEGER", 0),
    ],
}
INDICES = {
    "idx_samples_by_tar_and_idx": ["tar_file_id", "sample_index"],
    "idx_sample_parts_seq": ["tar_file_id", "sample_index", "content_byte_offset"],
    "idx_sample_parts_full": [
        *("tar_file_id", "sample_index", "part_name", "content_byte_offset", "content_byte_size"),
    ],
}


@dataclasses.dataclass
class Page(en.Sample):
    """A type that a program defines."""

    text: str
    number: int = 0


def folder_of(root: Path, shards: int = 4, samples: int = 5) -> Path:
    """Write shards `a/0.tar`, `b/1.tar`, `a/2.tar`, ... of samples with a txt and a cls."""
    for number in range(shards):
        path = root / "ab"[number % 2] / f"{number:02d}.tar"
        write_tar(path, samples_of(number * samples, (number + 1) * samples))
    return root


def rows(root: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{root}/.nv-meta/index.sqlite?mode=ro&immutable=1", uri=True)) as database:
        return database.execute(query).fetchall()


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_all_files_of_the_format_are_written(tmp_path: Path) -> None:
    prepared = en.prepare(folder_of(tmp_path), split="2,1,1")
    meta = tmp_path / ".nv-meta"
    names = ["a/00.tar", "a/02.tar", "b/01.tar", "b/03.tar"]
    assert json.loads((meta / ".info.json").read_text()) == {
        "energon_version": "7.4.1",
        "shard_counts": dict.fromkeys(names, 5),
    }
    assert list(json.loads((meta / ".info.json").read_text())["shard_counts"]) == names
    assert (meta / "split.yaml").read_text() == (
        "split_parts:\n  train:\n  - a/00.tar\n  - a/02.tar\n  val:\n  - b/01.tar\n  test:\n  - b/03.tar\nexclude: []\n"
    )
    assert (meta / "dataset.yaml").read_text() == "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
    assert len((meta / "index.uuid").read_text()) == 36
    for name in names:
        offsets = np.fromfile(tmp_path / name.replace(".tar", ".tar.idx"), "<u8").tolist()
        assert offsets == offsets_by_tarfile(tmp_path / name)
    assert set(prepared.written) == {path for path in files_in(tmp_path) if not path.endswith(".tar")}
    assert prepared.shards == dict.fromkeys(names, 5)
    assert prepared.splits == {"train": 2, "val": 1, "test": 1}
    assert prepared.samples_per_split == {"train": 10, "val": 5, "test": 5}
    assert prepared.parts == {"txt": 20, "cls": 20}
    assert prepared.bytes == sum(os.path.getsize(tmp_path / name) for name in names)
    assert (prepared.samples, prepared.duplicates, prepared.warnings) == (20, (), ())


def test_the_index_has_the_schema_and_the_rows_of_the_format(tmp_path: Path) -> None:
    en.prepare(folder_of(tmp_path))
    for table, columns in TABLES.items():
        assert [(name, kind, must) for _, name, kind, must, _, _ in rows(tmp_path, f"PRAGMA table_info({table})")] == (
            columns
        )
    found = {name for (name,) in rows(tmp_path, "SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert found == {"sqlite_autoindex_samples_1", *INDICES}
    for index, columns in INDICES.items():
        assert [name for _, _, name in rows(tmp_path, f"PRAGMA index_info({index})")] == columns
    assert rows(tmp_path, "PRAGMA index_info(sqlite_autoindex_samples_1)") == [(0, 1, "sample_key")]
    for pragma, value in [("page_size", 4096), ("user_version", 0), ("application_id", 0), ("encoding", "UTF-8")]:
        assert rows(tmp_path, f"PRAGMA {pragma}") == [(value,)]
    assert (tmp_path / ".nv-meta/index.sqlite").read_bytes()[18:20] == b"\1\1"  # no write-ahead log
    shards = list(json.loads((tmp_path / ".nv-meta/.info.json").read_text())["shard_counts"])
    expected_samples, expected_parts = [], []
    for shard, name in enumerate(shards):
        offsets = offsets_by_tarfile(tmp_path / name)
        with tarfile.open(tmp_path / name) as archive:
            members = archive.getmembers()
        for number, (start, stop) in enumerate(pairwise(offsets)):
            inside = [member for member in members if start <= member.offset < stop]
            expected_samples.append((shard, inside[0].name.partition(".")[0], number, start, stop - start))
            expected_parts += [(shard, number, m.name.partition(".")[2], m.offset_data, m.size) for m in inside]
    assert sorted(rows(tmp_path, "SELECT * FROM samples")) == sorted(expected_samples)
    assert sorted(rows(tmp_path, "SELECT * FROM sample_parts")) == sorted(expected_parts)
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_what_was_prepared_is_read_with_no_edit(tmp_path: Path) -> None:
    folder_of(tmp_path)
    en.prepare(tmp_path, split={"train": 0.5, "holdout": 0.5})
    names = list(json.loads((tmp_path / ".nv-meta/.info.json").read_text())["shard_counts"])
    for split, shards in {"train": names[:2], "holdout": names[2:]}.items():
        expected = [sample for shard in shards for sample in read_by_tarfile(tmp_path / shard)]
        assert [
            (s["__key__"], {"txt": s["txt"], "cls": s["cls"]}) for s in en.shards(tmp_path, split=split)
        ] == expected
        texts = [sample["txt"] for sample in en.dataset(tmp_path, split=split)]
        assert texts == [parts["txt"].decode() for _, parts in expected]


def test_samples_are_found_by_key(tmp_path: Path) -> None:
    en.prepare(folder_of(tmp_path))
    assert (tmp_path / ".nv-meta/keys.table").exists()
    store = en.store(tmp_path)
    assert store["000013.txt"] == dict(samples_of(0, 20))["000013.txt"]


def test_remote_folders_are_prepared_as_local_ones(tmp_path: Path) -> None:
    folder_of(tmp_path)
    memory = MemoryFileSystem()
    for name, data in files_in(tmp_path).items():
        memory.pipe(f"/prepared-remotely/{name}", data)
    there = en.prepare("memory://prepared-remotely", split="1,1,0", workers=1)
    here = en.prepare(tmp_path, split="1,1,0")
    local = files_in(tmp_path)
    assert there.written == here.written
    for name in here.written:
        if name.rpartition("/")[2] in (".info.json", "split.yaml", "dataset.yaml") or name.endswith(".idx"):
            assert memory.cat_file(f"/prepared-remotely/{name}") == local[name]
    assert [s["__key__"] for s in en.shards("memory://prepared-remotely", split="val")] == [
        s["__key__"] for s in en.shards(tmp_path, split="val")
    ]


def test_shards_are_excluded_by_pattern(tmp_path: Path) -> None:
    prepared = en.prepare(folder_of(tmp_path), exclude=["b/", "nothing"])
    assert list(prepared.shards) == ["a/00.tar", "a/02.tar"]
    assert len(prepared.warnings) == 1
    assert "exclude='nothing' fits no shard" in prepared.warnings[0]
    assert not (tmp_path / "b/01.tar.idx").exists()
    with pytest.raises(en.DatasetError, match="exclude leaves no shard"):
        en.prepare(tmp_path, exclude=".", overwrite=True)
    with pytest.raises(ValueError, match="no regular expression"):
        en.prepare(tmp_path, exclude="(", overwrite=True)


def test_shards_are_shuffled_before_they_are_divided(tmp_path: Path) -> None:
    for number in range(10):
        write_tar(tmp_path / f"part_{number}.tar", samples_of(number, number + 1))
    en.prepare(tmp_path, split="8,1,1", shuffle=True)
    split = {part: [s["__shard__"] for s in en.shards(tmp_path, split=part)] for part in ("train", "val", "test")}
    # The order of Megatron-Energon for its seed, 42.
    assert [name[5] for name in split["train"]] == list("73285694")
    assert [name[5] for part in ("val", "test") for name in split[part]] == ["0", "1"]
    en.prepare(tmp_path, split="8,1,1", shuffle=True, seed=1, overwrite=True)
    assert [s["__shard__"] for s in en.shards(tmp_path, split="train")] != split["train"]
    assert list(json.loads((tmp_path / ".nv-meta/.info.json").read_text())["shard_counts"]) == [
        f"part_{number}.tar" for number in range(10)
    ]


def test_a_part_that_gets_no_shard_is_told(tmp_path: Path) -> None:
    prepared = en.prepare(folder_of(tmp_path, shards=2), split="8,1,1")
    assert prepared.splits == {"train": 1, "val": 0, "test": 1}
    assert prepared.warnings == ("split part 'val' got no shard: 2 are too few for a share of 1",)


def test_a_pattern_without_shards_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    folder_of(tmp_path)
    before = files_in(tmp_path)
    with pytest.raises(en.DatasetError, match=r"'c/'.*nearest names: "):
        en.prepare(tmp_path, split={"train": "a/", "val": "c/"})
    assert files_in(tmp_path) == before


def test_shards_in_no_part_are_told(tmp_path: Path) -> None:
    prepared = en.prepare(folder_of(tmp_path), split={"train": "a/"})
    assert prepared.warnings == ("2 of 4 shards are in no part of the split: 'b/01.tar', 'b/03.tar'",)
    assert list(prepared.shards) == ["a/00.tar", "a/02.tar", "b/01.tar", "b/03.tar"]


# What is wrong with shards


def damaged(root: Path) -> Iterator[tuple[str, str]]:
    """Write shards that cannot be prepared, and yield their names with what must be said of each."""
    folder_of(root)
    whole = (root / "a/00.tar").read_bytes()
    offsets = offsets_by_tarfile(root / "a/00.tar")
    (root / "cut.tar").write_bytes(whole[: offsets[3] + 522])
    yield "cut.tar", f"shard cut.tar at byte {offsets[3] + 512}: the file ends at byte {offsets[3] + 522}"
    (root / "no_end.tar").write_bytes(whole[: offsets[-1]])
    yield "no_end.tar", f"shard no_end.tar at byte {offsets[-1]}: the file ends here, without the end-of-archive mark"
    (root / "zipped.tar").write_bytes(gzip.compress(whole))
    yield "zipped.tar", "shard zipped.tar at byte 0: the file is compressed (gzip)"
    (root / "z.tgz").write_bytes(gzip.compress(whole))
    yield "z.tgz", "shard z.tgz at byte 0: the file is compressed (gzip)"
    (root / "noise.tar").write_bytes(b"noise" * 1000)
    yield "noise.tar", "shard noise.tar at byte 0: not a tar header"
    (root / "nothing.tar").write_bytes(b"")
    yield "nothing.tar", "shard nothing.tar at byte 0: the file is empty"
    write_tar(root / "mixed.tar", [("x0.a", b"1"), ("x1.a", b"2"), ("x0.b", b"3"), ("x1.b", b"4")])
    yield "mixed.tar", "shard mixed.tar at bytes 1024 and 3072: the key 'x1' stands in 2 places of the shard"
    write_tar(root / "twice.tar", [("q.jpg", b"1"), ("q.json", b"2"), ("q.jpg", b"3")])
    yield "twice.tar", "shard twice.tar at byte 0: sample 'q' has the part 'jpg' twice"
    write_tar(root / "bytes.tar", [("\udcffx.txt", b"1")])
    yield "bytes.tar", "the key '\\udcffx' is no UTF-8 text"


def test_all_damaged_shards_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    expected = list(damaged(tmp_path))
    before = files_in(tmp_path)
    with pytest.raises(en.DatasetError) as caught:
        en.prepare(tmp_path)
    for _, message in expected:
        assert message in str(caught.value)
    assert f"{len(expected)} of {4 + len(expected)} shards cannot be prepared" in str(caught.value)
    assert files_in(tmp_path) == before
    assert not (tmp_path / ".nv-meta").exists()
    prepared = en.prepare(tmp_path, exclude=[f"^{name}$" for name, _ in expected])
    assert prepared.samples == 20


def test_a_damaged_shard_leaves_the_old_dataset_as_it_was(tmp_path: Path) -> None:
    en.prepare(folder_of(tmp_path))
    (tmp_path / "noise.tar").write_bytes(b"noise" * 1000)
    before = files_in(tmp_path)
    for settings in ({"overwrite": True}, {"update": True}):
        with pytest.raises(en.DatasetError, match="nothing was written"):
            en.prepare(tmp_path, **settings)  # pyright: ignore[reportArgumentType]
    assert files_in(tmp_path) == before


def test_sparse_files_are_refused_by_name(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "0.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.bin")
        info.pax_headers = {"GNU.sparse.size": "7"}
        archive.addfile(info)
    with pytest.raises(en.DatasetError, match=r"'a\.bin' is stored sparse, which readers refuse"):
        en.prepare(tmp_path)


def test_many_problems_of_one_shard_are_counted(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [(f"{k:04d}.{part}", b"") for part in "ab" for k in range(500)])
    write_tar(tmp_path / "1.tar", [(f"{k:04d}.{part}", b"") for part in "ab" for k in range(500)])
    with pytest.raises(en.DatasetError, match="and 1,960 more places in these shards") as caught:
        en.prepare(tmp_path)
    assert "shard 1.tar at byte 0" in str(caught.value)
    assert len(str(caught.value)) < 20_000


def test_an_empty_shard_among_full_ones_is_told_and_does_no_harm(tmp_path: Path) -> None:
    folder_of(tmp_path)
    write_tar(tmp_path / "empty.tar", [("readme", b"no sample")])
    prepared = en.prepare(tmp_path)
    assert prepared.warnings == ("1 shards have no samples: 'empty.tar'",)
    assert prepared.shards["empty.tar"] == 0
    assert len(list(en.shards(tmp_path, split="train"))) == 20


def test_shards_that_are_all_empty_are_an_error(tmp_path: Path) -> None:
    write_tar(tmp_path / "empty.tar", [])
    with pytest.raises(en.DatasetError, match=r"'empty\.tar' have no samples, and nothing was written"):
        en.prepare(tmp_path)
    assert files_in(tmp_path).keys() == {"empty.tar"}


def test_keys_of_two_shards_are_named_and_only_lookup_is_left_out(tmp_path: Path) -> None:
    folder_of(tmp_path)
    en.prepare(tmp_path)
    write_tar(tmp_path / "c.tar", [("000003.txt", b"other"), ("new.txt", b"x"), ("000011.txt", b"other")])
    with pytest.raises(
        en.DuplicateKeysError, match=r"'000003' in a/00\.tar and c\.tar; '000011' in a/02\.tar and c\.tar"
    ) as (caught):
        en.prepare(tmp_path, overwrite=True)
    prepared = caught.value.prepared
    assert [tuple(one) for one in prepared.duplicates] == [
        ("000003", "a/00.tar", "c.tar"),
        ("000011", "a/02.tar", "c.tar"),
    ]
    assert prepared.samples == 23
    present = files_in(tmp_path)
    assert not {".nv-meta/index.sqlite", ".nv-meta/index.uuid", ".nv-meta/keys.table"} & present.keys()
    assert {".nv-meta/.info.json", "c.tar.idx"} <= present.keys()
    assert len(list(en.shards(tmp_path, split="train"))) == 23
    with pytest.raises(en.DatasetError, match="prepare the dataset again"):
        en.store(tmp_path)["000003.txt"]
    (tmp_path / "c.tar").unlink()
    (tmp_path / "c.tar.idx").unlink()
    assert en.prepare(tmp_path, update=True).samples == 20
    assert en.store(tmp_path)["000003.cls"] == b"3"


def test_a_folder_without_shards_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(en.DatasetError, match="no shards"):
        en.prepare(tmp_path)
    with pytest.raises(en.DatasetError, match="does not exist"):
        en.prepare(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(en.DatasetError, match="is no folder"):
        en.prepare(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_names_with_dots_in_them_are_told(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [(f"{k} Track {k}.0 (Clean Version {k}).mp3", b"") for k in range(150)])
    prepared = en.prepare(tmp_path)
    assert "the key of a sample ends at the first dot" in prepared.warnings[0]


# What is there already


def test_a_prepared_dataset_is_prepared_again_only_on_request(tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / "mine.yaml").write_text(
        "split_parts: {train: ['b/01.tar'], rest: ['a/00.tar']}\nexclude: [b/01.tar/000006]"
    )
    en.prepare(tmp_path, split=tmp_path / "mine.yaml", sample_type=Page, field_map={"text": "txt", "number": "cls"})
    before = files_in(tmp_path)
    with pytest.raises(en.DatasetError, match="prepared already: say update=True"):
        en.prepare(tmp_path)
    assert files_in(tmp_path) == before
    again = en.prepare(tmp_path, overwrite=True)
    after = files_in(tmp_path)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {f".nv-meta/{name}" for name in ("index.uuid", "prepared.json", "index.sqlite", "keys.table")}
    assert before[".nv-meta/index.uuid"] != after[".nv-meta/index.uuid"]
    assert again.splits == {"train": 1, "rest": 1}
    assert [sample.__key__ for sample in en.dataset(tmp_path, split="train", trust=True)] == [
        f"{number:06d}" for number in (5, 7, 8, 9)
    ]


def test_indices_alone_are_made_again(tmp_path: Path) -> None:
    folder_of(tmp_path)
    en.prepare(tmp_path, split="1,1,0", exclude="b/03")
    before = files_in(tmp_path)
    for name in before:
        if name.endswith(".idx") or name.rpartition("/")[2] in ("index.sqlite", "index.uuid", "keys.table"):
            (tmp_path / name).unlink()
    prepared = en.prepare(tmp_path, index_only=True)
    after = files_in(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in before if name.endswith((".idx", ".info.json", ".yaml")))
    assert prepared.splits == {"train": 1, "val": 2, "test": 0}
    record = read_record(str(tmp_path))
    assert record is not None
    assert record.exclude == ("b/03",)


def test_counts_that_are_wrong_are_corrected_with_the_indices(tmp_path: Path) -> None:
    en.prepare(folder_of(tmp_path))
    write_tar(tmp_path / "a/00.tar", samples_of(100, 107))
    (tmp_path / "a/00.tar.idx").write_bytes(bytes(8 * 20))
    with pytest.raises(en.DatasetError, match="out of step"):
        list(en.shards(tmp_path, split="train"))
    assert en.prepare(tmp_path, index_only=True).shards["a/00.tar"] == 7
    assert len(list(en.shards(tmp_path, split="train"))) == 22


def test_an_older_info_file_is_kept_in_step(tmp_path: Path) -> None:
    folder_of(tmp_path)
    en.prepare(tmp_path)
    meta = tmp_path / ".nv-meta"
    counts = json.loads((meta / ".info.json").read_text())["shard_counts"]
    (meta / ".info.yaml").write_text("shard_counts:\n" + "".join(f"  {name}: 9\n" for name in counts))
    (meta / ".info.json").unlink()
    en.prepare(tmp_path, index_only=True)
    assert json.loads((meta / ".info.json").read_text())["shard_counts"] == counts
    (meta / ".info.json").unlink()
    assert len(list(en.shards(tmp_path, split="train"))) == 20


@pytest.mark.parametrize(
    "settings",
    [
        {"split": "1,0,0"},
        {"exclude": "a"},
        {"shuffle": True},
        {"sample_type": "crude"},
        {"update": True},
        {"media": "header"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_indices_alone_leave_no_room_for_other_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"leave out {next(iter(settings))}"):
        en.prepare(folder_of(tmp_path), index_only=True, **settings)


def test_only_one_of_update_and_overwrite_can_be_meant(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="say one of them"):
        en.prepare(tmp_path, update=True, overwrite=True)
    with pytest.raises(ValueError, match="workers >= 1"):
        en.prepare(tmp_path, workers=0)
    with pytest.raises(ValueError, match=r"must be the name of a \.yaml file"):
        en.prepare(tmp_path, dataset_yaml="../x.yaml")


# JSON Lines


def test_a_file_of_json_lines_gets_its_index(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    assert en.prepare(tmp_path / "a.jsonl").samples == 2
    assert (tmp_path / "a.jsonl.idx").exists()
    with pytest.raises(ValueError, match="leave out split, workers"):
        en.prepare(tmp_path / "a.jsonl", split="1,0,0", workers=2)


# Progress


def test_the_bar_shows_rate_and_time_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    en.prepare(folder_of(tmp_path), progress=True)
    shown = capsys.readouterr().err
    assert "indexing shards: 100%" in shown
    assert "20 samples" in shown
    assert "B/s" in shown
    en.prepare(tmp_path, overwrite=True)
    assert capsys.readouterr().err == ""
