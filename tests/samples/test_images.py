"""Every kind of image in every mode, against pixels worked out by hand."""

import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, ImageSequence

from energon_nodes.core.errors import TrustError
from energon_nodes.samples import jpeg
from energon_nodes.samples.image_modes import IMAGE_MODES
from energon_nodes.samples.images import ImageDecoder

RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (4, 5, 3), np.uint8)
GREY = RANDOM.integers(0, 256, (4, 5), np.uint8)
ALPHA = RANDOM.integers(0, 256, (4, 5, 1), np.uint8)
DEEP = RANDOM.integers(0, 65536, (4, 5), np.uint16)
INDEX = RANDOM.integers(0, 4, (4, 5), np.uint8)
PALETTE = RANDOM.integers(0, 256, (4, 3), np.uint8)
OPAQUE = np.full((4, 5, 1), 255, np.uint8)

BACKENDS = ["pillow", pytest.param("simplejpeg", marks=pytest.mark.skipif(not jpeg.available(), reason="extra fast"))]


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def grey_three(grey):
    return np.repeat(grey[..., None], 3, axis=-1)


def paletted(**options):
    image = Image.fromarray(INDEX, "L").convert("P")
    image.putdata(INDEX.ravel().tolist())
    image.putpalette(PALETTE.ravel().tolist())
    return encoded(image, "PNG", **options)


def animated():
    frames = [Image.fromarray(grey_three(grey)).quantize() for grey in (GREY, 255 - GREY)]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def flat(rgb, alpha=255):
    return np.broadcast_to(np.array([*rgb, alpha], np.uint8), (4, 5, 4))


# Name -> (bytes, the RGBA pixels they show, tolerance). What the pixels are does not come from the decoder under test.
KINDS = {
    "png": (encoded(Image.fromarray(COLOUR), "PNG"), np.dstack([COLOUR, OPAQUE]), 0),
    "png with alpha": (encoded(Image.fromarray(np.dstack([COLOUR, ALPHA])), "PNG"), np.dstack([COLOUR, ALPHA]), 0),
    "tif": (encoded(Image.fromarray(COLOUR), "TIFF"), np.dstack([COLOUR, OPAQUE]), 0),
    "grey": (encoded(Image.fromarray(GREY), "PNG"), np.dstack([grey_three(GREY), OPAQUE]), 0),
    "grey with alpha": (
        encoded(Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA[..., 0])]), "PNG"),
        np.dstack([grey_three(GREY), ALPHA]),
        0,
    ),
    "1 bit": (
        encoded(Image.fromarray(GREY > 127), "PNG"),
        np.dstack([grey_three(np.where(GREY > 127, 255, 0).astype(np.uint8)), OPAQUE]),
        0,
    ),
    "palette": (paletted(), np.dstack([PALETTE[INDEX], OPAQUE]), 0),
    "palette with alpha": (
        paletted(transparency=bytes([0, 60, 120, 255])),
        np.dstack([PALETTE[INDEX], np.array([0, 60, 120, 255], np.uint8)[INDEX]]),
        0,
    ),
    "animated gif": (animated(), np.dstack([grey_three(GREY), OPAQUE]), 0),
    "16-bit png": (
        encoded(Image.fromarray(DEEP), "PNG"),
        np.dstack([grey_three((DEEP // 256).astype(np.uint8)), OPAQUE]),
        0,
    ),
    "16-bit tif": (
        encoded(Image.fromarray(DEEP), "TIFF"),
        np.dstack([grey_three((DEEP // 256).astype(np.uint8)), OPAQUE]),
        0,
    ),
    "16-bit pgm": (
        b"P5 5 4 65535\n" + DEEP.byteswap().tobytes(),
        np.dstack([grey_three((DEEP // 256).astype(np.uint8)), OPAQUE]),
        0,
    ),
    "cmyk jpeg": (encoded(Image.new("CMYK", (5, 4), (0, 255, 255, 0)), "JPEG", quality=100), flat((255, 0, 0)), 2),
    "grey jpeg": (encoded(Image.new("L", (5, 4), 90), "JPEG"), flat((90, 90, 90)), 1),
    "jpeg": (encoded(Image.new("RGB", (5, 4), (200, 30, 60)), "JPEG", quality=100), flat((200, 30, 60)), 2),
    "webp": (encoded(Image.fromarray(COLOUR), "WEBP", lossless=True), np.dstack([COLOUR, OPAQUE]), 0),
}


def expected(name, rgba, data):
    """Work out what a mode makes of RGBA pixels."""
    container, bands, floating = IMAGE_MODES[name]
    red, green, blue = (rgba[..., band].astype(float) for band in range(3))
    grey = np.floor(0.299 * red + 0.587 * green + 0.114 * blue + 0.5)
    pixels = {"L": grey, "RGB": rgba[..., :3], "RGBA": rgba}[bands].astype(np.float64)
    if floating and data in [KINDS[kind][0] for kind in ("16-bit png", "16-bit tif", "16-bit pgm")]:
        exact = DEEP / 65535
        pixels = {"L": exact, "RGB": grey_three(exact), "RGBA": np.dstack([grey_three(exact), OPAQUE / 255])}[
            bands
        ] * 255
    return pixels.transpose(2, 0, 1) if container == "torch" and bands != "L" else pixels


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", IMAGE_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_image_gives_the_documented_pixels_in_every_mode(kind, mode, backend):
    data, rgba, tolerance = KINDS[kind]
    container, bands, floating = IMAGE_MODES[mode]
    result = ImageDecoder(mode, backend=backend)(data)

    if container == "pil":
        assert isinstance(result, Image.Image)
        assert result.mode == bands
        result = np.asarray(result)
    elif container == "torch":
        assert isinstance(result, torch.Tensor)
        assert result.dtype == (torch.float32 if floating else torch.uint8)
        result = result.numpy()
    else:
        assert type(result) is np.ndarray
        assert result.dtype == (np.float32 if floating else np.uint8)
        assert result.flags.c_contiguous
        assert result.flags.writeable
    want = expected(mode, rgba, data)
    assert result.shape == want.shape
    # Half a step of 1/65536 in Pillow's weights for grey may round the other way.
    slack = tolerance + (1 if bands == "L" else 0) * (0 if kind.startswith(("grey", "16", "1 bit", "animated")) else 1)
    np.testing.assert_allclose(result.astype(np.float64) * (255 if floating else 1), want, atol=slack + 1e-4)


def test_a_name_that_is_no_mode_is_refused_with_the_list_of_modes():
    with pytest.raises(ValueError, match=r"must be one of l8, rgb8, .*pilrgba; got 'torchrgb16'"):
        ImageDecoder("torchrgb16")


@pytest.mark.parametrize("resize", [0, 224, (224,), (0, 5), (-1, 5), (2.5, 5), (1, 2, 3), "ab"])
def test_a_size_that_is_no_height_and_width_is_refused(resize):
    with pytest.raises(ValueError, match=r"resize needs \(height, width\), two ints >= 1, got resize="):
        ImageDecoder("pil", resize=resize)


def test_settings_that_cannot_work_are_refused_at_construction(monkeypatch):
    with pytest.raises(ValueError, match="filter must be 'bicubic' or 'bilinear', got 'nearest'"):
        ImageDecoder("pil", resize=(2, 2), filter="nearest")
    with pytest.raises(ValueError, match=r"scaled=True .* needs resize"):
        ImageDecoder("pil", scaled=True)
    with pytest.raises(ValueError, match="backend must be"):
        ImageDecoder("pil", backend="opencv")
    monkeypatch.setattr(jpeg, "simplejpeg", None)
    with pytest.raises(ValueError, match=r"pip install 'energon_nodes\[fast\]'"):
        ImageDecoder("pil", backend="simplejpeg")


def test_without_simplejpeg_the_automatic_backend_gives_the_same_pixels(monkeypatch):
    data = KINDS["jpeg"][0]
    with_it = ImageDecoder("rgb8")(data)
    monkeypatch.setattr(jpeg, "simplejpeg", None)
    assert (ImageDecoder("rgb8")(data) == with_it).all()


def test_32_bit_integers_are_cut_to_16_bits_and_floats_to_8():
    integers = encoded(Image.fromarray(np.array([[-5, 256, 70000]], np.int32)), "TIFF")
    assert ImageDecoder("l8")(integers).tolist() == [[0, 1, 255]]
    floats = encoded(Image.fromarray(np.array([[-5.0, 90.0, 300.0]], np.float32)), "TIFF")
    assert ImageDecoder("l8")(floats).tolist() == [[0, 90, 255]]


def test_16_bit_colour_is_read_with_its_upper_8_bits():
    # Pillow does not write such files: a PNG with one pixel, made by hand.
    import struct
    import zlib

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    row = b"\0" + struct.pack(">HHH", 0x12FF, 0x8001, 0xFFFF)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    assert ImageDecoder("rgb8")(data).tolist() == [[[0x12, 0x80, 0xFF]]]


def test_of_an_animation_the_first_frame_comes_as_a_plain_image():
    frames = [Image.fromarray(COLOUR), Image.fromarray(255 - COLOUR)]
    data = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    image = ImageDecoder("pil")(data)
    assert (np.asarray(image) == COLOUR).all()
    assert len(list(ImageSequence.Iterator(Image.open(io.BytesIO(data))))) == 2
    assert not hasattr(image, "n_frames")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_only_when_asked_for(orientation, backend):
    pixels = np.kron(np.array([[255, 0, 0], [0, 0, 128]], np.uint8), np.ones((16, 16), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(grey_three(pixels)), "JPEG", exif=exif, quality=95)
    upright = {
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: pixels.T,
        6: np.rot90(pixels, -1),
        7: pixels[::-1, ::-1].T,
        8: np.rot90(pixels),
    }[orientation]
    for mode in ("l8", "rgb8", "pil"):
        stored = np.asarray(ImageDecoder(mode, backend=backend)(data))
        turned = np.asarray(ImageDecoder(mode, backend=backend, exif=True)(data))
        for result, want in ((stored, pixels), (turned, upright)):
            grey = result if result.ndim == 2 else result[..., 1]
            assert grey.shape == want.shape
            assert np.abs(grey.astype(int) - want).mean() < 4


def test_pictures_can_be_pickled_and_decoded_from_threads():
    decode = pickle.loads(pickle.dumps(ImageDecoder("rgb8", resize=(3, 3))))
    data = KINDS["png"][0]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(decode, [data] * 32))
    assert all((result == results[0]).all() for result in results)
    image = ImageDecoder("pil")(KINDS["jpeg"][0])
    assert pickle.loads(pickle.dumps(image)).tobytes() == image.tobytes()


def test_postscript_needs_trust_whatever_the_part_is_called():
    with pytest.raises(TrustError, match="PostScript"):
        ImageDecoder("pil")(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("missing", [4, 1000])
def test_a_jpeg_without_its_end_raises_in_every_backend(backend, missing):
    pixels = RANDOM.integers(0, 256, (64, 64, 3), np.uint8)
    data = encoded(Image.fromarray(pixels), "JPEG")
    for mode in ("rgb8", "l8", "pil"):
        with pytest.raises(OSError, match="truncated"):
            ImageDecoder(mode, backend=backend)(data[:-missing])


@pytest.mark.skipif(not jpeg.available(), reason="extra fast")
def test_about_bytes_that_simplejpeg_complains_of_pillow_decides(monkeypatch):
    data = encoded(Image.fromarray(RANDOM.integers(0, 256, (64, 64, 3), np.uint8)), "JPEG")
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    by_pillow, automatic = (ImageDecoder("rgb8", backend=backend)(data[:-1000]) for backend in ("pillow", "auto"))
    assert (by_pillow == automatic).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_image_that_unpacks_to_too_many_pixels_raises(backend, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(Image.DecompressionBombError):
        ImageDecoder("rgb8", backend=backend)(KINDS["jpeg"][0])
