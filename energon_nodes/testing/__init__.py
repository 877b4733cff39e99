"""Checks of the node contract, for the nodes of this library and for those of others.

`check_contract(make)` runs them all over a pipeline that the function `make` builds; each can be called by itself.
They need no test framework: a broken contract is a `ContractError`, an `AssertionError` that explains itself.

    >>> import energon_nodes as en
    >>> from energon_nodes import testing
    >>> testing.check_contract(lambda: en.items(range(12)).batch(5), workers=False)
"""

from __future__ import annotations

from energon_nodes.testing.contract import check_contract
from energon_nodes.testing.copies import check_copies, check_pickle
from energon_nodes.testing.faults import check_errors
from energon_nodes.testing.functions import check_functions
from energon_nodes.testing.keys import check_keys, check_restore
from energon_nodes.testing.loaders import check_loader, check_stateful_dataloader, check_torchdata_loader
from energon_nodes.testing.processes import check_processes
from energon_nodes.testing.report import ContractError, same
from energon_nodes.testing.resuming import (
    check_end,
    check_iteration,
    check_reset,
    check_resume,
    check_rollback,
    check_two_resumes,
)
from energon_nodes.testing.runs import on_stream
from energon_nodes.testing.states import check_state
from energon_nodes.testing.streams import check_counts, check_once, check_streams, interleave
from energon_nodes.testing.topologies import check_topologies

__all__ = [
    "ContractError",
    "check_contract",
    "check_copies",
    "check_counts",
    "check_end",
    "check_errors",
    "check_functions",
    "check_iteration",
    "check_keys",
    "check_loader",
    "check_once",
    "check_pickle",
    "check_processes",
    "check_reset",
    "check_restore",
    "check_resume",
    "check_rollback",
    "check_state",
    "check_stateful_dataloader",
    "check_streams",
    "check_topologies",
    "check_torchdata_loader",
    "check_two_resumes",
    "interleave",
    "on_stream",
    "same",
]
