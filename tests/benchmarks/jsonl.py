"""Reading 100,000 JSON lines: energon_nodes against a plain loop over the file, and Megatron-Energon."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Results, Settings, compete
from tests.benchmarks.streams import Stream, timed_pass
from tests.benchmarks.table import Bound, Row

LOOP, SEEKS = "a loop of json.loads over the file", "json.loads of lines in random order, by seek"
ORDER, BLOCKS, GLOBAL = (
    "energon_nodes, in order",
    "energon_nodes, sequences of 100",
    "energon_nodes, sequences of 1",
)
BYTES = "energon_nodes, sequences of 100, unparsed"
ENERGON = "Megatron-Energon"


def rows(settings: Settings) -> list[Row]:
    """Measure all readers and return their rows, ours first."""
    results = compete(contenders(settings), settings.rounds)
    return [
        ratio_row(results, ORDER, LOOP, Bound("≥", 0.8)),
        ratio_row(results, BLOCKS, LOOP, Bound("≥", 0.7)),
        ratio_row(results, GLOBAL, SEEKS, Bound("≥", 1.0)),
        ratio_row(results, BLOCKS, ENERGON, Bound("≥", 5.0)),
        ratio_row(results, BYTES, LOOP),
        ratio_row(results, SEEKS, LOOP),
        ratio_row(results, ENERGON, LOOP),
        ratio_row(results, LOOP, LOOP),
    ]


def ratio_row(results: Results, name: str, base: str, bound: Bound | None = None) -> Row:
    def make() -> Row:
        step = f"mean id step {results.median(name, 'step'):,.0f}"
        return Row(name, results.median(name, "rate"), "records/s", results.ratio(name, base), base, bound, step)

    return results.row(name, [name, base], make)


def contenders(settings: Settings) -> list[Contender]:
    data.lines(settings.root)
    readers: dict[str, tuple[Any, ...]] = {
        ORDER: (ours, False, None),
        BLOCKS: (ours, True, 100),
        GLOBAL: (ours, True, 1),
        BYTES: (unparsed,),
        LOOP: (loop,),
        SEEKS: (seeks,),
        ENERGON: (energon,),
    }
    return [
        Contender(name, timed_pass, (make, settings.root, settings.budget, *options))
        for name, (make, *options) in readers.items()
    ]


def ours(root: Path, shuffle: bool, sequence_length: int | None) -> Stream:
    import energon_nodes as en

    pipeline = en.jsonl(data.lines(root), shuffle=shuffle, sequence_length=sequence_length)
    return Stream(lambda: iter(pipeline))


def unparsed(root: Path) -> Stream:
    import energon_nodes as en

    pipeline = en.jsonl(data.lines(root), shuffle=True, sequence_length=100, parse=False)
    return Stream(lambda: iter(pipeline))


def loop(root: Path) -> Stream:
    """Read the file line by line, as a script does."""
    path = data.lines(root)

    def passing() -> Iterator[Any]:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    return Stream(passing, id_of)


def seeks(root: Path) -> Stream:
    """Read lines in random order, with the offsets of all in a list."""
    path = data.lines(root)
    with path.open("rb") as file:
        offsets = [0]
        for line in file:
            offsets.append(offsets[-1] + len(line))

    def passing() -> Iterator[Any]:
        order = list(range(len(offsets) - 1))
        random.Random(0).shuffle(order)
        with path.open("rb", buffering=0) as file:
            for number in order:
                file.seek(offsets[number])
                yield json.loads(file.read(offsets[number + 1] - offsets[number]))

    return Stream(passing, id_of)


def id_of(record: dict[str, Any]) -> tuple[int]:
    return (record["id"],)


def energon(root: Path) -> Stream:
    """Read the file with Megatron-Energon at the settings that were quickest on tars."""
    import megatron.energon as me

    from tests.benchmarks.energon_task import Records

    dataset = me.get_train_dataset(
        str(data.lines(root)),
        worker_config=me.WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=100,
        parallel_shard_iters=1,
        task_encoder=Records(),
        repeat=False,
    )
    loader = me.get_loader(dataset)
    numbers: Callable[[Any], tuple[int]] = lambda sample: (int(sample.__key__),)  # noqa: E731
    return Stream(lambda: iter(loader), numbers)
