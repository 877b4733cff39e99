"""Decode one image: any container, bands and bit depth, with a resize in the same step."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageOps

from energon_nodes.core.errors import TrustError
from energon_nodes.samples import jpeg
from energon_nodes.samples.image_modes import IMAGE_MODES, ImageModeName
from energon_nodes.samples.pixels import Filter, converted, deep_planes, is_deep, planes_of, resized

__all__ = ["Backend", "ImageDecoder"]

Backend = Literal["auto", "pillow", "simplejpeg"]

ORIENTATION = 0x0112
POSTSCRIPT = (b"%!PS", b"\xc5\xd0\xd3\xc6")


@dataclass(frozen=True)
class ImageDecoder:
    """Decode the bytes of an image.

    | mode | container | dtype | shape of an image of height 4 and width 5 |
    |---|---|---|---|
    | l8, rgb8, rgba8 | numpy | uint8 | `(4, 5)`, `(4, 5, 3)`, `(4, 5, 4)` |
    | l, rgb, rgba | numpy | float32, 0 to 1 | the same |
    | torchl8, torchrgb8, torchrgba8 | torch | uint8 | `(4, 5)`, `(3, 4, 5)`, `(4, 4, 5)` |
    | torchl, torchrgb or torch, torchrgba | torch | float32, 0 to 1 | the same |
    | pill, pilrgb or pil, pilrgba | PIL | modes L, RGB, RGBA | |

    What an image of another kind becomes is the same in every mode:

    - Grey becomes colour with three equal bands; colour becomes grey by Pillow's weights (ITU-R 601-2).
      An image without alpha gets alpha 255. Alpha is dropped where the mode has none, never blended.
    - Palettes and 1-bit images are expanded. CMYK and YCCK become RGB by Pillow's plain formula.
    - 16-bit grey (PNG, PGM, TIFF) keeps its upper 8 bits in uint8 and PIL modes, and all its bits, as
      `value / 65535`, in float modes. 16-bit colour is read with 8 bits, which is all that Pillow gives.
      32-bit integers are cut to 0..65535 and read as 16 bits, 32-bit floats are cut to 0..255.
    - Of an animation (GIF, APNG, WebP, TIFF with pages) the first frame is taken.
    - The orientation in EXIF is applied only with `exif=True`.

    The instance is immutable, can be pickled, and may be called from several threads at once.

    Args:
        mode: A mode of the table.
        resize: Height and width to resize to, or None. The pixels are those of
            `image.convert(...).resize((width, height), filter)` in Pillow, to within rounding: the same ones
            with every version of Pillow, while its own have changed in the last bit with 13.
        filter: The filter of the resize, `"bicubic"` or `"bilinear"`, both with antialiasing.
        scaled: Decode large JPEGs at 1/2, 1/4 or 1/8 of their size where that leaves at least twice the
            size asked for. Faster, but the pixels differ a little: by 0.2 to 0.5 of 255 in the mean on
            photographs, the more the sharper they are. Images turned by EXIF are decoded in full.
        exif: Turn the image upright as its EXIF orientation says. Off by default, as in Pillow and
            Megatron-Energon: boxes and masks mostly refer to the pixels as they are stored.
        backend: `"simplejpeg"` (the extra `fast`) or `"pillow"` for JPEGs in colour; `"auto"` takes
            simplejpeg where it is installed. The pixels are the same.
        trust: Allow PostScript (EPS), which Pillow gives to the program Ghostscript.

    Returns:
        The decoded image. Colour tensors and arrays own their memory, and without a resize a colour tensor
        is a view of interleaved pixels: not contiguous, as in torchvision's `pil_to_tensor`.

    Raises:
        ValueError: At construction, for an unknown mode, size, filter or backend.
        TrustError: For PostScript without `trust=True`.
        Exception: What Pillow raises for bytes that are no image, are cut short, or unpack to more pixels
            than `PIL.Image.MAX_IMAGE_PIXELS` allows.

    Example:
        >>> buffer = io.BytesIO()
        >>> Image.new("RGB", (5, 4), (255, 0, 0)).save(buffer, "PNG")
        >>> ImageDecoder("torchrgb8")(buffer.getvalue()).shape
        torch.Size([3, 4, 5])
        >>> ImageDecoder("l", resize=(2, 3))(buffer.getvalue()).round(2)
        array([[0.3, 0.3, 0.3],
               [0.3, 0.3, 0.3]], dtype=float32)
    """

    mode: ImageModeName = "pil"
    resize: tuple[int, int] | None = None
    filter: Filter = "bicubic"
    scaled: bool = False
    exif: bool = False
    backend: Backend = "auto"
    trust: bool = False

    def __post_init__(self) -> None:
        if self.mode not in IMAGE_MODES:
            raise ValueError(f"the image mode must be one of {', '.join(IMAGE_MODES)}; got {self.mode!r}")
        if self.resize is not None:
            object.__setattr__(self, "resize", _checked_size(self.resize))
        if self.filter not in ("bicubic", "bilinear"):
            raise ValueError(f"filter must be 'bicubic' or 'bilinear', got {self.filter!r}")
        if self.scaled and self.resize is None:
            raise ValueError(
                "scaled=True decodes towards a size and needs resize=(height, width); give it or drop scaled"
            )
        if self.backend not in ("auto", "pillow", "simplejpeg"):
            raise ValueError(f"backend must be 'auto', 'pillow' or 'simplejpeg', got {self.backend!r}")
        if self.backend == "simplejpeg" and not jpeg.available():
            raise ValueError(
                "backend='simplejpeg' needs the package simplejpeg, which is not installed: "
                "pip install 'energon_nodes[fast]', or use backend='auto'"
            )

    def __call__(self, data: bytes) -> Any:
        """Return the decoded image."""
        container, bands, floating = IMAGE_MODES[self.mode]
        planes = self._fast_planes(data) if bands == "RGB" and (container != "pil" or self.resize) else None
        if planes is None:
            image, extent = self._opened(data)
            if floating and is_deep(image):
                planes = _spread(self._resized(deep_planes(image), extent), bands)
            else:
                image = converted(image, bands)
                if self.resize is not None and bands == "RGBA":
                    image = self._resized_by_pillow(image, extent)
                    extent = self.resize
                if container == "pil" and (self.resize is None or bands == "RGBA"):
                    return image
                planes = self._resized(planes_of(np.array(image)), extent)
        if floating and planes.dtype == torch.uint8:
            planes = planes.to(torch.float32).div_(255)
        if container == "torch":
            return planes[0] if bands == "L" else planes
        pixels = (planes[0] if bands == "L" else planes.permute(1, 2, 0).contiguous()).numpy()
        return pixels if container == "numpy" else Image.fromarray(pixels)

    def _fast_planes(self, data: bytes) -> torch.Tensor | None:
        if self.backend == "pillow" or not jpeg.can_decode(data):
            return None
        if self.exif and Image.open(io.BytesIO(data)).getexif().get(ORIENTATION, 1) != 1:
            return None
        decoded = jpeg.decode_rgb(data, self.resize if self.scaled else None)
        return None if decoded is None else self._resized(planes_of(decoded[0]), decoded[1])

    def _opened(self, data: bytes) -> tuple[Image.Image, tuple[float, float]]:
        """Open the image, upright if asked for, and return it with the height and width it covers in its pixels."""
        if data[:4] in POSTSCRIPT and not self.trust:
            raise TrustError(
                "the image is PostScript, a program that Ghostscript would run: allow it with trust=True, "
                "leave the part as bytes with parts=, or convert it"
            )
        image: Image.Image = Image.open(io.BytesIO(data))
        if self.exif and image.getexif().get(ORIENTATION, 1) != 1:
            image = ImageOps.exif_transpose(image)
            return image, (image.height, image.width)
        height, width = image.height, image.width
        if self.scaled and self.resize is not None:
            scale = jpeg.scale_for((height, width), self.resize)
            if scale > 1 and image.draft(image.mode, (width // scale, height // scale)) is not None:
                return image, (height / scale, width / scale)
        return image, (height, width)

    def _resized(self, planes: torch.Tensor, extent: tuple[float, float]) -> torch.Tensor:
        return planes if self.resize is None else resized(planes, self.resize, self.filter, extent)

    def _resized_by_pillow(self, image: Image.Image, extent: tuple[float, float]) -> Image.Image:
        """Resize an image with alpha: Pillow weighs the colours with it, so that hidden ones do not bleed."""
        assert self.resize is not None
        height, width = self.resize
        kind = Image.Resampling.BICUBIC if self.filter == "bicubic" else Image.Resampling.BILINEAR
        return image.resize((width, height), kind, box=(0, 0, extent[1], extent[0]))


def _spread(planes: torch.Tensor, bands: str) -> torch.Tensor:
    """Make colour, and alpha where asked for, of one float plane."""
    if bands == "L":
        return planes
    colour = planes.expand(3, -1, -1)
    return torch.cat([colour, torch.ones_like(planes)]) if bands == "RGBA" else colour.contiguous()


def _checked_size(size: Any) -> tuple[int, int]:
    try:
        height, width = size
        if int(height) == height > 0 and int(width) == width > 0:
            return int(height), int(width)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"resize needs (height, width), two ints >= 1, got resize={size!r}")
