"""`tag` says something about all samples of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import energon_nodes as en


def test_the_outermost_tag_wins_and_dictionaries_are_replaced() -> None:
    sample = {"__key__": "a", "__subflavors__": {"a": "inner", "b": 1, "n": {"x": 1}}}
    (tagged,) = en.items([sample]).tag(subflavors={"a": "middle", "c": 2}).tag(subflavors={"a": "outer", "n": {"y": 2}})
    assert tagged["__subflavors__"] == {"a": "outer", "b": 1, "n": {"y": 2}, "c": 2}
    assert sample["__subflavors__"] == {"a": "inner", "b": 1, "n": {"x": 1}}


def test_parts_are_not_copied_and_the_type_stays() -> None:
    data = b"a picture"
    (tagged,) = en.items([en.CrudeSample({"__key__": "a", "jpg": data, "__subflavors__": None})]).tag(
        subflavors={"a": 1}
    )
    assert type(tagged) is en.CrudeSample
    assert tagged["jpg"] is data


def test_typed_samples_are_tagged_whatever_kind_of_dataclass_they_are() -> None:
    @dataclass(frozen=True)
    class Frozen:
        __key__: str
        __subflavors__: dict[str, Any] | None = None

    samples = [en.TextSample(__key__="a", text="fine", __subflavors__={"b": 1}), Frozen("c")]
    text, frozen = en.items(samples).tag(subflavors={"a": 1})
    assert isinstance(text, en.TextSample)
    assert (text.text, text.__subflavors__, frozen.__subflavors__) == ("fine", {"b": 1, "a": 1}, {"a": 1})
    assert samples[0].__subflavors__ == {"b": 1}


def test_samples_do_not_share_their_subflavors() -> None:
    one, two = en.items([{"__key__": "a"}] * 2).tag(subflavors={"a": 1})
    one["__subflavors__"]["a"] = 2
    assert two["__subflavors__"] == {"a": 1}


def test_what_is_no_sample_is_named() -> None:
    node = en.items([3]).tag(subflavors={"a": 1})
    with pytest.raises(TypeError, match="tag needs samples, dicts or objects with __subflavors__, got a int"):
        next(node)
    with pytest.raises(TypeError, match="tag needs subflavors as a dict of names and values, got 3"):
        en.items([{}]).tag(subflavors=3)  # type: ignore[arg-type]
