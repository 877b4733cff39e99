"""Sphinx extension: write a reference page for each area of the package, from the package itself.

A public name is one that `energon_nodes.__all__` or `energon_nodes.testing.__all__` lists. Its area is the folder that
defines it. So a new public name has its place without anyone writing it down.
"""

import importlib
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

import energon_nodes
from energon_nodes import Node

# Title of each area, in the order of a reader's interest. An area that is missing here is an error.
AREAS = {
    "sources": "Sources",
    "combinators": "Combinators",
    "samples": "Samples and decoding",
    "loading": "Loading",
    "recipes": "Recipes",
    "core": "Nodes, keys, errors",
    "storage": "Storage",
    "testing": "Testing nodes",
}


def area_of(module: ModuleType, name: str) -> str:
    """Return the folder that defines a public name; data without a module of its own is looked up by identity."""
    value = getattr(module, name)
    origin = getattr(value, "__module__", None)
    if not str(origin).startswith("energon_nodes."):
        places = [
            path
            for path, loaded in list(sys.modules.items())
            if path.startswith("energon_nodes.")
            and name in getattr(loaded, "__all__", ())
            and getattr(loaded, name) is value
        ]
        if not places:
            raise ValueError(f"no module of energon_nodes lists {name!r} in its __all__, so its area is unknown")
        origin = min(places, key=len)
    return origin.split(".")[1]


def entry(module: ModuleType, name: str) -> list[str]:
    """Return the directive that documents one name."""
    value: Any = getattr(module, name)
    path = f"{module.__name__}.{name}"
    if inspect.isclass(value):
        # Of a node, the docstring says all; its methods are those of Node.
        plain_node = issubclass(value, Node) and value is not Node
        return [f".. autoclass:: {path}", *([] if plain_node else ["   :members:"]), ""]
    if callable(value):
        return [f".. autofunction:: {path}", ""]
    return [f".. autodata:: {path}", ""]


def verbs_table() -> list[str]:
    """Return a Markdown table of the verbs, with the first line of what each does."""
    rows = ["| verb | node | what it does |", "|---|---|---|"]
    for name, node in sorted(energon_nodes.registered_nodes().items(), key=lambda item: item[1].verb or ""):
        if node.verb and node.__module__.startswith("energon_nodes."):
            first_line = inspect.getdoc(node).partition("\n")[0]
            rows.append(f"| `{node.verb}` | {{class}}`energon_nodes.{name}` | {first_line} |")
    return [*rows, ""]


def pages() -> dict[str, str]:
    """Return the text of each reference page by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in (energon_nodes, importlib.import_module("energon_nodes.testing")):
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                found[area_of(module, name)] += entry(module, name)
    unknown = sorted(set(found) - set(AREAS))
    if unknown:
        raise ValueError(f"docs/reference.py has no title for the areas {unknown}; add them to AREAS")
    areas = [area for area in AREAS if area in found]
    result = {"index": "\n".join(["# Reference", "", "```{toctree}", ":maxdepth: 1", "", *areas, "```", ""])}
    for area in areas:
        table = verbs_table() if area == "combinators" else []
        intro = inspect.getdoc(importlib.import_module(f"energon_nodes.{area}")) or ""
        body = ["```{eval-rst}", *found[area], "```", ""]
        result[area] = "\n".join([f"# {AREAS[area]}", "", intro, "", *table, *body])
    return result


def write_pages(app: Sphinx) -> None:
    """Write the pages into `docs/api/`, before Sphinx looks for its sources."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hook."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
