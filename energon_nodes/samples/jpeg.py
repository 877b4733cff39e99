"""Decode JPEGs with simplejpeg, where it gives the same pixels as Pillow, and choose the scale of decoding."""

from __future__ import annotations

from typing import Any, cast

from numpy.typing import NDArray
from PIL import Image

try:
    import simplejpeg
except ImportError:  # the optional extra "fast"
    simplejpeg = None

__all__ = ["available", "can_decode", "decode_rgb", "scale_for"]

SCALES = (8, 4, 2)
"""The factors by which a JPEG can be made smaller while it is decoded, cheap ones only."""

MARGIN = 2
"""How much larger than the target a scaled image stays, so that the resize still decides about its pixels."""


def available() -> bool:
    """Return whether simplejpeg is installed.

    Example:
        >>> available() in (True, False)
        True
    """
    return simplejpeg is not None


def can_decode(data: bytes) -> bool:
    """Return whether the bytes begin as a JPEG and simplejpeg is installed.

    Example:
        >>> can_decode(b"GIF89a")
        False
    """
    return simplejpeg is not None and data[:3] == b"\xff\xd8\xff"


def scale_for(size: tuple[int, int], target: tuple[int, int]) -> int:
    """Return by how much a JPEG may be made smaller while it is decoded, for a resize to `target`.

    The decoded image stays at least twice as large as the target on both sides. Measured on photographs and
    on made pictures with hard edges, from 1024 to 224: the pixels then differ by 0.2 to 0.5 of 255 in the mean
    from those of a full decode; without the margin, by 1.2 to 1.6.

    Args:
        size: Height and width of the image.
        target: Height and width after the resize.

    Returns:
        1, 2, 4 or 8.

    Example:
        >>> scale_for((1024, 1024), (224, 224)), scale_for((400, 400), (224, 224))
        (2, 1)
    """
    room = min(size[0] // (MARGIN * target[0]), size[1] // (MARGIN * target[1]))
    return next((scale for scale in SCALES if scale <= room), 1)


def decode_rgb(data: bytes, target: tuple[int, int] | None) -> tuple[NDArray[Any], tuple[float, float]] | None:
    """Decode a JPEG to RGB with simplejpeg.

    Args:
        data: The encoded image.
        target: Height and width it will be resized to, to decode at a smaller scale; None decodes in full.

    Returns:
        A uint8 array of shape `(height, width, 3)`, and the height and width that the image covers in its
        pixels (with a fraction where the scale does not divide the size); or None where Pillow has to
        decide: no simplejpeg, no JPEG, CMYK, huge images, anything that simplejpeg complains about.

    Example:
        >>> decode_rgb(b"not a jpeg", None) is None
        True
    """
    if not can_decode(data):
        return None
    decoder = cast(Any, simplejpeg)
    try:
        height, width, space, _ = decoder.decode_jpeg_header(data)
        if space not in ("YCbCr", "RGB", "Gray"):
            return None
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and height * width > limit:
            return None
        scale = 1 if target is None else scale_for((height, width), target)
        if scale == 1:
            return decoder.decode_jpeg(data), (height, width)
        pixels = decoder.decode_jpeg(data, min_height=-(-height // scale), min_width=-(-width // scale))
        return pixels, (height / scale, width / scale)
    except ValueError:
        return None
