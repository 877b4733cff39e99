"""Values that buffers must save come back equal, or are refused by name."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from energon_nodes.core import encoders
from energon_nodes.core.encoders import PLAIN_TYPES, decode_value, encode_value, register_encoder
from energon_nodes.core.errors import StateError


@dataclass
class Point:
    x: int
    label: str = "none"
    pixels: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    values: tuple[int, ...]
    known: bool = field(default=False, init=False)


class Pair(NamedTuple):
    left: Any
    right: Any


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(map(is_plain, [*value, *value.values()]))
    if isinstance(value, (list, tuple)):
        return type(value) in (list, tuple) and all(map(is_plain, value))
    return type(value) in PLAIN_TYPES


def through_a_checkpoint(value: Any) -> Any:
    """Save and load as a trainer does."""
    encoded = encode_value(value)
    assert is_plain(encoded)
    file = io.BytesIO()
    torch.save(encoded, file)
    file.seek(0)
    return decode_value(torch.load(file, weights_only=True))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**70,
        1.5,
        "ä",
        b"\x00",
        b"",
        {"empty": [b""]},
        [],
        (),
        {},
        [1, (2, [3.0, None])],
        {"a": {"b": (1, 2)}},
        {1: "a", (2, 3): "b"},
        {"__encoded__": "tensor", "value": 3},
        {None: 1, "x": 2},
        {1, 2},
        frozenset({"a"}),
        bytearray(b"abc"),
        3 + 4j,
        Pair(1, [Pair(2, 3)]),
        Point(1),
        Point(2, "b", Point(3)),
    ],
    ids=repr,
)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    result = through_a_checkpoint(value)
    assert result == value
    assert type(result) is type(value)


def test_a_dataclass_comes_back_without_its_init_being_called() -> None:
    value = Frozen((1, 2))
    object.__setattr__(value, "known", True)
    assert through_a_checkpoint(value) == value


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.1),
        np.float64(0.1),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.str_("ä"),
        np.bytes_(b"a"),
        np.complex64(1 + 2j),
        np.datetime64("2020-01-02T03:04"),
        np.timedelta64(5, "s"),
        np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", ">f8")])[0],
    ],
    ids=repr,
)
def test_a_numpy_scalar_comes_back_as_a_scalar_of_its_dtype(value: Any) -> None:
    result = through_a_checkpoint(value)
    assert type(result) is type(value)
    assert result.dtype == value.dtype
    assert result == value


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::2],
        np.zeros((0, 3), np.float16),
        np.array(3.5),
        np.array(["a", "bcd"]),
        np.array([], dtype="U1"),
        np.array([True, False]),
        np.array([(1, "x"), (2, "y")], dtype=[("number", "i8"), ("name", "U3")]),
        np.array(["2020-01-01"], dtype="M8[D]"),
    ],
    ids=lambda value: f"{value.dtype}-{value.shape}",
)
def test_an_array_comes_back_with_dtype_and_shape(value: np.ndarray[Any, Any]) -> None:
    result = through_a_checkpoint(value)
    assert type(result) is np.ndarray
    assert (result.dtype, result.shape) == (value.dtype, value.shape)
    assert (result == value).all()
    result[...] = value  # it may be written to


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor(2.5),
        torch.zeros(0, 4),
        torch.tensor([True, False]),
        torch.tensor([1.5, -2], dtype=torch.bfloat16),
        torch.tensor([1 + 2j]),
        torch.arange(3, dtype=torch.uint8).expand(4, 3),
        torch.ones(2, requires_grad=True),
    ],
    ids=lambda value: f"{value.dtype}-{tuple(value.shape)}",
)
def test_a_tensor_comes_back_with_dtype_and_shape(value: torch.Tensor) -> None:
    result = through_a_checkpoint({"image": value})["image"]
    assert (result.dtype, result.shape) == (value.dtype, value.shape)
    assert torch.equal(result, value.detach())


def gradient(mode: str = "RGB") -> Image.Image:
    image = Image.new("RGB", (7, 5))
    image.putdata([(x * 30, y * 40, x * y) for y in range(5) for x in range(7)])
    return image.convert(mode)


def reopened(image: Image.Image, format: str, **options: Any) -> Image.Image:
    file = io.BytesIO()
    image.save(file, format, **options)
    return Image.open(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F"])
def test_an_image_comes_back_in_its_mode(mode: str) -> None:
    image = gradient(mode)
    assert through_a_checkpoint(image) == image


def test_an_image_of_16_bits_comes_back() -> None:
    image = Image.fromarray(np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000)
    assert through_a_checkpoint(image) == image


@pytest.mark.parametrize(
    "image",
    [
        gradient().quantize(8),
        gradient("RGBA").quantize(8, method=Image.Quantize.FASTOCTREE),
        gradient("RGBA").convert("PA"),
        reopened(gradient().quantize(8), "PNG"),
        reopened(gradient().quantize(8), "PNG", transparency=3),
        reopened(gradient().quantize(8), "PNG", transparency=bytes([0, 10, 200])),
        reopened(gradient().quantize(8), "GIF"),
    ],
    ids=["P", "P of RGBA", "PA", "png", "png one transparent", "png with an alpha table", "gif"],
)
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_a_palette_image_keeps_its_palette_and_its_transparency(image: Image.Image) -> None:
    result = through_a_checkpoint(image)
    assert (result.mode, result.size) == (image.mode, image.size)
    assert result.tobytes() == image.tobytes()
    for mode in ("RGB", "RGBA"):
        assert result.convert(mode).tobytes() == image.convert(mode).tobytes()


def test_an_image_keeps_what_says_how_it_is_turned() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    result = through_a_checkpoint(reopened(gradient(), "JPEG", exif=exif, dpi=(72, 72)))
    assert result.getexif()[0x0112] == 6
    assert result.info["dpi"] == (72, 72)


def test_a_type_that_was_registered_comes_back() -> None:
    register_encoder(Fraction, "fraction", lambda x: [x.numerator, x.denominator], lambda x: Fraction(*x))
    assert through_a_checkpoint([Fraction(1, 3)]) == [Fraction(1, 3)]


def test_a_name_cannot_be_registered_for_a_second_type() -> None:
    with pytest.raises(ValueError, match="an encoder named 'array' exists already; choose another name for Point"):
        register_encoder(Point, "array", vars, lambda fields: Point(**fields))


def test_an_encoder_of_the_user_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {kind: found for kind, found in encoders._encoders.items() if kind is not torch.Tensor}
    monkeypatch.setattr(encoders, "_encoders", others)
    monkeypatch.setattr(encoders, "_decoders", dict(encoders._decoders))
    register_encoder(torch.Tensor, "mine", lambda x: x.tolist(), torch.tensor)
    with pytest.raises(TypeError):
        encode_value(torch.Generator())  # of the same library, and without an encoder
    assert encode_value(torch.tensor([1])) == {"__encoded__": "mine", "value": [1]}
    assert decode_value({"__encoded__": "mine", "value": [1]}).tolist() == [1]


class Unknown:
    pass


class Derived(Fraction):
    pass


@pytest.mark.parametrize("value", [Unknown(), [Unknown()], {"a": (Unknown(),)}], ids=["alone", "in a list", "deep"])
def test_a_type_without_encoder_is_refused_with_the_way_out(value: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot hold a value of type Unknown: call energon_nodes\.register_encoder"):
        encode_value(value)


def test_subclasses_need_an_entry_of_their_own() -> None:
    with pytest.raises(TypeError, match="type Derived"):
        encode_value(Derived(1, 3))


def test_a_class_that_could_not_be_found_again_is_refused_when_saving() -> None:
    @dataclass
    class Local:
        x: int

    with pytest.raises(TypeError, match=r"Local: it could not be found again.*top of a module"):
        encode_value(Local(1))


def test_arrays_of_objects_and_sparse_tensors_are_refused() -> None:
    with pytest.raises(TypeError, match="array of Python objects"):
        encode_value(np.array([object()]))
    with pytest.raises(TypeError, match="make it a dense one"):
        encode_value(torch.eye(2).to_sparse())


def test_a_checkpoint_does_not_import_code() -> None:
    for encoded in ("json.tool:Anything", "energon_nodes.core.encoders:encode_value", "builtins:dict"):
        with pytest.raises(StateError, match=f"holds a {encoded}, which is not known here"):
            decode_value({"__encoded__": "dataclass", "type": encoded, "value": {}})
        with pytest.raises(StateError, match="not known here"):
            decode_value({"__encoded__": "namedtuple", "type": encoded, "value": []})
    assert "json.tool" not in sys.modules


def test_an_encoder_that_is_not_registered_is_a_named_error() -> None:
    with pytest.raises(StateError, match="saved by the encoder 'other', which is not registered here"):
        decode_value({"__encoded__": "other", "value": 3})
