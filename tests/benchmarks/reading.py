"""Raw reading of data T: energon_nodes against a loop over the headers, and its peers on the same samples."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import data, loops, peers
from tests.benchmarks.harness import Contender, Results, Settings, compete
from tests.benchmarks.streams import Stream, timed_pass
from tests.benchmarks.table import Bound, Row

BUFFER = 1_000
LOOP, SHUFFLED, BARE = "header loop", f"header loop, shuffle buffer of {BUFFER:,}", "header loop without parts"
LONG, SHORT = "energon_nodes, sequences of 1,000", "energon_nodes, sequences of 100"
OURS = f"energon_nodes, sequences of 100, shuffle({BUFFER})"
LITDATA = "LitData"
GRAIN, MOSAICML = "Grain, ArrayRecord", "MosaicML Streaming"
AHEAD_OF = (LITDATA, GRAIN, MOSAICML)


def rows(settings: Settings) -> list[Row]:
    """Measure all readers and return their rows, ours first."""
    results = compete(contenders(settings), settings.rounds)
    bounded = [
        ratio_row(results, LONG, LOOP, Bound("≥", 1.2)),
        ratio_row(results, SHORT, LOOP, Bound("≥", 1.0)),
        ratio_row(results, OURS, SHUFFLED, Bound("≥", 0.8)),
        *(ratio_row(results, OURS, peer, Bound(">", 1.0)) for peer in AHEAD_OF),
    ]
    shown = {LONG, SHORT, OURS}
    others = [name for name in (*results.figures, *results.failures) if name not in shown]
    return [*bounded, *(ratio_row(results, name, LOOP) for name in others)]


def ratio_row(results: Results, name: str, base: str, bound: Bound | None = None) -> Row:
    def make() -> Row:
        step = f"mean id step {results.median(name, 'step'):,.0f}"
        rate = results.median(name, "rate")
        return Row(name, rate, "samples/s", results.ratio(name, base), base, bound, step)

    return results.row(name, [name, base], make)


def contenders(settings: Settings) -> list[Contender]:
    root, budget = settings.root, settings.budget
    data.text(root)
    readers = {
        LONG: (ours, 1_000, None),
        SHORT: (ours, 100, None),
        OURS: (ours, 100, BUFFER),
        "energon_nodes, sequences of 1": (ours, 1, None),
        LOOP: (loops.header_loop,),
        SHUFFLED: (loops.shuffled_header_loop, BUFFER),
        BARE: (loops.bare_header_loop,),
        LITDATA: (peers.litdata, False),
        "LitData, whole chunks shuffled": (peers.litdata, True),
        "LitData, samples left pickled": (peers.litdata_pickled,),
        GRAIN: (peers.grain, 1),
        "Grain, ArrayRecord, batches of 100": (peers.grain, 100),
        MOSAICML: (peers.mosaicml,),
        "webdataset, shuffle(1000)": (peers.webdataset, BUFFER),
        "Megatron-Energon": (peers.energon, None, None),
        "Megatron-Energon, batches of 100": (peers.energon, 100, None),
        "Megatron-Energon, batches of 100, shuffle buffer of 1,000": (peers.energon, 100, BUFFER),
        "torchdata: sampler and Mapper": (peers.torchdata,),
    }
    return [Contender(name, timed_pass, (make, root, budget, *options)) for name, (make, *options) in readers.items()]


def ours(root: Path, sequence_length: int, buffer: int | None) -> Stream:
    import energon_nodes as en

    pipeline = en.shards(data.text(root), split="train", shuffle=True, sequence_length=sequence_length)
    if buffer is not None:
        pipeline = pipeline.shuffle(buffer)
    return Stream(lambda: iter(pipeline))
