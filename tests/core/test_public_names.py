"""`energon_nodes.__all__` names what the package imports for its users, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import energon_nodes


def imported_names(*, later: bool) -> set[str]:
    """Return what the package imports for its users: at once, or, as type checkers see it, when it is asked for."""
    tree = ast.parse(Path(energon_nodes.__file__).read_text(encoding="utf-8"))
    for_types = next(item for item in tree.body if isinstance(item, ast.If))
    imports = [item for item in (for_types if later else tree).body if isinstance(item, ast.ImportFrom)]
    own = [item for item in imports if item.module and item.module.startswith("energon_nodes.")]
    names = {name.asname or name.name for item in own for name in item.names}
    return names - {"add_lazy_verb"}


def test_all_names_what_is_imported() -> None:
    assert set(energon_nodes.__all__) == imported_names(later=False) | imported_names(later=True)


def test_what_is_imported_later_is_what_type_checkers_see() -> None:
    assert set(energon_nodes._LATER) == imported_names(later=True)
    for name, module in energon_nodes._LATER.items():
        assert getattr(energon_nodes, name) is getattr(import_module(module), name)
    assert set(energon_nodes.__all__) <= set(dir(energon_nodes))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'energon_nodes' has no attribute 'shard'"):
        energon_nodes.shard  # noqa: B018


def test_the_import_leaves_out_what_not_every_program_uses() -> None:
    code = "import energon_nodes, sys; print(*(name for name in sys.modules if name.startswith('energon_nodes')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "energon_nodes.core.node" in loaded
    assert not any(
        part in loaded for part in ("energon_nodes.storage", "energon_nodes.samples", "energon_nodes.loading")
    )


def test_all_names_nothing_twice() -> None:
    assert len(energon_nodes.__all__) == len(set(energon_nodes.__all__))
