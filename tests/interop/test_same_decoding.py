"""Parts decode to the values that Megatron-Energon gives them, in each of its image modes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import energon_nodes as en
from tests.interop import folders, megatron

IMAGE_MODES = [
    *("l8", "rgb8", "rgba8", "l", "rgb", "rgba", "torchl8", "torchrgb8", "torchrgba8", "torchl", "torchrgb", "torch"),
    *("torchrgba", "pill", "pil", "pilrgb", "pilrgba"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prepared dataset with every kind of part that both sides decode."""
    folder = tmp_path_factory.mktemp("parts")
    members = [(f"image{k}.{part}", payload) for k, (part, payload) in enumerate(images())]
    folders.write_tar(folder / "0.tar", members + [(f"basic.{part}", payload) for part, payload in basic_parts()])
    return megatron.prepare(folder)


def images() -> list[tuple[str, bytes]]:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    smooth = Image.fromarray(pixels[..., :3]).resize((90, 70), Image.Resampling.BICUBIC)
    return [
        ("png", encoded(Image.fromarray(pixels[..., :3]), "PNG")),
        ("png", encoded(Image.fromarray(pixels[..., 0]), "PNG")),
        ("png", encoded(Image.fromarray(pixels), "PNG")),
        ("png", encoded(Image.fromarray(pixels[..., :3]).quantize(16), "PNG")),
        ("JPG", encoded(smooth, "JPEG")),
        ("jpeg", encoded(smooth.convert("L"), "JPEG")),
    ]


def encoded(image: Image.Image, form: str) -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def basic_parts() -> list[tuple[str, bytes]]:
    array, arrays = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(6).reshape(2, 3))
    np.savez(arrays, a=np.arange(3), b=np.ones((2, 2)))
    return [
        ("txt", "grün".encode()),
        ("json", b'{"a": [1, 2.5, null], "b": "x"}'),
        ("cls", b"17"),
        ("npy", array.getvalue()),
        ("npz", arrays.getvalue()),
        ("bin", b"\x00\x01"),
    ]


@pytest.mark.parametrize("mode", IMAGE_MODES)
def test_every_image_mode_gives_the_same_pixels(folder: Path, mode: str) -> None:
    ours = list(en.shards(folder, split="train").decode(image=mode, backend="pillow"))
    theirs = megatron.read(folder, image_decode=mode)
    assert [sample["__key__"] for sample in ours] == [sample["__key__"] for sample in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert_same(mine, other)


def assert_same(mine: dict[str, Any], other: dict[str, Any]) -> None:
    parts = [name for name in other if not name.startswith("__")]
    assert parts == [name for name in mine if not name.startswith("__")]
    for part in parts:
        assert comparable(mine[part]) == comparable(other[part]), (mine["__key__"], part)


def comparable(value: Any) -> Any:
    """Return a value in a form that `==` compares as a whole, its container included."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, value.tolist()
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.tolist()
    if isinstance(value, Image.Image):
        return "image", value.mode, value.size, value.tobytes()
    if isinstance(value, dict):
        return {name: comparable(entry) for name, entry in value.items()}
    return type(value), value
