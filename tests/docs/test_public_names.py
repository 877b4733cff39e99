"""Every public name is documented, with an example that the doctests run."""

import inspect
from typing import Any

import pytest

import energon_nodes
from energon_nodes import testing

# What is an alias of a type, or comes from elsewhere, has no docstring of its own.
PUBLIC = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (energon_nodes, testing)
    for name in module.__all__
    if getattr(getattr(module, name), "__module__", "").startswith("energon_nodes.")
]


@pytest.mark.parametrize("value", PUBLIC)
def test_a_public_name_says_what_it_does_and_shows_it(value: Any) -> None:
    docstring = inspect.getdoc(value) or ""
    first_line = docstring.partition("\n")[0]
    assert first_line.endswith("."), f"the first line should be one sentence: {first_line!r}"
    assert ">>> " in docstring, "an example is missing"


def test_all_lists_exist_and_hold_no_name_twice() -> None:
    for module in (energon_nodes, testing):
        assert sorted(set(module.__all__)) == sorted(module.__all__)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
