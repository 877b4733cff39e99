"""Cookers say which samples a function is for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import energon_nodes as en


def caption(sample: Any) -> Any:
    return sample


def long(sample: Any) -> bool:
    return len(sample["txt"]) > 3


def test_every_subflavor_must_be_there_with_its_value() -> None:
    cooker = en.Cooker(caption, {"kind": "web", "lang": None})
    assert cooker.matches_dataset({"kind": "web", "lang": None, "more": 1})
    assert not cooker.matches_dataset({"kind": "web"})
    assert not cooker.matches_dataset({"kind": "book", "lang": None})
    assert en.Cooker(caption).matches_dataset({})


def test_parts_and_a_function_are_asked_of_each_sample() -> None:
    cooker = en.Cooker(caption, where=long, has_parts=["txt", "jpg"])
    assert cooker.matches_sample({"txt": "a cat", "jpg": b""})
    assert not cooker.matches_sample({"txt": "cat", "jpg": b""})
    assert not cooker.matches_sample({"txt": "a cat"})
    assert en.Cooker(caption, has_parts=["text"]).matches_sample(en.TextSample(__key__="a", text=""))
    assert not en.Cooker(caption, has_parts=["image"]).matches_sample(en.TextSample(__key__="a", text=""))


def test_a_cooker_shows_its_conditions() -> None:
    shown = repr(en.Cooker(caption, {"kind": "web"}, where=long, has_parts=("txt",)))
    assert shown == "Cooker(caption, has_subflavors={'kind': 'web'}, has_parts=['txt'], where=long)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fn": 3}, "needs a callable fn, got 3"),
        ({"fn": caption, "has_subflavors": ["kind"]}, "has_subflavors as a dict"),
        ({"fn": caption, "where": 3}, "a callable where, got 3"),
        ({"fn": caption, "has_parts": "jpg"}, "has_parts as names such as"),
    ],
)
def test_conditions_of_other_kinds_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        en.Cooker(**arguments)


def test_the_mark_leaves_the_function_what_it_is() -> None:
    def texts(sample: Any, **stores: Any) -> Any:
        yield stores

    assert en.cooker(texts) is texts
    assert en.cooker(need_cache=True)(texts) is texts
    assert inspect.isgeneratorfunction(texts)


def test_the_basic_keys_are_those_that_the_sample_has() -> None:
    source = object()
    crude = {"__key__": "a", "__sources__": (source,), "__shard__": "0.tar", "txt": "fine"}
    assert en.basic_sample_keys(crude) == {"__key__": "a", "__sources__": (source,)}
    assert en.basic_sample_keys(crude, [1, 2])["__sources__"] == (source, 1, 2)
    assert en.basic_sample_keys({"__key__": "a"}, (1,)) == {"__key__": "a", "__sources__": (1,)}
    typed = en.TextSample(__key__="a", text="", __subflavors__={"kind": "web"})
    again = en.ImageSample(**en.basic_sample_keys(typed), image=None)
    assert (again.__key__, again.__subflavors__, again.__sources__) == ("a", {"kind": "web"}, None)
