"""Write the data that the benchmarks read: deterministic, made once, kept in a folder.

Data T: 100,000 samples of a 300-byte txt and a 150-byte json in 20 tars.
Data I: 5,000 JPEGs of 400x400 with captions in 10 tars; large: 256 JPEGs of 1024x1024 in 2 tars.
Many shards: 2,000 tars of 5 samples. Deep: 400 names for the tars of T, which make 2,000,000 samples.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from tests.benchmarks.prepare import prepare

TEXT_SAMPLES, TEXT_SHARDS = 100_000, 20
IMAGE_SAMPLES, IMAGE_SHARDS = 5_000, 10
LARGE_SAMPLES, LARGE_SHARDS = 256, 2
MANY_SHARDS, SAMPLES_PER_SMALL_SHARD = 2_000, 5
DEEP_COPIES = 20
WORDS = "a quick brown fox jumps over one lazy dog while nobody counts the tokens in this caption".split()

Parts = dict[str, bytes]


def default_root() -> Path:
    """Return the folder of the data: `ENERGON_NODES_BENCH_DATA`, or one in the temporary folder."""
    return Path(os.environ.get("ENERGON_NODES_BENCH_DATA", Path(tempfile.gettempdir()) / "energon_nodes_bench"))


def text(root: Path) -> Path:
    """Return the folder of data T, prepared."""
    return made(
        root / "text", lambda folder: write_dataset(folder, text_samples(TEXT_SAMPLES), TEXT_SAMPLES, TEXT_SHARDS)
    )


def lines(root: Path) -> Path:
    """Return a JSON Lines file of 100,000 records of 450 bytes, with its index."""
    return made(root / "lines", write_lines) / "records.jsonl"


def images(root: Path) -> Path:
    """Return the folder of data I, prepared."""
    return made(
        root / "images",
        lambda folder: write_dataset(folder, image_samples(IMAGE_SAMPLES, 400, 88), IMAGE_SAMPLES, IMAGE_SHARDS),
    )


def large_images(root: Path) -> Path:
    """Return the folder of the 1024x1024 images, prepared."""
    return made(
        root / "large",
        lambda folder: write_dataset(folder, image_samples(LARGE_SAMPLES, 1024, 85), LARGE_SAMPLES, LARGE_SHARDS),
    )


def many_shards(root: Path) -> Path:
    """Return the folder of the 2,000 small shards, prepared."""
    count = MANY_SHARDS * SAMPLES_PER_SMALL_SHARD
    return made(root / "many", lambda folder: write_dataset(folder, text_samples(count), count, MANY_SHARDS))


def deep(root: Path) -> Path:
    """Return a dataset of 2,000,000 samples that shares the bytes of data T through hard links."""
    source = text(root)
    return made(root / "deep", lambda folder: link_copies(source, folder))


def copy_of_text(root: Path) -> Path:
    """Return a second dataset with the samples of data T."""
    source = text(root)
    return made(root / "text_copy", lambda folder: shutil.copytree(source, folder, dirs_exist_ok=True))


def one_of_hundred(root: Path) -> Path:
    """Return a dataset of 100,000 samples of data T's kind in 100 shards."""
    return made(root / "one_of_hundred", lambda folder: write_dataset(folder, text_samples(100_000), 100_000, 100))


def hundred(root: Path) -> Path:
    """Return a folder with 100 datasets of 1,000 samples each, in one shard each: those of `one_of_hundred`."""

    def write(folder: Path) -> None:
        for number, tar in enumerate(shards_of(one_of_hundred(root))):
            small = folder / f"{number:03d}"
            small.mkdir()
            for path in (tar, tar.with_suffix(".tar.idx")):
                os.link(path, small / path.name)
            prepare(small, index_exists=True)

    return made(root / "hundred", write)


def made(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return `folder`, written by `write` if it is not there yet; a write that was cut short leaves nothing behind."""
    if not folder.exists():
        print(f"writing {folder} (once)", flush=True)
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        partial.rename(folder)
    return folder


def write_lines(folder: Path) -> None:
    from energon_nodes.recipes.prepare_jsonl import prepare_jsonl  # the same bytes as those of `energon prepare`

    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for key, parts in text_samples(TEXT_SAMPLES):
            record = {"id": int(key), "text": parts["txt"].decode(), "note": json.loads(parts["json"])["note"]}
            file.write(json.dumps(record) + "\n")
    prepare_jsonl(folder / "records.jsonl", progress=False)


def write_dataset(folder: Path, samples: Iterator[tuple[str, Parts]], count: int, shards: int) -> None:
    for shard in range(shards):
        in_shard = count * (shard + 1) // shards - count * shard // shards
        with tarfile.open(folder / f"shard_{shard:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for key, parts in (next(samples) for _ in range(in_shard)):
                add_members(archive, key, parts)
    prepare(folder)


def add_members(archive: tarfile.TarFile, key: str, parts: Parts) -> None:
    for part, payload in parts.items():
        member = tarfile.TarInfo(f"{key}.{part}")
        member.size = len(payload)
        archive.addfile(member, io.BytesIO(payload))


def text_samples(count: int) -> Iterator[tuple[str, Parts]]:
    """Yield samples of a 300-byte txt and a 150-byte json that hold their own number."""
    generator = np.random.default_rng(0)
    for number in range(count):
        words = " ".join(WORDS[k] for k in generator.integers(len(WORDS), size=80))
        record = json.dumps({"id": number, "note": ""})
        record = json.dumps({"id": number, "note": words[: 150 - len(record)]})
        yield f"{number:08d}", {"txt": words[:300].ljust(300).encode(), "json": record.encode()}


def image_samples(count: int, side: int, quality: int) -> Iterator[tuple[str, Parts]]:
    """Yield JPEGs cut from a large natural-looking picture, each with a caption."""
    generator = np.random.default_rng(1)
    picture = natural_picture(generator, 4096)
    for number in range(count):
        top, left = generator.integers(0, 4096 - side, size=2)
        gain = generator.uniform(0.7, 1.1, size=3).astype(np.float32)
        crop = picture[top : top + side, left : left + side] * gain
        encoded = io.BytesIO()
        Image.fromarray(crop.clip(0, 255).astype(np.uint8)).save(encoded, "JPEG", quality=quality)
        yield f"{number:08d}", {"jpg": encoded.getvalue(), "txt": f"picture number {number}".encode()}


def natural_picture(generator: np.random.Generator, side: int) -> np.ndarray:
    """Return a colour picture with the spectrum of photographs (amplitude f^-1.3), hard edges and sensor noise."""
    rows = np.fft.fftfreq(side)[:, None]
    columns = np.fft.rfftfreq(side)[None, :]
    amplitude = (np.maximum(np.hypot(rows, columns), 1 / side) ** -1.3).astype(np.float32)
    planes = [spectral_noise(generator, amplitude, side) for _ in range(3)]
    grey = planes[0] * 50 + 118
    picture = np.stack([grey, grey + planes[1] * 8, grey + planes[2] * 10], axis=-1)
    for _ in range(1500):
        top, left = generator.integers(0, side, size=2)
        height, width = generator.integers(8, 220, size=2)
        shade = generator.normal(0, 20) + generator.normal(0, 8, size=3)
        picture[top : top + height, left : left + width] += shade.astype(np.float32)
    return picture + generator.normal(0, 1.0, size=(side, side, 1)).astype(np.float32)


def spectral_noise(generator: np.random.Generator, amplitude: np.ndarray, side: int) -> np.ndarray:
    phase = np.exp(2j * np.pi * generator.random(amplitude.shape, dtype=np.float32))
    plane = np.fft.irfft2(amplitude * phase, s=(side, side)).astype(np.float32)
    return (plane - plane.mean()) / plane.std()


def link_copies(source: Path, folder: Path) -> None:
    for copy in range(DEEP_COPIES):
        for tar in shards_of(source):
            for path in (tar, tar.with_suffix(".tar.idx")):
                os.link(path, folder / f"copy_{copy:03d}_{path.name}")
    prepare(folder, index_exists=True)


def shards_of(folder: Path) -> list[Path]:
    """Return the tars of a dataset in their order."""
    return sorted(folder.glob("*.tar"))


def payloads(folder: Path, part: str, limit: int) -> list[bytes]:
    """Return the first `limit` payloads of a part of a dataset, as bytes in memory."""
    found: list[bytes] = []
    for tar in shards_of(folder):
        with tarfile.open(tar) as archive:
            for member in named(archive, part):
                found.append(archive.extractfile(member).read())  # pyright: ignore[reportOptionalMemberAccess]
                if len(found) == limit:
                    return found
    return found


def named(archive: tarfile.TarFile, part: str) -> Iterable[tarfile.TarInfo]:
    return (member for member in archive if member.name.endswith(f".{part}"))
