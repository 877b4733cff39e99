"""The resize in the same step as the decoding, against Pillow's own."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from energon_nodes.samples import jpeg
from energon_nodes.samples.images import ImageDecoder
from energon_nodes.samples.pixels import resized

BACKENDS = ["pillow", pytest.param("simplejpeg", marks=pytest.mark.skipif(not jpeg.available(), reason="extra fast"))]
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def picture(height, width, kind="JPEG", mode="RGB", **options):
    """Encode a picture with smooth colours, edges and a little noise."""
    random = np.random.default_rng(height * width)
    rows, columns = np.mgrid[0:height, 0:width] / max(height, width)
    planes = [120 + 90 * np.sin(7 * rows + 3 * band) * np.cos(9 * columns) for band in range(len(mode))]
    pixels = np.stack(planes, axis=-1) + random.normal(0, 3, (height, width, 1))
    pixels[height // 3 : height // 2, width // 4 : width // 2] += 40
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8).squeeze(), mode if len(mode) > 1 else None)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def by_pillow(data, size, kind, mode="RGB"):
    """Resize the columns, then the rows: in one step, the order depends on the version of Pillow."""
    image = Image.open(io.BytesIO(data)).convert(mode)
    return np.asarray(
        image.resize((size[1], image.height), FILTERS[kind]).resize((size[1], size[0]), FILTERS[kind]), float
    )


def difference(result, want):
    return np.abs(np.asarray(result).astype(float) - want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize(
    "size", [(32, 32), (70, 300), (300, 40), (40, 160), (130, 161), (131, 40), (300, 300), (131, 157)]
)
def test_a_resized_image_has_the_pixels_that_pillow_gives(size, kind, backend):
    data = picture(131, 157)
    want = by_pillow(data, size, kind)
    off = difference(ImageDecoder("rgb8", size, kind, backend=backend)(data), want)
    assert off.mean() < 0.02
    assert off.max() <= 2


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("size", [(64, 64), (60, 150), (150, 60), (300, 300)])
def test_the_pixels_differ_from_pillow_in_one_step_by_rounding_alone(size, kind):
    data = picture(131, 157)
    want = np.asarray(Image.open(io.BytesIO(data)).resize((size[1], size[0]), FILTERS[kind])).astype(float)
    assert difference(ImageDecoder("rgb8", size, kind)(data), want).mean() < 0.3


@pytest.mark.parametrize("kind", FILTERS)
def test_every_container_holds_the_same_resized_pixels(kind):
    data = picture(120, 100)
    array = ImageDecoder("rgb8", (30, 40), kind)(data)
    assert array.shape == (30, 40, 3)
    assert array.flags.c_contiguous
    tensor = ImageDecoder("torchrgb8", (30, 40), kind)(data)
    assert tensor.shape == (3, 30, 40)
    assert tensor.is_contiguous()
    assert (tensor.numpy() == array.transpose(2, 0, 1)).all()
    image = ImageDecoder("pil", (30, 40), kind)(data)
    assert image.mode == "RGB"
    assert (np.asarray(image) == array).all()
    np.testing.assert_array_equal(ImageDecoder("rgb", (30, 40), kind)(data), array.astype(np.float32) / 255)
    np.testing.assert_array_equal(ImageDecoder("torch", (30, 40), kind)(data), tensor.float() / 255)


@pytest.mark.parametrize("kind", FILTERS)
def test_grey_is_resized_as_pillow_resizes_grey(kind):
    data = picture(90, 110)
    want = by_pillow(data, (20, 30), kind, "L")
    assert difference(ImageDecoder("l8", (20, 30), kind)(data), want).mean() < 0.02
    assert ImageDecoder("pill", (20, 30), kind)(data).size == (30, 20)


@pytest.mark.parametrize("kind", FILTERS)
def test_colours_under_full_transparency_do_not_bleed_in_a_resize(kind):
    pixels = np.zeros((40, 40, 4), np.uint8)
    pixels[:, :20] = (255, 0, 0, 0)
    pixels[:, 20:] = (0, 0, 255, 255)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    want = np.asarray(Image.fromarray(pixels).resize((10, 10), FILTERS[kind]))
    for mode in ("rgba8", "pilrgba"):
        result = np.asarray(ImageDecoder(mode, (10, 10), kind)(buffer.getvalue()))
        np.testing.assert_array_equal(result, want)
    assert ImageDecoder("torchrgba8", (10, 10), kind)(buffer.getvalue()).shape == (4, 10, 10)


def test_16_bit_grey_keeps_its_bits_in_a_float_resize():
    values = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    result = ImageDecoder("torch", (32, 32), "bilinear")(buffer.getvalue())
    assert result.shape == (3, 32, 32)
    assert len(result.unique()) > 900
    inner = values.reshape(32, 2, 32, 2).mean((1, 3))[2:-2, 2:-2] / 65535
    np.testing.assert_allclose(result[0, 2:-2, 2:-2], inner, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("side", [(512, 512), (511, 509), (515, 1030)])
def test_scaled_decoding_stays_close_to_a_full_decode_for_any_size_of_source(side, backend):
    data = picture(*side, quality=90)
    for kind in FILTERS:
        want = by_pillow(data, (112, 112), kind)
        off = difference(ImageDecoder("rgb8", (112, 112), kind, scaled=True, backend=backend)(data), want)
        assert 0 < off.mean() < 0.45


def test_scaled_decoding_leaves_small_images_and_other_formats_alone():
    for data in (picture(400, 400), picture(1024, 1024, "PNG")):
        full = ImageDecoder("rgb8", (224, 224))(data)
        assert (ImageDecoder("rgb8", (224, 224), scaled=True)(data) == full).all()


@pytest.mark.parametrize(
    ("size", "target", "scale"),
    [
        ((1024, 1024), (224, 224), 2),
        ((4096, 4096), (224, 224), 8),
        ((447, 4000), (224, 224), 1),
        ((30, 30), (40, 40), 1),
    ],
)
def test_the_scale_leaves_twice_the_size_asked_for(size, target, scale):
    assert jpeg.scale_for(size, target) == scale


def test_scaled_decoding_works_in_grey_with_alpha_and_for_turned_images():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = picture(512, 600, exif=exif)
    for mode, pillow in (("l8", "L"), ("rgba8", "RGBA")):
        off = difference(ImageDecoder(mode, (60, 50), scaled=True)(data), by_pillow(data, (60, 50), "bicubic", pillow))
        assert off.mean() < 0.45
    turned = ImageDecoder("rgb8", (60, 50), scaled=True, exif=True)(data)
    assert (turned == ImageDecoder("rgb8", (60, 50), exif=True)(data)).all()


def test_an_extent_between_pixels_keeps_the_size_asked_for():
    for side in range(20, 90):
        planes = torch.zeros(1, side, side, dtype=torch.uint8)
        assert resized(planes, (7, 9), "bicubic", (side - 0.5, float(side))).shape == (1, 7, 9)


def test_the_settings_for_broken_files_of_pillow_are_not_touched():
    from PIL import ImageFile

    before = ImageFile.LOAD_TRUNCATED_IMAGES
    with pytest.raises(OSError, match="truncated"):
        ImageDecoder("rgb8", (8, 8))(picture(64, 64)[:-4])
    assert ImageFile.LOAD_TRUNCATED_IMAGES is before is False
