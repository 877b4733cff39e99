"""The table of cases: several pipelines for every node that is registered.

A new node needs cases here; `test_nodes.py` fails until it has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torchdata.nodes import IterableWrapper, Prefetcher

import energon_nodes as en
from tests.contract import functions as f


@dataclass(frozen=True)
class Case:
    """A pipeline, and what it promises."""

    name: str
    make: Callable[[], en.Node[Any]]
    once: bool = False  # the streams together deliver what one stream delivers
    ordered: bool = True
    unique: bool = True  # restore keys
    lengths: bool = True  # what length() says is exact
    skip: frozenset[str] = field(default_factory=frozenset)
    total: int | None = None  # elements of a pass over all streams
    bytes_per_element: float = 16.0


def numbers(n: int = 23, **options: Any) -> en.Node[int]:
    return en.items(range(n), **options)


def samples(n: int, **options: Any) -> en.Node[dict[str, Any]]:
    return en.items([f.sample(number) for number in range(n)], **options)


def wrapped(**options: Any) -> en.Node[int]:
    return en.wrap(list(range(23)), share="stride", **options)


def shards(**options: Any) -> en.Node[dict[str, Any]]:
    return en.shards(f.tars(), shuffle=True, **options)


# A foreign object is in one place at a time, so clones cannot run beside each other.
ALONE = frozenset({"copies", "loader", "topologies", "streams", "keys"})

CASES = [
    # ---- sources
    Case("items: in order", numbers, once=True, total=23),
    Case("items: shuffled", lambda: numbers(shuffle=True), once=True, total=23),
    Case("items: shuffled with a seed of their own", lambda: numbers(shuffle=True, seed=7), once=True, total=23),
    Case("items: a fixed epoch", lambda: numbers(shuffle=True, fixed_epoch=True), once=True, total=23),
    Case("items: none", lambda: en.items([]), once=True, total=0),
    Case("items: one", lambda: en.items(["only"]), once=True, total=1),
    Case("items: more than a block", lambda: numbers(1100, shuffle=True).skip(1060)),
    Case("items: some cannot be read", lambda: en.items(f.Broken(23, {0, 5, 6, 22}), on_error="skip"), lengths=False),
    Case("items: samples", lambda: en.items([f.sample(n) for n in range(9)], shuffle=True), once=True, total=9),
    Case("items: a subset", lambda: numbers(shuffle=True, subset=("20%", "80%")), once=True, total=14),
    Case("subset: of a subset", lambda: numbers(50).subset(10, 40).subset(0.5, 1.0).map(f.text), once=True, total=15),
    Case(
        "subset: of shuffled shards",
        lambda: shards(sequence_length=2).shuffle(4).map(f.number_of).subset("50%", "100%"),
        once=True,
        total=12,
    ),
    Case(
        "subset: of a mixture",
        lambda: en.blend(numbers(9, shuffle=True), numbers(7).filter(f.odd)).subset(0.0, 0.5).shuffle(3).batch(2),
        bytes_per_element=60,
    ),
    Case("wrap: an iterable", lambda: wrapped(), skip=frozenset({"copies", "loader", "topologies", "streams", "keys"})),
    Case("wrap: a factory", lambda: en.wrap(f.letters), once=False),
    Case(
        "wrap: a factory, buffered", lambda: en.wrap(f.letters).map(f.double).shuffle(6).batch(2), bytes_per_element=40
    ),
    Case("wrap: an iterator with a state", lambda: en.wrap(f.Countdown(17)), skip=ALONE),
    Case("wrap: a torchdata node", lambda: en.wrap(IterableWrapper(range(17))), skip=ALONE),
    Case(
        "wrap: a torchdata node with a thread",
        lambda: en.wrap(Prefetcher(IterableWrapper(range(17)), 2)),
        skip=ALONE | {"pickle"},
    ),
    Case("shards: three epochs shuffled together", lambda: shards(shuffle_epochs=3), once=True, total=69),
    Case(
        "shards: two epochs, side by side, of a subset",
        lambda: shards(shuffle_epochs=2, sequence_length=4, parallel_sequences=3, subset=(2, 21)),
        once=True,
        total=38,
    ),
    Case("shards: in order", lambda: en.shards(f.tars()), once=True, total=23),
    Case(
        "shards: one order of all samples",
        lambda: en.shards(f.tars(), shuffle=True, sequence_length=1),
        once=True,
        total=23,
    ),
    Case(
        "shards: sequences, side by side", lambda: shards(sequence_length=3, parallel_sequences=2), once=True, total=23
    ),
    Case("shards: sequences over shards", lambda: shards(sequence_length=7).shuffle(4), once=True, total=23),
    Case(
        "shards: a subset of the parts",
        lambda: shards(sequence_length=2, subset=(0.25, 0.75), parts=["txt"]),
        once=True,
    ),
    Case(
        "shards: a fixed epoch, repeated", lambda: shards(sequence_length=2, fixed_epoch=True).repeat(2), unique=False
    ),
    Case(
        "shards: decoded and batched",
        lambda: shards(sequence_length=2).decode().map(f.number_of).batch(3),
        bytes_per_element=60,
    ),
    Case("jsonl: in order", lambda: en.jsonl(f.lines()), once=True, total=23),
    Case(
        "jsonl: one order of all records",
        lambda: en.jsonl(f.lines(), shuffle=True, sequence_length=1),
        once=True,
        total=23,
    ),
    Case(
        "jsonl: sequences, side by side, shuffled",
        lambda: en.jsonl(f.lines(), shuffle=True, sequence_length=3, parallel_sequences=2).shuffle(4),
        once=True,
        total=23,
    ),
    Case("jsonl: damaged lines skipped", lambda: en.jsonl(f.lines(damaged=True), on_error="skip"), lengths=False),
    Case(
        "jsonl: a subset, unparsed, behind a map",
        lambda: en.jsonl(f.lines(), shuffle=True, subset=(0.2, 0.9), parse=False).map(f.number_of).shuffle(3),
        once=True,
    ),
    Case(
        "jsonl: a fixed epoch, repeated",
        lambda: en.jsonl(f.lines(), shuffle=True, fixed_epoch=True).repeat(2),
        unique=False,
    ),
    # ---- one for one
    Case("map", lambda: numbers(shuffle=True).map(f.text), once=True, total=23),
    Case("map: of random numbers", lambda: numbers(shuffle=True).map(f.jitter, rng=True), once=True, total=23),
    Case(
        "map: two of random numbers",
        lambda: numbers(9).map(f.jitter, rng=True).map(f.jitter, rng=True).repeat(2),
        once=True,
        total=18,
    ),
    Case(
        "map: of global random numbers",
        lambda: numbers(9).map(f.draw_globally, rng="global").shuffle(3),
        once=True,
        total=9,
    ),
    Case("map: with a seed of its own", lambda: numbers(9).map(f.jitter, rng=True, seed=3), once=True, total=9),
    Case("map: a function with a state", lambda: numbers(9).map(f.Counter()).shuffle(3), bytes_per_element=40),
    Case("map: impure", lambda: numbers(9).map(f.double, pure=False).shuffle(3), once=True, bytes_per_element=40),
    Case("map: skips", lambda: numbers().map(f.skips_at_five), once=True, lengths=False),
    Case("map: fails and is skipped", lambda: numbers().map(f.fails_at_five, on_error="skip").batch(2), lengths=False),
    Case("tap", lambda: numbers().tap(f.itself), once=True, total=23),
    Case("tap: fails and is skipped", lambda: en.Tap(numbers(), f.skips_at_five), once=True, lengths=False),
    Case("tap: a function with a state", lambda: numbers(9).tap(f.Counter()).batch(2)),
    Case("log", lambda: numbers(shuffle=True).log(4), once=True, total=23),
    Case("log: of batches", lambda: numbers().shuffle(4).log(2).batch(3).log(2, label="batches").shuffle(2)),
    Case("gc", lambda: numbers(9, shuffle=True).gc(1000), once=True, total=9),
    Case("gc: of batches", lambda: numbers(9).map(f.text).batch(2).gc(1000).repeat(2)),
    Case("watchdog", lambda: numbers(shuffle=True).watchdog(60), once=True, total=23),
    Case("watchdog: in the middle", lambda: numbers().shuffle(4).watchdog(60).batch(3).prefetch(2).watchdog(60)),
    Case(
        "watchdog: raises",
        lambda: numbers(9, shuffle=True).shuffle(4).map(f.text).watchdog(60, on_timeout="raise").batch(2),
    ),
    Case("with_keys", lambda: numbers(shuffle=True).with_keys(), once=True, total=23),
    Case("with_keys: of batches", lambda: numbers().batch(3).with_keys().shuffle(3), bytes_per_element=60),
    Case(
        "parallel_map: threads",
        lambda: numbers().parallel_map(f.double, workers=2),
        once=True,
        total=23,
        bytes_per_element=60,
    ),
    Case(
        "parallel_map: threads with random numbers",
        lambda: numbers(9, shuffle=True).parallel_map(f.jitter, workers=2, rng=True, ahead=5).batch(2),
        bytes_per_element=60,
    ),
    Case(
        "parallel_map: out of order",
        lambda: numbers(9).parallel_map(f.double, workers=2, in_order=False, ahead=3),
        ordered=False,
        once=True,
        total=9,
        bytes_per_element=60,
    ),
    Case(
        "parallel_map: fails and is skipped",
        lambda: numbers(9).parallel_map(f.fails_at_five, workers=2, on_error="skip"),
        lengths=False,
    ),
    Case("prefetch", lambda: numbers().prefetch(3), once=True, total=23, bytes_per_element=60),
    Case(
        "prefetch: of a shuffle of batches",
        lambda: numbers(shuffle=True).batch(2).shuffle(3).prefetch(2),
        bytes_per_element=60,
    ),
    Case("prefetch: two", lambda: numbers(9).prefetch(2).batch(2).prefetch(1), bytes_per_element=60),
    Case(
        "cook: by subflavors and parts",
        lambda: (
            en.blend(
                samples(9, shuffle=True).tag(subflavors={"kind": "a"}),
                samples(7).tag(subflavors={"kind": "b"}),
            )
            .shuffle(4)
            .cook(
                en.Cooker(f.number_of, {"kind": "a"}, where=f.is_even),
                en.Cooker(f.caption_of, {"kind": "b"}, has_parts=["caption"]),
                f.number_and_draw,
                aux={"names": {"prefix": "it is "}},
                rng=True,
            )
            .batch(2)
            .shuffle(2)
        ),
        bytes_per_element=80,
    ),
    Case(
        "cook: some without a cooker",
        lambda: samples(12).cook(en.Cooker(f.number_of, where=f.is_even), on_error="skip").shuffle(3),
        once=True,
        total=6,
        lengths=False,
    ),
    Case("cook: skips", lambda: samples(9).cook(en.Cooker(f.number_of, where=f.is_even), f.skips), lengths=False),
    Case(
        "cook: generator functions",
        lambda: (
            samples(9, shuffle=True).cook(en.Cooker(f.letters_of, where=f.is_even), f.number_of, rng=True).shuffle(3)
        ),
        bytes_per_element=60,
    ),
    Case("cook: a function with a state", lambda: samples(9).cook(f.Counter(), pure=None).map(f.second).batch(2)),
    Case("tag", lambda: samples(9, shuffle=True).tag(subflavors={"a": 1}).shuffle(3), once=True, total=9),
    Case(
        "tag: twice",
        lambda: shards().tag(subflavors={"a": 1}).tag(subflavors={"b": [2]}).batch(3),
        bytes_per_element=60,
    ),
    # ---- some for some
    Case("filter", lambda: numbers(shuffle=True).filter(f.odd), once=True, total=11),
    Case("filter: none left", lambda: numbers().filter(f.never), once=True, total=0),
    Case("filter: in batches", lambda: numbers().filter(f.not_third).batch(3)),
    Case("flat_map: none, one or two", lambda: numbers(12, shuffle=True).flat_map(f.copies), once=True),
    Case(
        "flat_map: of random numbers",
        lambda: numbers(12).flat_map(f.scatter, rng=True).shuffle(4),
        bytes_per_element=60,
    ),
    Case("flat_map: impure", lambda: numbers(6).flat_map(f.twice, pure=False).shuffle(3), bytes_per_element=60),
    Case("flat_map: fails in the middle", lambda: numbers(12).flat_map(f.fails_in_the_middle, on_error="skip")),
    Case("flat_map: a function with a state", lambda: numbers(12).flat_map(f.Spread()), bytes_per_element=60),
    Case(
        "map: a generator function with a state",
        lambda: numbers(12, shuffle=True).map(f.Spread()).shuffle(4).batch(2),
        bytes_per_element=90,
    ),
    Case("map: a generator function", lambda: numbers(12, shuffle=True).map(f.copies).shuffle(4), bytes_per_element=60),
    Case("map: a generator function of random numbers", lambda: numbers(12).map(f.scatter, rng=True).batch(2)),
    Case("filter: a predicate with a state", lambda: numbers().filter(f.Nth()).batch(2), bytes_per_element=40),
    Case("unbatch", lambda: numbers().batch(4).unbatch(), once=True, total=23, bytes_per_element=80),
    Case(
        "unbatch: mixed batches",
        lambda: numbers(shuffle=True).batch(4).shuffle(2).unbatch().shuffle(3),
        once=True,
        bytes_per_element=80,
    ),
    Case("batch", lambda: numbers(shuffle=True).batch(4), bytes_per_element=60),
    Case("batch: of one", lambda: numbers(7).batch(1), total=7),
    Case("batch: without a short one", lambda: numbers().batch(4, drop_last=True)),
    Case("batch: larger than the data", lambda: numbers(3).batch(9)),
    Case("batch: collated", lambda: numbers(shuffle=True).batch(4, collate=f.stack).shuffle(2), bytes_per_element=80),
    Case("batch: collate fails", lambda: numbers().batch(2, collate=f.fails_at_five, on_error="skip"), lengths=False),
    Case("batch: of batches", lambda: numbers().batch(2).batch(3), bytes_per_element=60),
    Case("slice_window", lambda: numbers(shuffle=True).slice_window(3), bytes_per_element=60),
    Case("slice_window: steps", lambda: numbers().map(f.double).slice_window(4, 3, drop_last=False)),
    Case("slice_window: gaps", lambda: numbers(shuffle=True).shuffle(4).slice_window(2, 5, drop_last=False).shuffle(3)),
    Case("slice_window: larger than the data", lambda: numbers(3).slice_window(9)),
    Case("slice_window: of windows", lambda: numbers().slice_window(2).slice_window(2).unbatch()),
    Case("sort_window", lambda: numbers(shuffle=True).sort_window(6, f.digits), once=True, total=23),
    Case(
        "sort_window: in front of shuffled batches",
        lambda: numbers(shuffle=True).map(f.text).sort_window(6, f.digits, reverse=True).batch(2).shuffle(2),
        bytes_per_element=60,
    ),
    Case(
        "sort_window: fails and is skipped",
        lambda: numbers(shuffle=True).sort_window(5, f.fails_at_five, on_error="skip").shuffle(3),
        lengths=False,
        once=True,
    ),
    # ---- counts
    Case("limit", lambda: numbers(shuffle=True).limit(11), once=True, total=11),
    Case("limit: none", lambda: numbers().limit(0), once=True, total=0),
    Case("limit: more than there are", lambda: numbers(9).limit(100), once=True, total=9),
    Case("limit: repeated", lambda: numbers(shuffle=True).limit(5).repeat(2), once=True, total=10),
    Case("limit: of a pass without end", lambda: numbers(9, shuffle=True).repeat().limit(13), total=13),
    Case("skip", lambda: numbers(shuffle=True).skip(11), once=True, total=12),
    Case("skip: none", lambda: numbers().skip(0), once=True, total=23),
    Case("skip: all", lambda: numbers(9).skip(100), once=True, total=0),
    Case("skip: and limit", lambda: numbers().skip(4).limit(10).batch(2)),
    Case("repeat: twice", lambda: numbers(9, shuffle=True).repeat(2), once=True, total=18),
    # The share that a stream has of a part of a pass differs by one from pass to pass; the total does not.
    Case("repeat: one and a half times", lambda: numbers(9, shuffle=True).repeat(1.5), total=13, lengths=False),
    Case("repeat: a third", lambda: numbers(10).repeat(1 / 3), total=3, lengths=False),
    Case("repeat: not at all", lambda: numbers(9).repeat(0), once=True, total=0),
    Case("repeat: without end", lambda: numbers(7, shuffle=True).repeat()),
    Case("repeat: one and a half times what is left", lambda: numbers(9).filter(f.odd).repeat(1.5)),
    Case(
        "repeat: of a fixed epoch",
        lambda: numbers(5, shuffle=True, fixed_epoch=True).repeat(2),
        once=True,
        total=10,
        unique=False,
    ),
    Case("epochize", lambda: numbers(9, shuffle=True).repeat().epochize(13), total=13),
    Case("epochize: a source that ends", lambda: numbers(10, shuffle=True).epochize(4)),
    Case(
        "epochize: of batches",
        lambda: numbers(9, shuffle=True).repeat().shuffle(4).batch(2).epochize(5),
        total=5,
        bytes_per_element=60,
    ),
    # ---- order
    Case("shuffle", lambda: numbers().shuffle(7), once=True, total=23),
    Case("shuffle: of one", lambda: numbers(9).shuffle(1), once=True, total=9),
    Case("shuffle: larger than the data", lambda: numbers(9).shuffle(50), once=True, total=9),
    Case("shuffle: with a seed of its own", lambda: numbers(9).shuffle(4, seed=5), once=True, total=9),
    Case("shuffle: two", lambda: numbers(shuffle=True).shuffle(5).shuffle(5), once=True, total=23),
    Case("shuffle: drained in each pass", lambda: numbers(9).shuffle(4).repeat(2), once=True, total=18),
    Case("shuffle: over passes", lambda: numbers(9).repeat().shuffle(4).limit(20), total=20),
    Case(
        "shuffle: keys of many shapes",
        lambda: en.concat(numbers(9), numbers(6).batch(2)).shuffle(5),
        bytes_per_element=60,
    ),
    # ---- groups and packs
    Case("group_by", lambda: numbers(shuffle=True).group_by(f.remainder, 3), bytes_per_element=60),
    Case(
        "group_by: sizes of the criterion, collated",
        lambda: numbers(shuffle=True).group_by(f.remainder_and_size, collate=f.total_of).shuffle(2),
        bytes_per_element=120,
    ),
    Case(
        "group_by: few are open, short ones are dropped",
        lambda: numbers(shuffle=True).group_by(f.size_of, 2, max_open=3, leftovers="drop"),
        bytes_per_element=60,
    ),
    Case(
        "group_by: over passes, of jittered elements",
        lambda: numbers(9).map(f.jitter, rng=True).repeat().shuffle(4).group_by(f.remainder, 2, max_open=2).epochize(7),
        bytes_per_element=60,
    ),
    Case(
        "group_by: criterion fails and is skipped",
        lambda: numbers().group_by(f.fails_at_five, 2, collate=f.fails_at_five, on_error="skip", max_open=4),
        bytes_per_element=60,
    ),
    Case(
        "group_by: of what has no keys to restore by",
        lambda: en.wrap(f.letters).group_by(f.vowel, 3).shuffle(2),
        bytes_per_element=120,
    ),
    Case("pack", lambda: numbers(shuffle=True).pack(select=f.pairs_of_three, buffer_size=7)),
    Case(
        "pack: into any number of outputs, members encoded at random",
        lambda: (
            numbers(shuffle=True)
            .pack(select=f.every_second, by="position", buffer_size=5, encode=f.jitter, rng=True, combine=f.parts_of)
            .shuffle(3)
        ),
        bytes_per_element=120,
    ),
    Case(
        "pack: what is not selected is dropped",
        lambda: numbers().shuffle(4).pack(select=f.pairs_of_three, combine=f.total, buffer_size=5, unselected="drop"),
    ),
    Case(
        "pack: refusing, and failing members",
        lambda: numbers().pack(
            select=f.refuses_small_buffers, buffer_size=4, encode=f.fails_at_five, combine=f.not_third, on_error="skip"
        ),
    ),
    Case(
        "pack: of what has no keys to restore by",
        lambda: en.wrap(f.letters).pack(select=f.every_second, by="position", combine=f.parts_of, buffer_size=5),
        bytes_per_element=60,
    ),
    Case(
        "pack: with a state",
        lambda: numbers(9).pack(select=f.pairs_of_three, encode=f.Counter(), buffer_size=4).shuffle(2),
        bytes_per_element=160,
    ),
    Case("pack_to", lambda: numbers(shuffle=True).pack_to(12, length=f.size_of, buffer_size=9)),
    Case(
        "pack_to: in order, at most three",
        lambda: numbers(shuffle=True).pack_to(
            12, length=f.size_of, strategy="sequential", max_per_pack=3, encode=f.double, combine=f.total
        ),
    ),
    Case(
        "pack_to: too long ones are alone",
        lambda: numbers(shuffle=True).pack_to(
            7, length=f.size_of, buffer_size=6, oversize="alone", strategy="first_fit"
        ),
    ),
    Case(
        "pack_to: too long ones are shortened, into any number of outputs",
        lambda: (
            numbers()
            .shuffle(5)
            .pack_to(6, length=f.size_of, buffer_size=6, oversize=f.halved, strategy="knapsack", combine=f.parts_of)
            .shuffle(3)
        ),
        bytes_per_element=120,
    ),
    Case(
        "pack_to: fails and is skipped",
        lambda: numbers().pack_to(
            8,
            length=f.fails_to_measure,
            buffer_size=6,
            encode=f.fails_at_five,
            combine=f.fails_at_five,
            on_error="skip",
        ),
    ),
    Case(
        "pack_to: keys of many shapes, over passes",
        lambda: (
            en.concat(numbers(9), numbers(6).batch(2))
            .repeat()
            .pack_to(20, length=f.size_of, buffer_size=8, encode=f.jitter, rng=True)
            .epochize(5)
        ),
        bytes_per_element=60,
    ),
    Case(
        "pack_to: of what has no keys to restore by",
        lambda: (
            en.wrap(f.letters).map(f.double).pack_to(6, length=len, buffer_size=5, strategy="sequential").shuffle(2)
        ),
        bytes_per_element=80,
    ),
    # ---- lazy values, which wait in buffers and are read behind them
    Case(
        "lazy: in a shuffle",
        lambda: numbers(shuffle=True).cook(f.with_text, aux={"texts": f.texts()}).shuffle(6).resolve(),
        once=True,
        total=23,
    ),
    Case(
        "lazy: in packs, encoded when they are due, by way of a small pool",
        lambda: (
            numbers(shuffle=True)
            .cook(f.with_text, aux={"texts": f.texts()}, cache=f.pool())
            .shuffle(4)
            .pack_to(30, length=f.number_and_letters, buffer_size=9, encode=en.resolve, combine=f.parts_of)
            .shuffle(2)
        ),
        bytes_per_element=120,
    ),
    Case(
        "lazy: saved by store and name, behind what is not pure",
        lambda: (
            numbers(9)
            .cook(f.with_text, aux={"texts": f.texts()}, cache=f.pool(), pure=False)
            .shuffle(4)
            .resolve()
            .map(f.fails_at_five, on_error="skip")
        ),
        lengths=False,
        bytes_per_element=400,
    ),
    # ---- several sources
    Case("concat", lambda: en.concat(numbers(5), en.items("abc"), numbers(4, shuffle=True)), once=True, total=12),
    Case("concat: with nothing between", lambda: en.concat(numbers(3), en.items([]), numbers(2)), once=True, total=5),
    Case("concat: itself", lambda: (lambda one: one.concat(one))(numbers(5, shuffle=True)), once=True, total=10),
    Case("zip", lambda: en.zip(numbers(9), en.items("abcdefgh", shuffle=True))),
    Case(
        "zip: three, one behind a buffer",
        lambda: en.zip(numbers(9), numbers(9).shuffle(4), numbers(9).map(f.jitter, rng=True)),
    ),
    Case(
        "zip: strict",
        lambda: en.zip(numbers(9), numbers(9, shuffle=True), strict=True),
        total=9,
        skip=frozenset({"errors"}),
    ),
    Case("zip: itself", lambda: (lambda one: en.zip(one, one))(numbers(6)), once=True, total=6),
    Case("blend", lambda: en.blend(numbers(9), en.items("abcdefg", shuffle=True), weights=[2, 1]), once=True, total=16),
    Case("blend: stops", lambda: en.blend(numbers(9), numbers(7, shuffle=True), on_end="stop")),
    Case("blend: repeats", lambda: en.blend(numbers(5, shuffle=True), numbers(3), weights=[1, 3], on_end="repeat")),
    Case("blend: repeats, with an empty one", lambda: en.blend(numbers(5), en.items([]), on_end="repeat").limit(17)),
    Case("blend: of one", lambda: en.blend(numbers(5)), once=True, total=5),
    Case(
        "blend: of blends",
        lambda: en.blend(en.blend(numbers(5), numbers(6)), numbers(4).shuffle(2), weights=[3, 1]),
        once=True,
        total=15,
    ),
    Case(
        "join",
        lambda: en.items(f.named(23), shuffle=True).join(en.items(f.named(23, 7)), joiner=f.joined_sum),
        once=True,
        total=23,
    ),
    Case(
        "join: of three, some are missing",
        lambda: en.items(f.named(23)).join(
            en.items(f.named(17, 5)), en.items(f.named(11, 3)), nonmatch=["skip", "none"], joiner=f.joined_sum, ahead=4
        ),
        once=True,
        total=17,
    ),
    Case(
        "join: random draws on both sides, behind a buffer",
        lambda: (
            en.items(f.named(23), shuffle=True)
            .map(f.jittered, rng=True)
            .join(en.items(f.named(23, 7)).map(f.jittered, rng=True), joiner=f.joined_sum, ahead=5)
            .shuffle(6)
            .batch(2)
        ),
    ),
    Case(
        "join: shards",
        lambda: shards().join(en.shards(f.tars(), parts=[]), joiner=f.first_of, ahead=7),
        once=True,
        total=23,
    ),
    Case(
        "blend: spread evenly",
        lambda: en.blend(numbers(9), en.items("abcdefg", shuffle=True), weights=[2, 1], mixing="smooth"),
        once=True,
        total=16,
    ),
    Case(
        "blend: by length",
        lambda: en.blend(numbers(9), numbers(7, shuffle=True), en.items([]), weights="length"),
        once=True,
        total=16,
    ),
    Case(
        "blend: by length, some fail",
        lambda: en.blend(
            en.items(f.Broken(9, {2, 3}), on_error="skip"), numbers(7), weights="length", mixing="random"
        ).shuffle(3),
        lengths=False,
    ),
    Case(
        "blend: so many times each, spread evenly",
        lambda: en.blend_epochized({numbers(5): 2.5, numbers(3, shuffle=True): 1}, mixing="smooth"),
        lengths=False,
        total=15,
    ),
    Case(
        "blend: so many times each",
        lambda: en.blend_epochized({numbers(5, shuffle=True): 2.5, numbers(3): 1}),
        lengths=False,
    ),
    Case(
        "blend: of batches",
        lambda: numbers(9, shuffle=True).mix_batches(numbers(8).map(f.double), size=2, weights=[2, 1]),
    ),
    Case(
        "repeat: a third, several passes of parts",
        lambda: numbers(8, shuffle=True).shuffle(3).repeat(0.3),
        lengths=False,
    ),
    Case("blend: with a seed of its own", lambda: en.blend(numbers(5), numbers(6), seed=4), once=True, total=11),
    # ---- deep
    Case(
        "deep: a training pipeline",
        lambda: (
            numbers(30, shuffle=True)
            .shuffle(6)
            .map(f.jitter, rng=True)
            .filter(f.not_third)
            .flat_map(f.copies)
            .shuffle(5)
            .batch(3)
            .repeat()
            .epochize(7)
        ),
        bytes_per_element=80,
    ),
    Case(
        "deep: a mixture",
        lambda: (
            en.blend(
                en.zip(numbers(9), numbers(9).shuffle(3)).batch(2),
                en.concat(numbers(4, shuffle=True), en.items("abc")).repeat(2).shuffle(4),
                weights=[1, 2],
                on_end="repeat",
            )
            .map(f.jitter, rng=True)
            .shuffle(4)
            .epochize(11)
        ),
        bytes_per_element=100,
    ),
    Case(
        "deep: ahead in threads",
        lambda: (
            numbers(12, shuffle=True)
            .shuffle(4)
            .prefetch(2)
            .parallel_map(f.jitter, rng=True)
            .batch(2)
            .shuffle(2)
            .prefetch(2)
        ),
        bytes_per_element=100,
    ),
]
