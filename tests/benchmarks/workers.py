"""Two worker processes on data I: our loader against a plain DataLoader, and with a state at every batch.

Both read the same bytes from the same shards and run the same function in workers that live through all passes.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.peers import reader_by_number
from tests.benchmarks.table import Bound, Row

SIDE, BATCH, WORKERS, BUFFER = 224, 32, 2, 1_000
OURS, PLAIN = "loader, two workers", "DataLoader, two workers"
STATES, STATELESS = "loader, two workers, shuffle(1000), a state at every batch", "loader, two workers, shuffle(1000)"


def rows(settings: Settings) -> list[Row]:
    """Measure whole passes over the first part of data I."""
    images = 640 if settings.quick else 1_920
    contenders = [
        Contender(OURS, our_loader, (settings.root, images)),
        Contender(PLAIN, plain_loader, (settings.root, images)),
        Contender(STATES, our_loader, (settings.root, images, BUFFER, True)),
        Contender(STATELESS, our_loader, (settings.root, images, BUFFER)),
    ]
    data.images(settings.root)
    results = compete(contenders, settings.rounds)
    return [row(results, OURS, PLAIN), row(results, STATES, STATELESS)]


def row(results: Results, name: str, base: str) -> Row:
    def make() -> Row:
        return Row(name, results.median(name, "rate"), "images/s", results.ratio(name, base), base, Bound("≥", 0.95))

    return results.row(name, [name, base], make)


def our_loader(root: Path, images: int, buffer: int | None = None, states: bool = False) -> Callable[[], Figures]:
    import energon_nodes as en

    pipeline = en.shards(data.images(root), shuffle=True, subset=(0, images))
    if buffer is not None:
        pipeline = pipeline.shuffle(buffer)
    pipeline = pipeline.map(to_tensor).batch(BATCH, collate=torch.stack)
    loader = pipeline.loader(num_workers=WORKERS, persistent_workers=True)
    return timed_passes(loader, loader.state_dict if states else None)


def plain_loader(root: Path, images: int) -> Callable[[], Figures]:
    dataset = Images(data.shards_of(data.images(root)), images)
    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "collate_fn": torch.stack}
    return timed_passes(DataLoader(dataset, num_workers=WORKERS, persistent_workers=True, **options), None)


class Images(Dataset[torch.Tensor]):
    """Data I as a map-style dataset that reads one sample at a time."""

    def __init__(self, shards: list[Path], images: int) -> None:
        self.shards, self.images = shards, images
        self.read = reader_by_number(shards)

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, number: int) -> torch.Tensor:
        return to_tensor(self.read(number))


def to_tensor(sample: dict[str, Any]) -> torch.Tensor:
    """Decode and resize one picture, as users write it."""
    image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def timed_passes(loader: Any, after_batch: Callable[[], Any] | None) -> Callable[[], Figures]:
    """Return a measurement of a whole pass; the first, in which workers start, is the harness's warm-up."""

    def measure() -> Figures:
        started, images = time.perf_counter(), 0
        for batch in loader:
            images += len(batch)
            if after_batch is not None:
                after_batch()
        return {"rate": images / (time.perf_counter() - started)}

    return measure
