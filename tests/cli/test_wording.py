"""Errors name options of the command line, not arguments of Python."""

from pathlib import Path

import pytest

from energon_nodes.cli.wording import for_command
from tests.cli.running import run
from tests.storage.tars import samples_of, write_tar


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("say update=True or overwrite=True, or index_only=True", "say --update or --overwrite, or --index-only"),
        ("leave them out with exclude=", "leave them out with --exclude"),
        ("read them anew with media=", "read them anew with --media"),
        ("say split= for another", "say --split for another"),
        ("allow it to run with trust=True", "allow it to run with --trust"),
        ("media='colour' asks for none", "--media 'colour' asks for none"),
        ("as in part_filter=['jpg', 'json']", "as in --part-filter jpg,json"),
        (
            "either a field_map, as in {'image': 'PART', 'text': 'PART'}, or",
            "either a field map, as in --field-map image=PART --field-map text=PART, or",
        ),
        ("correct them, or skip them with on_error='skip'", "correct them"),
        ("'split=a.tar' and /data/split=a/0.tar stay", "'split=a.tar' and /data/split=a/0.tar stay"),
    ],
)
def test_phrases_of_python_become_options(text: str, expected: str):
    assert for_command(text) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--exclude", "["), "--exclude '['"),
        (("--split", "a"), "--split-parts NAME:PATTERN"),
        (("--split", "1,1"), "--split-parts NAME:PATTERN"),
        (("--sample-type", "TextSample"), "--field-map text=PART"),
    ],
)
def test_errors_of_prepare_name_options(tmp_path: Path, options: tuple[str, ...], expected: str):
    write_tar(tmp_path / "0.tar", samples_of(0, 3))
    output = run("prepare", tmp_path, *options, status=2).output
    assert expected in " ".join(output.split())


def test_damaged_shards_are_left_out_with_an_option(tmp_path: Path):
    (tmp_path / "0.tar").write_bytes(b"noise" * 300)
    assert "leave them out with --exclude" in run("prepare", tmp_path, status=1).output


@pytest.mark.parametrize("command", ["info", "lint", "preview", "prepare"])
@pytest.mark.parametrize("name", ["bad.yaml", "x.jsonl.gz"])
def test_files_that_are_no_data_are_errors(tmp_path: Path, command: str, name: str):
    (tmp_path / name).write_bytes(b"\x1f\x8b" + bytes(20) if name.endswith("gz") else b"a: 1\n")
    output = run(command, tmp_path / name, status=1).output
    expected = "is no folder" if command == "prepare" else "neither a tar nor a .jsonl file"
    assert expected in output
