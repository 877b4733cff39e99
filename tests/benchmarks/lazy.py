"""Lazy values: a resume with 10,000 images in a packing buffer, and a cache pool in front of a slow store.

The records name the images of data I, each of them four times. Without lazy values, whoever resumes reads the images
of the buffer again before the first pack comes, as many as were read to fill it. The slow store waits for 10 ms before
each read, as an object store does; its files are loose JPEGs, and stay encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.slow_store import register
from tests.benchmarks.table import Bound, Row

RECORDS, BUFFER, CAPACITY = 20_000, 10_000, 2_048
IMAGES = 256  # in the slow store
THREADS = 16
READ, COLD, RESUME = "reading the 10,000 images twice", "first pack of a pass", "first pack after a resume"
DIRECT, MAPPED, POOLED = "slow store, in turn", "slow store, parallel_map", "slow store, cache pool"
LATER = "slow store, cache pool, second pass"
PLAIN, HIT = "open and read", "pool.get of a file in the pool"


def rows(settings: Settings) -> list[Row]:
    """Measure resumes, throughput, and the cost of one value that is in the pool."""
    data.images(settings.root)
    slow_images(settings.root)
    at = (settings.root,)
    contenders = [Contender(READ, reading, (settings.root, settings.quick)), Contender(COLD, beginning, at)]
    contenders += [Contender(RESUME, resuming, at), Contender(DIRECT, direct, at), Contender(MAPPED, mapped, at)]
    contenders += [Contender(POOLED, pooled, at), Contender(LATER, pooled_again, at)]
    contenders += [Contender(PLAIN, plain_reads, at), Contender(HIT, hits, at)]
    results = compete(contenders, settings.rounds)
    return [
        results.row(READ, [READ], lambda: Row(READ, results.median(READ, "ms"), "ms")),
        ms_row(results, COLD, None),
        ms_row(results, RESUME, Bound("≤", 0.05)),
        results.row(DIRECT, [DIRECT], lambda: Row(DIRECT, results.median(DIRECT, "rate"), "images/s")),
        *[
            rate_row(results, name, DIRECT, bound)
            for name, bound in ((MAPPED, None), (POOLED, Bound("≥", 5)), (LATER, Bound("≥", 20)))
        ],
        results.row(PLAIN, [PLAIN], lambda: Row(PLAIN, results.median(PLAIN, "us"), "µs")),
        results.row(
            HIT, [HIT, PLAIN], lambda: Row(HIT, results.median(HIT, "us"), "µs", results.ratio(HIT, PLAIN, "us"), PLAIN)
        ),
    ]


def ms_row(results: Results, name: str, bound: Bound | None) -> Row:
    def make() -> Row:
        note = f"{results.median(name, 'images'):.0f} images read"
        return Row(name, results.median(name, "ms"), "ms", results.ratio(name, READ, "ms"), READ, bound, note)

    return results.row(name, [name, READ], make)


def rate_row(results: Results, name: str, base: str, bound: Bound | None) -> Row:
    return results.row(
        name,
        [name, base],
        lambda: Row(name, results.median(name, "rate"), "images/s", results.ratio(name, base), base, bound),
    )


# ---- a large packing buffer ------------------------------------------------------------------


def with_image(number: int, images: Any, names: list[str]) -> dict[str, Any]:
    return {"image": images.lazy(names[number % len(names)]), "tokens": 100 + number % 400}


def tokens_of(sample: dict[str, Any]) -> int:
    return sample["tokens"]


class Loads:
    """Read what is lazy in a sample, and count it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        import energon_nodes as en

        self.count += 1
        return en.resolve(sample)


def names_of(images: Any) -> list[str]:
    return sorted(name for name in images if name.endswith(".jpg"))


def image_packs(root: Path, load: Loads) -> Any:
    """Pack records whose images are read and decoded when their pack is due."""
    import energon_nodes as en

    images = en.store(data.images(root), decode=en.Decoder(image="torchrgb8"))
    cook = partial(with_image, images=images, names=names_of(images))
    records = en.items(range(RECORDS), shuffle=True).map(cook)
    return records.pack_to(CAPACITY, length=tokens_of, buffer_size=BUFFER, encode=load)


def first_pack(pipeline: Any, state: Any, load: Loads) -> Figures:
    load.count = 0
    started = time.perf_counter()
    pipeline.reset(state) if state is not None else None
    next(pipeline)
    return {"ms": (time.perf_counter() - started) * 1e3, "images": load.count}


def beginning(root: Path) -> Callable[[], Figures]:
    load = Loads()
    pipeline = image_packs(root, load)
    fresh = pipeline.state_dict()
    return lambda: first_pack(pipeline, fresh, load)


def resuming(root: Path) -> Callable[[], Figures]:
    load = Loads()
    pipeline = image_packs(root, load)
    for _ in islice(pipeline, 5):
        pass
    state = pipeline.state_dict()
    return lambda: first_pack(image_packs(root, load), state, load)


def reading(root: Path, quick: bool) -> Callable[[], Figures]:
    """Read and decode as many images as the buffer has, in as few reads as possible, twice; or a tenth of them."""
    import energon_nodes as en

    images = en.store(data.images(root), decode=en.Decoder(image="torchrgb8"))
    names, part = names_of(images), 10 if quick else 1

    def measure() -> Figures:
        started = time.perf_counter()
        for first in range(0, 2 * BUFFER // part, 100):
            images.get_many([names[number % len(names)] for number in range(first, first + 100)])
        return {"ms": part * (time.perf_counter() - started) * 1e3}

    return measure


# ---- a slow store ----------------------------------------------------------------------------


def slow_images(root: Path) -> Path:
    """Return a folder of loose JPEGs."""

    def write(folder: Path) -> None:
        for number, payload in enumerate(data.payloads(data.images(root), "jpg", IMAGES)):
            (folder / f"{number}.jpg").write_bytes(payload)

    return data.made(root / "loose", write)


def slow_records(root: Path) -> tuple[Any, Any]:
    import energon_nodes as en

    register()
    return en.items(range(IMAGES), shuffle=True), en.store(f"slow://{slow_images(root)}")


def lazily(number: int, images: Any, cache: Any = None) -> Any:
    return images.lazy(f"{number}.jpg", cache=cache)


def rate(pipeline: Any) -> Figures:
    started = time.perf_counter()
    count = sum(1 for _ in pipeline)
    return {"rate": count / (time.perf_counter() - started)}


def direct(root: Path) -> Callable[[], Figures]:
    records, images = slow_records(root)
    return lambda: rate(records.cook(lazily, aux={"images": images}).shuffle(100).resolve())


def mapped(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    records, images = slow_records(root)
    lazies = records.cook(lazily, aux={"images": images}).shuffle(100)
    return lambda: rate(lazies.parallel_map(en.resolve, workers=THREADS))


def pooled(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    records, images = slow_records(root)

    def measure() -> Figures:
        with TemporaryDirectory() as folder, en.cache_pool(folder, threads=THREADS) as pool:
            return rate(records.cook(lazily, aux={"images": images}, cache=pool).shuffle(100).resolve())

    return measure


def pooled_again(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    records, images = slow_records(root)
    pool = en.cache_pool(threads=THREADS)
    pipeline = records.cook(lazily, aux={"images": images}, cache=pool).shuffle(100).resolve()
    return lambda: rate(pipeline)  # the harness has it run once before it measures


def plain_reads(root: Path) -> Callable[[], Figures]:
    files = [str(slow_images(root) / f"{number}.jpg") for number in range(IMAGES)]

    def read() -> None:
        for name in files:
            with open(name, "rb") as file:
                file.read()

    return lambda: per_image(read)


def hits(root: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    images = en.store(slow_images(root))
    pool = en.cache_pool()

    def read() -> None:
        for number in range(IMAGES):
            pool.get(images, f"{number}.jpg")

    read()
    return lambda: per_image(read)


def per_image(read: Callable[[], None]) -> Figures:
    started = time.perf_counter()
    read()
    return {"us": (time.perf_counter() - started) / IMAGES * 1e6}
