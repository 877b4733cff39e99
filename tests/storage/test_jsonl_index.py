"""The index of JSON Lines: what a naive reader finds is what the fast one finds, block by block."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import example, given
from hypothesis import strategies as st

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import jsonl_index
from energon_nodes.storage.jsonl_index import RecordScan, count_records, scan_records, write_line_index

BOM = b"\xef\xbb\xbf"


def naive(data: bytes) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return the index of some bytes, and the records that look like no object, line by line."""
    entries: list[int] = []
    odd: list[tuple[int, int, int]] = []
    at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.removeprefix(BOM if number == 1 else b"").strip()
        if text:
            if text[:1] != b"{" or text[-1:] != b"}":
                odd.append((len(entries), number, at))
            entries.append(at if entries else 0)
        at += len(line) + 1
    return [*entries, len(data)], odd


def scanned(data: bytes, block: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    scan = RecordScan()
    found = [scan.feed(data[at : at + block]) for at in range(0, len(data), block)]
    entries = np.concatenate([*found, scan.finish()]).tolist()
    assert scan.records == len(entries) - 1
    assert scan.odd_count == len(scan.odd)
    return entries, [tuple(place) for place in scan.odd]


pieces = st.sampled_from([b"{", b"}", b'{"a": 1}', b"x", b" ", b"\t", b"\r", b"\n", b"\n", b"\r\n", b"\x0b", BOM])


@given(st.lists(pieces, max_size=40).map(b"".join), st.integers(3, 50))
@example(b"", 3)
@example(b"\n\n", 3)
@example(b'{"a":1}\n{"b":"x y"}\n\n{"c":3}\n\n', 64)
def test_every_file_gives_the_index_of_a_naive_reader(data: bytes, block: int):
    assert scanned(data, block) == naive(data)


@given(st.binary(max_size=300).map(lambda data: data.replace(b"\x07", b"\n")), st.integers(3, 64))
def test_random_bytes_give_the_index_of_a_naive_reader(data: bytes, block: int):
    assert scanned(data, block) == naive(data)


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (b'{"a":1}\n{"b":"x y"}\n\n{"c":3}\n\n', [0, 8, 21, 30]),
        (b'{"a":1}\n{"b":2}', [0, 8, 15]),
        (b'\n\n{"a":1}\n', [0, 10]),
        (b'{"a":1}\r\n\r\n{"b":2}\r\n', [0, 11, 20]),
        (b"", [0]),
        (b" \n\n", [3]),
    ],
)
def test_the_examples_of_the_format_come_out(tmp_path: Path, data: bytes, entries: list[int]):
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    assert write_line_index(str(path)).records == len(entries) - 1
    assert np.fromfile(tmp_path / "a.jsonl.idx", "<u8").tolist() == entries
    assert count_records(str(path)) == len(entries) - 1


def test_a_file_of_many_blocks_and_a_line_longer_than_some_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jsonl_index, "_BLOCK", 1000)
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"n": number, "text": "x" * (10_000 if number == 3 else number)}) for number in range(200)]
    path.write_text("\n".join(lines))
    scan = RecordScan()
    entries = np.concatenate(list(scan_records(str(path), scan)))
    starts = [0, *np.cumsum([len(line) + 1 for line in lines[:-1]]).tolist()]
    assert entries.tolist() == [*starts, path.stat().st_size]
    assert scan.odd == []


def test_only_the_first_hundred_odd_lines_are_kept_and_all_are_counted():
    scan = RecordScan()
    scan.feed(b"1\n" * 250)
    scan.finish()
    assert (len(scan.odd), scan.odd_count, scan.odd[99]) == (100, 250, (99, 100, 198))


def test_an_index_of_another_content_is_out_of_step(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n')
    write_line_index(str(path))
    with path.open("a") as file:
        file.write('{"b": 2}\n')
    with pytest.raises(DatasetError, match=r"out of step .* had 9 bytes, and it has 18 now: write it anew"):
        count_records(str(path))


@pytest.mark.parametrize("length", [0, 4, 17])
def test_an_index_that_is_no_whole_number_of_entries_is_refused(tmp_path: Path, length: int):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "a.jsonl.idx").write_bytes(bytes(length))
    with pytest.raises(DatasetError, match=f"has {length} bytes"):
        count_records(str(tmp_path / "a.jsonl"))


def test_a_failed_write_leaves_the_old_index(tmp_path: Path):
    import gzip

    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n')
    write_line_index(str(path))
    before = (tmp_path / "a.jsonl.idx").read_bytes()
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(DatasetError, match=r"compressed \(gzip\)"):
        write_line_index(str(path))
    assert (tmp_path / "a.jsonl.idx").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl", "a.jsonl.idx"]


def test_a_url_is_indexed_as_a_file_is():
    store = MemoryFileSystem()
    store.pipe("/index/a.jsonl", b'{"a": 1}\n\n{"b": 2}\n')
    write_line_index("memory://index/a.jsonl")
    assert np.frombuffer(store.cat("/index/a.jsonl.idx"), "<u8").tolist() == [0, 10, 19]
    assert count_records("memory://index/a.jsonl") == 2
