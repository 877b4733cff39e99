"""Write the table of verbs, from the package itself.

`python -m docs.verb_table` puts it into README.md, and `tests/docs/test_verb_table.py` fails when the README differs.
"""

import inspect
from pathlib import Path
from typing import Any

import energon_nodes  # noqa: F401  registers the verbs
from energon_nodes.core.verbs import class_verbs, function_verbs

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- verbs: begin, written by python -m docs.verb_table -->", "<!-- verbs: end -->"


def verbs() -> dict[str, Any]:
    """Return the package's verbs by name: node classes, and functions of a node."""
    every = class_verbs() | function_verbs()
    return {name: every[name] for name in sorted(every) if every[name].__module__.startswith("energon_nodes.")}


def first_line(value: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def table() -> str:
    """Return the verbs as a Markdown table."""
    rows = [f"| `{name}` | {first_line(value)} |" for name, value in verbs().items()]
    return "\n".join(["| verb | what it does |", "|---|---|", *rows])


def rewritten(page: str) -> str:
    """Return the text of a page with the table of today in it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{README.name} has no lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
