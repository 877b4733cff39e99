"""What preparing keeps, refuses and warns of, so that nothing that somebody wrote or meant is lost."""

from pathlib import Path

import pytest

import energon_nodes as en
from energon_nodes.core.errors import DatasetError
from tests.storage.tars import write_tar


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four shards with two captioned samples each, never prepared."""
    for number in range(4):
        members = [(f"{number}{key}.json", b'{"caption": "a cat", "words": ["a"]}') for key in "ab"]
        write_tar(tmp_path / "data" / f"{number:03d}.tar", members)
    return tmp_path / "data"


def put_split(root: Path, text: str, name: str = "split.yaml") -> Path:
    (root / ".nv-meta").mkdir()
    path = root / ".nv-meta" / name
    path.write_text(text)
    return path


HAND_WRITTEN = "# by hand\nsplit_parts:\n  train: [000.tar, 001.tar]\n  held: [002.tar]\nexclude: [000.tar/0b]\n"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_split_written_by_hand_before_the_first_prepare_is_kept_to_the_byte(root: Path, overwrite: bool):
    path = put_split(root, HAND_WRITTEN)
    prepared = en.prepare(root, overwrite=overwrite)
    assert path.read_text() == HAND_WRITTEN
    assert prepared.splits == {"train": 2, "held": 1}
    assert any("is kept" in warning for warning in prepared.warnings)
    assert any("003.tar" in warning for warning in prepared.warnings)
    assert [sample["__key__"] for sample in en.dataset(root, split="train")] == ["0a", "1a", "1b"]


def test_a_split_json_written_by_hand_is_kept_too(root: Path):
    put_split(root, '{"split_parts": {"val": ["{000..003}.tar"]}}', "split.json")
    assert en.prepare(root).splits == {"val": 4}
    assert not (root / ".nv-meta" / "split.yaml").exists()


@pytest.mark.parametrize("text", ["split_parts: {train: [000.tar, 009.tar]}\n", "parts: 3\n", "split_parts: {a: []}\n"])
def test_a_split_that_does_not_fit_is_not_replaced_unasked(root: Path, text: str):
    path = put_split(root, text)
    with pytest.raises(DatasetError, match=r"split\.yaml.*not replaced unasked.*split=.*overwrite=True"):
        en.prepare(root)
    assert path.read_text() == text
    assert not (root / ".nv-meta" / ".info.json").exists()
    prepared = en.prepare(root, overwrite=True)
    assert prepared.splits == {"train": 4, "val": 0, "test": 0}
    assert any("is replaced" in warning for warning in prepared.warnings)


def test_a_split_that_is_asked_for_replaces_one_written_by_hand_and_says_so(root: Path):
    put_split(root, HAND_WRITTEN)
    prepared = en.prepare(root, split="1,1,0")
    assert prepared.splits == {"train": 2, "val": 2, "test": 0}
    assert any("is replaced" in warning for warning in prepared.warnings)


@pytest.mark.parametrize("name", ["split.yaml", ".info.yaml", "index.yaml"])
def test_the_dataset_file_takes_no_name_of_another_file(root: Path, name: str):
    with pytest.raises(ValueError, match="name of another file"):
        en.prepare(root, dataset_yaml=name)
    assert not (root / ".nv-meta").exists()


def test_shards_in_several_parts_are_named_with_the_parts(root: Path):
    prepared = en.prepare(root, split={"train": "00[0-2]", "val": "00[23]"})
    (warning,) = prepared.warnings
    assert "'train' and 'val'" in warning
    assert "'002.tar'" in warning
    assert "'003.tar'" not in warning


@pytest.mark.parametrize("access", ["json[nope]", "json[words][3]", "txt,json[captoin]"])
def test_a_field_that_the_first_samples_cannot_fill_is_an_error_before_anything_is_written(root: Path, access: str):
    with pytest.raises(DatasetError, match=r"field 'text' of TextSample cannot be filled.*nothing was written"):
        en.prepare(root, sample_type="TextSample", field_map={"text": access})
    assert not list(root.rglob("*.idx"))
    assert not (root / ".nv-meta").exists()


def test_a_field_that_a_later_sample_has_is_a_warning(root: Path):
    write_tar(root / "000.tar", [("0a.json", b"{}"), ("0b.json", b'{"caption": "a cat"}')])
    prepared = en.prepare(root, sample_type="TextSample", field_map={"text": "json[caption]"})
    (warning,) = prepared.warnings
    assert "no key 'caption'" in warning


def test_a_pickle_that_a_field_looks_into_is_not_loaded(root: Path):
    write_tar(root / "000.tar", [("0a.pyd", b"cposix\nabort\n(tR.")])
    assert en.prepare(root, sample_type="TextSample", field_map={"text": "pyd[text]"}).samples == 7


def test_an_empty_path_is_refused():
    with pytest.raises(ValueError, match="empty"):
        en.prepare("")


def test_one_problem_of_a_key_is_one_line_with_both_places(root: Path):
    write_tar(root / "000.tar", [("a.txt", b""), ("b.txt", b""), ("a.cls", b"")])
    with pytest.raises(DatasetError, match=r"000\.tar at bytes 0 and 1024: the key 'a'") as caught:
        en.prepare(root)
    assert str(caught.value).count("the key 'a'") == 1


def test_a_folder_of_json_lines_says_what_to_do(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(DatasetError, match=r"no shards .*file of JSON lines.*a\.jsonl"):
        en.prepare(tmp_path)
