"""A state fits one graph, and says where another differs; pictures of graphs."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import energon_nodes as en
from energon_nodes.core import graph


def twice(value: int) -> int:
    return 2 * value


def base(size: int = 4, n: int = 10, *, source: Any = None, **options: Any) -> en.Node[Any]:
    return (source or en.items(range(20))).shuffle(size, **options).map(twice).limit(n).batch(2)


DIFFERENCES: dict[str, tuple[Callable[[], en.Node[Any]], str]] = {
    "another node at the root": (
        lambda: base().unbatch(),
        r"holds a Batch where this pipeline has a FlatMap \(at the root\)",
    ),
    "another node in the middle": (
        lambda: en.items(range(20)).shuffle(4).filter(bool).limit(10).batch(2),
        r"holds a Map where this pipeline has a Filter \(at source\.source\)",
    ),
    "another buffer size": (
        lambda: base(size=5),
        r"saved with size=4 where this pipeline has size=5 \(Shuffle at source\.source\.source\)",
    ),
    "another limit": (lambda: base(n=11), r"saved with n=10 where this pipeline has n=11 \(Limit at source\)"),
    "another seed of a node": (lambda: base(seed=3), r"saved with seed=None where this pipeline has seed=3 \(Shuffle"),
    "more data": (
        lambda: base(source=en.items(range(21))),
        r"saved with elements=20 where this pipeline has elements=21 \(Items at source\.source\.source\.source\)",
    ),
    "shuffle switched on": (
        lambda: base(source=en.items(range(20), shuffle=True)),
        r"saved with shuffled=False where this pipeline has shuffled=True \(Items",
    ),
}


@pytest.mark.parametrize(("make", "message"), DIFFERENCES.values(), ids=list(DIFFERENCES))
def test_a_state_of_another_graph_is_refused_with_place_and_both_values(
    make: Callable[[], en.Node[Any]], message: str
) -> None:
    state = base().state_dict()
    with pytest.raises(en.StateError, match=message):
        make().reset(state)


def test_a_difference_in_a_branch_names_the_branch() -> None:
    def make(size: int) -> en.Node[Any]:
        return en.concat(en.items([1]), en.items([2, 3]).batch(size)).map(str)

    with pytest.raises(en.StateError, match=r"size=1 where this pipeline has size=2 \(Batch at source\.sources\[1\]\)"):
        make(2).reset(make(1).state_dict())


def test_more_branches_are_refused_with_both_numbers() -> None:
    two, three = en.concat(*[en.items([1])] * 2), en.concat(*[en.items([1])] * 3)
    with pytest.raises(
        en.StateError, match=r"the checkpoint's Concat has 2 sources, this pipeline's 3 \(at the root\)"
    ):
        three.reset(two.state_dict())


def test_other_weights_of_a_blend_are_refused_whatever_holds_them() -> None:
    def make(weights: Any) -> en.Node[Any]:
        return en.blend(en.items([1]), en.items([2]), weights=weights)

    state = make(np.array([1, 2])).state_dict()
    make([1.0, 2.0]).reset(state)
    with pytest.raises(en.StateError, match=r"weights=\(1\.0, 2\.0\) where this pipeline has weights=\(1\.0, 3\.0\)"):
        make((1, 3)).reset(state)


class Mode(enum.IntEnum):
    FAST = 1
    SLOW = 2


class Configured(en.Node[Any]):
    source: en.Node[Any]
    setting: Any = None

    def run(self):  # type: ignore[no-untyped-def]
        yield from self.source.pairs()


@pytest.mark.parametrize(
    ("saved", "present"),
    [(Mode.FAST, Mode.SLOW), (np.int64(3), np.int64(4)), ({"a": 1}, {"a": 2}), ([1, [2]], [1, [3]]), (True, 1.5)],
    ids=repr,
)
def test_settings_of_every_plain_kind_are_compared(saved: Any, present: Any) -> None:
    state = Configured(en.items([1]), saved).state_dict()
    Configured(en.items([1]), saved).reset(state)
    with pytest.raises(en.StateError, match="was saved with setting="):
        Configured(en.items([1]), present).reset(state)


def test_functions_workers_and_prefetch_may_change() -> None:
    def make(function: Callable[[int], Any], workers: int, ahead: int) -> en.Node[Any]:
        return en.items(range(9)).parallel_map(function, workers=workers).prefetch(ahead).batch(2, collate=function)

    state = make(str, 1, 1).state_dict()
    make(repr, 2, 3).reset(state)


def test_a_state_of_another_seed_or_stream_is_refused() -> None:
    state = base().state_dict()
    for context, message in (
        (en.Context(seed=1), "saved with seed=0, this run has 1"),
        (en.Context(stream=1, streams=2), "saved with stream=0, this run has 1"),
        (en.Context(streams=2), "saved with streams=1, this run has 2"),
    ):
        node = base()
        node.bind(context)
        with pytest.raises(en.StateError, match=message):
            node.reset(state)


def test_a_state_of_another_format_is_refused() -> None:
    state = base().state_dict() | {"format": 99}
    with pytest.raises(en.StateError, match="the checkpoint has format 99; this release reads format"):
        base().reset(state)


@pytest.mark.parametrize(
    "state", [{}, {"nodes": 1, "graph": 2}, [], "state", {"format": graph.FORMAT}], ids=lambda state: repr(state)
)
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(
        en.StateError, match=r"no state of a pipeline: expected the dictionary that state_dict\(\) returned"
    ):
        base().reset(state)


@pytest.mark.parametrize("part", ["graph", "nodes"])
def test_a_damaged_state_is_a_named_error(part: str) -> None:
    for damage in (None, 3, (), (1, 2), ("Batch", 3, ()), ((0, 0, 0), {"taken": None}, ()), ((0, 0), {}, ())):
        with pytest.raises(en.StateError):
            base().reset(base().state_dict() | {part: damage})


def test_a_refused_state_leaves_the_stream_where_it_was() -> None:
    node = base()
    first = next(node)
    with pytest.raises(en.StateError):
        node.reset(base(size=5).state_dict())
    again = base()
    assert (first, list(node)) == (next(again), list(again))


# ---- identities ------------------------------------------------------------------------------


def test_a_node_that_draws_nothing_changes_no_order() -> None:
    def make(*extra: str) -> list[int]:
        node = en.items(range(30), shuffle=True)
        for verb in extra:
            node = {"map": node.map(lambda x: x), "filter": node.filter(lambda x: True), "limit": node.limit(30)}[verb]
        return list(node.shuffle(8))

    assert make() == make("map") == make("filter", "limit", "map")


def test_two_random_nodes_on_a_path_draw_independently() -> None:
    node = en.items([0] * 4).map(draw, rng=True).map(draw, rng=True)
    once = en.items([0] * 4).map(draw, rng=True)
    assert [value[0] for value in node] != [value[0] for value in once]


def draw(value: Any, rng: np.random.Generator) -> Any:
    return float(rng.random()), value


def test_the_same_pipeline_in_two_branches_draws_independently() -> None:
    source = en.items(range(4)).map(draw, rng=True)
    left, right = zip(*en.zip(source, source), strict=True)
    assert set(left).isdisjoint(right)


# ---- pictures --------------------------------------------------------------------------------


def test_explain_draws_a_tree_of_several_branches() -> None:
    node = en.blend(
        en.items(range(3)).map(twice), en.zip(en.items("ab"), en.items("cd")).batch(2), weights=[1, 2]
    ).shuffle(5)
    assert node.explain() == (
        "Shuffle(size=5)\n"
        "└─ Blend(weights=[1.0, 2.0])\n"
        "   ├─ Map(fn=twice)\n"
        "   │  └─ Items(3 elements)\n"
        "   └─ Batch(size=2)\n"
        "      └─ Zip()\n"
        "         ├─ Items(2 elements)\n"
        "         └─ Items(2 elements)"
    )


def test_diagram_gives_mermaid_text_with_quotes_escaped() -> None:
    node = en.concat(en.wrap([1], share="stride"), en.items("ab"))
    assert node.diagram() == (
        "flowchart TD\n"
        "    n0[\"Wrap(list, share='stride')\"]\n"
        '    n1["Items(2 elements)"]\n'
        '    n2["Concat()"]\n'
        "    n0 --> n2\n"
        "    n1 --> n2"
    )
    assert "#quot;" in Configured(en.items([1]), 'a"b').diagram()


def test_long_settings_are_cut() -> None:
    shown = repr(Configured(en.items([1]), "x" * 1000))
    assert len(shown) < 100
    assert shown.endswith("...)")


def test_the_log_says_once_which_buffers_save_values_and_why(caplog: pytest.LogCaptureFixture) -> None:
    def unusual(value: int) -> int:
        return value

    with caplog.at_level(logging.INFO, "energon_nodes"):
        for _ in range(2):
            list(en.items(range(3)).map(unusual, pure=False).map(twice).shuffle(77))
            list(en.items(range(3)).map(unusual).shuffle(77))
    (record,) = [record for record in caplog.records if "Shuffle(size=77)" in record.message]
    assert "hold the values in the buffer of Shuffle(size=77)" in record.message
    assert "unusual, pure=False)] cannot rebuild elements" in record.message


def test_a_setting_that_a_release_did_not_have_counts_as_its_default() -> None:
    def build(**options: Any) -> en.Node[Any]:
        return en.blend(en.items(range(9)), en.items("abc"), **options)

    node = build()
    seen = [next(node) for _ in range(4)]
    state = node.state_dict()
    rest = list(node)
    name, config, below = state["graph"]
    old = {field: value for field, value in config.items() if field != "mixing"}
    state["graph"] = (name, old, below)
    counts, own, sources = state["nodes"]
    state["nodes"] = (counts, {field: value for field, value in own.items() if field != "current"}, sources)
    again = build()
    again.reset(state)
    assert list(again) == rest
    assert len(seen) + len(rest) == 12
    with pytest.raises(en.StateError, match=r"saved with mixing=None where this pipeline has mixing='smooth'"):
        build(mixing="smooth").reset(state)
