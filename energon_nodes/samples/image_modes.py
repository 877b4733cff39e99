"""The image modes: what an encoded image becomes, and which parts are taken for images."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["IMAGE_EXTENSIONS", "IMAGE_MODES", "ImageMode", "ImageModeName"]

ImageModeName = Literal[
    "l8",
    "rgb8",
    "rgba8",
    "l",
    "rgb",
    "rgba",
    "torchl8",
    "torchrgb8",
    "torchrgba8",
    "torchl",
    "torchrgb",
    "torch",
    "torchrgba",
    "pill",
    "pil",
    "pilrgb",
    "pilrgba",
]
"""The names of Megatron-Energon's image modes (`image_decode`)."""


class ImageMode(NamedTuple):
    """Describe one image mode.

    Args:
        container: What holds the pixels: a numpy array, a torch tensor or a `PIL.Image.Image`.
        bands: Grey (`L`), colour (`RGB`) or colour with alpha (`RGBA`), as Pillow names them.
        floating: Float32 from 0 to 1 where true, else uint8.

    Example:
        >>> IMAGE_MODES["torchrgb"]
        ImageMode(container='torch', bands='RGB', floating=True)
    """

    container: Literal["numpy", "torch", "pil"]
    bands: Literal["L", "RGB", "RGBA"]
    floating: bool


IMAGE_MODES: dict[str, ImageMode] = {
    "l8": ImageMode("numpy", "L", False),
    "rgb8": ImageMode("numpy", "RGB", False),
    "rgba8": ImageMode("numpy", "RGBA", False),
    "l": ImageMode("numpy", "L", True),
    "rgb": ImageMode("numpy", "RGB", True),
    "rgba": ImageMode("numpy", "RGBA", True),
    "torchl8": ImageMode("torch", "L", False),
    "torchrgb8": ImageMode("torch", "RGB", False),
    "torchrgba8": ImageMode("torch", "RGBA", False),
    "torchl": ImageMode("torch", "L", True),
    "torchrgb": ImageMode("torch", "RGB", True),
    "torch": ImageMode("torch", "RGB", True),
    "torchrgba": ImageMode("torch", "RGBA", True),
    "pill": ImageMode("pil", "L", False),
    "pil": ImageMode("pil", "RGB", False),
    "pilrgb": ImageMode("pil", "RGB", False),
    "pilrgba": ImageMode("pil", "RGBA", False),
}

# Megatron-Energon's list without mpg, mpeg, h5, hdf, bufr and grib, which hold no picture that Pillow can
# read (there they fail), and with avif.
_EXTENSIONS = (
    "blp bmp dib cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif png apng jp2 j2k jpc jpf jpx j2c icns ico im "
    "iim tif tiff jfif jpe jpg jpeg msp pcd pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras tga icb vda vst webp wmf emf "
    "xbm xpm avif"
)

IMAGE_EXTENSIONS = frozenset(_EXTENSIONS.split())
"""The extensions, in lower case, of parts that are decoded as images."""
