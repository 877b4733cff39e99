"""docs/architecture.md shows the code as it is."""

import re
import subprocess

import pytest

from tests.architecture import PAGE, ROOT, redrawn


def test_the_drawn_tree_of_the_package_is_the_tree_on_disk() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if page != redrawn(page):  # comparing two long pages in an assert would bury the remedy
        pytest.fail("docs/architecture.md does not show the package as it is: python -m tests.architecture")


def test_the_table_of_the_repository_names_everything_at_its_top() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))
    listed = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    present = {name + "/" if (ROOT / name).is_dir() else name for name in listed.stdout.splitlines()}
    assert named == present
