"""The contract over random graphs of at least six verbs, with branches, on up to six streams.

The examples are the same in every run. `CONTRACT_EXAMPLES=2000 pytest tests/contract/test_random_graphs.py` looks at
that many new ones.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import energon_nodes as en
from energon_nodes import testing
from energon_nodes.testing.report import compare
from energon_nodes.testing.runs import resumed, run_pass, run_passes
from tests.contract.graphs import Recipe, build, recipes

EXAMPLES = os.environ.get("CONTRACT_EXAMPLES")
MOST = 20

Test = Callable[..., None]


def examples(n: int) -> Callable[[Test], Test]:
    return settings(
        max_examples=int(EXAMPLES or n),
        derandomize=EXAMPLES is None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    logger = logging.getLogger("energon_nodes")  # a repeat of nothing says so in the log
    before, logger.level = logger.level, logging.ERROR
    yield
    logger.level = before


@examples(60)
@given(recipe=recipes(), streams=st.integers(1, 6), data=st.data())
def test_two_resumes_at_random_cuts_change_nothing(recipe: Recipe, streams: int, data: st.DataObject) -> None:
    stream = data.draw(st.integers(0, streams - 1), "stream")
    make = testing.on_stream(lambda: build(recipe), stream, streams, seed=data.draw(st.integers(0, 3), "seed"))
    whole = run_passes(make(), 3, MOST)
    of_pass = data.draw(st.integers(0, 1), "pass of the first cut")
    first = data.draw(st.integers(0, len(whole[of_pass])), "first cut")
    second = data.draw(st.integers(first, len(whole[of_pass])), "second cut")

    node = make()
    for _ in range(of_pass):
        run_pass(node, MOST)
        node.reset(None)
    got = run_pass(node, first)
    node = resumed(make, node.state_dict())
    got += run_pass(node, second - first)
    node = resumed(make, node.state_dict())
    rest, *later = run_passes(node, 3 - of_pass, MOST, second)
    compare("two resumes", f"cuts at {first} and {second} of pass {of_pass + 1}", node, whole[of_pass], got + rest)
    for number, elements in enumerate(later, start=of_pass + 1):
        compare("two resumes", f"pass {number + 1}, cuts at {first} and {second}", node, whole[number], elements)


@examples(15)
@given(recipe=recipes())
def test_every_cut_resumes(recipe: Recipe) -> None:
    testing.check_resume(lambda: build(recipe), most=MOST, cuts=12)
    testing.check_end(lambda: build(recipe), most=MOST)
    testing.check_iteration(lambda: build(recipe), most=MOST, cuts=5)
    testing.check_reset(lambda: build(recipe), most=MOST, cuts=4)


@examples(20)
@given(recipe=recipes())
def test_rolling_back_a_running_graph(recipe: Recipe) -> None:
    testing.check_rollback(lambda: build(recipe), most=MOST, cuts=6)
    testing.check_copies(lambda: build(recipe), most=MOST)


@examples(25)
@given(recipe=recipes(most=7))
def test_going_on_after_errors(recipe: Recipe) -> None:
    testing.check_errors(lambda: build(recipe), most=12, faults=2)


@examples(20)
@given(recipe=recipes())
def test_failing_functions_drop_their_elements_only(recipe: Recipe) -> None:
    testing.check_functions(lambda: build(recipe), most=12, faults=2)


@examples(30)
@given(recipe=recipes(exact=True), streams=st.integers(2, 6))
def test_streams_together_deliver_each_element_once(recipe: Recipe, streams: int) -> None:
    testing.check_once(lambda: build(recipe), streams=[streams])


@examples(30)
@given(recipe=recipes())
def test_keys_are_unique_and_restore(recipe: Recipe) -> None:
    testing.check_keys(lambda: build(recipe), most=MOST, streams=[1, 2])
    testing.check_restore(lambda: build(recipe), most=MOST, streams=[1, 2])


@examples(20)
@given(recipe=recipes(), streams=st.sampled_from([2, 3, 4, 6]))
def test_every_split_into_ranks_gives_one_order(recipe: Recipe, streams: int) -> None:
    testing.check_topologies(lambda: build(recipe), streams=streams, cuts=1, most=8)


@examples(15)
@given(recipe=recipes())
def test_torchdata_loader_and_ours_resume(recipe: Recipe) -> None:
    testing.check_torchdata_loader(lambda: build(recipe), most=MOST, cuts=4)
    testing.check_loader(lambda: build(recipe), most=MOST, streams=[2], cuts=3)


@examples(15)
@given(recipe=recipes())
def test_states_are_plain_and_stay_as_they_were_taken(recipe: Recipe) -> None:
    testing.check_state(lambda: build(recipe), most=MOST)
    testing.check_pickle(lambda: build(recipe), most=MOST) if "wrapped" not in repr(recipe) else None


@examples(25)
@given(recipe=recipes(exact=True))
def test_node_that_draws_nothing_changes_no_order(recipe: Recipe) -> None:
    source, *steps = recipe
    for place in range(len(steps) + 1):
        more = (source, *steps[:place], ("tap", 1), ("prefetch", 1), *steps[place:])
        node = build(more)
        compare("a node more", f"at place {place}", node, run_pass(build(recipe), MOST), run_pass(node, MOST))


def test_recipes_are_deep_enough() -> None:
    found: list[int] = []

    @settings(max_examples=50, derandomize=True, database=None)
    @given(recipe=recipes())
    def look(recipe: Recipe) -> None:
        found.append(deepest(build(recipe)))

    look()
    assert min(found) >= 7  # a source and six verbs


def deepest(node: en.Node[Any]) -> int:
    return 1 + max((deepest(source) for source in node.sources_of()), default=0)
