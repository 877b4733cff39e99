"""The tree in docs/architecture.md is the tree on disk, and every line of it says what the file is for."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(?P<indent>(?:  )*)(?P<name>[\w.\-]+/?)(?P<note>.*)$")


def drawn_tree() -> dict[str, str]:
    """Return path -> note from the first `text` block of the page. Two blanks of indent are one level."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert block, "docs/architecture.md has no ```text block with the tree"
    above: list[str] = []
    tree: dict[str, str] = {}
    for line in block[1].splitlines():
        match = LINE.match(line)
        assert match, f"a line of the tree reads {line!r}; expected: indent, name, what it is for"
        above[len(match["indent"]) // 2 :] = [match["name"]]
        tree["".join(above)] = match["note"].strip()
    return tree


def package_tree() -> set[str]:
    """Return the folders and Python files of the package. An `__init__.py` has nothing to say beyond its folder."""
    found = {"energon_nodes/"}
    for path in (ROOT / "energon_nodes").rglob("*"):
        relative = path.relative_to(ROOT).as_posix()
        if "__pycache__" in relative or path.name == "__init__.py":
            continue
        if path.is_dir() and any(path.glob("*.py")):
            found.add(relative + "/")
        elif path.is_file():
            found.add(relative)
    return found


def test_the_drawn_tree_is_the_tree_on_disk() -> None:
    drawn = {path for path in drawn_tree() if path.startswith("energon_nodes/")}
    real = package_tree()
    assert {"missing on the page": sorted(real - drawn), "only on the page": sorted(drawn - real)} == {
        "missing on the page": [],
        "only on the page": [],
    }


def test_everything_drawn_outside_the_package_exists() -> None:
    assert [path for path in drawn_tree() if not (ROOT / path).exists()] == []


def test_every_line_of_the_tree_says_what_it_is_for() -> None:
    assert [path for path, note in drawn_tree().items() if not note] == []
