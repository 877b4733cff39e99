"""`lint` as a command: what it prints, and its exit statuses. What it finds is tested in tests/recipes/test_lint.py."""

import json
from pathlib import Path

import energon_nodes as en
from energon_nodes.recipes.problems import KINDS
from tests.cli.running import run
from tests.storage.tars import samples_of, write_tar

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_a_sound_dataset_has_status_0(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 3))
    assert run("lint", tmp_path).output == "no problems\n"


def test_errors_are_listed_with_place_and_remedy_and_status_1(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.txt", b"1"), ("b.json", b"{"), ("a.txt", b"2"), ("readme", b"3")])
    output = run("lint", tmp_path, "--progress", status=1).output
    assert "error undecodable-part  shard '0.tar' at byte 1536, sample 'b'" in output
    assert "error duplicate-key  shard '0.tar' at byte 2048, sample 'a'" in output
    assert "warning ignored-file  shard '0.tar' at byte 3072" in output
    assert f"→ {KINDS['duplicate-key'].remedy}" in output
    assert "2 errors, 1 warning\n" in output


def test_warnings_alone_have_status_0(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("readme", b"x"), ("a.txt", b"y")])
    assert run("lint", tmp_path).output.endswith("1 warning\n")


def test_decoding_can_be_left_out(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.json", b"{")])
    run("lint", tmp_path, status=1)
    run("lint", tmp_path, "--no-decode")


def test_json_has_counts_and_problems_with_all_keys(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.json", b"{"), ("\udcff", b"")])
    found = json.loads(run("lint", tmp_path, "--json", status=1).output)
    assert (found["path"], found["errors"], found["warnings"]) == (str(tmp_path), 1, 1)
    assert found["problems"][0] == {
        "severity": "error",
        "code": "undecodable-part",
        "what": found["problems"][0]["what"],
        "shard": "0.tar",
        "key": "a",
        "part": "json",
        "offset": 512,
        "line": None,
        "remedy": KINDS["undecodable-part"].remedy,
    }


def test_lines_are_checked(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"b"\n')
    output = run("lint", tmp_path / "a.jsonl", status=1).output
    assert "error bad-line  line 2 at byte 9" in output


def test_a_typed_dataset_is_checked_with_its_own_files(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 2))
    en.prepare(tmp_path, sample_type="TextSample", field_map={"text": "txt"}, dataset_yaml="texts.yaml")
    assert run("lint", tmp_path, "--dataset-config", "texts.yaml", "--workers", "1").output == "no problems\n"
    assert "warning missing-dataset-config" in run("lint", tmp_path).output


def test_the_page_lists_every_code_with_severity_meaning_and_remedy():
    rows = [f"| `{code}` | {kind.severity} | {kind.meaning} | {kind.remedy} |" for code, kind in KINDS.items()]
    page = PAGE.read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []
