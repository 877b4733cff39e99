"""Packing 100,000 documents of lognormal lengths to a capacity of 2,048: the choice alone, and whole packs of tensors.

Utilisation is the number of tokens over the capacity of all packs, the last one included. Mean and median are those
of the lengths that the bounds were set on; Grain gets the same documents as arrays, and fills arrays as it always does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.table import Bound, Row

DOCUMENTS, CAPACITY, BUFFER = 100_000, 2_048, 1_000
MEAN, MEDIAN = 296, 199
GRAIN_BINS = (16, 64, 256)
PACKS = "pack_to and concat_tokens"
RESUME, FILL = "resume with a packing buffer of 10,000 images", "first pack of a packing buffer of 10,000 images"


def rows(settings: Settings) -> list[Row]:
    """Measure the strategies, whole packs beside Grain's, and a resume with a large buffer of images."""
    strategies = ("best_fit", "knapsack", "first_fit", "sequential")
    grain = [f"Grain, {kind}, {bins} bins" for kind in ("first fit", "best fit") for bins in GRAIN_BINS]
    data.images(settings.root)
    contenders = [Contender(f"choice, {name}", choosing, (name,)) for name in strategies]
    contenders += [Contender(f"{PACKS}, {name}", packing, (name,)) for name in ("best_fit", "sequential")]
    contenders += [
        Contender(name, grain_packing, (name.split(", ")[1], int(name.split()[-2]), settings.quick)) for name in grain
    ]
    contenders += [Contender(FILL, filling, (settings.root,)), Contender(RESUME, resuming, (settings.root,))]
    results = compete(contenders, settings.rounds)
    least = {"best_fit": Bound("≥", 2e6)}
    table = [rate_row(results, f"choice, {name}", "lengths/s", least.get(name)) for name in strategies]
    ours = f"{PACKS}, best_fit"
    table += [results.row(ours, [ours, name], lambda name=name: ratio_row(results, ours, name)) for name in grain]
    table += [rate_row(results, name, "documents/s") for name in (f"{PACKS}, sequential", *grain)]
    full = "choice, best_fit"
    table.append(results.row(full, [full], lambda: utilisation_row(results, full)))
    table.append(results.row(RESUME, [RESUME, FILL], lambda: resume_row(results)))
    return table


def rate_row(results: Results, name: str, unit: str, bound: Bound | None = None) -> Row:
    def make() -> Row:
        return Row(name, results.median(name, "rate"), unit, bound=bound, note=utilisation(results, name))

    return results.row(name, [name], make)


def ratio_row(results: Results, name: str, base: str) -> Row:
    rate, ratio = results.median(name, "rate"), results.ratio(name, base)
    return Row(name, rate, "documents/s", ratio, base, Bound(">", 1), utilisation(results, name))


def utilisation(results: Results, name: str) -> str:
    return f"utilisation {results.median(name, 'utilisation'):.4f}"


def utilisation_row(results: Results, name: str) -> Row:
    return Row(f"{name}: utilisation", results.median(name, "utilisation"), bound=Bound("≥", 0.995))


def resume_row(results: Results) -> Row:
    note = f"filling the buffer takes {results.median(FILL, 'ms'):.0f} ms"
    return Row(
        f"{RESUME}: time to the first pack", results.median(RESUME, "ms"), "ms", bound=Bound("≤", 1000), note=note
    )


def lengths() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the lengths, drawn with a fixed seed."""
    spread = np.sqrt(2 * np.log(MEAN / MEDIAN))
    drawn = np.random.default_rng(0).lognormal(np.log(MEDIAN), spread, DOCUMENTS)
    return np.clip(drawn, 1, CAPACITY).astype(np.int64)


def choosing(strategy: Any) -> Callable[[], Figures]:
    from energon_nodes import pack_lengths

    column = lengths()

    def measure() -> Figures:
        """Take the quickest of five passes, in the time of the processor: other programs must not count."""
        rates: list[float] = []
        packs: list[list[int]] = []
        for _ in range(5):
            started = time.process_time()
            packs = pack_lengths(column, CAPACITY, strategy=strategy, buffer_size=BUFFER)
            rates.append(DOCUMENTS / (time.process_time() - started))
        return {"rate": max(rates), "utilisation": column.sum() / (CAPACITY * len(packs))}

    return measure


def packing(strategy: Any) -> Callable[[], Figures]:
    import torch

    import energon_nodes as en

    documents = [torch.arange(length, dtype=torch.int32) for length in lengths().tolist()]
    pipeline = en.items(documents).pack_to(
        CAPACITY, length=len, buffer_size=BUFFER, strategy=strategy, combine=en.ConcatTokens(pad_to=CAPACITY)
    )
    return lambda: counted(pipeline, DOCUMENTS, lambda pack: int(pack.lengths.sum()))


def counted(packs: Iterable[Any], documents: int, tokens_of: Callable[[Any], int]) -> Figures:
    """Return the rate of a pass, and how full its packs are."""
    started = time.perf_counter()
    made = list(packs)
    seconds = time.perf_counter() - started
    tokens = sum(map(tokens_of, made))
    return {"rate": documents / seconds, "utilisation": tokens / (CAPACITY * len(made))}


def grain_packing(kind: str, bins: int, quick: bool) -> Callable[[], Figures]:
    """Pack with Grain; `quick` takes the first tenth of the documents, as its rate does not depend on their number."""
    import grain
    from grain.experimental import BestFitPackIterDataset, FirstFitPackIterDataset

    count = DOCUMENTS // 10 if quick else DOCUMENTS
    documents = [{"tokens": np.arange(length, dtype=np.int32)} for length in lengths()[:count].tolist()]
    make = FirstFitPackIterDataset if kind == "first fit" else BestFitPackIterDataset
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    source = grain.MapDataset.source(documents).to_iter_dataset(options)
    packed = make(source, length_struct={"tokens": CAPACITY}, num_packing_bins=bins)
    return lambda: counted(packed, count, lambda pack: int(np.count_nonzero(pack["tokens_segment_ids"])))


def image_packs(root: Path) -> Any:
    """Pack captions and encoded images in a large buffer, decoding the images of a pack when it is due."""
    import energon_nodes as en

    return (
        en.shards(data.images(root), shuffle=True, sequence_length=100)
        .repeat()
        .pack_to(CAPACITY, length=image_length, buffer_size=10_000, encode=en.Decoder(image="torchrgb8"))
    )


def image_length(sample: dict[str, Any]) -> int:
    return 16 + len(sample["jpg"]) // 100


def filling(root: Path) -> Callable[[], Figures]:
    return lambda: first_pack(image_packs(root), None)


def resuming(root: Path) -> Callable[[], Figures]:
    pipeline = image_packs(root)
    for _ in islice(pipeline, 5):
        pass
    state = pipeline.state_dict()
    return lambda: first_pack(image_packs(root), state)


def first_pack(pipeline: Any, state: Any) -> Figures:
    started = time.perf_counter()
    if state is not None:
        pipeline.reset(state)
    next(pipeline)
    return {"ms": (time.perf_counter() - started) * 1e3}
