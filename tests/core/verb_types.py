"""What type checkers are to infer for every verb; `test_typing.py` runs pyright over this file."""

# pyright: strict, reportMissingTypeStubs=false, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, assert_type

import numpy as np
from torchdata.nodes import BaseNode

import energon_nodes as en
from energon_nodes import Key, Loader, Node, PipelineDataset


class Squares:
    """A map-style dataset."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index * index


def length_of(value: list[int]) -> int:
    return len(value)


def jitter(value: int, rng: np.random.Generator) -> float:
    return value + rng.random()


def letters(value: int) -> Iterator[str]:
    yield from str(value)


def scattered(value: int, rng: np.random.Generator) -> list[bool]:
    return [rng.random() > 0.5] * value


def text_of(sample: dict[str, Any]) -> str:
    return sample["txt"]


def words_of(sample: dict[str, Any], texts: dict[str, str] | None = None) -> Iterator[str]:
    yield from sample["txt"].split()


def mean(values: list[int]) -> float:
    return sum(values) / len(values)


def pairs_of(values: list[str]) -> list[list[str]]:
    return [values[:2], values[2:]]


def joined(values: list[str]) -> str:
    return "".join(values)


def letters_of(values: list[str]) -> Generator[str, None, None]:
    yield from joined(values)


def shorter(first: Any, second: Any) -> int:
    return min(len(first), len(second))


def log(value: object) -> None: ...


numbers = en.items([3, 1, 2])
texts = en.items("abc")
samples = en.items([{"__key__": "a", "txt": b"a"}])

assert_type(numbers, Node[int])
assert_type(en.wrap(iter([1.5])), Node[float])
assert_type(en.items(Squares()), Node[int])
assert_type(next(numbers), int)
assert_type(list(numbers), list[int])
assert_type(numbers.restore((0, 1)), int)
assert_type(numbers.clone(), Node[int])
a_torchdata_node: BaseNode[int] = numbers
of_a_wider_type: Node[object] = numbers

assert_type(numbers.batch(2), Node[list[int]])
assert_type(numbers.batch(2, collate=mean), Node[float])
assert_type(numbers.batch(2, drop_last=True).map(len).batch(3), Node[list[int]])
assert_type(numbers.batch(2).map(length_of), Node[int])
assert_type(numbers.blend(numbers, weights=[1, 2]), Node[int])
assert_type(en.blend(numbers, numbers), Node[int])
assert_type(en.blend_epochized({numbers: 2}), Node[int])
assert_type(numbers.mix_batches(numbers, size=2), Node[list[int]])
assert_type(numbers.concat(numbers), Node[int])
assert_type(en.concat(numbers, texts), Node[int | str])
assert_type(samples.cook(text_of), Node[str])
assert_type(samples.cook(en.Cooker(text_of, {"kind": "web"}), text_of, aux={"texts": {}}), Node[str])
assert_type(samples.cook(words_of), Node[str])
assert_type(samples.decode(image="rgb8"), Node[dict[str, Any]])
assert_type(numbers.epochize(5), Node[int])
assert_type(numbers.filter(lambda value: value > 1), Node[int])
assert_type(numbers.flat_map(letters), Node[str])
assert_type(numbers.flat_map(scattered, rng=True), Node[bool])
assert_type(numbers.limit(2), Node[int])
assert_type(numbers.gc(every=100), Node[int])
assert_type(numbers.log(100, label="train", to=print), Node[int])
assert_type(numbers.map(str), Node[str])
assert_type(numbers.map(letters), Node[str])
assert_type(numbers.map(lambda value: value / 2), Node[float])
assert_type(numbers.map(jitter, rng=True), Node[float])
assert_type(numbers.map(str, rng="global", pure=False, on_error="skip"), Node[str])
assert_type(numbers.parallel_map(str, workers=4, method="process"), Node[str])
assert_type(numbers.parallel_map(jitter, rng=True), Node[float])
assert_type(numbers.prefetch(), Node[int])
assert_type(numbers.repeat(), Node[int])
assert_type(numbers.repeat(1.5), Node[int])
assert_type(numbers.shuffle(100, seed=3), Node[int])
assert_type(numbers.skip(1), Node[int])
assert_type(numbers.slice_window(3, step=2), Node[tuple[int, ...]])
assert_type(texts.sort_window(100, len), Node[str])
assert_type(numbers.subset("0%", "50%"), Node[int])
assert_type(samples.tag(subflavors={"kind": "web"}), Node[dict[str, bytes | str]])
assert_type(numbers.tap(log), Node[int])
assert_type(numbers.watchdog(60, on_timeout="raise"), Node[int])
assert_type(numbers.group_by(str, 2), Node[list[int]])
assert_type(numbers.group_by(str, 2, collate=mean), Node[float])
assert_type(texts.pack_to(9, length=len), Node[list[str]])
assert_type(texts.pack_to(9, length=len, combine=joined), Node[str])
assert_type(texts.pack_to(9, length=len, encode=str.encode), Node[list[Any]])
assert_type(texts.pack(select=pairs_of, buffer_size=4), Node[list[str]])
assert_type(texts.pack(select=pairs_of, buffer_size=4, combine=joined), Node[str])
assert_type(texts.pack(select=pairs_of, buffer_size=4, combine=letters_of), Node[str])
assert_type(numbers.batch(2).unbatch(), Node[int])
assert_type(texts.unbatch(), Node[str])
assert_type(numbers.with_keys(), Node[tuple[int, Key]])
assert_type(samples.join(samples, joiner=shorter), Node[int])
assert_type(samples.resolve(), Node[Any])
assert_type(numbers.zip(texts), Node[tuple[int, str]])
assert_type(en.zip(numbers, texts), Node[tuple[int, str]])
assert_type(en.zip(numbers, texts, numbers, strict=True), Node[tuple[int, str, int]])
assert_type(numbers.zip(texts, numbers, texts), Node[tuple[Any, ...]])
assert_type(numbers.loader(num_workers=2), Loader[int])
assert_type(numbers.dataset(), PipelineDataset[int])


class Double(en.Node[int]):
    """A node of a user: its arguments are its configuration fields."""

    source: en.Node[int]
    by: int = 2
    workers: int = en.tuning(default=1)
    taken: int = en.state(int)
    held: en.Buffer = en.buffer()
    table: list[int] = en.shared()
    cache: dict[int, int] = en.scratch(dict)

    def run(self) -> Iterator[tuple[int, Key]]:
        for value, key in self.source.pairs():
            assert_type(value, int)
            yield self.by * value, key


assert_type(Double(numbers, 3, workers=2).batch(2), Node[list[int]])

# What must not pass: pyright reports a comment that is not needed.
numbers.batch()  # pyright: ignore[reportCallIssue]
numbers.batch("2")  # pyright: ignore[reportArgumentType]
numbers.limit(n=2, m=3)  # pyright: ignore[reportCallIssue]
numbers.batch(2, True)  # pyright: ignore[reportCallIssue]
numbers.map(jitter)  # pyright: ignore[reportCallIssue, reportArgumentType]
numbers.map(letters, on_error="skp")  # pyright: ignore[reportCallIssue, reportArgumentType]
numbers.unbatch()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
Double(numbers, taken=3)  # pyright: ignore[reportCallIssue]
numbers.no_such_verb()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
