"""The yardstick of reading: plain loops that walk the headers of the tars in a memory map."""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks import data
from tests.benchmarks.streams import Stream

Places = list[tuple[str, int, int]]  # part, offset and size


def header_loop(root: Path) -> Stream:
    """Walk the headers of data T in order; payloads are located and not touched."""
    shards = data.shards_of(data.text(root))
    return Stream(lambda: walk(shards), walked_number)


def shuffled_header_loop(root: Path, size: int) -> Stream:
    """Walk the headers of data T through a shuffle buffer."""
    shards = data.shards_of(data.text(root))
    return Stream(lambda: shuffled(walk(shards), size, random.Random(0)), walked_number)


def bare_header_loop(root: Path) -> Stream:
    """Walk the headers of data T and find where samples begin and end; parts are neither named nor located."""
    shards = data.shards_of(data.text(root))
    return Stream(lambda: bare_walk(shards), lambda sample: (int(sample[0]),))


def walked_number(sample: tuple[str, Places]) -> Iterable[int]:
    return (int(sample[0]),)


def walk(shards: list[Path]) -> Iterator[tuple[str, Places]]:
    """Yield each sample's key and where its parts are."""
    for shard in shards:
        with shard.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as archive:
            position, last, places = 0, "", []
            while archive[position]:
                name = archive[position : position + 100].rstrip(b"\0").decode()
                size = int(archive[position + 124 : position + 135], 8)
                key, _, part = name.partition(".")
                if key != last:
                    if places:
                        yield last, places
                    last, places = key, []
                places.append((part, position + 512, size))
                position += 512 + (size + 511) // 512 * 512
            yield last, places


def bare_walk(shards: list[Path]) -> Iterator[tuple[bytes, int]]:
    """Yield each sample's key and where it ends."""
    for shard in shards:
        with shard.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as archive:
            position, last = 0, b""
            while name := archive[position : position + 100].rstrip(b"\0"):
                key = name.partition(b".")[0]
                if key != last:
                    if last:
                        yield last, position
                    last = key
                position += 512 + (int(archive[position + 124 : position + 135], 8) + 511) // 512 * 512
            yield last, position


def shuffled(samples: Iterator[Any], size: int, generator: random.Random) -> Iterator[Any]:
    held = list(islice(samples, size))
    for sample in samples:
        place = int(generator.random() * size)
        yield held[place]
        held[place] = sample
    generator.shuffle(held)
    yield from held
