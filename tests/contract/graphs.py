"""Random graphs for Hypothesis: chains of at least six verbs over random sources, with branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import energon_nodes as en
from tests.contract import functions as f

Recipe = tuple[Any, ...]
"""A graph as plain data, so that Hypothesis can print and shrink it: a source, then verbs with their settings."""

SOURCES: dict[str, Callable[[int], en.Node[Any]]] = {
    "items": lambda n: en.items(range(n)),
    "shuffled": lambda n: en.items(range(n), shuffle=True),
    "seeded": lambda n: en.items(range(n), shuffle=True, seed=n),
    "wrapped": lambda n: en.wrap(f.Strided(n)),
}

# Verbs that keep each element of the source, whatever the stream, or decide by the element alone.
EXACT: dict[str, Callable[[en.Node[Any], int], en.Node[Any]]] = {
    "map": lambda node, n: node.map(f.pair),
    "map_random": lambda node, n: node.map(f.jitter, rng=True),
    "map_seeded": lambda node, n: node.map(f.jitter, rng=True, seed=n),
    "map_skips": lambda node, n: node.map(f.skips_at_five),
    "map_fails": lambda node, n: node.map(f.fails_at_five, on_error="skip"),
    "tap": lambda node, n: node.tap(f.itself),
    "with_keys": lambda node, n: node.with_keys(),
    "parallel_map": lambda node, n: node.parallel_map(f.jitter, rng=True, workers=2, ahead=n),
    "prefetch": lambda node, n: node.prefetch(n),
    "filter": lambda node, n: node.filter(f.not_third),
    "flat_map": lambda node, n: node.flat_map(f.copies),
    "flat_map_random": lambda node, n: node.flat_map(f.scatter, rng=True),
    "flat_map_fails": lambda node, n: node.flat_map(f.fails_in_the_middle, on_error="skip"),
    "shuffle": lambda node, n: node.shuffle(n),
    "repeat": lambda node, n: node.repeat(2),
}
# The same in chains whose elements depend on what a stream has.
GATHERING: dict[str, Callable[[en.Node[Any], int], en.Node[Any]]] = {
    "batch": lambda node, n: node.batch(n),
    "batch_collated": lambda node, n: node.batch(n, collate=f.total_of, drop_last=n % 2 == 0),
    "unbatch": lambda node, n: node.batch(n).unbatch(),
    "unbatch_mixed": lambda node, n: node.batch(n).shuffle(2).unbatch(),
    "limit": lambda node, n: node.limit(4 * n),
    "skip": lambda node, n: node.skip(n),
    "repeat_fraction": lambda node, n: node.repeat(1 + n / 4),
    "limit_endless": lambda node, n: node.repeat().limit(3 * n),
    "epochize": lambda node, n: node.repeat().epochize(3 * n),
    "epochize_ended": lambda node, n: node.epochize(2 * n),
    "shuffle_over_passes": lambda node, n: node.repeat().shuffle(n).limit(4 * n),
    "group_by": lambda node, n: node.group_by(f.remainder, n, max_open=2),
    "pack": lambda node, n: node.pack(select=f.pairs_of_three, combine=f.parts_of, buffer_size=2 * n + 1),
    "pack_to": lambda node, n: node.pack_to(9 + n, length=f.size_of, buffer_size=2 * n, encode=f.jitter, rng=True),
    "pack_in_order": lambda node, n: node.pack_to(n, length=f.size_of, oversize="alone", strategy="sequential"),
}
EXACT_BRANCHES: dict[str, Callable[[en.Node[Any], en.Node[Any], int], en.Node[Any]]] = {
    "concat": lambda left, right, n: en.concat(left, right),
    "concat_turned": lambda left, right, n: en.concat(right, left),
    "blend": lambda left, right, n: en.blend(left, right, weights=[1, n]),
}
GATHERING_BRANCHES: dict[str, Callable[[en.Node[Any], en.Node[Any], int], en.Node[Any]]] = {
    "zip": lambda left, right, n: en.zip(left, right),
    "zip_diamond": lambda left, right, n: en.zip(left, right, left),
    "blend_stops": lambda left, right, n: en.blend(left, right, on_end="stop", seed=n),
    "blend_repeats": lambda left, right, n: en.blend(left, right, weights=[n, 2], on_end="repeat").limit(5 * n),
}
VERBS = EXACT | GATHERING
BRANCHES = EXACT_BRANCHES | GATHERING_BRANCHES


@st.composite
def recipes(draw: st.DrawFn, least: int = 6, most: int = 9, exact: bool = False, branches: int = 2) -> Recipe:
    """Draw a graph whose longest path has at least `least` verbs; with `exact`, only verbs that lose nothing."""
    verbs = sorted(EXACT if exact else VERBS)
    joins = sorted(EXACT_BRANCHES if exact else BRANCHES)
    # A factory makes the part of a stream, and its keys and so its draws are those of the stream.
    sources = sorted(set(SOURCES) - ({"wrapped"} if exact else set()))
    steps: list[Any] = [(draw(st.sampled_from(sources)), draw(st.integers(0, 14)))]
    for _ in range(draw(st.integers(least, most))):
        n = draw(st.integers(1, 5))
        if branches and draw(st.integers(0, 5)) == 5:
            branches -= 1
            steps.append((draw(st.sampled_from(joins)), n, draw(recipes(0, 3, exact=exact, branches=0))))
        else:
            steps.append((draw(st.sampled_from(verbs)), n))
    return tuple(steps)


def build(recipe: Recipe) -> en.Node[Any]:
    """Build the graph of a recipe."""
    (source, size), *steps = recipe
    node = SOURCES[source](size)
    for name, n, *branch in steps:
        node = BRANCHES[name](node, build(branch[0]), n) if branch else VERBS[name](node, n)
    return node
