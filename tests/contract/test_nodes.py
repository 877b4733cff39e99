"""Every registered node keeps the contract, in several pipelines each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from energon_nodes import registered_nodes, testing
from energon_nodes.testing.runs import walk
from tests.contract.cases import CASES, Case

MOST = 40

CHECKS: dict[str, Callable[[Case], None]] = {
    "state": lambda case: testing.check_state(case.make, most=MOST, bytes_per_element=case.bytes_per_element),
    "resume": lambda case: testing.check_resume(case.make, most=MOST, ordered=case.ordered),
    "two_resumes": lambda case: testing.check_two_resumes(case.make, most=MOST, cuts=8, ordered=case.ordered),
    "rollback": lambda case: testing.check_rollback(case.make, most=MOST, cuts=16, ordered=case.ordered),
    "end": lambda case: testing.check_end(case.make, most=MOST, ordered=case.ordered),
    "iteration": lambda case: testing.check_iteration(case.make, most=MOST, ordered=case.ordered),
    "reset": lambda case: testing.check_reset(case.make, most=MOST, ordered=case.ordered),
    "copies": lambda case: testing.check_copies(case.make, most=MOST, ordered=case.ordered),
    "pickle": lambda case: testing.check_pickle(case.make, most=MOST, ordered=case.ordered),
    "keys": lambda case: testing.check_keys(case.make, most=MOST, ordered=case.ordered, unique=case.unique),
    "restore": lambda case: testing.check_restore(case.make, most=MOST),
    "errors": lambda case: testing.check_errors(case.make, most=MOST, faults=8, ordered=case.ordered),
    "functions": lambda case: testing.check_functions(case.make, most=MOST, ordered=case.ordered),
    "streams": lambda case: testing.check_streams(
        case.make, streams=(2, 6), most=20, ordered=case.ordered, lengths=case.lengths
    ),
    "torchdata_loader": lambda case: testing.check_torchdata_loader(case.make, most=MOST, cuts=6, ordered=case.ordered),
    "loader": lambda case: testing.check_loader(case.make, most=MOST, cuts=4, ordered=case.ordered),
    "dataset": lambda case: testing.check_stateful_dataloader(
        case.make, most=MOST, cuts=4, num_workers=[0], ordered=case.ordered
    ),
    "topologies": lambda case: testing.check_topologies(case.make, cuts=2, most=12),
    "once": lambda case: testing.check_once(case.make),
    "counts": lambda case: testing.check_counts(case.make, case.total or 0),
}


def applies(check: str, case: Case) -> bool:
    if check == "topologies":
        return case.ordered and check not in case.skip
    if check == "once":
        return case.once
    if check == "counts":
        return case.total is not None
    return check not in case.skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("check", CHECKS)
def test_node_keeps_the_contract(check: str, case: Case) -> None:
    if applies(check, case):
        CHECKS[check](case)


def test_every_registered_node_has_cases() -> None:
    covered = [type(node) for case in CASES for node in walk(case.make())]
    ours = [kind for kind in registered_nodes().values() if kind.__module__.startswith("energon_nodes.")]
    lacking = [kind.__name__ for kind in ours if covered.count(kind) < 2]
    assert not lacking, f"these nodes have fewer than two cases in tests/contract/cases.py: {lacking}"


def test_pipelines_run_the_same_in_new_processes_on_other_hash_seeds() -> None:
    cases = {case.name: case.make for case in CASES if case.ordered and "pickle" not in case.skip}
    testing.check_processes(cases, most=MOST)
