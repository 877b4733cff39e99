"""Random access to data T: files by name, against a dictionary over memory maps, and what peers read by name or index.

Each lookup is one file of one sample (txt or json, 300 or 150 bytes), in random order. The records of ArrayRecord,
MosaicML Streaming and LitData are samples of both parts with their key, and are counted as one lookup each.
"""

from __future__ import annotations

import mmap
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import data, peer_data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete
from tests.benchmarks.table import Bound, Row

LOOKUPS = 50_000
TOGETHER = 1_000
CHUNK = 500  # lookups between two looks at the clock
OURS = "energon_nodes, store[name]"
MANY = f"energon_nodes, get_many of {TOGETHER:,}"
DICTIONARY = "dictionary over memory maps"
ENERGON = "Megatron-Energon, reader of entries that keeps 32 files open"
STORE = "Megatron-Energon, file store"
ARRAY_RECORD, MOSAICML, LITDATA = "ArrayRecord by index", "MosaicML Streaming by index", "LitData by index"


def rows(settings: Settings) -> list[Row]:
    """Measure all ways and return their rows, ours first."""
    results = compete(contenders(settings), settings.rounds)
    return [
        ratio_row(results, OURS, ENERGON, Bound("≥", 5.0)),
        *(ratio_row(results, OURS, peer, Bound(">", 1.0)) for peer in (ARRAY_RECORD, MOSAICML, LITDATA)),
        *(ratio_row(results, name, DICTIONARY) for name in (OURS, MANY)),
        *(
            ratio_row(results, name, DICTIONARY)
            for name in (DICTIONARY, ENERGON, STORE, ARRAY_RECORD, MOSAICML, LITDATA)
        ),
    ]


def ratio_row(results: Results, name: str, base: str, bound: Bound | None = None) -> Row:
    def make() -> Row:
        return Row(name, results.median(name, "rate"), "lookups/s", results.ratio(name, base), base, bound)

    return results.row(name, [name, base], make)


def contenders(settings: Settings) -> list[Contender]:
    data.text(settings.root)
    ways = {
        OURS: store,
        MANY: store_many,
        DICTIONARY: dictionary,
        ENERGON: energon,
        STORE: energon_store,
        ARRAY_RECORD: array_record,
        MOSAICML: mosaicml,
        LITDATA: litdata,
    }
    return [Contender(name, timed, (make, settings.root, settings.budget)) for name, make in ways.items()]


def timed(
    make: Callable[[Path], tuple[Callable[[Any], Any], list[Any]]], root: Path, budget: float
) -> Callable[[], Figures]:
    """Return a measurement of one call of the way for each entry of its list, stopped after `budget` seconds."""
    look_up, asked = make(root)
    sizes = [len(entry) if isinstance(entry, list) else 1 for entry in asked]

    def measure() -> Figures:
        started, done, elapsed = time.perf_counter(), 0, 0.0
        step = 1 if sizes[0] > 1 else CHUNK
        while done < len(asked) and elapsed < budget:
            for entry in asked[done : done + step]:
                look_up(entry)
            done += step
            elapsed = time.perf_counter() - started
        return {"rate": sum(sizes[:done]) / elapsed}

    return measure


def names() -> list[str]:
    """Return the names that are looked up, the same for everybody."""
    chosen = random.Random(0)
    return [f"{chosen.randrange(data.TEXT_SAMPLES):08d}.{chosen.choice(('txt', 'json'))}" for _ in range(LOOKUPS)]


def indices() -> list[int]:
    return [int(name.partition(".")[0]) for name in names()]


def store(root: Path) -> tuple[Callable[[str], bytes], list[str]]:
    return ours(root).__getitem__, names()


def store_many(root: Path) -> tuple[Callable[[list[str]], list[bytes]], list[list[str]]]:
    every = names()
    return ours(root).get_many, [every[start : start + TOGETHER] for start in range(0, LOOKUPS, TOGETHER)]


def ours(root: Path) -> Any:
    import energon_nodes as en

    folder = data.text(root)
    if not (folder / ".nv-meta" / "index.sqlite").exists():
        en.prepare(folder, index_only=True)  # where the real `energon prepare` did not make it
    return en.store(folder)


def dictionary(root: Path) -> tuple[Callable[[str], bytes], list[str]]:
    """Look a name up in a dictionary of all names, and copy its bytes out of a mapped tar: the least there is to do."""
    opened = ours(root)
    table = opened.entries.table
    maps: list[mmap.mmap] = []
    for shard in table.shard_names:
        with open(data.text(root) / shard, "rb") as file:
            maps.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    places: dict[str, tuple[mmap.mmap, int, int]] = {}
    for name in opened:
        shard, offset, size = table.locate(*opened.entries.split(name))
        places[name] = (maps[shard], offset, offset + size)

    def look_up(name: str) -> bytes:
        mapped, start, stop = places[name]
        return mapped[start:stop]

    return look_up, names()


def energon(root: Path) -> tuple[Callable[[str], Any], list[str]]:
    """Ask the reader behind Megatron-Energon's stores, with room for all shards: the quickest that we found."""
    from megatron.energon.epathlib import EPath
    from megatron.energon.flavors.webdataset.itar_reader import SqliteITarEntryReader

    folder = EPath(data.text(root))
    return SqliteITarEntryReader(folder, itar_cache_size=32, key_is_full_entryname=True).__getitem__, names()


def energon_store(root: Path) -> tuple[Callable[[str], Any], list[str]]:
    """Ask the store that cookers get, which keeps five files open."""
    from megatron.energon.cache.file_store import WebdatasetFileStore
    from megatron.energon.epathlib import EPath

    return WebdatasetFileStore(EPath(data.text(root))).__getitem__, names()


def array_record(root: Path) -> tuple[Callable[[int], Any], list[int]]:
    """Read pickled samples; they stay pickled."""
    from grain.sources import ArrayRecordDataSource

    source = ArrayRecordDataSource(sorted(str(path) for path in peer_data.array_record(root).glob("*.array_record")))
    return source.__getitem__, indices()


def mosaicml(root: Path) -> tuple[Callable[[int], Any], list[int]]:
    from streaming import StreamingDataset

    return StreamingDataset(local=str(peer_data.mds(root)), batch_size=32).__getitem__, indices()


def litdata(root: Path) -> tuple[Callable[[int], Any], list[int]]:
    from litdata import StreamingDataset

    return StreamingDataset(str(peer_data.litdata(root, pickled=False))).__getitem__, indices()
