"""`energon_nodes.__all__` names what the package imports for its users, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import energon_nodes


def imported_names() -> set[str]:
    tree = ast.parse(Path(energon_nodes.__file__).read_text(encoding="utf-8"))
    imports = [item for item in tree.body if isinstance(item, ast.ImportFrom) and item.module != "__future__"]
    names = {name.asname or name.name for item in imports for name in item.names}
    return {name for name in names if not name.startswith("_")}


def test_all_names_what_is_imported() -> None:
    assert set(energon_nodes.__all__) == imported_names()


def test_all_names_nothing_twice() -> None:
    assert len(energon_nodes.__all__) == len(set(energon_nodes.__all__))
