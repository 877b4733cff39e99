"""`preview` in the terminal; the page is tested in test_preview_page.py."""

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from tests.cli.running import run
from tests.recipes.prepared import png
from tests.storage.tars import samples_of, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", samples_of(4 * number, 4 * number + 4))
    return tmp_path


def keys(output: str) -> list[str]:
    lines = [line.split() for line in output.splitlines() if " at byte " in line and not line.startswith(" ")]
    return [words[1] for words in lines]


def test_the_first_samples_are_shown_with_parts_sizes_and_places(folder: Path):
    output = run("preview", folder).output
    assert keys(output) == [f"{number:06d}" for number in range(5)]
    assert "1  000001  0.tar at byte 2,048" in output
    assert "text 1 text 1" in output
    assert "4  000004  1.tar at byte 0" in output


def test_start_and_count_choose_samples(folder: Path):
    assert keys(run("preview", folder, "--start", "3", "--count", "2").output) == ["000003", "000004"]


@pytest.mark.parametrize("prepared", [False, True])
def test_nothing_behind_the_end_is_an_error(folder: Path, tmp_path: Path, prepared: bool):
    if prepared:
        en.prepare(folder)
    output = run("preview", folder, "--start", "1000", status=1).output
    assert "error: there is no sample behind the first 1,000" in output
    page = tmp_path / "page.html"
    run("preview", folder, "--start", "1000", "--html", page, status=1)
    assert not page.exists()


def test_a_page_in_no_folder_is_wrong_usage_that_names_the_given_path(folder: Path):
    output = run("preview", folder, "--html", folder / "no" / "page.html", status=2).output
    assert f"the folder {folder / 'no'} does not exist" in output
    assert f"{folder} is a folder" in run("preview", folder, "--html", folder, status=2).output


def test_a_part_that_stands_twice_is_shown_as_the_problem_that_readers_have(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.txt", b"one"), ("a.txt", b"two"), ("b.txt", b"fine")])
    output = run("preview", tmp_path).output
    assert "the part 'txt' stands twice" in output
    assert "two" not in output
    assert "fine" in output
    assert "the part 'txt' stands twice" in run("preview", tmp_path, "--key", "a").output
    assert "1 samples have the same part twice" in run("info", tmp_path).output


@pytest.mark.parametrize("prepared", [True, False])
def test_samples_are_found_by_key(folder: Path, prepared: bool):
    if prepared:
        en.prepare(folder)
    output = run("preview", folder, "--key", "000009", "--key", "000001").output
    assert sorted(keys(output)) == ["000001", "000009"]
    assert "has no sample with the key '77'" in run("preview", folder, "--key", "77", status=1).output
    run("preview", folder, "--key", "000001", "--count", "2", status=2)


def test_splits_of_a_prepared_dataset_are_chosen_by_name(folder: Path):
    en.prepare(folder, split="2,1,0")
    assert keys(run("preview", folder).output)[0] == "000000"
    assert keys(run("preview", folder, "--split", "val").output)[0] == "000008"
    assert "no split part 'vla'" in run("preview", folder, "--split", "vla", status=1).output


def test_data_without_a_part_named_train_are_shown_too(folder: Path):
    en.prepare(folder, split={"held": "2"})
    output = run("preview", folder).output
    assert "split 'held', 4 samples" in output
    assert keys(output)[0] == "000008"


def test_splits_of_data_that_were_never_prepared_are_an_error(folder: Path):
    assert "never prepared" in run("preview", folder, "--split", "train", status=1).output


def test_typed_datasets_show_the_fields(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.png", png((1, 2, 3))), ("a.txt", b"a cat"), ("b.png", png((1, 2, 3)))])
    en.prepare(tmp_path, sample_type="CaptioningSample", field_map={"image": "png", "caption": "txt"})
    output = run("preview", tmp_path).output
    assert "CaptioningSample: image ← png, caption ← txt" in output
    assert "→ image    float32 tensor 3×2×4" in output
    assert '→ caption  "a cat"' in output
    assert "field 'caption' of CaptioningSample cannot be filled from sample 'b'" in output


def test_code_beside_the_data_runs_only_with_trust(folder: Path):
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / "loader.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w').close()\ndef load(raw): return {{'text': raw['txt'].upper()}}\n"
    )
    en.prepare(folder, sample_type="TextSample", sample_loader="loader.py:load", part_filter=["txt"])
    output = run("preview", folder).output
    assert "was not run (--trust runs it)" in output
    assert not (folder / "ran").exists()
    assert 'text  "TEXT 1 TEXT 1' in run("preview", folder, "--trust").output
    assert (folder / "ran").exists()


def test_nothing_in_the_data_acts_on_the_terminal(tmp_path: Path):
    hostile = "\x1b[2J\x07\r\n\u202e"
    members = [
        (f"a{hostile}.txt", hostile.encode()),
        (f"a{hostile}.json", b'{"\\u001b]0;title": 1}'),
        ("b.\udcff", b""),
    ]
    write_tar(tmp_path / "0.tar", members)
    output = run("preview", tmp_path).output
    assert not set(output) & {"\x1b", "\x07", "\r", "\u202e", "\udcff"}
    assert "\\x1b[2J\\x07\\r\\n\\u202e" in output


def test_damaged_data_are_shown_up_to_the_damage(folder: Path):
    path = folder / "0.tar"
    path.write_bytes(path.read_bytes()[:5000])
    output = run("preview", folder).output
    assert "the rest of the shard cannot be read" in output
    en_prepared = run("preview", folder, "--count", "50").output
    assert keys(en_prepared)[-1] == "000011"


def test_an_index_out_of_step_is_named_and_not_believed(folder: Path):
    en.prepare(folder)
    path = folder / "0.tar"
    path.write_bytes(path.read_bytes()[512:])
    output = run("preview", folder, "--count", "4").output
    assert output.count("it cannot be read: not a tar header") == 4


def test_json_lines_are_shown(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n\n{"b": "two"}\n')
    output = run("preview", tmp_path / "a.jsonl").output
    assert keys(output) == ["0", "1"]
    assert '{"b": "two"}' in output
    assert keys(run("preview", tmp_path / "a.jsonl", "--key", "1").output) == ["1"]


def test_remote_data_are_shown(folder: Path):
    en.prepare(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            MemoryFileSystem().pipe(f"/preview-remote/{file.relative_to(folder)}", file.read_bytes())
    assert keys(run("preview", "memory://preview-remote").output) == keys(run("preview", folder).output)


def test_looking_at_the_first_samples_reads_only_the_first_shard(folder: Path):
    (folder / "2.tar").write_bytes(b"not a tar")
    assert "error" not in run("preview", folder, "--count", "3").output
