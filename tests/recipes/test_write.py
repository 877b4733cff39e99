"""Writing a pipeline as a dataset: what is written is read again, and a crash loses nothing."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, SampleError


def sample(number: int) -> dict[str, Any]:
    return {"__key__": f"a/{number:03d}", "txt": f"text {number}", "json": {"n": number}}


def unnamed(number: int) -> dict[str, Any]:
    return {"txt": f"text {number}", "cls": number}


def samples(count: int = 10, make: Callable[[int], Any] = sample, **options: Any) -> en.Node[Any]:
    return en.items(range(count), **options).map(make)


def contents(folder: Path, pattern: str = "*.tar") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- what is written -------------------------------------------------------------------------


def test_what_is_written_is_read_again(tmp_path: Path):
    folder = tmp_path / "deep" / "out"
    prepared = en.write(samples(), folder, max_samples=4)
    assert prepared.shards == {"shard_000000.tar": 4, "shard_000001.tar": 4, "shard_000002.tar": 2}
    assert (prepared.samples, prepared.parts, prepared.splits["train"]) == (10, {"txt": 10, "json": 10}, 3)
    assert prepared.written[:3] == tuple(prepared.shards)
    read = list(en.shards(folder, split="train").decode())
    assert [(each["__key__"], each["txt"], each["json"]) for each in read] == [
        (f"a/{number:03d}", f"text {number}", {"n": number}) for number in range(10)
    ]
    assert not (folder / ".nv-meta" / "write").exists()
    assert not [name for name in names(folder) if name.startswith(".partial")]


def test_samples_without_keys_are_numbered_over_all_shards(tmp_path: Path):
    en.write(samples(make=unnamed), tmp_path / "out", max_samples=4)
    assert [each["__key__"] for each in en.shards(tmp_path / "out")] == [f"{number:09d}" for number in range(10)]


def test_a_function_makes_the_keys(tmp_path: Path):
    en.write(samples(), tmp_path / "out", key=lambda sample: f"n{sample['json']['n']}")
    assert [each["__key__"] for each in en.shards(tmp_path / "out")] == [f"n{number}" for number in range(10)]


def test_a_shard_ends_with_the_sample_that_fills_it(tmp_path: Path):
    pipeline = samples(7, lambda number: {"bin": bytes(1000 * number)})
    prepared = en.write(pipeline, tmp_path / "out", max_bytes=6000, max_samples=None, prepare=False)
    assert list(prepared.shards.values()) == [4, 2, 1]
    assert list(en.write(samples(7), tmp_path / "one", max_bytes=None).shards.values()) == [7]


def test_without_prepare_there_are_only_shards(tmp_path: Path):
    prepared = en.write(samples(), tmp_path / "out", max_samples=5, name="part-%d.tar", prepare=False)
    assert names(tmp_path / "out") == ["part-0.tar", "part-1.tar"]
    assert (prepared.samples, prepared.parts, prepared.splits) == (10, {"txt": 10, "json": 10}, {})
    assert prepared.bytes == sum(map(len, contents(tmp_path / "out").values()))
    assert len(en.shards(tmp_path / "out")) == 10


def test_split_type_and_field_map_go_to_prepare(tmp_path: Path):
    en.write(
        samples(),
        tmp_path / "out",
        max_samples=1,
        split="8,1,1",
        sample_type="TextSample",
        field_map={"text": "json[n]"},
        subflavors={"from": "here"},
    )
    (only,) = en.dataset(tmp_path / "out", split="val")
    assert (type(only), only.text, only.__subflavors__) == (en.TextSample, 8, {"from": "here"})


@dataclass(kw_only=True)
class Scored(en.Sample):
    picture: Any
    caption: str
    scores: np.ndarray[Any, Any]
    note: str | None = None


def test_dataclasses_are_written_field_by_field_and_come_back_typed(tmp_path: Path):
    picture = torch.arange(48, dtype=torch.uint8).reshape(3, 4, 4)
    pipeline = en.items(range(3)).map(
        lambda n: Scored(__key__=f"s{n}", picture=picture + n, caption=f"c{n}", scores=np.arange(n))
    )
    en.write(
        pipeline,
        tmp_path / "out",
        encode={"picture": "png", "caption": "txt", "scores": "scores.npy", "note": "note.txt"},
        sample_type=f"{__name__}:Scored" if "." not in __name__ else Scored,
        field_map={"picture": "png", "caption": "txt", "scores": "scores.npy"},
    )
    read = list(en.shards(tmp_path / "out").decode(image="torchrgb8"))
    for number, each in enumerate(read):
        assert torch.equal(each["png"], picture + number)
        assert (each["__key__"], each["txt"], each["scores.npy"].tolist()) == (
            f"s{number}",
            f"c{number}",
            list(range(number)),
        )
        assert "note.txt" not in each


def test_what_the_library_adds_to_samples_is_not_written(tmp_path: Path):
    en.write(samples(), tmp_path / "one")
    en.write(en.dataset(tmp_path / "one", subflavors={"a": 1}), tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_encode_renames_makes_bytes_and_leaves_out(tmp_path: Path):
    pipeline = en.items([{"a": "x", "b": "y", "c": "z", "d": b"d"}])
    en.write(pipeline, tmp_path / "out", encode={"a": "a.txt", "b": str.encode, "c": None, "d": ("e", lambda d: d * 2)})
    (only,) = en.shards(tmp_path / "out")
    assert {name: only[name] for name in only if name[:2] != "__"} == {"a.txt": b"x", "b": b"y", "e": b"dd"}


# ---- the same bytes --------------------------------------------------------------------------


def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path):
    found = []
    for workers in (0, 1, 2):
        pipeline = samples(50, shuffle=True).shuffle(5)
        en.write(pipeline, tmp_path / f"{workers}", max_samples=8, num_workers=workers, streams=4, seed=3)
        found.append(contents(tmp_path / f"{workers}") | contents(tmp_path / f"{workers}", "*.idx"))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 14


def test_a_shard_is_what_tarfile_would_write_and_holds_nothing_of_the_machine(tmp_path: Path):
    en.write(samples(3), tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "shard_000000.tar") as archive:
        members = archive.getmembers()
    assert [member.name for member in members[:2]] == ["a/000.txt", "a/000.json"]
    assert {(member.mtime, member.uid, member.gid, member.uname, member.mode) for member in members} == {
        (0, 0, 0, "", 0o644)
    }
    assert (tmp_path / "out" / "shard_000000.tar").stat().st_size % 10_240 == 0


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"__key__": "a.b", "txt": "x"}, r"would be read as part 'b.txt' of sample 'a'.*no dot"),
        ({"__key__": "__a__/b", "txt": "x"}, "belong to no sample"),
        ({"__key__": "", "txt": "x"}, "belong to no sample"),
        ({"__key__": "/etc/a", "txt": "x"}, "leads out of its folder"),
        ({"__key__": "../a", "txt": "x"}, "leads out of its folder"),
        ({"__key__": "a\0b", "txt": "x"}, "a zero in it"),
        ({"__key__": "a\ud800", "txt": "x"}, "no valid text"),
        ({"__key__": 7, "txt": "x"}, "the key of a sample is text, got 7"),
        ({"__key__": "a", "b/c": b"x"}, "belong to no sample"),
        ({"__key__": "a", "__mine__": b"x"}, "two underscores"),
        ({"__key__": "a", 3: b"x"}, "names of parts are text"),
        ({"__key__": "a"}, "has no parts"),
        ({"__key__": "a", "html": "x"}, r"'a' cannot be written: no rule turns a str .* encode=\{'html'"),
        ({"__key__": "a", "txt": None}, "no rule turns a NoneType"),
        ({"__key__": "a", "txt": 3}, "no rule turns a int.*'json'"),
        ({"__key__": "a", "cls": True}, "no rule turns a bool"),
        ({"__key__": "a", "json": {1, 2}}, "TypeError: Object of type set"),
        ({"__key__": "a", "npy": np.array([None])}, "Object arrays cannot be saved"),
        ({"__key__": "a", "jpg": torch.zeros(3, 4, 4)}, "float32, and images hold uint8"),
        ({"__key__": "a", "jpg": torch.zeros(5, 4, 3, dtype=torch.uint8)}, r"\(C, H, W\) for tensors"),
        ({"__key__": "a", "jpg": Image.new("RGBA", (2, 2))}, "cannot write mode RGBA as JPEG"),
        ([1, 2], "an element is a list, and samples are dicts"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path: Path, element: Any, message: str):
    with pytest.raises(SampleError, match=message) as caught:
        en.write(en.items([element]), tmp_path / "out")
    assert any("restore key (0, 0)" in note for note in caught.value.__notes__)
    assert list((tmp_path / "out").glob("*.tar")) == []


def test_what_cannot_be_written_is_skipped_on_demand(tmp_path: Path):
    pipeline = en.items([{"txt": "a"}, {"txt": 3}, {"txt": "b"}])
    assert en.write(pipeline, tmp_path / "out", on_error="skip").samples == 2


def test_a_key_that_comes_twice_is_named_with_both_places(tmp_path: Path):
    def twice(number: int) -> dict[str, Any]:
        return {"__key__": f"k{number % 7}", "txt": "x"}

    with pytest.raises(DatasetError, match=r"samples 0 and 7 have the same key 'k0'.*key=lambda"):
        en.write(samples(10, twice), tmp_path / "one")
    with pytest.raises(DatasetError, match=r"sample 7 has the key 'k0', which a sample in .*shard_000000.tar has"):
        en.write(samples(9, twice), tmp_path / "two", max_samples=3)
    assert not (tmp_path / "two" / "shard_000002.tar").exists()


def test_samples_with_and_without_keys_do_not_mix(tmp_path: Path):
    with pytest.raises(DatasetError, match="sample 1 has no __key__, and those before it have one"):
        en.write(en.items([{"__key__": "a", "txt": "x"}, {"txt": "x"}]), tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_samples": 0}, "max_samples >= 1"),
        ({"max_bytes": -1}, "max_bytes >= 1"),
        ({"name": "shard.tar"}, "one number such as"),
        ({"name": "%d/%d.tar"}, "one number such as"),
        ({"name": "shard_%06d.zip"}, "one number such as"),
        ({"quality": 101}, "quality <= 100"),
        ({"encode": {"a": "txt", "b": "txt"}}, "two fields under the part 'txt'"),
        ({"num_workers": 2}, "streams=2 suits 2 workers"),
        ({"num_workers": 2, "streams": 3}, "streams"),
        ({"prepare": False, "split": "1,0,0"}, "prepare=False writes no metadata, where split"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        en.write(samples(), tmp_path / "out", **options)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "8,2"}, "three numbers"),
        ({"split": "none.yaml"}, "none.yaml does not exist"),
        ({"sample_type": "TextSampl", "field_map": {"text": "txt"}}, "did you mean 'TextSample'"),
        ({"sample_type": "TextSample"}, "needs either a field_map"),
        ({"sample_type": "TextSample", "field_map": {"txt": "txt"}}, "no field 'txt'; did you mean 'text'"),
        ({"field_map": {"text": "txt"}}, "crude samples have no fields"),
        ({"subflavors": {"of": object()}}, "subflavors need plain data"),
    ],
)
def test_a_mistake_in_the_metadata_shows_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], message: str
):
    with pytest.raises((ValueError, DatasetError), match=message):
        en.write(samples(), tmp_path / "out", **options)
    assert names(tmp_path) == []


def test_a_pipeline_without_end_or_without_samples_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"has no end.*limit\(n\)"):
        en.write(samples().repeat(), tmp_path / "out")
    with pytest.raises(DatasetError, match="gives no sample"):
        en.write(samples(0), tmp_path / "out")
    with pytest.raises(TypeError, match="needs a pipeline, got a list"):
        en.write([sample(0)], tmp_path / "out")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"encode\['a'\] must be"):
        en.write(samples(), tmp_path / "out", encode={"a": 3})  # pyright: ignore[reportArgumentType]
    assert names(tmp_path) == []


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"is not empty: it has 'notes.txt'"):
        en.write(samples(), tmp_path)
    assert names(tmp_path) == ["notes.txt"]
    en.write(samples(), tmp_path / "out")
    before = names(tmp_path / "out")
    with pytest.raises(DatasetError, match="is not empty"):
        en.write(samples(), tmp_path / "out")
    assert names(tmp_path / "out") == before
    assert len(en.dataset(tmp_path / "out")) == 10


def test_progress_is_shown_on_demand_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    en.write(samples(), tmp_path / "one")
    assert capfd.readouterr() == ("", "")
    en.write(samples(), tmp_path / "two", progress=True)
    assert "writing" in capfd.readouterr().err


def test_when_the_metadata_fail_the_shards_are_there_and_the_corrected_call_goes_on(tmp_path: Path) -> None:
    calls: list[int] = []

    def made(number: int) -> dict[str, Any]:
        calls.append(number)
        return {"txt": f"text {number}"}

    samples = en.items(range(4)).map(made)
    with pytest.raises(DatasetError, match=r"has the part 'text'.*no metadata.*2 shards are written.*goes on"):
        en.write(samples, tmp_path / "x", max_samples=2, sample_type="TextSample", field_map={"text": "text"})
    assert len(calls) == 4
    en.write(samples, tmp_path / "x", max_samples=2, sample_type="TextSample", field_map={"text": "txt"})
    assert len(calls) == 4
    assert next(en.dataset(tmp_path / "x")).text == "text 0"
