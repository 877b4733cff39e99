"""`energon_nodes.__all__` names what the package imports for its users, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import energon_nodes
from energon_nodes.core import verbs


def seen_by_type_checkers() -> dict[str, tuple[str, str]]:
    """Return the public names as type checkers see them: module and name there."""
    tree = ast.parse(Path(energon_nodes.__file__).read_text(encoding="utf-8"))
    block = next(item for item in tree.body if isinstance(item, ast.If))
    imports = [item for item in block.body if isinstance(item, ast.ImportFrom)]
    return {name.asname or name.name: (str(item.module), name.name) for item in imports for name in item.names}


def test_all_names_are_known_to_type_checkers_and_imported_when_they_are_asked_for() -> None:
    seen = seen_by_type_checkers()
    assert set(energon_nodes.__all__) == set(seen) == set(energon_nodes._LATER)
    for name, (module, inner) in seen.items():
        assert f"energon_nodes.{energon_nodes._LATER[name]}" == module
        assert getattr(energon_nodes, name) is getattr(import_module(module), inner)
    assert set(energon_nodes.__all__) <= set(dir(energon_nodes))


def test_every_verb_is_made_where_the_package_says() -> None:
    made = verbs.class_verbs() | verbs.function_verbs()
    own = {verb: maker for verb, maker in made.items() if maker.__module__.startswith("energon_nodes.")}
    found = {verb: (maker.__module__.removeprefix("energon_nodes."), maker.__qualname__) for verb, maker in own.items()}
    assert {verb: found[verb] for verb in energon_nodes._VERBS} == energon_nodes._VERBS
    assert set(found) - set(energon_nodes._VERBS) <= {"every_other"}  # of a doctest


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'energon_nodes' has no attribute 'shard'"):
        energon_nodes.shard  # noqa: B018


def test_the_import_leaves_out_what_not_every_program_uses() -> None:
    code = "import energon_nodes, sys; print(*(name for name in sys.modules if name.startswith('energon_nodes')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == [
        "energon_nodes.core",
        "energon_nodes.core._verbs",
        "energon_nodes.core.verbs",
        "energon_nodes",
    ]


def test_a_verb_works_and_is_documented_whatever_is_imported_first() -> None:
    code = """
from energon_nodes.sources.items import items
assert list(items([1, 2, 3]).batch(2)) == [[1, 2], [3]]
import energon_nodes as en
node = en.items([1, 2])
for verb in en._VERBS:
    assert getattr(node, verb).__doc__, verb
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_all_nodes_are_registered_before_they_are_used() -> None:
    code = "import energon_nodes as en; assert {'Map', 'Wrap', 'Shards', 'Jsonl', 'Join'} <= set(en.registered_nodes())"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_names_nothing_twice() -> None:
    assert len(energon_nodes.__all__) == len(set(energon_nodes.__all__))
