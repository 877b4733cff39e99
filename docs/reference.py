"""Sphinx extension: write a reference page for each area of the package, from the package itself.

A public name is one that `energon_nodes.__all__` or `energon_nodes.testing.__all__` lists, or a verb. Its area is the
folder that defines it. So a new public name has its place without anyone writing it down.
"""

import importlib
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import verb_table
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


def pages() -> dict[str, str]:
    """Return the text of each reference page by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in (energon_nodes, importlib.import_module("energon_nodes.testing")):
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                found[area_of(module, name)] += entry(module, name)
    for verb, function in verb_table.verbs().items():  # some verbs are functions, and no names of the package
        if not inspect.isclass(function) and not hasattr(energon_nodes, verb):
            found[function.__module__.split(".")[1]] += [f".. autofunction:: {function.__module__}.{verb}", ""]
    unknown = sorted(set(found) - set(AREAS))
    if unknown:
        raise ValueError(f"docs/reference.py has no title for the areas {unknown}; add them to AREAS")
    areas = [area for area in AREAS if area in found]
    result = {"index": "\n".join(["# Reference", "", "```{toctree}", ":maxdepth: 1", "", *areas, "```", ""])}
    for area in areas:
        table = [verb_table.table(), ""] if area == "combinators" else []
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


def tables_to_rst(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Turn the Markdown tables of a docstring, which read well in the source, into what autodoc reads."""
    result: list[str] = []
    in_table = False
    for line in lines:
        text = line.strip()
        if not text.startswith("|"):
            in_table = False
            result.append(line)
        elif not set(text) <= set("|-"):  # the rule under the heads has no content
            indent = line[: len(line) - len(line.lstrip())]
            if not in_table:
                result += [f"{indent}.. list-table::", f"{indent}   :header-rows: 1", ""]
                in_table = True
            for number, cell in enumerate(text.strip("|").split("|")):
                result.append(f"{indent}   {'  -' if number else '* -'} {cell.strip()}")
    lines[:] = result


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hooks."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", tables_to_rst)
    return {"parallel_read_safe": True}
