"""Functions for pipelines in tests, by name, so that graphs which hold them can be pickled."""

from __future__ import annotations

import functools
import random
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

import energon_nodes as en


def itself(value: Any) -> Any:
    return value


def text(value: Any) -> str:
    return str(value)


def double(value: Any) -> Any:
    return value * 2


def total(values: Any) -> Any:
    return sum(flat(values))


def flat(value: Any) -> Iterator[int]:
    """Yield the integers in nested data, so that one function fits behind any node."""
    if isinstance(value, (int, np.integer)):
        yield int(value)
    elif isinstance(value, str):
        yield len(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)


def total_of(values: list[Any]) -> tuple[int, int]:
    return (len(values), total(values))


def second(values: Any) -> Any:
    return values[1]


def pair(value: Any) -> tuple[str, Any]:
    return ("x", value)


def digits(value: Any) -> int:
    """Return the sum of the digits of what is in nested data, which many share."""
    return sum(int(digit) for number in flat(value) for digit in str(abs(number)))


def odd(value: Any) -> bool:
    return sum(flat(value)) % 2 == 1


def not_third(value: Any) -> bool:
    return sum(flat(value)) % 3 != 0


def named(count: int, step: int = 1) -> list[dict[str, Any]]:
    """Return samples whose keys are numbers, in another order for each step."""
    return [{"__key__": f"k{number * step % count}", f"part{step}": number} for number in range(count)]


def joined_sum(first: Any, *others: Any) -> list[int]:
    """Return the key and the parts of samples that were joined, as numbers."""
    return [
        int(first["__key__"][1:]),
        *[value for sample in (first, *others) if sample for value in flat([*sample.values()][1:])],
    ]


def first_of(first: Any, *others: Any) -> Any:
    return first


def jittered(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return sample | {"drawn": int(rng.integers(1000))}


def never(value: Any) -> bool:
    return False


def copies(value: Any) -> Iterator[Any]:
    """Yield no, one or two elements."""
    for number in range(sum(flat(value)) % 3):
        yield (value, number)


def twice(value: Any) -> list[Any]:
    return [value, value]


def jitter(value: Any, rng: np.random.Generator) -> Any:
    return (value, int(rng.integers(1_000_000)))


def scatter(value: Any, rng: np.random.Generator) -> Iterator[Any]:
    for _ in range(int(rng.integers(3))):
        yield (value, int(rng.integers(1_000_000)))


def raw(value: Any, rng: np.random.Generator) -> Any:
    """Draw in a way that numpy promises to keep between releases."""
    return (value, int(rng.bit_generator.random_raw()))


def raw_number(value: Any, rng: np.random.Generator) -> list[Any]:
    return [value] * int(rng.bit_generator.random_raw() % 3)


def draw_globally(value: Any) -> Any:
    return (value, random.randrange(10**6), int(np.random.randint(10**6)), int(torch.randint(10**6, ()).item()))


def stack(values: list[int]) -> torch.Tensor:
    return torch.tensor(values)


def sample(number: int) -> dict[str, Any]:
    return {"__key__": f"{number:04}", "picture": np.full((2, 2), number, np.uint8), "caption": f"a {number}"}


def is_even(sample: dict[str, Any]) -> bool:
    return int(sample["__key__"]) % 2 == 0


def caption_of(sample: dict[str, Any], names: dict[str, str]) -> str:
    return names["prefix"] + sample["caption"]


def number_and_draw(sample: dict[str, Any], rng: np.random.Generator) -> tuple[int, int]:
    return int(sample["__key__"]), int(rng.integers(1_000_000))


def letters_of(sample: dict[str, Any], rng: np.random.Generator) -> Iterator[Any]:
    for letter in sample["caption"][: int(rng.integers(4))]:
        yield letter, int(rng.integers(1_000_000))


def skips(sample: Any) -> Any:
    raise en.SkipSample


def fails_at_five(value: Any) -> Any:
    if sum(flat(value)) % 7 == 5:
        raise ValueError("five")
    return value


def skips_at_five(value: Any) -> Any:
    if sum(flat(value)) % 7 == 5:
        raise en.SkipSample
    return value


def fails_in_the_middle(value: Any) -> Iterator[Any]:
    yield (value, 0)
    if sum(flat(value)) % 7 == 5:
        raise ValueError("five")
    yield (value, 1)


def letters(stream: int, streams: int) -> Iterator[str]:
    """Make the part of one stream, as a factory for `wrap`."""
    return iter("abcdefghijklmnopqrstuvwxyz"[stream::streams])


class Strided:
    """Make the part of one stream, as a factory for `wrap` that can be printed and pickled."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, stream: int, streams: int) -> Iterator[int]:
        return iter(range(stream, self.n, streams))

    def __repr__(self) -> str:
        return f"Strided({self.n})"


class Counter:
    """Number the elements: a callable with a state of its own."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: Any) -> Any:
        self.count += 1
        return (value, self.count)

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


class Countdown:
    """An iterable whose iterators have a state, as foreign loaders do."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> CountdownIterator:
        return CountdownIterator(self.start)


class CountdownIterator:
    def __init__(self, left: int) -> None:
        self.left = left

    def __iter__(self) -> CountdownIterator:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def state_dict(self) -> dict[str, int]:
        return {"left": self.left}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.left = state["left"]


class Broken:
    """A sequence with elements that cannot be read."""

    def __init__(self, n: int, bad: set[int]) -> None:
        self.n, self.bad = n, bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if index in self.bad:
            raise OSError(f"element {index} cannot be read")
        return index


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="contract_shards_")


@functools.cache
def tars(samples: int = 23, in_shard: int = 5, cut: bool = False) -> str:
    """Return a folder of tars with numbered captions; with `cut`, the second one ends in the middle of a sample."""
    folder = Path(_folder().name, f"{samples}_{in_shard}_{cut}")
    folder.mkdir()
    for first in range(0, samples, in_shard):
        path = folder / f"shard-{first:04}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(first, min(samples, first + in_shard)):
                for part, text in (("txt", f"caption {number}"), ("json", f'{{"number": {number}}}')):
                    member = tarfile.TarInfo(f"{number:04}.{part}")
                    member.size = len(text)
                    tar.addfile(member, BytesIO(text.encode()))
        if cut and first == in_shard:
            path.write_bytes(path.read_bytes()[: 3 * 2048 + 700])
    return str(folder)


@functools.cache
def lines(records: int = 23, damaged: bool = False) -> str:
    """Return two files of numbered JSON lines; with `damaged`, one line of each is none."""
    folder = Path(_folder().name, f"lines_{records}_{damaged}")
    folder.mkdir()
    for name, first, last in (("a", 0, records // 3), ("b", records // 3, records)):
        texts = [f'{{"number": {number}}}\n' for number in range(first, last)]
        if damaged:
            texts.insert(2, "{broken\n")
        (folder / f"{name}.jsonl").write_text("".join(texts))
    return str(folder)


@functools.cache
def texts() -> en.Store:
    """Return a store of the files 0.txt to 22.txt."""
    folder = Path(_folder().name, "texts")
    folder.mkdir()
    for number in range(23):
        (folder / f"{number}.txt").write_text(f"text {number}")
    return en.store(folder, decode=True)


@functools.cache
def pool() -> en.CachePool:
    """Return a cache pool that is too small for what waits for it."""
    return en.cache_pool(max_files=6, threads=2)


def with_text(number: int, texts: en.Store, cache: en.CachePool | None = None) -> list[Any]:
    """Put a lazy value beside a number, to be fetched by the cache if there is one."""
    return [number, texts.lazy(f"{number}.txt", cache=cache)]


def number_and_letters(pair: list[Any]) -> int:
    return pair[0] + 1


def number_of(sample: dict[str, Any]) -> int:
    return int(sample["__key__"])


def size_of(value: Any) -> int:
    """Give any element a length from 0 to 9."""
    return sum(flat(value)) % 10


def fails_to_measure(value: Any) -> int:
    return size_of(fails_at_five(value))


def halved(value: Any) -> Any:
    """Shorten what is too long; the lengths of the results are below 5."""
    return ("short", sum(flat(value)) % 5 - 5)


def pairs_of_three(values: list[Any]) -> list[list[Any]]:
    """Choose packs of three from the largest on, as long as there are enough."""
    ordered = sorted(values, key=lambda value: (-sum(flat(value)), repr(value)))
    return [ordered[at : at + 3] for at in range(0, len(ordered) - 2, 3)]


def every_second(values: list[Any]) -> list[list[int]]:
    """Choose every second element, by position, as packs of up to two."""
    numbers = list(range(0, len(values), 2))
    return [numbers[at : at + 2] for at in range(0, len(numbers), 2)]


def refuses_small_buffers(values: list[Any]) -> list[list[Any]]:
    return [values[:2], values[2:]] if sum(flat(values)) % 3 else []


def parts_of(values: list[Any]) -> Iterator[Any]:
    """Combine a pack into none, one or two outputs."""
    for number in range(len(values) % 3):
        yield (number, tuple(values))


def remainder(value: Any) -> int:
    return sum(flat(value)) % 3


def vowel(value: Any) -> bool:
    return value in "aeiou"


def remainder_and_size(value: Any) -> tuple[tuple[str, int], int]:
    return ("rest", sum(flat(value)) % 3), 2 + sum(flat(value)) % 3


class Spread:
    """Yield each value as often as its digits say, with a number that counts all that were yielded."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: Any) -> Iterator[Any]:
        for number in range(digits(value) % 4):
            self.count += 1
            yield (value, number, self.count)

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


class Nth:
    """Accept every third element: a predicate with a state."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, value: Any) -> bool:
        self.seen += 1
        return self.seen % 3 == 0

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]
