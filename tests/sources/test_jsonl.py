"""JSON Lines as a source: what comes, in which order, and what happens to damaged lines and indices."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from energon_nodes import testing
from energon_nodes.core.errors import DatasetError, FatalSampleError, SampleError, ShardError, StateError
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.sources import read_ahead
from energon_nodes.sources.jsonl import jsonl
from energon_nodes.storage.jsonl_index import write_line_index

COUNT = 23
BIG = 2**200 + 1


def write_lines(path: Path, first: int = 0, last: int = COUNT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{"n": number, "text": "grün " * number} for number in range(first, last)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_folder(root: Path) -> Path:
    """Write 23 records in three files of unequal size, one of them in a folder below."""
    write_lines(root / "a.jsonl", 0, 9)
    write_lines(root / "b" / "b.jsonl", 9, 10)
    write_lines(root / "c.jsonl", 10, COUNT)
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("lines"))


def numbers(node: Node[dict[str, Any]]) -> list[int]:
    return [sample["json"]["n"] for sample in node]


PIPELINES: dict[str, Callable[[Path], Node[Any]]] = {
    "in order": jsonl,
    "shuffled": lambda folder: jsonl(folder, shuffle=True, sequence_length=4),
    "globally shuffled": lambda folder: jsonl(folder, shuffle=True, sequence_length=1),
    "side by side": lambda folder: jsonl(folder, shuffle=True, sequence_length=3, parallel_sequences=3),
    "a subset, one order": lambda folder: jsonl(
        folder, shuffle=True, subset=(0.1, 0.9), fixed_epoch=True, sequence_length=2
    ),
    "unparsed": lambda folder: jsonl(folder, parse=False),
    "deep": lambda folder: jsonl(folder, shuffle=True, sequence_length=3).shuffle(5).batch(2).repeat().epochize(9),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_contract_holds(folder: Path, name: str):
    testing.check_contract(lambda: PIPELINES[name](folder), most=12, workers=False)


# ---- what comes ------------------------------------------------------------------------------


def test_samples_have_object_number_file_and_sources(folder: Path):
    sample = list(jsonl(folder))[9]
    assert list(sample) == ["__key__", "__shard__", "__sources__", "json"]
    assert (sample["__key__"], sample["__shard__"], sample["json"]) == ("9", "b/b.jsonl", {"n": 9, "text": "grün " * 9})
    (source,) = sample["__sources__"]
    assert source == (str(folder / "b" / "b.jsonl"), 9, "b/b.jsonl", ("0.json",))


@pytest.mark.parametrize(
    "path",
    [
        lambda folder: folder,
        lambda folder: str(folder),
        lambda folder: [folder / "a.jsonl", folder / "b", folder / "c.jsonl"],
        lambda folder: str(folder / "{a,b/b,c}.jsonl"),
        lambda folder: [folder / "[ab].jsonl", folder / "*" / "*.jsonl", folder / "c.jsonl"],
    ],
)
def test_several_files_are_one_range_in_order(folder: Path, path: Callable[[Path], Any]):
    source = jsonl(path(folder))
    assert (numbers(source), len(source)) == (list(range(COUNT)), COUNT)


def test_the_order_of_a_list_is_kept(folder: Path):
    assert numbers(jsonl([folder / "c.jsonl", folder / "a.jsonl"])) == [*range(10, COUNT), *range(9)]


def test_crlf_blank_lines_a_mark_and_a_missing_last_end_are_no_matter(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n  {"n": 0} \r\n\r\n\t\n{"n": 1}\r\n\x0c\n{"n": 2}')
    for write_index in (False, True):
        if write_index:
            write_line_index(str(path))
        assert numbers(jsonl(path)) == [0, 1, 2]
        assert [sample["json"] for sample in jsonl(path, parse=False)] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}']


def test_a_mark_stands_in_front_of_the_first_record_of_each_file(tmp_path: Path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(b'\xef\xbb\xbf{"n": 7}\n{"n": 8}\n')
    assert numbers(jsonl(tmp_path)) == [7, 8, 7, 8]


def test_huge_lines_and_numbers_are_exact(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    records = [{"n": BIG}, {"n": 1, "text": "x" * 9_000_000}, {"n": -BIG}, {"n": 3}]
    path.write_text("\n".join(map(json.dumps, records)))
    assert [sample["json"] for sample in jsonl(path)] == records


def test_what_json_does_not_have_and_python_writes_is_read(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": NaN, "m": -Infinity}\n{"n": 1, "n": 2}\n')
    first, second = (sample["json"] for sample in jsonl(path))
    assert np.isnan(first["n"])
    assert (first["m"], second) == (float("-inf"), {"n": 2})


def test_records_can_be_rebuilt_at_random(folder: Path):
    source = jsonl(folder, subset=(20, "end"))
    assert [key for _, key in source.with_keys()] == [(0, 20), (0, 21), (0, 22)]
    restored = source.restore_many([(0, 22), (1, 0), (0, 22), (3, 9)])
    assert [sample["json"]["n"] for sample in restored] == [22, 0, 22, 9]
    with pytest.raises(IndexError):
        source.restore((0, COUNT))


def test_passes_differ_and_hold_every_record_once(folder: Path):
    source = jsonl(folder, shuffle=True, sequence_length=2)
    passes = [numbers(source) for _ in range(3)]
    assert all(sorted(one) == list(range(COUNT)) for one in passes)
    assert passes[0] != passes[1] != passes[2]


def test_streams_share_the_records(folder: Path):
    found: list[int] = []
    for stream in range(4):
        source = jsonl(folder, shuffle=True, sequence_length=2)
        source.bind(Context(stream=stream, streams=4))
        found += numbers(source)
    assert sorted(found) == list(range(COUNT))


def test_a_description_says_what_is_read(folder: Path):
    text = repr(jsonl(folder, shuffle=True, subset=(0.0, 0.5), parse=False))
    for part in (str(folder), "11 records in 3 files", "shuffle=True", "subset=(0.0, 0.5)", "parse=False"):
        assert part in text


def test_empty_files_give_nothing_and_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "a.jsonl").write_text("\n\n")
    write_lines(tmp_path / "b.jsonl", 0, 2)
    assert numbers(jsonl(tmp_path)) == [0, 1]
    assert "1 of 2 files" in caplog.text
    assert "a.jsonl" in caplog.text
    assert numbers(jsonl(tmp_path / "a.jsonl", shuffle=True)) == []


# ---- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence_length": 0}, "jsonl needs an int sequence_length >= 1"),
        ({"parallel_sequences": 0}, "parallel_sequences >= 1"),
        ({"on_error": "ignore"}, "on_error"),
        ({"subset": (0.0, 2.0)}, "between 0.0 and 1.0"),
        ({"index": "memory"}, "jsonl needs index="),
        ({"index": "file"}, r"a.jsonl has no index .*a.jsonl.idx: write it with"),
    ],
)
def test_settings_out_of_range_are_refused_at_construction(folder: Path, options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        jsonl(folder, **options)


def test_what_is_not_there_is_named_with_what_is(folder: Path, tmp_path: Path):
    with pytest.raises(DatasetError, match=r"d.jsonl does not exist; .* has a.jsonl, b/b.jsonl, c.jsonl"):
        jsonl(folder / "d.jsonl")
    with pytest.raises(DatasetError, match=r"no shards \(\*.jsonl\) in the folder"):
        jsonl(tmp_path)
    with pytest.raises(DatasetError, match="does not exist"):
        jsonl([folder / "a.jsonl", folder / "d.jsonl"])


def test_compressed_files_are_refused_by_name(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(b'{"n": 1}\n'))
    with pytest.raises(DatasetError, match=r"a.jsonl is compressed \(gzip\).*unpack it"):
        jsonl(tmp_path / "a.jsonl")


# ---- the index -------------------------------------------------------------------------------


def test_an_index_beside_the_file_is_used_and_must_fit(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl")
    write_line_index(str(path))
    np.fromfile(f"{path}.idx", "<u8")[[0, 2, -1]].tofile(f"{path}.idx")  # an index that skips records
    assert len(jsonl(path)) == 2
    assert numbers(jsonl(path, index="scan")) == list(range(COUNT))
    with path.open("a") as file:
        file.write('{"n": 23}\n')
    for index in ("auto", "file"):
        with pytest.raises(DatasetError, match="out of step"):
            jsonl(path, index=index)
    assert len(jsonl(path, index="scan")) == COUNT + 1


def test_a_cache_keeps_the_index_until_the_file_changes(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl", 0, 5)
    cache = tmp_path / "cache"
    assert numbers(jsonl(path, cache=cache)) == list(range(5))
    (entry,) = cache.iterdir()
    assert numbers(jsonl(path, cache=cache, shuffle=True, sequence_length=5)) == list(range(5))
    write_lines(path, 0, 6)
    assert len(jsonl(path, cache=cache)) == 6
    assert len(list(cache.iterdir())) == 2
    assert entry.exists()


def test_clones_and_pickles_share_the_index(folder: Path, tmp_path: Path):
    source: Any = jsonl(folder)
    assert source.clone().shard_set is source.shard_set
    again = pickle.loads(pickle.dumps(source))
    assert again.shard_set.fingerprint == source.shard_set.fingerprint
    assert numbers(again) == list(range(COUNT))
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(20_000)))
    assert len(pickle.dumps(jsonl(path))) < 40_000
    write_line_index(str(path))
    indexed = jsonl(path)
    assert len(pickle.dumps(indexed)) < 1500
    assert numbers(pickle.loads(pickle.dumps(indexed)))[-1] == 19_999


def test_an_index_made_after_the_start_makes_no_difference_to_a_state(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl")
    source = jsonl(path, shuffle=True, sequence_length=2)
    taken = [next(source) for _ in range(5)]
    state = source.state_dict()
    rest = list(source)
    write_line_index(str(path))
    again = jsonl(path, shuffle=True, sequence_length=2)
    again.reset(state)
    assert (len(taken), list(again)) == (5, rest)


def test_a_state_of_other_data_is_refused_with_both_values(folder: Path, tmp_path: Path):
    source = jsonl(folder)
    next(source)
    other = jsonl(write_lines(tmp_path / "a.jsonl", 0, 5))
    with pytest.raises(StateError, match="samples=23 where this pipeline has samples=5"):
        other.reset(source.state_dict())


def test_a_relative_path_stays_what_it_was_when_the_program_goes_elsewhere(tmp_path: Path, monkeypatch: Any):
    write_lines(tmp_path / "data" / "a.jsonl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    source = jsonl("data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(list(source)) == COUNT


# ---- damage ----------------------------------------------------------------------------------

DAMAGED = {
    "cut": (b'{"n": 1', "Expecting ',' delimiter, at character 8"),
    "no JSON": (b"n = 1", "Expecting value, at character 1"),
    "two objects": (b'{"n": 1} {"n": 2}', "more stands behind the JSON value, from character 9"),
    "something behind": (b'{"n": 1}x', "more stands behind"),
    "a list": (b"[1, 2]", "it holds a list, not an object"),
    "a number": (b"17", "it holds a int, not an object"),
    "no UTF-8": (b'{"n": "\xff"}', "byte 8 of it is not UTF-8"),
    "too deep": (b'{"n": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deep"),
    "too many digits": (b'{"n": ' + b"9" * 5000 + b"}", "4300"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("last", [False, True])
def test_a_damaged_line_is_named_and_the_stream_goes_on(tmp_path: Path, kind: str, last: bool):
    line, reason = DAMAGED[kind]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 0}\n\n  ' + line + (b"" if last else b'\n{"n": 2}\n'))
    source = jsonl(path)
    assert next(source)["json"] == {"n": 0}
    with pytest.raises(SampleError) as caught:
        next(source)
    message = str(caught.value)
    assert message.startswith(f"line 3 of {path} (sample '1', at byte 12) is no JSON object: ")
    assert reason in message
    assert "on_error='skip'" in message
    assert "restore key (0, 1)" in "".join(caught.value.__notes__)
    assert numbers(source) == ([] if last else [2])
    with pytest.raises(SampleError, match="is no JSON object"):
        source.restore((0, 1))


def test_damaged_lines_are_skipped_and_counted_or_given_to_a_function(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 0}\nx\n{"n": 2}\n[]\n{"n": 4}\n')
    source: Any = jsonl(path, on_error="skip")
    assert (numbers(source), source.failed) == ([0, 2, 4], 2)
    seen: list[Any] = []
    assert numbers(jsonl(path, on_error=lambda error, key: seen.append((type(error), key)))) == [0, 2, 4]
    assert seen == [(SampleError, (0, 1)), (SampleError, (0, 3))]
    everything = tmp_path / "b.jsonl"
    everything.write_bytes(b"x\n" * 300)
    with pytest.raises(FatalSampleError, match="elements in a row failed"):
        next(jsonl(everything, on_error="skip"))


def test_an_object_over_two_lines_is_two_damaged_records_never_one(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":\n 0}\n{"n": 1}\n')
    source: Any = jsonl(path, on_error="skip")
    assert (numbers(source), source.failed) == ([1], 2)


def test_a_file_that_was_cut_behind_our_back_is_named(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl")
    source = jsonl(path)
    os.truncate(path, 40)
    assert next(source)["json"]["n"] == 0
    with pytest.raises(SampleError, match="the file ends before byte"):
        for _ in source:
            pass


def test_a_file_that_vanished_is_named(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl")
    source = jsonl(path)
    path.unlink()
    with pytest.raises(ShardError, match=r"record 0 of .*a.jsonl cannot be read: .*No such file"):
        next(source)


# ---- remote ----------------------------------------------------------------------------------


@pytest.fixture
def remote(folder: Path) -> str:
    for name in ("a.jsonl", "b/b.jsonl", "c.jsonl"):
        MemoryFileSystem().pipe(f"/lines_source/{name}", (folder / name).read_bytes())
    return "memory://lines_source"


def test_remote_files_give_the_same_records(folder: Path, remote: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_ahead, "_SCATTERED_SAMPLES", 3)
    for options in ({}, {"shuffle": True, "sequence_length": 2}, {"shuffle": True, "sequence_length": 1}):
        assert numbers(jsonl(remote, **options)) == numbers(jsonl(folder, **options))
    assert numbers(jsonl(f"{remote}/*.jsonl")) == [*range(9), *range(10, COUNT)]


def test_a_remote_index_is_used(remote: str):
    write_line_index(f"{remote}/a.jsonl")
    assert numbers(jsonl(f"{remote}/a.jsonl", index="file")) == list(range(9))
    MemoryFileSystem().rm("/lines_source/a.jsonl.idx")


def test_damage_in_a_remote_file_is_named_by_record():
    MemoryFileSystem().pipe("/lines_damaged/a.jsonl", b'{"n": 0}\nx\n')
    with pytest.raises(SampleError, match=r"record 1 of memory://lines_damaged/a.jsonl \(sample '1', at byte 9\)"):
        list(jsonl("memory://lines_damaged/a.jsonl"))
