"""Errors say where they happened, once."""

from __future__ import annotations

import pickle

import pytest

import energon_nodes as en
from energon_nodes.core import errors
from energon_nodes.core.errors import annotate, shown_key


class Sample:
    __key__ = "dog"


def test_every_error_is_named_in_the_package() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert {kind.__name__ for kind in kinds} <= set(en.__all__)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name[0].isupper()])
def test_an_error_survives_the_way_between_processes(name: str) -> None:
    error = getattr(errors, name)("what happened")
    annotate(error, "Map()", (0, 1), None)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, again.__notes__) == (type(error), error.args, error.__notes__)


@pytest.mark.parametrize("value", [{"__key__": "dog"}, Sample()], ids=["dict", "object"])
def test_a_sample_is_named_by_its_key(value: object) -> None:
    error = ValueError()
    annotate(error, "Map()", None, value)
    assert error.__notes__ == ["at node Map()", "sample 'dog'"]


def test_what_has_no_key_is_not_shown() -> None:
    error = ValueError()
    annotate(error, "Map()", None, {"jpg": b"secret"})
    assert error.__notes__ == ["at node Map()"]


def test_the_first_place_is_the_one_that_is_named() -> None:
    error = ValueError()
    annotate(error, "Map()", (0, 1), None)
    annotate(error, "Batch()", ((0, 1),), None)
    assert error.__notes__ == ["at node Map()", "restore key (0, 1)"]


def test_an_error_that_takes_no_attributes_is_annotated_too() -> None:
    class Slotted(Exception):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            if name != "__notes__":
                raise AttributeError(name)
            super().__setattr__(name, value)

    error = Slotted()
    annotate(error, "Map()", None, None)
    assert error.__notes__ == ["at node Map()"]


def test_a_long_key_is_cut() -> None:
    assert len(shown_key(tuple(range(10_000)))) == 300
