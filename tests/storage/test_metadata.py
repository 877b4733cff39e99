import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import split_text
from energon_nodes.storage.metadata import Info, is_prepared, read_info, read_split

SHARDS = {f"parts/shard_{number:03d}.tar": 4 for number in range(5)}


def write_meta(root: Path, **files: Any) -> str:
    meta = root / ".nv-meta"
    meta.mkdir(exist_ok=True)
    for name, content in files.items():
        file = (
            meta
            / {"info": ".info.json", "info_yaml": ".info.yaml", "split": "split.yaml", "split_json": "split.json"}[name]
        )
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(root)


def test_counts_keep_the_order_of_the_file(tmp_path: Path):
    counts = {"b.tar": 2, "a.tar": 1}
    root = write_meta(tmp_path, info={"energon_version": None, "shard_counts": counts})
    assert is_prepared(root)
    assert list(read_info(root).shard_counts.items()) == [("b.tar", 2), ("a.tar", 1)]
    assert read_info(root).energon_version is None


def test_the_older_yaml_form_is_read_where_there_is_no_json(tmp_path: Path):
    root = write_meta(tmp_path, info_yaml="energon_version: 5.0\nshard_counts:\n  0.tar: 010\n")
    assert read_info(root) == Info({"0.tar": 10}, "5.0")
    write_meta(tmp_path, info={"shard_counts": {"0.tar": 3}})
    assert read_info(root).shard_counts == {"0.tar": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"shard_counts": {}, "extra": 1}, r"unknown keys 'extra'; known are 'energon_version', 'shard_counts'"),
        ({"shard_counts": [1]}, "shard_counts must be a mapping"),
        ({"shard_counts": {"0.tar": -1}}, "'0.tar' must be a whole number >= 0, got -1"),
        ({"shard_counts": {"0.tar": "many"}}, "got 'many'"),
        ({"shard_counts": {"0.tar": 1.5}}, "got 1.5"),
        ([1], "must hold a mapping"),
        ("{", "cannot be parsed"),
    ],
)
def test_an_info_file_of_another_form_is_named(tmp_path: Path, content: Any, message: str):
    root = write_meta(tmp_path, info=content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_info(root)
    assert ".info.json" in str(caught.value)


def test_braces_expand_and_the_order_of_the_list_counts(tmp_path: Path):
    split = "split_parts:\n  train:\n  - parts/shard_{003..001}.tar\n  - parts/shard_00{4,0}.tar\n"
    root = write_meta(tmp_path, split=split)
    part = read_split(root, Info(SHARDS), "train")
    assert part.shards == [f"parts/shard_{number:03d}.tar" for number in (3, 2, 1, 4, 0)]


def test_a_shard_may_stand_twice_and_in_several_parts(tmp_path: Path):
    name = "parts/shard_000.tar"
    root = write_meta(tmp_path, split={"split_parts": {"train": [name, name], "val": [name]}})
    assert read_split(root, Info(SHARDS), "train").shards == [name, name]
    assert read_split(root, Info(SHARDS), "val").shards == [name]


def test_names_of_parts_are_text_whatever_yaml_makes_of_them(tmp_path: Path):
    root = write_meta(
        tmp_path, split="split_parts:\n  on: [parts/shard_000.tar]\n  010: ['parts/shard_001.tar']\nexclude:\n"
    )
    assert read_split(root, Info(SHARDS), "on").shards == ["parts/shard_000.tar"]
    assert read_split(root, Info(SHARDS), "010").shards == ["parts/shard_001.tar"]


def test_excluded_shards_go_and_excluded_samples_are_kept_by_shard(tmp_path: Path):
    excludes = [
        "parts/shard_001.tar",
        "parts/shard_002.tar/00000{4,6}",
        "parts/shard_002.tar/a/b",
        "parts/shard_009.tar/x",
    ]
    root = write_meta(tmp_path, split={"split_parts": {"train": ["parts/shard_{000..002}.tar"]}, "exclude": excludes})
    part = read_split(root, Info(SHARDS), "train")
    assert part.shards == ["parts/shard_000.tar", "parts/shard_002.tar"]
    assert part.excluded == {"parts/shard_002.tar": {"000004", "000006", "a/b"}}


def test_split_json_is_used_only_where_split_yaml_is_missing(tmp_path: Path):
    root = write_meta(tmp_path, split_json={"split_parts": {"train": ["parts/shard_000.tar"]}})
    assert read_split(root, Info(SHARDS), "train").shards == ["parts/shard_000.tar"]
    write_meta(tmp_path, split={"split_parts": {"train": ["parts/shard_001.tar"]}})
    assert read_split(root, Info(SHARDS), "train").shards == ["parts/shard_001.tar"]
    assert read_split(root, Info(SHARDS), "train", "split.json").shards == ["parts/shard_000.tar"]


@pytest.mark.parametrize(
    ("content", "part", "message"),
    [
        ({"split_parts": {"train": [], "val": []}}, "test", r"no split part 'test'; its parts are 'train', 'val'"),
        (
            {"split_parts": {"train": ["parts/shard_000.tar"], "val": []}},
            "val",
            r"has no shards; parts with shards: 'train'",
        ),
        ({"split_parts": {"train": ["nope.tar"]}}, "train", "names the shard 'nope.tar'"),
        ({"split_parts": {"train": "0.tar"}}, "train", "split part 'train' must be a list"),
        ({"split_parts": []}, "train", "split_parts must be a mapping"),
        ({"split_parts": {"train": []}, "excludes": []}, "train", "unknown keys 'excludes'"),
        ("a: [", "train", "cannot be parsed"),
    ],
)
def test_a_split_of_another_form_is_named(tmp_path: Path, content: Any, part: str, message: str):
    root = write_meta(tmp_path, split=content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_split(root, Info(SHARDS), part)
    assert "split.yaml" in str(caught.value)


block_texts = st.lists(
    st.sampled_from(
        [
            "split_parts:",
            "  train:",
            "  val: []",
            "    test:",
            "exclude:",
            "exclude: []",
            "other:",
            "- a.tar",
            "  - b_{000..003}.tar",
            "  - c{1,2}.tar/0004",
            "    - d/e.tar",
            "  - 'q.tar'",
            "  - x: y",
            "# comment",
            "",
        ]
    ),
    max_size=10,
)


@given(block_texts)
def test_the_quick_parser_of_plain_lists_agrees_with_yaml_where_it_answers(lines: list[str]):
    text = "\n".join(lines)
    quick = split_text._block_lists(text)
    if quick is None:
        return
    try:
        full = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        full = "an error"

    def filled(value: Any) -> Any:
        return {name: filled(entry) for name, entry in value.items()} if isinstance(value, dict) else value or []

    assert filled(quick) == filled(full or {})


def test_what_prepare_writes_needs_no_yaml(tmp_path: Path):
    text = "split_parts:\n  train:\n  - parts/shard_{000..003}.tar\n  - parts/shard_009.tar\n  val: []\nexclude: []\n"
    assert split_text._block_lists(text) == {
        "split_parts": {"train": ["parts/shard_{000..003}.tar", "parts/shard_009.tar"], "val": []},
        "exclude": [],
    }


def test_a_missing_split_file_is_named(tmp_path: Path):
    root = write_meta(tmp_path, info={"shard_counts": SHARDS})
    with pytest.raises(DatasetError, match=r"split.yaml does not exist"):
        read_split(root, Info(SHARDS), "train")
    with pytest.raises(DatasetError, match=r"small.yaml does not exist"):
        read_split(root, Info(SHARDS), "train", "small.yaml")


@pytest.mark.parametrize("config", ["split.txt", "../split.yaml", "/etc/split.yaml"])
def test_split_files_lie_in_the_metadata_folder(tmp_path: Path, config: str):
    with pytest.raises(DatasetError, match="split_config must"):
        read_split(str(tmp_path), Info(SHARDS), "train", config)
