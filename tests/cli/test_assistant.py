"""The assistant of `prepare` in a real terminal: questions, presets, wrong answers, Ctrl-C."""

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pexpect
import pytest

import energon_nodes as en
from tests.cli.running import run
from tests.recipes.prepared import png
from tests.storage.tars import samples_of, write_tar

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten shards of captioned pictures with JSON."""
    for number in range(10):
        members = []
        for key in (f"{number}a", f"{number}b"):
            more = json.dumps({"title": f"title of {key}", "boxes": [[1, 2]]}).encode()
            members += [
                (f"{key}.png", png((9, 9, 9))),
                (f"{key}.txt", f"text of {key}".encode()),
                (f"{key}.json", more),
            ]
        write_tar(tmp_path / "data" / f"{number}.tar", members)
    return tmp_path / "data"


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, *arguments: str | Path, cwd: Path = ROOT) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        command = ["-m", "energon_nodes.cli", *map(str, arguments)]
        self.child = pexpect.spawn(
            sys.executable, command, encoding="utf-8", dimensions=(60, 160), timeout=60, cwd=str(cwd), env=environment
        )
        self.seen = ""

    def answer(self, question: str, text: str) -> None:
        self.expect(rf"{question}[^\n]*: $")
        self.child.sendline(text)

    def expect(self, pattern: str) -> None:
        self.child.expect(pattern)
        self.seen += self.child.before + self.child.after

    def end(self) -> int:
        self.child.expect(pexpect.EOF)
        self.seen += self.child.before
        self.child.close()
        # What is written for the terminal alone is taken away.
        self.seen = re.sub(r"\x1b\[[0-9;]*m", "", self.seen)
        return self.child.exitstatus


def dialogue(*arguments: str | Path, answers: Iterable[tuple[str, str]], cwd: Path = ROOT) -> tuple[int, str]:
    terminal = Terminal(*arguments, cwd=cwd)
    for question, text in answers:
        terminal.answer(question, text)
    status = terminal.end()
    return status, terminal.seen


def test_the_preset_answers_make_a_typed_dataset(folder: Path):
    questions = ("Split", "Sample type", "image", "caption", "Store them", "Go on")
    status, seen = dialogue("prepare", folder, answers=[(question, "") for question in questions])
    assert status == 0, seen
    # The data are shown before anything is asked.
    assert "png" in seen.partition("Split")[0]
    assert "4×2 PNG RGB" in seen.partition("Split")[0]
    assert "text of 0a" in seen.partition("Split")[0]
    assert "train: 8 shards, val: 1 shards, test: 1 shards" in seen
    assert '→ "text of 0a"' in seen
    command = "--split 8,1,1 --sample-type CaptioningSample --field-map image=png --field-map caption=txt --yes"
    assert command in seen.replace("\r\n", "")
    sample = next(en.dataset(folder, split="val"))
    assert (type(sample), sample.caption) == (en.CaptioningSample, "text of 8a")


def test_wrong_answers_are_explained_and_asked_again(folder: Path):
    status, seen = dialogue(
        "prepare",
        folder,
        answers=[
            ("Split", "8,1"),
            ("Split", "train:x.* val:8"),
            ("Split", "train:[0-7] val:8 val:9"),
            ("Sample type", "99"),
            ("Sample type", "CaptioningSampel"),
            ("Sample type", "1"),
            ("image", "pgn"),
            ("image", "png["),
            ("image", "png"),
            ("caption", "json[titel]"),
            ("caption", "json[titel]"),
            ("caption", "txt"),
            ("Store them", "perhaps"),
            ("Store them", "y"),
            ("Go on", "y"),
        ],
    )
    assert status == 0, seen
    for text in (
        "needs three numbers",
        "there is no sample type '99'",
        "did you mean 'CaptioningSample'?",
        "it has no part 'pgn'; did you mean 'png'?",
        "opens and closes brackets unevenly",
        "json has no key 'titel'; did you mean 'title'?",
        "is neither yes nor no, nor what --media takes",
        "20 entries",
    ):
        assert text in seen, text
    assert json.loads(run("info", folder, "--json").output)["splits"]["val"]["shards"] == 2


def test_values_inside_parts_types_of_ones_own_and_missing_fields(folder: Path, tmp_path: Path):
    (tmp_path / "my_types.py").write_text(
        "from dataclasses import dataclass\n"
        "import energon_nodes as en\n"
        "@dataclass(kw_only=True)\n"
        "class Titled(en.Sample):\n"
        "    title: str\n"
        "    box: list\n"
        "    note: str | None = None\n"
    )
    answers = [
        ("Split", "1,0,0"),
        ("Sample type", "my_types:Titled"),
        ("title", "txt,json[title]"),
        ("box", "json[boxes][1]"),
        ("box", "json[boxes][0]"),
        ("note", ""),
        ("Store them", "n"),
        ("Go on", "y"),
    ]
    status, seen = dialogue("prepare", folder, answers=answers, cwd=tmp_path)
    assert status == 0, seen
    assert "there is no [1]" in seen
    assert "→ [1, 2]" in seen
    text = (folder / ".nv-meta" / "dataset.yaml").read_text()
    assert "__module__: my_types" in text
    assert "note" not in text


def test_an_answer_given_twice_is_kept_whatever_the_first_samples_say(folder: Path):
    answers = [("Split", ""), ("Sample type", "TextSample"), ("text", "cap"), ("text", "cap,txt")]
    status, seen = dialogue("prepare", folder, answers=[*answers, ("Store them", ""), ("Go on", "")])
    assert status == 0, seen
    assert next(en.dataset(folder)).text == "text of 0a"


def test_what_options_say_is_not_asked(folder: Path):
    answers = [("text", ""), ("Store them", ""), ("Go on", "")]
    status, seen = dialogue("prepare", folder, "--split", "1,1,1", "--sample-type", "TextSample", answers=answers)
    assert status == 0, seen
    assert "Split" not in seen


def test_yes_asks_nothing_in_a_terminal(folder: Path):
    status, seen = dialogue("prepare", folder, "--yes", answers=[])
    assert status == 0, seen
    assert "Go on" not in seen


@pytest.mark.parametrize("at", ["Split", "Sample type", "image", "Go on"])
def test_ctrl_c_at_any_question_leaves_everything_as_it_was(folder: Path, at: str):
    before = sorted(folder.rglob("*"))
    terminal = Terminal("prepare", folder)
    for question in ("Split", "Sample type", "image", "caption", "Store them", "Go on"):
        if question == at:
            terminal.expect(rf"{question}[^\n]*: $")
            terminal.child.sendintr()
            break
        terminal.answer(question, "")
    assert terminal.end() == 1
    assert "Aborted!" in terminal.seen
    assert "Traceback" not in terminal.seen
    assert sorted(folder.rglob("*")) == before


def test_saying_no_at_the_end_writes_nothing(folder: Path):
    questions = ("Split", "Sample type", "image", "caption", "Store them")
    status, seen = dialogue("prepare", folder, answers=[*((q, "") for q in questions), ("Go on", "n")])
    assert status == 1, seen
    assert not (folder / ".nv-meta").exists()


def test_a_prepared_dataset_is_updated_overwritten_or_left(folder: Path):
    run("prepare", folder, "--split", "8,1,1", "--sample-type", "TextSample", "--field-map", "text=txt")
    again = "What shall be done"
    status, seen = dialogue("prepare", folder, answers=[(again, "3")])
    assert (status, "Aborted!" in seen) == (1, True)
    write_tar(folder / "new.tar", samples_of(0, 3))
    status, seen = dialogue("prepare", folder, answers=[(again, "7"), (again, ""), ("Go on", "")])
    assert status == 0, seen
    assert "23 samples, 11 shards" in seen
    # Preparing anew keeps split and type where nothing else is said.
    answers = [(again, "overwrite"), ("Split", ""), ("Sample type", ""), ("Store them", ""), ("Go on", "")]
    status, seen = dialogue("prepare", folder, answers=answers)
    assert status == 0, seen
    assert next(en.dataset(folder)).text == "text of 0a"


def test_a_damaged_first_shard_is_shown_and_refused(folder: Path):
    path = folder / "0.tar"
    path.write_bytes(path.read_bytes()[:300])
    answers = [("Split", ""), ("Sample type", ""), ("Go on", "")]
    status, seen = dialogue("prepare", folder, answers=answers)
    assert status == 1, seen
    assert "the rest of the shard cannot be read" in seen
    assert "error: " in seen
    assert not (folder / ".nv-meta" / ".info.json").exists()
