"""What `prepare` writes about the type of the samples is checked against the type and the data, and can be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.samples.type_names import SAMPLE_TYPES
from energon_nodes.storage.dataset_config import read_dataset_config
from tests.storage.tars import write_tar

PARTS = {"mp3": b"1", "txt": b"a cat", "json": b'{"caption": "a dog", "on": 1}', "cls": b"3"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    members = [(f"{key}.{part}", data) for key in ("a", "b") for part, data in PARTS.items()]
    write_tar(tmp_path / "0.tar", [*members, ("b.seg.wav", b"2")])
    return tmp_path


def refused(folder: Path, error: type[Exception], message: str, **settings: Any) -> None:
    """Check that settings are refused before anything is written."""
    with pytest.raises(error, match=message):
        en.prepare(folder, **settings)
    assert [path.name for path in folder.iterdir() if path.name != ".nv-meta"] == ["0.tar"]
    assert not (folder / ".nv-meta" / ".info.json").exists()


def test_every_type_of_the_library_can_be_written_and_read(folder: Path) -> None:
    for name, kind in SAMPLE_TYPES.items():
        if name == "CrudeSample":
            continue
        fields = {"text": "txt", "context": "txt", "caption": "txt", "image": "mp3", "video": "mp3", "choices": "json"}
        fields |= {"sequence": "json", "images": "json", "texts": "json"}
        field_map = {field: part for field, part in fields.items() if field in kind.__dataclass_fields__}
        en.prepare(folder, sample_type=name, field_map=field_map, overwrite=True, update=False)
        config = read_dataset_config(str(folder))
        assert config.sample_type is not None
        assert config.sample_type.module.startswith("megatron.energon")
        assert (config.sample_type.name, config.field_map) == (name, field_map)


@pytest.mark.parametrize("how", ["class", "name", "path"])
def test_a_type_is_given_as_class_name_or_path(folder: Path, how: str) -> None:
    kind = {"class": en.TextSample, "name": "TextSample", "path": "energon_nodes:TextSample"}[how]
    en.prepare(folder, sample_type=kind, field_map={"text": "json[caption],txt"})
    assert [sample.text for sample in en.dataset(folder)] == ["a dog", "a dog"]


@pytest.mark.parametrize("crude", ["crude", en.CrudeSample, "CrudeWebdataset"])
def test_crude_samples_may_have_a_part_filter_and_subflavors(folder: Path, crude: Any) -> None:
    en.prepare(folder, sample_type=crude, part_filter=["txt", "seg.wav"], subflavors={"on": "yes", "n": [1, None]})
    samples = list(en.dataset(folder))
    assert samples[0]["__subflavors__"] == {"on": "yes", "n": [1, None]}
    assert [name for name in samples[0] if name[:2] != "__"] == ["txt"]


def test_a_type_of_the_user_is_written_by_its_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "page_types.py").write_text(
        "from dataclasses import dataclass\nimport energon_nodes as en\n\n"
        "@dataclass\nclass Page(en.Sample):\n    text: str\n    label: int = 0\n"
    )
    monkeypatch.syspath_prepend(folder.parent)
    en.prepare(folder, sample_type="page_types:Page", field_map={"text": "txt", "label": "cls"})
    text = (folder / ".nv-meta/dataset.yaml").read_text()
    assert text == (
        "sample_type:\n  __module__: page_types\n  __class__: Page\nfield_map:\n  text: txt\n  label: cls\n"
    )
    assert [sample.label for sample in en.dataset(folder)] == [3, 3]
    del sys.modules["page_types"]


def test_a_sample_loader_is_written_when_its_functions_exist(folder: Path) -> None:
    meta = folder / ".nv-meta"
    loader = {"sample_type": "TextSample", "sample_loader": "load.py:make", "part_filter": "load.py:wanted"}
    refused(folder, en.DatasetError, r"load\.py, which does not exist: write it before", **loader)
    meta.mkdir()
    (meta / "load.py").write_text("def make(raw):\n    return {'text': raw['txt'].upper()}\n")
    refused(folder, en.DatasetError, "needs the function 'wanted'", **loader)
    with (meta / "load.py").open("a") as file:
        file.write("wanted = lambda part: part == 'txt'\n1 / 1\n")
    en.prepare(folder, **loader)
    assert [sample.text for sample in en.dataset(folder, trust=True)] == ["A CAT", "A CAT"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_type": "TextSampel", "field_map": {"text": "txt"}}, "did you mean 'TextSample'"),
        ({"sample_type": "TextSample"}, r"needs either a field_map, as in \{'text': 'PART'\}"),
        ({"sample_type": "TextSample", "field_map": {"txet": "txt"}}, "no field 'txet'; did you mean 'text'"),
        ({"sample_type": "CaptioningSample", "field_map": {"image": "mp3"}}, "needs the field 'caption'"),
        ({"sample_type": "TextSample", "field_map": {"text": "txt"}, "part_filter": ["txt"]}, "leave out part_filter"),
        ({"sample_type": "TextSample", "sample_loader": "../x.py", "part_filter": ["txt"]}, "must name a Python file"),
        ({"sample_type": "crude", "field_map": {"text": "txt"}}, "crude samples have no fields"),
        ({"sample_type": "crude", "part_filter": []}, "at least one part"),
        ({"sample_type": "crude", "subflavors": {"a": {1, 2}}}, "plain data"),
        ({"sample_type": "nowhere:Page", "field_map": {}}, "cannot be imported"),
        ({"field_map": {"text": "txt"}}, "crude samples have no fields: leave out"),
    ],
)
def test_what_does_not_go_together_is_refused(folder: Path, settings: dict[str, Any], message: str) -> None:
    refused(folder, ValueError, message, **settings)


def test_a_type_of_the_main_program_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Page", (en.TextSample,), {"__module__": "__main__"})
    refused(folder, ValueError, "define it at the top of a module", sample_type=kind, field_map={"text": "txt"})
    refused(folder, TypeError, "must be a class", sample_type=5)


def test_a_field_that_no_sample_can_fill_is_an_error(folder: Path) -> None:
    settings = {"sample_type": "TextSample", "field_map": {"text": "text"}}
    refused(
        folder, en.DatasetError, r"no sample has the part 'text' that the field 'text' needs.*mean 'txt'", **settings
    )
    settings["field_map"] = {"text": "caption,Json[x]"}  # pyright: ignore[reportArgumentType]
    refused(folder, en.DatasetError, r"any of the parts 'caption', 'Json'.*did you mean 'json'", **settings)


def test_parts_that_some_samples_lack_are_told(folder: Path) -> None:
    prepared = en.prepare(
        folder, sample_type="CaptioningSample", field_map={"image": "seg.wav", "caption": "caption.txt,txt"}
    )
    assert prepared.warnings == (
        "field 'image': only 1 of 2 samples have 'seg.wav'",
        "field 'caption': no sample has 'caption.txt'",
    )


def test_settings_that_would_do_nothing_are_refused(folder: Path) -> None:
    en.prepare(folder)
    with pytest.raises(ValueError, match="exists and would be kept, so 'subflavors' would do nothing"):
        en.prepare(folder, overwrite=True, subflavors={"a": 1})


def test_a_second_dataset_file_lies_beside_the_first(folder: Path) -> None:
    en.prepare(folder)
    en.prepare(folder, update=True, dataset_yaml="text.yaml", sample_type="TextSample", field_map={"text": "txt"})
    assert next(iter(en.dataset(folder)))["txt"] == "a cat"
    assert next(iter(en.dataset(folder, dataset_config="text.yaml"))).text == "a cat"
