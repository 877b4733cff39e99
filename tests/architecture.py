"""Draw the tree of the package: folders, files, and the first line of each docstring.

`python -m tests.architecture` puts the drawing into `docs/architecture.md`; `tests/test_architecture.py` fails when the
page differs from it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree: begin, drawn by python -m tests.architecture -->", "<!-- tree: end -->"

# Files that cannot carry a docstring.
NOTES = {
    "_verbs.pyi": "The signatures of the verbs, generated from the node classes.",
    "py.typed": "Marks the package as typed, for type checkers of its users.",
}


def note_of(path: Path) -> str:
    """Return the first line of a file's docstring; of a folder, that of its `__init__.py`."""
    if path.name in NOTES:
        return NOTES[path.name]
    source = path / "__init__.py" if path.is_dir() else path
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) if source.exists() else None
    if not docstring:
        raise ValueError(f"{source.relative_to(ROOT)} needs a docstring whose first line says what it is about")
    return docstring.partition("\n")[0]


def children(folder: Path) -> list[Path]:
    """Return what a drawing shows of a folder: folders with code first, then files."""
    folders = [path for path in folder.iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    files = [path for path in folder.iterdir() if path.is_file() and path.name != "__init__.py"]
    return sorted(folders) + sorted(files)


def rows(folder: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the indented name and the note of a folder and of all that lies in it."""
    yield "  " * depth + folder.name + "/", note_of(folder)
    for path in children(folder):
        if path.is_dir():
            yield from rows(path, depth + 1)
        else:
            yield "  " * (depth + 1) + path.name, note_of(path)


def drawing() -> str:
    """Return the tree of the package as a Markdown block."""
    lines = list(rows(ROOT / "energon_nodes"))
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(["```text", *(f"{name:<{width}}{note}" for name, note in lines), "```"])


def redrawn(page: str) -> str:
    """Return the text of the page with the drawing of today in it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n\n{drawing()}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
