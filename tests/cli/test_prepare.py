"""`prepare` and `prepare-media` with options, as scripts call them: nothing is asked."""

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

import energon_nodes as en
from energon_nodes.cli.prepare_choices import Choices
from tests.cli.running import run
from tests.recipes.prepared import png
from tests.storage.tars import samples_of, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten shards with two captioned pictures each."""
    for number in range(10):
        members = [
            member
            for key in (f"{number}a", f"{number}b")
            for member in ((f"{key}.png", png((9, 9, 9))), (f"{key}.txt", f"text of {key}".encode()))
        ]
        write_tar(tmp_path / "data" / f"{number}.tar", members)
    return tmp_path / "data"


def counts(root: Path) -> dict[str, int]:
    splits = json.loads(run("info", root, "--json").output)["splits"]
    return {name: part["shards"] for name, part in splits.items()}


def test_without_options_all_shards_go_to_train_and_samples_are_crude(folder: Path):
    output = run("prepare", folder).output
    assert "20 samples, 10 shards" in output
    assert "samples with parts: png 20, txt 20" in output
    assert counts(folder) == {"train": 10, "val": 0, "test": 0}
    assert next(iter(en.dataset(folder)))["txt"] == "text of 0a"


def test_a_typed_dataset_is_made_in_one_call_and_loads(folder: Path):
    maps = ("--field-map", "image=png", "--field-map", "caption=txt")
    run("prepare", folder, "--split", "7,2,1", "--sample-type", "CaptioningSample", *maps)
    assert counts(folder) == {"train": 7, "val": 2, "test": 1}
    assert [sample.caption for sample in en.dataset(folder, split="test")] == ["text of 9a", "text of 9b"]
    assert run("lint", folder).output == "no problems\n"


def test_the_field_map_may_be_json(folder: Path):
    run("prepare", folder, "--sample-type", "TextSample", "--field-map", '{"text": "txt"}')
    assert next(en.dataset(folder)).text == "text of 0a"


def test_parts_of_the_split_are_given_by_patterns_or_by_a_file(folder: Path, tmp_path: Path):
    patterns = ("--split-parts", "train:[0-4]", "--split-parts", "val:5", "--split-parts", "train:9")
    run("prepare", folder, *patterns)
    assert counts(folder) == {"train": 6, "val": 1}
    (tmp_path / "split.yaml").write_text("split_parts: {train: ['{0..8}.tar'], held: [9.tar]}\n")
    run("prepare", folder, "--overwrite", "--split-file", tmp_path / "split.yaml")
    assert counts(folder) == {"train": 9, "held": 1}


def test_a_glob_where_a_pattern_is_expected_shows_the_nearest_shards(folder: Path):
    output = run("prepare", folder, "--split-parts", "train:shard-*", status=1).output
    assert output.startswith("error: ")
    assert "shard-*" in output
    assert "9.tar" in output
    assert not (folder / ".nv-meta" / ".info.json").exists()


def test_shards_are_excluded_and_mixed(folder: Path):
    run("prepare", folder, "--exclude", "^[01]", "--exclude", "9", "--shuffle", "--seed", "42", "--split", "5,1,1")
    info = json.loads(run("info", folder, "--json").output)
    assert (info["shards"], counts(folder)) == (7, {"train": 5, "val": 1, "test": 1})


def test_a_prepared_dataset_is_not_prepared_again_unasked(folder: Path):
    run("prepare", folder)
    output = run("prepare", folder, status=1).output
    assert "prepared already: say --update to index what changed, --overwrite to prepare" in output
    write_tar(folder / "new.tar", samples_of(0, 3))
    assert "23 samples, 11 shards" in run("prepare", folder, "--update").output
    assert "23 samples, 11 shards" in run("prepare", folder, "--overwrite", "--workers", "1", "--no-progress").output
    (folder / "0.tar.idx").unlink()
    run("prepare", folder, "--index-only")
    assert (folder / "0.tar.idx").exists()


def test_a_sample_loader_takes_the_parts_that_it_uses(folder: Path):
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / "loader.py").write_text("def load(raw): return {'text': raw['txt'].upper()}\n")
    loader = ("--sample-loader", "loader.py:load", "--part-filter", "txt")
    run("prepare", folder, "--sample-type", "TextSample", *loader, "--subflavors", '{"language": "en"}')
    sample = next(en.dataset(folder, trust=True))
    assert (sample.text, sample.__subflavors__) == ("TEXT OF 0A", {"language": "en"})


def test_keys_in_two_shards_are_named_and_the_rest_is_written(folder: Path):
    write_tar(folder / "x.tar", [("0a.txt", b"again")])
    output = run("prepare", folder, status=1).output
    assert "21 samples, 11 shards" in output
    assert "'0a' in 0.tar and x.tar" in output
    assert (folder / ".nv-meta" / ".info.json").exists()
    assert not (folder / ".nv-meta" / "index.sqlite").exists()


def test_damaged_shards_are_errors_and_nothing_is_written(folder: Path):
    path = folder / "3.tar"
    path.write_bytes(path.read_bytes()[:700])
    output = run("prepare", folder, status=1).output
    assert output.startswith("error: ")
    assert "3.tar" in output
    assert not (folder / ".nv-meta" / ".info.json").exists()


def test_media_metadata_are_stored_while_preparing_and_later(folder: Path, tmp_path: Path):
    assert "20 entries" in run("prepare", folder, "--media", "extension").output
    assert en.store(folder).media("0a.png")["width"] == 4
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.png").write_bytes(png((1, 1, 1), (6, 5)))
    (plain / "b.png").write_bytes(b"no picture")
    result = run("prepare-media", plain, "--media", "glob:*.png", "--no-progress")
    assert "1 pictures" in result.output
    assert "b.png" in result.output
    with sqlite3.connect(plain / ".nv-meta" / "index.sqlite") as connection:
        assert connection.execute("SELECT entry_key FROM media_metadata").fetchall() == [("a.png",)]
    assert run("prepare-media", tmp_path / "nothing", status=1).output.startswith("error: ")
    run("prepare-media", plain, "--media", "colour", status=2)


def test_a_file_of_json_lines_gets_its_index(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    assert "2 samples" in run("prepare", path).output
    assert (tmp_path / "a.jsonl.idx").stat().st_size == 24
    run("prepare", path, "--split", "8,1,1", status=2)
    assert "does not exist" in run("prepare", tmp_path / "b.jsonl", status=1).output


@pytest.mark.parametrize(
    "options",
    [
        ("--split", "8,1"),
        ("--split", "0,0,0"),
        ("--split", "8,1,1", "--split-parts", "train:x"),
        ("--split-parts", "train"),
        ("--sample-type", "TextSampel", "--field-map", "text=txt"),
        ("--sample-type", "TextSample"),
        ("--field-map", "text"),
        ("--field-map", "{"),
        ("--subflavors", "[]"),
        ("--workers", "0"),
        ("--update", "--overwrite"),
        ("--media", "extension", "--index-only"),
        ("--no-such-option",),
        ("--field-map", "text=json[a", "--sample-type", "TextSample"),
        ("--field-map", "txet=txt", "--sample-type", "TextSample"),
        ("--field-map", "text=txt", "--sample-type", "nowhere.at_all:Page"),
        ("--split-file", "no_such_file.yaml"),
        ("--split", "1,-2,3"),
        ("--split", "nan,1,1"),
        ("--dataset-yaml", "split.yaml"),
        ("--dataset-yaml", ".info.yaml"),
    ],
)
def test_wrong_usage_has_status_2_and_writes_nothing(folder: Path, options: tuple[str, ...]):
    run("prepare", folder, *options, status=2)
    assert not (folder / ".nv-meta").exists()


def test_an_empty_path_is_wrong_usage():
    assert "got an empty one" in run("prepare", "", status=2).output


@pytest.mark.parametrize("text", ['{"a": 1}\nbad\n', "bad\nworse\n", ""])
def test_damaged_lines_are_status_1_and_the_index_is_written(tmp_path: Path, text: str):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    output = run("prepare", path, status=1).output
    assert "error: " in output
    assert "the index is written" in output
    assert "on_error" not in output
    assert (tmp_path / "a.jsonl.idx").exists()


def test_a_field_that_cannot_be_filled_is_an_error_and_nothing_is_written(folder: Path):
    write_tar(folder / "0.tar", [("x.json", b"{}")])
    maps = ("--sample-type", "TextSample", "--field-map", "text=json[nope]")
    output = run("prepare", folder, *maps, "--yes", status=1).output
    assert "json has no key 'nope'" in output
    assert not (folder / ".nv-meta").exists()


def test_a_split_written_by_hand_is_kept(folder: Path):
    (folder / ".nv-meta").mkdir()
    path = folder / ".nv-meta" / "split.yaml"
    path.write_text("split_parts: {train: ['{0..8}.tar'], held: [9.tar]}\n")
    before = path.read_text()
    assert "is kept" in run("prepare", folder).output
    assert path.read_text() == before
    assert counts(folder) == {"train": 9, "held": 1}


def test_nothing_to_prepare_is_an_error(tmp_path: Path):
    assert "no shards" in run("prepare", tmp_path, status=1).output
    assert run("prepare", tmp_path / "nothing", status=1).output.startswith("error: ")


def test_choices_are_a_command_line_that_makes_the_same_choices(folder: Path, monkeypatch: pytest.MonkeyPatch):
    choices = Choices(
        str(folder),
        split_parts={"train": ["[0-7]", "9"], "val": ["8"]},
        exclude=["^nothing"],
        shuffle=True,
        seed=7,
        sample_type="CaptioningSample",
        field_map={"image": "png", "caption": "txt,json[a b]"},
        subflavors={"x": [1]},
        dataset_yaml="captions.yaml",
        workers=1,
    )
    seen: list[Choices] = []
    monkeypatch.setattr(
        "energon_nodes.cli.prepare._run", lambda made, progress: seen.append(made) or en.prepare(folder)
    )
    run(*shlex.split(choices.command())[1:])
    assert seen == [choices]
