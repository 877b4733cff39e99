"""The pages about the command line show what the program does: help texts, and blocks of commands that are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.command_line import MARKED, PAGE, rewritten
from energon_nodes.cli.main import cli
from tests.docs.markdown import blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_help_texts_of_the_page_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rewritten(page), "write it anew: python -m docs.command_line"


def test_the_page_has_every_command() -> None:
    marked = [found[1] for found in MARKED.findall(PAGE.read_text(encoding="utf-8"))]
    context = cli.make_context("energon-nodes", ["x"], resilient_parsing=True)
    assert marked == ["energon-nodes", *cli.list_commands(context)[:4], "codes", *cli.list_commands(context)[4:]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `energon-nodes` and `python` are those of this run."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("energon-nodes", " -m energon_nodes.cli"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def test_the_blocks_of_the_tutorial_run_in_their_order(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    ran: list[str] = []
    so_far = ""
    for block in blocks(DOCS / "preparing.md"):
        if block.info == "bash":
            command = ["bash", "-euo", "pipefail", "-c", block.text]
        elif block.info == "python":
            # The names of earlier blocks are there; what these did is done.
            imports = [line for line in so_far.splitlines() if re.match(r"import |from \w", line)]
            command = [sys.executable, "-W", "error", "-c", "\n".join([*imports, block.text])]
            so_far += block.text
        else:
            continue
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert result.returncode == 0, f"line {block.line}:\n{result.stdout}{result.stderr}"
        ran.append(block.info)
    assert (ran.count("bash"), ran.count("python")) == (5, 7)
    assert 'class="sample"' in (folder / "colours.html").read_text(encoding="utf-8")


def test_what_the_tutorial_shows_of_a_sample_is_what_is_printed(tmp_path: Path, environment: dict[str, str]) -> None:
    found = blocks(DOCS / "preparing.md")
    make = next(block for block in found if block.info == "python")
    shown = next(block.text for block in found if block.info == "text")
    subprocess.run([sys.executable, "-c", make.text], cwd=tmp_path, env=environment, check=True, timeout=120)
    command = ["energon-nodes", "preview", "colours", "--count", "1"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    # The bytes of a JPEG depend on the version of the library that writes it.
    assert re.sub(r"\d+ B  image", "N B  image", result.stdout) == re.sub(r"\d+ B  image", "N B  image", shown)
