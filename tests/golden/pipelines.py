"""The pipelines whose states and orders are kept in files: each kind of node, source, key and buffer is among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import energon_nodes as en
from tests.contract import functions as f

PIPELINES: dict[str, Callable[[], en.Node[Any]]] = {
    "shuffled items": lambda: en.items(range(17), shuffle=True),
    "shuffle": lambda: en.items(range(17), shuffle=True).shuffle(6),
    "batches, shuffled": lambda: en.items(range(17)).batch(2).shuffle(4),
    "random numbers": lambda: en.items(range(9), shuffle=True).map(f.raw, rng=True),
    "flat map in the middle of an element": lambda: en.items(range(9)).flat_map(f.twice).shuffle(3),
    "random number of elements": lambda: en.items(range(9)).flat_map(f.raw_number, rng=True),
    "repeat, epochs": lambda: en.items(range(7), shuffle=True).repeat().epochize(9),
    "repeat by a fraction": lambda: en.items(range(7), shuffle=True).repeat(1.5),
    "limit and skip": lambda: en.items(range(17), shuffle=True).skip(3).limit(9),
    "concat": lambda: en.concat(en.items(range(3)), en.items("abc", shuffle=True)),
    "zip": lambda: en.zip(en.items(range(9)).shuffle(3), en.items("abcdefghi", shuffle=True)),
    "blend": lambda: en.blend(en.items(range(9)), en.items("abcdefg", shuffle=True), weights=[2, 1]),
    "blend that repeats": lambda: en.blend(
        en.items(range(3)), en.items("ab"), weights=[0.3, 0.7], on_end="repeat"
    ).limit(17),
    "blend, spread evenly": lambda: en.blend(
        en.items(range(9)), en.items("abcdefg", shuffle=True), weights=[2, 1], mixing="smooth"
    ),
    "blend, so many times each": lambda: en.blend_epochized({en.items(range(5), shuffle=True): 1.5, en.items("ab"): 2}),
    "join": lambda: en.items(f.named(11), shuffle=True).join(en.items(f.named(11, 3)), joiner=f.joined_sum).shuffle(3),
    "groups": lambda: en.items(range(17), shuffle=True).group_by(f.digits, batch_size=2),
    "packs": lambda: en.items(range(1, 18), shuffle=True).pack_to(20, length=f.itself, buffer_size=6),
    "shards, two epochs together": lambda: en.shards(f.tars(), shuffle=True, sequence_length=3, shuffle_epochs=2).map(
        f.number_of
    ),
    "parallel map": lambda: en.items(range(9)).parallel_map(f.raw, rng=True, ahead=4),
    "function with a state": lambda: en.items(range(9)).map(f.Counter()).shuffle(3),
    "values in a buffer": lambda: en.wrap(f.letters).map(f.pair).shuffle(4),
    "arrays in a buffer": lambda: (
        en.items([f.sample(n) for n in range(9)]).map(f.itself, pure=False).shuffle(4).map(f.number_of)
    ),
    "shards": lambda: en.shards(f.tars(), shuffle=True, sequence_length=3, parallel_sequences=2).map(f.number_of),
    "shards, shuffled and batched": lambda: (
        en.shards(f.tars(), shuffle=True, sequence_length=2).shuffle(5).map(f.number_of).batch(3)
    ),
    "a training pipeline": lambda: (
        en.blend(
            en.items(range(20), shuffle=True).shuffle(5), en.items(range(100, 109)), weights=[3, 1], on_end="repeat"
        )
        .map(f.raw, rng=True)
        .filter(f.not_third)
        .batch(2)
        .shuffle(3)
        .epochize(8)
    ),
}
