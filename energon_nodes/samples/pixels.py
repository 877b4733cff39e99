"""Convert and resize the pixels of one image: bands, bit depths, and a resize that gives Pillow's pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Filter", "converted", "deep_planes", "is_deep", "planes_of", "resized"]

Filter = Literal["bicubic", "bilinear"]

DEEPEST = 65535
"""The largest value of 16 bits."""

_from_numpy = cast("Callable[[NDArray[Any]], torch.Tensor]", torch.from_numpy)  # pyright: ignore[reportUnknownMemberType]


def is_deep(image: Image.Image) -> bool:
    """Return whether the image is grey with 16 bits (Pillow opens some of them as 32-bit integers).

    Example:
        >>> is_deep(Image.new("I;16", (2, 2))), is_deep(Image.new("L", (2, 2)))
        (True, False)
    """
    return image.mode == "I" or image.mode.startswith("I;16")


def deep_values(image: Image.Image) -> NDArray[Any]:
    values = np.asarray(image)
    return values.clip(0, DEEPEST) if image.mode == "I" else values


def deep_planes(image: Image.Image) -> torch.Tensor:
    """Return a 16-bit grey image with all its precision.

    Returns:
        A float32 tensor of shape `(1, height, width)`, 0 to 1.

    Example:
        >>> deep_planes(Image.new("I;16", (3, 2), 65535)).sum().item()
        6.0
    """
    values = deep_values(image).astype(np.float32)
    values /= DEEPEST
    return _from_numpy(values)[None]


def converted(image: Image.Image, bands: str) -> Image.Image:
    """Load an image and convert it to the bands asked for: alpha is dropped, never blended.

    Of 16-bit grey the upper 8 bits are kept, as Pillow does with 16-bit colour (its own conversion
    would cut every value above 255).

    Args:
        image: An image as Pillow opened it.
        bands: `L`, `RGB` or `RGBA`.

    Returns:
        An image in that mode; the given one where nothing is to be done.

    Example:
        >>> converted(Image.new("RGBA", (1, 1), (9, 8, 7, 0)), "RGB").getpixel((0, 0))
        (9, 8, 7)
    """
    image.load()
    if is_deep(image):
        image = Image.fromarray((deep_values(image) >> 8).astype(np.uint8))
    if image.mode == bands:
        # A file with more frames would keep its bytes, and show the frame that its user seeks to.
        return image.copy() if getattr(image, "is_animated", False) else image
    if bands != "RGBA":
        image.info.pop("transparency", None)  # it would only cause a warning: alpha is dropped
    return image.convert(bands)


def planes_of(pixels: NDArray[Any]) -> torch.Tensor:
    """View an array of pixels as planes.

    Args:
        pixels: A writable array of shape `(height, width)` or `(height, width, bands)`.

    Returns:
        A tensor of shape `(bands, height, width)` in the same memory, so a colour image is not contiguous.

    Example:
        >>> planes_of(np.zeros((4, 5, 3), np.uint8)).shape
        torch.Size([3, 4, 5])
    """
    tensor = _from_numpy(pixels)
    return tensor[None] if tensor.ndim == 2 else tensor.permute(2, 0, 1)


def resized(planes: torch.Tensor, size: tuple[int, int], kind: Filter, extent: tuple[float, float]) -> torch.Tensor:
    """Resize planes with antialiasing to the pixels that Pillow's `resize` would give.

    torch's kernel for uint8 is two to four times as fast as Pillow's, and rounds as Pillow before 13 does: after
    the columns, then after the rows (Pillow 13 begins with the rows where that is less work, which rounds
    every fifth value the other way). It reads colour as decoders leave it, interleaved: making it contiguous
    before would cost a good part of what the resize gains.

    Args:
        planes: A uint8 or float32 tensor of shape `(bands, height, width)`.
        size: Height and width of the result.
        kind: `bicubic` or `bilinear`.
        extent: The height and width that the image covers in its own pixels, see `jpeg.decode_rgb`.

    Returns:
        A tensor of shape `(bands, *size)` and the same dtype.

    Example:
        >>> resized(torch.full((3, 4, 4), 7, dtype=torch.uint8), (2, 2), "bilinear", (4, 4)).unique()
        tensor([7], dtype=torch.uint8)
    """
    _, height, width = planes.shape
    if (height, width) == size and extent == size:
        return planes
    batch = planes[None]
    if extent == (height, width):
        batch = _interpolate(batch, kind, size=size)
    else:
        factors = tuple(_factor(*sides) for sides in zip((height, width), size, extent, strict=True))
        batch = _interpolate(batch, kind, scale_factor=factors)
    return batch[0] if batch.dtype == torch.uint8 else batch[0].clamp_(0, 1)


def _factor(side: int, wanted: int, extent: float) -> float:
    """Return the factor from an extent to a size, such that torch derives this size from it."""
    factor = wanted / extent
    while int(side * factor) < wanted:  # torch cuts off the fraction
        factor = math.nextafter(factor, math.inf)
    return factor


def _interpolate(batch: torch.Tensor, kind: Filter, **target: Any) -> torch.Tensor:
    interpolate = cast(Any, torch.nn.functional.interpolate)
    return interpolate(batch, mode=kind, antialias=True, **target)
