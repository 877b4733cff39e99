"""JSON Lines beside the real Megatron-Energon: the same index, byte for byte, and the same samples both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import energon_nodes as en
from energon_nodes.recipes.prepare_jsonl import prepare_jsonl
from tests.interop import megatron

FILES = {
    "plain": "".join(json.dumps({"n": n, "text": "grün " * n}, ensure_ascii=False) + "\n" for n in range(300)).encode(),
    "no_last_end": b'{"n": 0}\n{"n": 1}',
    "crlf": b'{"n": 0}\r\n{"n": 1}\r\n',
    "blank": b'\n \n{"n": 0}\n\n\t\n{"n": 1}\n{"n": 2}\n\n\n',
    "spaces": b'  {"n": 0}  \n\t{"n": 1} \r\n',
    "large": b'{"n": 0, "text": "%s"}\n{"n": 1}\n' % (b"x" * 5_000_000),
    "numbers": b'{"n": 123456789012345678901234567890, "f": 1e400, "g": NaN, "n": 2, "n": 36893488147419103232}\n',
    "surrogates": b'{"n": "\\ud83d\\ude00 \\ud800", "": null}\n',
}


def prepare(path: Path) -> subprocess.CompletedProcess[str]:
    """Run `energon prepare` as a user does."""
    command = Path(sys.executable).with_name("energon")
    return subprocess.run(
        [command, "prepare", "--non-interactive", "--no-progress", path], capture_output=True, text=True
    )


@pytest.mark.parametrize("name", FILES)
def test_the_index_is_the_same_byte_for_byte(tmp_path: Path, name: str) -> None:
    paths = [tmp_path / side / "a.jsonl" for side in ("ours", "theirs")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(FILES[name])
    prepared = prepare_jsonl(paths[0])
    done = prepare(paths[1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Found {prepared.samples} samples" in done.stdout
    assert paths[0].with_suffix(".jsonl.idx").read_bytes() == paths[1].with_suffix(".jsonl.idx").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_both_read_the_same_samples_through_that_index(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(FILES[name])
    prepare_jsonl(path)
    ours, theirs = list(en.dataset(path)), megatron.read(path)
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert repr(mine["json"]) == repr(other["json"])  # NaN is not equal to itself
        for field in ("__key__", "__shard__", "__subflavors__"):
            assert mine[field] == other[field]
        (source,), (its_source,) = mine["__sources__"], other["__sources__"]
        for field in ("dataset_path", "index", "shard_name", "file_names"):
            assert getattr(source, field) == getattr(its_source, field)


def test_one_odd_line_stops_its_prepare_and_is_a_warning_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 0}\n[1]\n{"n": 2}\n')
    assert prepare(path).returncode != 0
    assert "line 2" in prepare_jsonl(path).warnings[0]
    assert [sample["json"]["n"] for sample in en.jsonl(path, on_error="skip")] == [0, 2]
