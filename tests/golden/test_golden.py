"""Checkpoints and orders of released versions: a change of either is noticed here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.core.graph import FORMAT
from energon_nodes.testing import on_stream, same
from energon_nodes.testing.runs import dump, load, run_passes
from tests.golden.files import FOLDER, ORDERS_FILE, orders, read, states, states_file
from tests.golden.pipelines import PIPELINES

REMEDY = "if this change is meant, see tests/golden/files.py for what it needs"
VERSIONS = sorted(FOLDER.glob("states_*.txt"))
CASES = [(path, name) for path in VERSIONS for name in read(path)]


def follows(name: str, state: Any) -> list[list[Any]]:
    """Return what comes behind a state: the rest of its pass and the next one."""
    pipeline, _, place = name.rpartition(", ")
    if place == "loader":
        loader = PIPELINES[pipeline]().loader(seed=5)
        loader.load_state_dict(state)
        return [list(loader), list(loader)]
    stream, streams = map(int, re.findall(r"\d+", place))
    node = on_stream(PIPELINES[pipeline], stream, streams, seed=5)()
    node.reset(state)
    return run_passes(node, 2, 30)


@pytest.mark.parametrize(("path", "name"), CASES, ids=[f"{path.stem}-{name}" for path, name in CASES])
def test_old_checkpoint_goes_on_as_it_did_or_is_refused_by_name(path: Path, name: str) -> None:
    case = read(path)[name]
    state = load(dump(case["state"]))
    if path != states_file(FORMAT):
        try:
            got = follows(name, state)
        except en.StateError as error:
            assert f"format {state['format']}" in str(error)  # noqa: PT017
            return
    else:
        got = follows(name, state)
    assert got == case["follows"], REMEDY


def test_there_is_a_file_for_the_present_format() -> None:
    assert states_file(FORMAT) in VERSIONS, f"format {FORMAT} has no golden file: python -m tests.golden.files"


def test_states_are_laid_out_as_in_the_file_of_their_format() -> None:
    kept, now = read(states_file(FORMAT)), states()
    assert list(kept) == list(now)
    changed = [name for name in kept if not same(layout(kept[name]["state"]), layout(now[name]["state"]))]
    assert not changed, f"the states of {changed} are laid out anew: they need another FORMAT; {REMEDY}"


def layout(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without the pickles of a loader, whose bytes depend on the release of Python."""
    return {name: type(value) if isinstance(value, bytes) else value for name, value in state.items()}


def test_orders_are_those_that_they_were() -> None:
    kept, now = read(ORDERS_FILE), orders()
    assert list(kept) == list(now)
    changed = [name for name in kept if not same(kept[name], now[name])]
    assert not changed, f"the orders of {changed} have changed; {REMEDY}"


def test_every_state_has_elements_behind_it() -> None:
    for name, case in read(states_file(FORMAT)).items():
        assert case["follows"][1], f"nothing follows the state of {name}"
