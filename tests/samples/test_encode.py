"""What is encoded decodes to the same value, and the same value gives the same bytes."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from energon_nodes.core.errors import SampleError
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.encode import encode_part
from energon_nodes.samples.to_parts import ToParts

decode = Decoder(image="pil")
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def decoded(part: str, data: bytes) -> Any:
    return decode({"__key__": "a", part: data})[part]


@given(plain)
def test_json_comes_back(value: Any):
    assert decoded("json", encode_part("json", value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_back(value: str):
    assert decoded("a.TXT", encode_part("a.TXT", value)) == value


def test_halves_of_surrogate_pairs_come_back_in_json():
    assert decoded("json", encode_part("json", ["\ud800", "ü"])) == ["\ud800", "ü"]
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_part("txt", "\ud800")


@pytest.mark.parametrize("value", [7, np.int64(7), torch.tensor(7), -(2**80)])
def test_integers_come_back(value: Any):
    assert decoded("cls", encode_part("cls", value)) == int(value)


@pytest.mark.parametrize("value", [np.arange(6).reshape(2, 3).T, np.float32(2.5), torch.ones(2, 2), np.zeros((0, 3))])
def test_arrays_come_back(value: Any):
    found = decoded("npy", encode_part("npy", value))
    assert found.dtype == np.asarray(value).dtype
    assert np.array_equal(found, np.asarray(value))


def test_several_arrays_come_back_and_do_not_hold_the_time(monkeypatch: pytest.MonkeyPatch):
    value = {"a": np.arange(3), "b": torch.ones(2, 2)}
    data = encode_part("npz", value)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(1e9))
    assert encode_part("npz", value) == data
    found = decoded("npz", data)
    assert {name: found[name].tolist() for name in found} == {"a": [0, 1, 2], "b": [[1, 1], [1, 1]]}


@pytest.mark.parametrize("part", ["png", "left.PNG"])
@pytest.mark.parametrize("channels", [0, 1, 3, 4])
def test_pictures_come_back_pixel_by_pixel(part: str, channels: int):
    shape = (5, 7, channels) if channels else (5, 7)
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = np.asarray(Image.open(io.BytesIO(encode_part(part, pixels))))
    assert np.array_equal(found, pixels[:, :, 0] if channels == 1 else pixels)
    if channels:
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)
        assert encode_part(part, tensor) == encode_part(part, pixels)
    if channels != 1:
        assert encode_part(part, Image.fromarray(pixels)) == encode_part(part, pixels)


@pytest.mark.parametrize("part", ["jpg", "jpeg", "webp"])
def test_lossy_pictures_come_near_and_quality_counts(part: str):
    smooth = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)[:, :, None].repeat(3, 2)
    good, bad = encode_part(part, smooth), encode_part(part, smooth, quality=10)
    assert len(bad) < len(good)
    assert abs(np.asarray(decoded(part, good)).astype(int) - smooth).mean() < 2


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
@pytest.mark.parametrize("part", ["bin", "jpg", "json"])
def test_bytes_are_written_as_they_are(part: str, value: Any):
    assert encode_part(part, value) == b"x"


def test_fields_are_named_by_the_rules_given():
    to_parts = ToParts({"a": "txt", "b": None}, key=lambda sample: sample["b"])
    assert to_parts({"a": "x", "b": "k"}) == ("k", {"txt": b"x"})
    assert to_parts.described() == {"a": "txt", "b": None}
    with pytest.raises(SampleError, match="the sample 'k' has two fields for the part 'txt'"):
        to_parts({"a": "x", "b": "k", "txt": "y"})
    with pytest.raises(SampleError, match="returned None"):
        ToParts(key=lambda sample: None)({"txt": "x"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(SampleError, match="returned a str, not bytes"):
        ToParts({"a": str.upper})({"a": "x"})  # pyright: ignore[reportArgumentType]


def test_a_field_that_a_dataclass_does_not_have_is_named():
    from energon_nodes.samples.types import TextSample

    with pytest.raises(SampleError, match="encode names the field 'txet', which TextSample does not have; did you"):
        ToParts({"txet": "txt"})(TextSample(__key__="a", text="x"))
    assert ToParts({"text": "txt"})(TextSample(__key__="a", text="x")) == ("a", {"txt": b"x"})
