"""Every problem that `lint` knows, made on purpose, and nothing reported where nothing is wrong."""

import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from PIL import Image

import energon_nodes as en
from energon_nodes.recipes.problems import KINDS
from tests.recipes.prepared import png
from tests.storage.tars import prepare_by_hand, samples_of, write_tar

CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
CAPTIONS = (
    "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
    "field_map: {image: png, caption: 'txt,json[caption]'}\n"
)


@dataclass(kw_only=True)
class OfTheUser(en.Sample):
    x: int


def codes(path: Path | str, **settings: object) -> list[str]:
    return [problem.code for problem in en.lint(path, **settings)]  # pyright: ignore[reportArgumentType]


def sound(root: Path) -> Path:
    """Write a prepared dataset of two shards without a fault, index.sqlite included."""
    for number in range(2):
        write_tar(root / f"{number}.tar", samples_of(10 * number, 10 * number + 10))
    prepare_by_hand(root)
    (root / ".nv-meta" / "dataset.yaml").write_text(CRUDE)
    (root / ".nv-meta" / "index.uuid").write_text(str(uuid.UUID(int=7)))
    write_sqlite(root)
    return root


def write_sqlite(root: Path) -> None:
    """Write the rows of `index.sqlite` as tarfile sees the shards."""
    with sqlite3.connect(root / ".nv-meta" / "index.sqlite") as connection:
        connection.execute(
            "CREATE TABLE samples (tar_file_id INTEGER, sample_key TEXT, sample_index INTEGER, byte_offset INTEGER, "
            "byte_size INTEGER)"
        )
        connection.execute(
            "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
            "content_byte_offset INTEGER, content_byte_size INTEGER)"
        )
        for number, path in enumerate(sorted(root.glob("*.tar"))):
            offsets = np.frombuffer(path.with_suffix(".tar.idx").read_bytes(), "<u8").tolist()
            with tarfile.open(path) as archive:
                members = archive.getmembers()
            for index, (begin, end) in enumerate(pairwise(offsets)):
                inside = [member for member in members if begin <= member.offset < end]
                key = inside[0].name.partition(".")[0]
                connection.execute("INSERT INTO samples VALUES (?,?,?,?,?)", (number, key, index, begin, end - begin))
                connection.executemany(
                    "INSERT INTO sample_parts VALUES (?,?,?,?,?)",
                    [(number, index, m.name.partition(".")[2], m.offset_data, m.size) for m in inside],
                )


# ---- nothing wrong ---------------------------------------------------------------------------


def test_a_sound_dataset_has_no_problems(tmp_path: Path):
    assert en.lint(sound(tmp_path)) == []


def test_tars_that_were_never_prepared_are_checked_too(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 3))
    assert en.lint(tmp_path) == []
    assert en.lint(tmp_path / "0.tar") == []


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_in_any_format_are_no_problem(tmp_path: Path, format: int):
    long = [] if format == tarfile.USTAR_FORMAT else [("l" * 150 + ".txt", b"x")]
    write_tar(tmp_path / "0.tar", samples_of(0, 3) + long, format)
    assert codes(prepare_by_hand(tmp_path)) == ["missing-dataset-config", "missing-sqlite"]


def test_a_dataset_on_a_remote_store_is_checked(tmp_path: Path):
    sound(tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            MemoryFileSystem().pipe(f"/lint-remote/{file.relative_to(tmp_path)}", file.read_bytes())
    assert codes("memory://lint-remote") == []
    MemoryFileSystem().rm("/lint-remote/1.tar.idx")
    assert codes("memory://lint-remote") == ["missing-index"]


def test_several_processes_find_what_one_finds_in_the_same_order(tmp_path: Path):
    for number in range(6):
        write_tar(tmp_path / f"{number}.tar", [*samples_of(0, 2), (f"x{number}.json", b"{")])
    alone = en.lint(tmp_path, workers=1)
    assert len(alone) == 6 + 5 * 2
    assert en.lint(tmp_path, workers=2) == alone


def test_types_of_the_user_and_data_in_this_process_are_checked_in_threads(tmp_path: Path):
    for number in range(4):
        write_tar(tmp_path / f"{number}.tar", [(f"a{number}.json", b'{"x": 1}'), (f"b{number}.json", b"{}")])
    prepare_by_hand(tmp_path)
    (tmp_path / ".nv-meta" / "dataset.yaml").write_text(
        f"sample_type: {{__module__: {__name__}, __class__: OfTheUser}}\nfield_map: {{x: 'json[x]'}}\n"
    )
    found = [problem.key for problem in en.lint(tmp_path, workers=3) if problem.code == "missing-field"]
    assert found == ["b0", "b1", "b2", "b3"]
    for file in tmp_path.glob("*.tar"):
        MemoryFileSystem().pipe(f"/lint-threads/{file.name}", file.read_bytes())
    assert en.lint("memory://lint-threads", workers=3) == []


def test_typed_samples_of_the_library_are_checked_in_processes(tmp_path: Path):
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", [(f"a{number}.json", b'{"x": "1"}'), (f"b{number}.json", b"{}")])
    en.prepare(tmp_path, sample_type="TextSample", field_map={"text": "json[x]"})
    found = en.lint(tmp_path, workers=2)
    assert [(problem.code, problem.key) for problem in found] == [("missing-field", f"b{n}") for n in range(3)]


# ---- members ---------------------------------------------------------------------------------


def test_a_part_that_stands_twice_in_a_sample_is_found(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.txt", b"1"), ("a.json", b"{}"), ("a.txt", b"2")])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.severity, problem.key, problem.part) == ("repeated-part", "error", "a", "txt")
    assert (problem.shard, problem.offset) == ("0.tar", 2560)
    assert "an error here, and Megatron-Energon keeps the last" in problem.what


@pytest.mark.parametrize("name", ["{0}.tar", "a\nb.tar"])
def test_names_of_shards_that_prepare_refuses_are_errors(tmp_path: Path, name: str):
    write_tar(tmp_path / name, samples_of(0, 2))
    assert codes(tmp_path) == ["bad-shard-name"]
    with pytest.raises(en.DatasetError, match="a split file cannot name"):
        en.prepare(tmp_path)


def test_interleaved_samples_are_told_from_repeated_ones(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("0.a", b""), ("1.a", b""), ("0.b", b""), ("1.b", b"")])
    write_tar(tmp_path / "1.tar", [("2.a", b""), ("3.a", b""), ("2.a", b"")])
    found = [(problem.code, problem.shard, problem.key, problem.offset) for problem in en.lint(tmp_path)]
    assert found == [
        ("interleaved-key", "0.tar", "0", 1024),
        ("interleaved-key", "0.tar", "1", 1536),
        ("duplicate-key", "1.tar", "2", 1024),
    ]


def test_keys_in_several_shards_are_named_with_both_places(tmp_path: Path):
    for name in ("x/0", "y/0"):
        write_tar(tmp_path / f"{name}.tar", [("own" + name[0] + ".txt", b"1"), ("same.txt", b"2")])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.shard, problem.key, problem.offset) == ("duplicate-key", "y/0.tar", "same", 1024)
    assert "'x/0.tar' at byte 1024" in problem.what


def test_names_with_dots_draw_a_warning(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("235342 Track 2.0 (Clean Version).mp3", b"x")])
    (problem,) = en.lint(tmp_path)
    assert (problem.severity, problem.code, problem.part) == ("warning", "dotted-part", "0 (Clean Version).mp3")
    assert "235342 Track 2" in problem.what


def test_a_part_name_for_nearly_every_sample_draws_one_warning(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [(f"{number}.v{number}.bin", b"") for number in range(120)])
    assert codes(tmp_path) == ["many-parts"]


def test_numbered_parts_and_parts_in_capitals_are_no_problem(tmp_path: Path):
    members = [("a.1.bin", b""), ("a.2.bin", b""), ("b.1.bin", b""), ("b.LEFT.JSON", b"{}"), ("c.TXT", b"c")]
    write_tar(tmp_path / "0.tar", members)
    assert codes(tmp_path) == []


def test_files_that_belong_to_no_sample_are_named(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("readme", b"x"), ("__meta__/a", b"y"), ("a.txt", b"z")])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.offset) == ("ignored-file", 0)
    assert "'readme'" in problem.what


def test_sparse_members_are_found(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [("a.txt", b"x")], tarfile.PAX_FORMAT, pax_headers={"GNU.sparse.major": "1"})
    assert path.exists()
    assert codes(tmp_path, decode=False) == ["sparse-member"]


# ---- shards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["0.tar", "0.tar.gz", "0.tgz"])
def test_compression_is_found_by_content_whatever_the_name(tmp_path: Path, name: str):
    plain = write_tar(tmp_path / "plain", samples_of(0, 2))
    (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    (problem,) = en.lint(tmp_path)
    assert problem.code == "compressed-shard"
    assert "gzip -d" in problem.what


@pytest.mark.parametrize(("cut", "offset"), [(2600, 2560), (2300, 2048), (4608, 4608)])
def test_a_shard_cut_anywhere_is_named_with_the_byte(tmp_path: Path, cut: int, offset: int):
    path = write_tar(tmp_path / "0.tar", [(f"{key}.txt", b"x" * 600) for key in "abc"])
    path.write_bytes(path.read_bytes()[:cut])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.severity) == ("damaged-shard", "error")
    assert problem.offset == offset or str(cut) in problem.what


def test_bytes_that_are_no_header_do_not_hide_what_stands_before(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [("a.json", b"{"), ("b.txt", b"x"), ("c.txt", b"y")])
    data = bytearray(path.read_bytes())
    data[2048:2560] = b"?" * 512
    path.write_bytes(data)
    assert codes(tmp_path) == ["undecodable-part", "damaged-shard"]


def test_an_empty_shard_is_a_warning(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 2))
    write_tar(tmp_path / "1.tar", [])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.severity, problem.shard) == ("empty-shard", "warning", "1.tar")


# ---- metadata against data -------------------------------------------------------------------


def drop_row(root: Path) -> None:
    with sqlite3.connect(root / ".nv-meta" / "index.sqlite") as connection:
        connection.execute("DELETE FROM samples WHERE tar_file_id = 1 AND sample_index = 4")


def move_part(root: Path) -> None:
    with sqlite3.connect(root / ".nv-meta" / "index.sqlite") as connection:
        connection.execute("UPDATE sample_parts SET content_byte_offset = 7 WHERE tar_file_id = 0 AND sample_index = 0")


def add_shard_to_sqlite(root: Path) -> None:
    with sqlite3.connect(root / ".nv-meta" / "index.sqlite") as connection:
        connection.execute("INSERT INTO samples VALUES (2, 'x', 0, 0, 1024)")


def move_index(root: Path) -> None:
    offsets = np.frombuffer((root / "1.tar.idx").read_bytes(), "<u8").copy()
    offsets[3] += 512
    (root / "1.tar.idx").write_bytes(offsets.tobytes())


def shorten_index(root: Path) -> None:
    (root / "1.tar.idx").write_bytes((root / "1.tar.idx").read_bytes()[:-8])


def change_info(root: Path, counts: dict[str, int]) -> None:
    (root / ".nv-meta" / ".info.json").write_text(json.dumps({"shard_counts": counts}))


def change_split(root: Path, parts: dict[str, list[str]], exclude: list[str] | None = None) -> None:
    text = json.dumps({"split_parts": parts, "exclude": exclude or []})
    (root / ".nv-meta" / "split.yaml").write_text(text)


OF_THE_MACHINE = ("unreadable" + "-shard", "missing" + "-package")
BOTH = {"train": ["0.tar", "1.tar"]}


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda root: (root / "1.tar").unlink(), ["missing-shard"]),
        (lambda root: write_tar(root / "2.tar", samples_of(20, 22)), ["unlisted-shard"]),
        (lambda root: (root / "1.tar.idx").unlink(), ["missing-index"]),
        (move_index, ["stale-index"]),
        (shorten_index, ["stale-index"]),
        (lambda root: change_info(root, {"0.tar": 10, "1.tar": 9}), ["wrong-count"]),
        (lambda root: (root / ".nv-meta" / ".info.json").write_text("{"), ["bad-metadata"]),
        (lambda root: (root / ".nv-meta" / "index.sqlite").unlink(), ["missing-sqlite"]),
        (lambda root: (root / ".nv-meta" / "index.sqlite").write_bytes(b"no database"), ["stale-sqlite"]),
        (drop_row, ["stale-sqlite"]),
        (move_part, ["stale-sqlite"]),
        (add_shard_to_sqlite, ["stale-sqlite"]),
        (lambda root: (root / ".nv-meta" / "index.uuid").unlink(), ["bad-uuid"]),
        (lambda root: (root / ".nv-meta" / "split.yaml").unlink(), ["bad-metadata"]),
        (lambda root: (root / ".nv-meta" / "split.yaml").write_text("train: []"), ["bad-metadata"]),
        (lambda root: change_split(root, {"train": ["{0..2}.tar"]}), ["unknown-split-shard"]),
        (lambda root: change_split(root, {"train": ["0.tar"]}), ["unsplit-shard"]),
        (lambda root: change_split(root, {"train": ["0.tar"]}, ["1.tar"]), []),
        (lambda root: change_split(root, BOTH | {"val": ["1.tar"]}), ["shared-shard"]),
        (lambda root: change_split(root, {"train": []}), ["unsplit-shard", "unsplit-shard", "empty-split"]),
        (lambda root: change_split(root, BOTH, ["2.tar/000001"]), ["unknown-exclude"]),
        (lambda root: change_split(root, BOTH, ["0.tar/000099"]), ["unknown-exclude"]),
        (lambda root: (root / ".nv-meta" / "dataset.yaml").unlink(), ["missing-dataset-config"]),
        (lambda root: (root / ".nv-meta" / "dataset.yaml").write_text("sample_tpye: x"), ["bad-metadata"]),
        (lambda root: (root / ".nv-meta" / "dataset.yaml").write_text(CRUDE + "training: yes\n"), ["unused-setting"]),
        (lambda root: (root / ".nv-meta" / "dataset.yaml").write_text(CAPTIONS), ["missing-field"] * 20),
    ],
)
def test_metadata_and_data_out_of_step_are_found(tmp_path: Path, damage: Callable[[Path], object], expected: list[str]):
    damage(sound(tmp_path))
    assert codes(tmp_path) == expected


def test_a_key_table_of_another_index_or_cut_short_is_found(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 4))
    en.prepare(tmp_path)
    assert en.lint(tmp_path) == []
    table = tmp_path / ".nv-meta" / "keys.table"
    whole = table.read_bytes()
    table.write_bytes(whole[:-9])
    assert codes(tmp_path) == ["stale-key-table"]
    write_tar(tmp_path / "1.tar", samples_of(4, 8))
    en.prepare(tmp_path, update=True)
    assert en.lint(tmp_path) == []
    table.write_bytes(whole)
    assert codes(tmp_path) == ["stale-key-table"]


def test_a_shard_that_was_written_anew_is_out_of_step_everywhere(tmp_path: Path):
    sound(tmp_path)
    write_tar(tmp_path / "1.tar", samples_of(30, 37))
    assert codes(tmp_path) == ["wrong-count", "stale-index", "stale-sqlite"]


# ---- content ---------------------------------------------------------------------------------


def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 60).convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("jpg", jpeg()[:-4]),
        ("jpg", jpeg()[:200]),
        ("PNG", b"no picture"),
        ("json", b'{"a": '),
        ("txt", b"\xff\xfe\xfd"),
        ("cls", b"three"),
        ("npy", b"\x93NUMPY"),
        ("txt.gz", b"not gzip"),
    ],
)
def test_parts_that_cannot_be_decoded_are_named(tmp_path: Path, name: str, data: bytes):
    write_tar(tmp_path / "0.tar", [("a.txt", b"fine"), (f"b.{name}", data), ("c.txt", b"fine")])
    (problem,) = en.lint(tmp_path)
    assert (problem.code, problem.shard, problem.key, problem.part) == ("undecodable-part", "0.tar", "b", name)
    assert en.lint(tmp_path, decode=False) == []


def test_every_undecodable_part_of_a_sample_is_listed(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.json", b"{"), ("a.cls", b"x"), ("a.png", png((1, 2, 3)))])
    assert [problem.part for problem in en.lint(tmp_path)] == ["json", "cls"]


def test_unusual_pictures_are_no_problem(tmp_path: Path):
    pictures: list[tuple[str, bytes]] = []
    kinds = [("I;16", "PNG"), ("L", "TIFF"), ("P", "PNG"), ("RGBA", "PNG"), ("CMYK", "JPEG")]
    for number, (mode, kind) in enumerate(kinds):
        buffer = io.BytesIO()
        Image.new(mode, (8, 6)).save(buffer, kind)
        pictures.append((f"{number}.{kind.lower()}", buffer.getvalue()))
    write_tar(tmp_path / "0.tar", pictures)
    assert en.lint(tmp_path) == []


def test_fields_that_cannot_be_filled_are_named_with_sample_and_reason(tmp_path: Path):
    members = [("a.png", png((1, 2, 3))), ("a.txt", b"a"), ("b.png", png((1, 2, 3))), ("b.json", b'{"text": 1}')]
    write_tar(tmp_path / "0.tar", members)
    prepare_by_hand(tmp_path)
    (tmp_path / ".nv-meta" / "dataset.yaml").write_text(CAPTIONS)
    problem = en.lint(tmp_path)[-1]
    assert (problem.code, problem.key) == ("missing-field", "b")
    assert "no key 'caption'" in problem.what


def test_excluded_samples_are_not_decoded(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.txt", b"a"), ("b.json", b"{")])
    prepare_by_hand(tmp_path, exclude=["0.tar/b"])
    assert codes(tmp_path) == ["missing-dataset-config", "missing-sqlite"]


def test_code_in_or_beside_the_data_runs_only_with_trust(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [(f"{key}.pkl", pickle.dumps({"x": 1})) for key in "abc"])
    prepare_by_hand(tmp_path)
    meta = tmp_path / ".nv-meta"
    (meta / "dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
        "sample_loader: sample_loader.py\npart_filter: [pkl]\n"
    )
    (meta / "sample_loader.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'ran')!r}).write_text('yes')\n"
        "def sample_loader(raw):\n"
        "    if raw['__key__'] == 'b': raise KeyError('b')\n"
        "    return {'text': str(raw['pkl']['x'])}\n"
    )
    found = en.lint(tmp_path)
    assert [problem.code for problem in found] == ["needs-trust", "missing-sqlite", "needs-trust"]
    assert not (tmp_path / "ran").exists()
    assert [(problem.code, problem.key) for problem in en.lint(tmp_path, trust=True)] == [
        ("missing-sqlite", None),
        ("failing-loader", "b"),
    ]
    assert (tmp_path / "ran").exists()


# ---- JSON lines ------------------------------------------------------------------------------


def test_damaged_lines_are_named_by_number_and_byte(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\r\n\n{"b": \n[3]\n{"c": 3}\n{"d": "\xff"}\n\n')
    found = [(problem.code, problem.line, problem.offset) for problem in en.lint(path)]
    assert found == [("bad-line", 3, 11), ("bad-line", 4, 18), ("bad-line", 6, 31)]


def test_the_index_of_a_file_of_lines_is_compared(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":"x y"}\n\n{"c":3}\n\n')
    index = tmp_path / "a.jsonl.idx"
    index.write_bytes(np.array([0, 8, 21, 30], "<u8").tobytes())
    assert codes(path) == []
    index.write_bytes(np.array([0, 8, 20, 30], "<u8").tobytes())
    assert codes(path) == ["stale-index"]
    index.write_bytes(np.array([0, 8, 21], "<u8").tobytes())
    assert codes(path) == ["stale-index"]


def test_a_file_without_records_is_an_error(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b"\n \n")
    assert codes(tmp_path / "a.jsonl") == ["empty-file"]


# ---- the call --------------------------------------------------------------------------------


def test_nothing_to_check_is_an_error(tmp_path: Path):
    with pytest.raises(en.DatasetError, match="no shards"):
        en.lint(tmp_path)
    with pytest.raises(en.DatasetError, match=r"0\.tar does not exist"):
        en.lint(tmp_path / "0.tar")
    with pytest.raises(en.DatasetError, match=r"a\.jsonl does not exist"):
        en.lint(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="workers >= 1"):
        en.lint(tmp_path, workers=0)
    write_tar(tmp_path / "0.tar", samples_of(0, 1))
    with pytest.raises(en.DatasetError, match="never prepared"):
        en.lint(tmp_path, split_config="split.yaml")


def test_lint_changes_nothing(tmp_path: Path):
    before = {path: path.read_bytes() for path in sound(tmp_path).rglob("*") if path.is_file()}
    en.lint(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_kind_of_problem_but_those_of_the_machine_is_made_above():
    made = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in KINDS if f'"{code}"' not in made] == list(OF_THE_MACHINE)
