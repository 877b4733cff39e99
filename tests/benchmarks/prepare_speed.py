"""Preparing data T: against `energon prepare` with two processes, and a loop that only fills the database; memory.

The loop walks the headers in a memory map and puts the same rows under the same schema into SQLite, with the indices
made at the end; it checks nothing and writes no other file.
"""

from __future__ import annotations

import mmap
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from tests.benchmarks import data
from tests.benchmarks.harness import Contender, Figures, Results, Settings, compete, in_new_process
from tests.benchmarks.table import Bound, Row

OURS, LOOP, ENERGON = "prepare of data T", "a loop that fills the database", "Megatron-Energon, 2 processes"
COMMAND, THEIRS = "energon-nodes prepare, from start to end", "energon prepare"
MEMORY = "memory for each further sample while preparing"
FEW, MANY, IN_SHARD = 1_600_000, 2_000_000, 20_000  # from 1,500,000 on the cache of the database is full


def rows(settings: Settings) -> list[Row]:
    """Measure preparing, updating, and memory."""
    root = settings.root
    folders = {name: made_folder(root, name) for name in ("ours", "command", "theirs", "theirs_command")}
    contenders = [
        Contender(OURS, ours, (folders["ours"],)),
        Contender(LOOP, loop, (folders["ours"], root / "prepare_loop.sqlite")),
        Contender(ENERGON, energon, (folders["theirs"],)),
        Contender(COMMAND, our_command, (folders["command"],)),
        Contender(THEIRS, energon_command, (folders["theirs_command"],)),
    ]
    if not settings.quick:
        tiny(root)
        contenders.append(Contender(MEMORY, watching, (root,)))
    results = compete(contenders, min(settings.rounds, 5))
    found = [
        row(results, OURS, ENERGON, Bound("≥", 10)),
        row(results, OURS, LOOP, Bound("≥", 0.5)),
        row(results, COMMAND, THEIRS, None),
    ]
    if not settings.quick:
        found.append(results.row(MEMORY, [MEMORY], lambda: memory_row(results)))
    return found


def memory_row(results: Results) -> Row:
    note = f"{MANY:,} samples against {FEW:,}"
    return Row(MEMORY, results.median(MEMORY, "bytes"), "bytes", bound=Bound("≤", 8), note=note)


def row(results: Results, name: str, base: str, bound: Bound | None) -> Row:
    def make() -> Row:
        return Row(name, results.median(name, "rate"), "samples/s", results.ratio(name, base), base, bound)

    return results.row(name, [name, base], make)


def made_folder(root: Path, name: str) -> Path:
    """Return a folder with the tars of data T and nothing else yet."""
    source = data.text(root)

    def link(folder: Path) -> None:
        for tar in data.shards_of(source):
            os.link(tar, folder / tar.name)

    return data.made(root / f"prepare_{name}", link)


def timed(action: Callable[[], object], samples: int = data.TEXT_SAMPLES) -> Figures:
    started = time.perf_counter()
    action()
    return {"rate": samples / (time.perf_counter() - started)}


def ours(folder: Path) -> Callable[[], Figures]:
    import energon_nodes as en

    return lambda: timed(lambda: en.prepare(folder, overwrite=True, split="1,0,0", workers=2))


def energon(folder: Path) -> Callable[[], Figures]:
    from megatron.energon.flavors import BaseWebdatasetFactory

    ratio = [("train", 1.0), ("val", 0.0), ("test", 0.0)]
    names = [tar.name for tar in data.shards_of(folder)]

    def prepare() -> None:
        with redirect_stdout(sys.stderr):
            BaseWebdatasetFactory.prepare_dataset(folder, names, split_parts_ratio=ratio, workers=2)

    return lambda: timed(prepare)


def our_command(folder: Path) -> Callable[[], Figures]:
    options = ["--split", "1,0,0", "--workers", "2", "--overwrite", "--yes", "--no-progress"]
    command = [sys.executable, "-m", "energon_nodes.cli", "prepare", *options, str(folder)]
    root = Path(__file__).resolve().parents[2]
    return lambda: timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=root))


def energon_command(folder: Path) -> Callable[[], Figures]:
    options = [
        "--split-ratio",
        "1,0,0",
        "--num-workers",
        "2",
        "--non-interactive",
        "--no-progress",
        "--force-overwrite",
    ]
    command = [Path(sys.executable).with_name("energon"), "prepare", *options, "--skip-dataset-yaml", folder]
    return lambda: timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


TABLES = (
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, "
    "sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)",
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER, content_byte_size INTEGER)",
)
INDICES = (
    "CREATE INDEX a ON samples (tar_file_id, sample_index)",
    "CREATE INDEX b ON sample_parts (tar_file_id, sample_index, content_byte_offset)",
    "CREATE INDEX c ON sample_parts (tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size)",
)


def loop(folder: Path, path: Path) -> Callable[[], Figures]:
    return lambda: timed(lambda: fill(folder, path))


def fill(folder: Path, path: Path) -> None:
    """Walk all headers and insert the rows, as directly as can be written."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    for setting in ("journal_mode = OFF", "synchronous = OFF"):
        database.execute(f"PRAGMA {setting}")
    for table in TABLES:
        database.execute(table)
    database.execute("BEGIN")
    for number, tar in enumerate(data.shards_of(folder)):
        samples: list[tuple[int, str, int, int, int]] = []
        parts: list[tuple[int, int, str, int, int]] = []
        with tar.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as shard:
            at, start, last = 0, 0, ""
            while shard[at]:
                size = int(shard[at + 124 : at + 135], 8)
                key, _, part = shard[at : at + 100].rstrip(b"\0").decode().partition(".")
                if key != last:
                    if last:
                        samples.append((number, last, len(samples), start, at - start))
                    last, start = key, at
                parts.append((number, len(samples), part, at + 512, size))
                at += 512 + (size + 511 & -512)
            samples.append((number, last, len(samples), start, at - start))
        database.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", samples)
        database.executemany("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", parts)
    for index in INDICES:
        database.execute(index)
    database.execute("COMMIT")
    database.close()


def watching(root: Path) -> Callable[[], Figures]:
    return lambda: memory(root)


def memory(root: Path) -> Figures:
    """Return the bytes that 400,000 further samples cost at the peak, each, in processes of their own."""
    folder = tiny(root)
    left_out = "|".join(f"{number:04d}" for number in range(FEW // IN_SHARD, MANY // IN_SHARD))
    few, many = (in_new_process(peak, folder, exclude)()["bytes"] for exclude in (left_out, ()))
    return {"bytes": (many - few) / (MANY - FEW)}


def peak(folder: Path, exclude: str) -> Figures:
    """Return how much memory preparing takes at most; pages of mapped files do not count."""
    import energon_nodes as en

    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    en.prepare(folder, overwrite=True, exclude=exclude, workers=1)
    ended.set()
    thread.join()
    return {"bytes": most}


def anonymous() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(r"RssAnon:\s+(\d+)", text)[0])


def tiny(root: Path) -> Path:
    """Return a folder of 2,000,000 samples of one empty file each, in 100 tars: 1 GB of headers."""

    def write(folder: Path) -> None:
        header = np.frombuffer(tarfile.TarInfo("000000000.txt").tobuf(tarfile.USTAR_FORMAT), np.uint8)
        for shard in range(MANY // IN_SHARD):
            blocks = np.tile(header, (IN_SHARD, 1))
            numbers = np.arange(shard * IN_SHARD, (shard + 1) * IN_SHARD)
            for place in range(9):
                blocks[:, 8 - place] = ord("0") + numbers // 10**place % 10
            blocks[:, 148:156] = ord(" ")
            sums = blocks.sum(axis=1, dtype=np.int64)
            for place in range(6):
                blocks[:, 153 - place] = ord("0") + sums // 8**place % 8
            blocks[:, 154] = 0
            (folder / f"{shard:04d}.tar").write_bytes(blocks.tobytes() + bytes(1024))

    return data.made(root / "tiny", write)
