"""State with a shuffle buffer of 10,000 elements on data T: its size, the time to take it, and the time to resume."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.table import Bound, Row

BUFFER, BATCH, TAKEN = 10_000, 32, 20_000
TAKE, COLD, RESUMED = "state of a buffer of 10,000", "cold start, no buffer", "resume with a buffer of 10,000"
ENERGON_TAKE, ENERGON_COLD = "Megatron-Energon, state of a buffer of 10,000", "Megatron-Energon, cold start, no buffer"
ENERGON_RESUMED = "Megatron-Energon, resume with a buffer of 10,000"


def rows(settings: Settings) -> list[Row]:
    """Measure taking and loading, for us and for Megatron-Energon."""
    root = settings.root
    contenders = [
        Contender(TAKE, taking, (root,)),
        Contender(COLD, cold_start, (root,)),
        Contender(RESUMED, resume, (root,)),
        Contender(ENERGON_TAKE, energon_taking, (root,)),
        Contender(ENERGON_COLD, energon_cold_start, (root,)),
        Contender(ENERGON_RESUMED, energon_resume, (root,)),
    ]
    data.text(root)
    results = compete(contenders, settings.rounds)
    return [
        results.row(TAKE, [TAKE], lambda: size_row(results, TAKE, Bound("≤", 8))),
        results.row(f"{TAKE}: time", [TAKE], lambda: time_row(results, TAKE, Bound("≤", 0.2))),
        results.row(RESUMED, [RESUMED, COLD], lambda: resume_row(results, RESUMED, COLD, Bound("≤", 20))),
        results.row(ENERGON_TAKE, [ENERGON_TAKE], lambda: size_row(results, ENERGON_TAKE)),
        results.row(f"{ENERGON_TAKE}: time", [ENERGON_TAKE], lambda: time_row(results, ENERGON_TAKE)),
        results.row(
            ENERGON_RESUMED, [ENERGON_RESUMED, ENERGON_COLD], lambda: resume_row(results, ENERGON_RESUMED, ENERGON_COLD)
        ),
    ]


def size_row(results: Results, name: str, bound: Bound | None = None) -> Row:
    return Row(f"{name}: size", results.median(name, "bytes"), "bytes per element", bound=bound)


def time_row(results: Results, name: str, bound: Bound | None = None) -> Row:
    return Row(f"{name}: time", results.median(name, "ms"), "ms", bound=bound)


def resume_row(results: Results, name: str, base: str, bound: Bound | None = None) -> Row:
    more = median(a["ms"] - b["ms"] for a, b in zip(results.figures[name], results.figures[base], strict=True))
    note = f"{results.median(name, 'ms'):.1f} ms to the first batch; {base} {results.median(base, 'ms'):.1f} ms"
    return Row(f"{name}: time to the first batch, more than a cold start", more, "ms", bound=bound, note=note)


def our_loader(root: Path, buffer: int | None) -> Any:
    import energon_nodes as en

    pipeline = en.shards(data.text(root), shuffle=True, sequence_length=100)
    if buffer is not None:
        pipeline = pipeline.shuffle(buffer)
    return pipeline.batch(BATCH).loader()


def taking(root: Path) -> Callable[[], Figures]:
    loader = our_loader(root, BUFFER)
    batches = iter(loader)
    for _ in islice(batches, TAKEN // BATCH):
        pass
    return taking_between_batches(batches, loader.state_dict)


def taking_between_batches(batches: Any, take: Callable[[], Any]) -> Callable[[], Figures]:
    """Return a measurement of the state after each of some batches."""

    def measure() -> Figures:
        seconds: list[float] = []
        state = None
        for _ in islice(batches, 20):
            started = time.perf_counter()
            state = take()
            seconds.append(time.perf_counter() - started)
        return {"ms": median(seconds) * 1e3, "bytes": len(pickle.dumps(state, 5)) / BUFFER}

    return measure


def cold_start(root: Path) -> Callable[[], Figures]:
    return lambda: first_batch(lambda: our_loader(root, None))


def resume(root: Path) -> Callable[[], Figures]:
    loader = our_loader(root, BUFFER)
    for _ in islice(loader, TAKEN // BATCH):
        pass
    state = loader.state_dict()

    def resumed() -> Any:
        fresh = our_loader(root, BUFFER)
        fresh.load_state_dict(state)
        return fresh

    return lambda: first_batch(resumed)


def first_batch(make: Callable[[], Any]) -> Figures:
    """Return the milliseconds from nothing to the first batch."""
    started = time.perf_counter()
    loader = make()
    next(iter(loader))
    return {"ms": (time.perf_counter() - started) * 1e3}


def energon_loader(root: Path, buffer: int | None) -> Any:
    import megatron.energon as me

    from tests.benchmarks.energon_task import ListBatches

    dataset = me.get_train_dataset(
        str(data.text(root)),
        worker_config=me.WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=BATCH,
        shuffle_buffer_size=buffer,
        max_samples_per_sequence=100,
        parallel_shard_iters=1,
        task_encoder=ListBatches(),
    )
    return me.get_savable_loader(dataset)


def energon_taking(root: Path) -> Callable[[], Figures]:
    loader = energon_loader(root, BUFFER)
    batches = iter(loader)
    for _ in islice(batches, 4):
        pass
    return taking_between_batches(batches, loader.save_state_rank)


def energon_cold_start(root: Path) -> Callable[[], Figures]:
    return lambda: first_batch(lambda: energon_loader(root, None))


def energon_resume(root: Path) -> Callable[[], Figures]:
    loader = energon_loader(root, BUFFER)
    for _ in islice(loader, 4):
        pass
    state = loader.save_state_rank()

    def resumed() -> Any:
        fresh = energon_loader(root, BUFFER)
        fresh.restore_state_rank(state)
        return fresh

    return lambda: first_batch(resumed)
