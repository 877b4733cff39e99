"""The stub of the verbs is what the classes say, and says nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.core import verb_stub, verbs
from energon_nodes.core.annotations import Names, SourceFile
from energon_nodes.core.restore import Key


class Foreign(en.Node[int], verb="of_others"):
    """A verb of another package."""

    source: en.Node[int]

    def run(self) -> Iterator[tuple[int, Key]]:
        yield from self.source.pairs()


@en.add_verb
def foreign_too(source: en.Node[Any]) -> en.Node[Any]:
    return source


def methods(text: str) -> dict[str, list[ast.FunctionDef]]:
    (body,) = [item.body for item in ast.parse(text).body if isinstance(item, ast.ClassDef)]
    found: dict[str, list[ast.FunctionDef]] = {}
    for item in body:
        if isinstance(item, ast.FunctionDef):
            found.setdefault(item.name, []).append(item)
    return found


def test_the_stub_on_disk_is_what_the_classes_say() -> None:
    assert verb_stub.STUB.read_text(encoding="utf-8") == verb_stub.stub_text(), (
        "make it anew: python -m energon_nodes.core.verb_stub"
    )


def test_verbs_from_outside_of_the_package_stand_on_nodes_and_not_in_the_stub() -> None:
    assert list(en.items([1, 2]).of_others().foreign_too()) == [1, 2]  # type: ignore[attr-defined]
    assert {"of_others", "foreign_too"} <= set(verbs.class_verbs() | verbs.function_verbs())
    assert not {"of_others", "foreign_too"} & set(methods(verb_stub.stub_text()))


def test_the_stub_has_every_verb_of_the_package_with_a_docstring() -> None:
    found = methods(verb_stub.stub_text())
    assert {"batch", "map", "unbatch", "loader", "dataset", "zip"} <= set(found)
    for name, signatures in found.items():
        for signature in signatures:
            assert (ast.get_docstring(signature) or "").endswith("."), name
            assert bool(signature.decorator_list) == (len(signatures) > 1), name


def test_check_fails_with_the_command_to_run_where_the_stub_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "_verbs.pyi"
    monkeypatch.setattr(verb_stub, "STUB", stub)
    for text in (None, "stale"):
        if text is not None:
            stub.write_text(text)
        with pytest.raises(SystemExit, match=r"_verbs\.pyi is stale: run python -m energon_nodes\.core\.verb_stub"):
            verb_stub.main(["--check"])
    verb_stub.main([])
    verb_stub.main(["--check"])


def test_arguments_that_are_not_known_are_refused() -> None:
    with pytest.raises(SystemExit, match="takes no argument or --check, got --chekc"):
        verb_stub.main(["--chekc"])


def test_a_name_that_means_two_things_is_refused() -> None:
    names = Names()
    names.add(ast.parse("Iterator[X]"), SourceFile("energon_nodes.combinators.limit"))
    names.need("collections.abc", "Iterator")
    with pytest.raises(ValueError, match=r"Iterator means .*, and in typing .*: give one of them another name"):
        names.need("typing", "Iterator")


def test_a_name_that_is_not_at_the_top_of_its_file_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an annotation in energon_nodes\.combinators\.limit uses Missing: define"):
        Names().add(ast.parse("list[Missing]"), SourceFile("energon_nodes.combinators.limit"))


def test_imports_are_sorted_as_ruff_sorts_them() -> None:
    names = Names()
    names.need("typing", "overload", "Any", "TYPE_CHECKING")
    names.need("energon_nodes.core.node", "Node")
    names.need("collections.abc", "Iterator")
    names.add(ast.parse("np.ndarray"), SourceFile("energon_nodes.core.restore"))
    assert names.import_block() == (
        "from collections.abc import Iterator\n"
        "from typing import TYPE_CHECKING, Any, overload\n\n"
        "import numpy as np\n\n"
        "from energon_nodes.core.node import Node"
    )
