"""Guess what a part holds from its first bytes."""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["Kind", "sniff"]

Kind = Literal["image", "gz", "npy", "ten"]

_PREFIXES: tuple[tuple[bytes, Kind], ...] = (
    (b"\xff\xd8\xff", "image"),  # JPEG
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"II*\0", "image"),  # TIFF
    (b"MM\0*", "image"),
    (b"II+\0", "image"),  # BigTIFF
    (b"MM\0+", "image"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "image"),  # JPEG 2000
    (b"\xff\x4f\xff\x51", "image"),
    (b"8BPS\0", "image"),  # Photoshop
    (b"DDS |\0\0\0", "image"),
    (b"icns\0", "image"),
    (b"\x1f\x8b\x08", "gz"),
    (b"\x93NUMPY", "npy"),
    (b"~TenBin~", "ten"),
)

# Signatures that plain text could begin with are matched with more of their header.
_IMAGE_HEADERS = re.compile(
    rb"RIFF....WEBP|....ftyp(?:avif|avis|mif1)|BM....\0\0\0\0|P[1-6]\s+(?:#[^\n]*\n\s*)*\d+\s+\d+\s|\0\0\x01\0[\x01-\xff]\0",
    re.DOTALL,
)


def sniff(data: bytes) -> Kind | None:
    """Guess the kind of content from its first bytes; only what cannot be taken for plain text counts.

    Args:
        data: The content, or at least its beginning.

    Returns:
        `"image"`, `"gz"` (gzip), `"npy"`, `"ten"` (webdataset's tensors), or None.

    Example:
        >>> sniff(b"GIF89a..."), sniff(b"BMW builds cars")
        ('image', None)
    """
    head = data[:64]
    for prefix, kind in _PREFIXES:
        if head.startswith(prefix):
            return kind
    return "image" if _IMAGE_HEADERS.match(head) else None
