"""JPEGs to uint8 at 3×224×224: decoding with a resize in one step, against a bare Pillow loop over bytes in memory.

Every process computes with one thread, so a resize in torch has no more cores than one in Pillow.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.table import Bound, Row

SIZE, BATCH = (224, 224), 32
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
COMPARED = 64  # images whose pixels are compared with Pillow's
TOLERANCE = Bound("<", 0.3)
FOLDERS = {"400×400": data.images, "1024×1024": data.large_images}

# images, route, filter, settings of decode, bound on the ratio
ONE_STEP = [
    ("400×400", "one step", "bicubic", {"backend": "pillow"}, Bound("≥", 1.8)),
    ("400×400", "one step", "bilinear", {"backend": "pillow"}, Bound("≥", 1.4)),
    ("400×400", "one step, simplejpeg", "bicubic", {"backend": "simplejpeg"}, Bound("≥", 2.3)),
    ("400×400", "one step, simplejpeg", "bilinear", {"backend": "simplejpeg"}, Bound("≥", 1.9)),
    ("1024×1024", "one step, scaled", "bicubic", {"scaled": True, "backend": "pillow"}, None),
    ("1024×1024", "one step, scaled", "bilinear", {"scaled": True, "backend": "pillow"}, None),
    (
        "1024×1024",
        "one step, scaled, simplejpeg",
        "bicubic",
        {"scaled": True, "backend": "simplejpeg"},
        Bound("≥", 3.0),
    ),
    (
        "1024×1024",
        "one step, scaled, simplejpeg",
        "bilinear",
        {"scaled": True, "backend": "simplejpeg"},
        Bound("≥", 2.3),
    ),
]


def rows(settings: Settings) -> list[Row]:
    """Measure all routes on both kinds of images; a second row of each compares the pixels."""
    counts = {"400×400": 96 if settings.quick else 320, "1024×1024": 32 if settings.quick else 64}
    for make_data in FOLDERS.values():
        make_data(settings.root)
    contenders = [
        Contender(bare_name(images, filter_), bare_loop, (settings.root, images, filter_, counts[images]))
        for images in FOLDERS
        for filter_ in FILTERS
    ]
    contenders.append(Contender(PLAIN, plain_route, (settings.root, counts["400×400"])))
    for images, route, filter_, options, _ in ONE_STEP:
        arguments = (settings.root, images, filter_, counts[images], options)
        contenders.append(Contender(f"{route}, {filter_}, {images}", one_step, arguments))
    results = compete(contenders, settings.rounds)
    pairs = [
        two_rows(results, f"{route}, {f}, {images}", bare_name(images, f), b) for images, route, f, _, b in ONE_STEP
    ]
    return list(chain(two_rows(results, PLAIN, bare_name("400×400", "bicubic"), Bound("≥", 0.95)), *pairs))


PLAIN = "decode to PIL, own resize, bicubic, 400×400"


def bare_name(images: str, filter_: str) -> str:
    return f"bare Pillow loop, {filter_}, {images}"


def two_rows(results: Results, name: str, base: str, bound: Bound | None) -> Iterator[Row]:
    def speed() -> Row:
        return Row(name, results.median(name, "rate"), "images/s", results.ratio(name, base), base, bound)

    def pixels() -> Row:
        difference = results.median(name, "difference")
        return Row(f"{name}: mean difference", difference, "of 255", None, "Pillow, same filter", TOLERANCE)

    yield results.row(name, [name, base], speed)
    if results.ran(name):
        yield results.row(name, [name], pixels)


def bare_loop(root: Path, images: str, filter_: str, count: int) -> Callable[[], Figures]:
    """Decode and resize JPEGs that lie in memory, with Pillow and nothing else."""
    payloads = data.payloads(FOLDERS[images](root), "jpg", count)
    resample = FILTERS[filter_]

    def measure() -> Figures:
        started = time.perf_counter()
        for payload in payloads:
            Image.open(io.BytesIO(payload)).convert("RGB").resize(SIZE, resample)
        return {"rate": len(payloads) / (time.perf_counter() - started)}

    return measure


def one_step(root: Path, images: str, filter_: str, count: int, options: dict[str, Any]) -> Callable[[], Figures]:
    """Read shards, decode with a resize and stack batches."""
    import energon_nodes as en

    settings = {"image": "torchrgb8", "resize": SIZE, "filter": filter_, **options}
    return measured(
        lambda shuffled: (
            en.shards(FOLDERS[images](root), shuffle=shuffled).decode(**settings).batch(BATCH, collate=stack)
        ),
        data.payloads(FOLDERS[images](root), "jpg", COMPARED),
        filter_,
        count,
    )


def plain_route(root: Path, count: int) -> Callable[[], Figures]:
    """Read shards, decode to PIL images, and resize them in a function of the user."""
    import energon_nodes as en

    folder = data.images(root)
    return measured(
        lambda shuffled: en.shards(folder, shuffle=shuffled).decode(image="pil").map(resized).batch(BATCH),
        data.payloads(folder, "jpg", COMPARED),
        "bicubic",
        count,
        pixels_of_pictures,
    )


def resized(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "jpg": sample["jpg"].resize(SIZE, Image.Resampling.BICUBIC)}  # a picture, as in the bare loop


def stack(samples: list[dict[str, Any]]) -> torch.Tensor:
    return torch.stack([sample["jpg"] for sample in samples])


def pixels_of_tensors(batch: torch.Tensor) -> np.ndarray:
    return batch.permute(0, 2, 3, 1).numpy()


def pixels_of_pictures(batch: list[dict[str, Any]]) -> np.ndarray:
    return np.stack([np.asarray(sample["jpg"]) for sample in batch])


def measured(
    make: Callable[[bool], Any],
    payloads: list[bytes],
    filter_: str,
    count: int,
    pixels: Callable[[Any], np.ndarray] = pixels_of_tensors,
) -> Callable[[], Figures]:
    """Return a measurement of a shuffled pipeline; its pixels are compared once, in the order of the shards."""
    torch.set_num_threads(1)
    difference = mean_difference(map(pixels, make(False)), payloads, filter_)
    pipeline = make(True)

    def measure() -> Figures:
        started = time.perf_counter()
        images = sum(len(batch) for batch in islice(pipeline, count // BATCH))
        return {"rate": images / (time.perf_counter() - started), "difference": difference}

    return measure


def mean_difference(batches: Iterator[np.ndarray], payloads: list[bytes], filter_: str) -> float:
    """Return the mean absolute difference of pixels to what Pillow's decode and resize give."""
    found = np.concatenate(list(islice(batches, len(payloads) // BATCH)))
    opened = (Image.open(io.BytesIO(payload)).convert("RGB") for payload in payloads)
    expected = np.stack([np.asarray(image.resize(SIZE, FILTERS[filter_])) for image in opened])
    return float(np.abs(found.astype(np.int16) - expected.astype(np.int16)).mean())
