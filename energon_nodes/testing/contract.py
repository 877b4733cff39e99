"""All checks of the contract, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection

from energon_nodes.testing.copies import check_copies, check_pickle
from energon_nodes.testing.faults import check_errors
from energon_nodes.testing.functions import check_functions
from energon_nodes.testing.keys import check_keys, check_restore
from energon_nodes.testing.loaders import check_loader, check_stateful_dataloader, check_torchdata_loader
from energon_nodes.testing.processes import check_processes
from energon_nodes.testing.resuming import (
    check_end,
    check_iteration,
    check_reset,
    check_resume,
    check_rollback,
    check_two_resumes,
)
from energon_nodes.testing.runs import Make
from energon_nodes.testing.states import check_state
from energon_nodes.testing.streams import check_once, check_streams
from energon_nodes.testing.topologies import check_topologies

__all__ = ["check_contract"]


def check_contract(
    make: Make,
    *,
    most: int = 48,
    ordered: bool = True,
    once: bool = False,
    unique: bool = True,
    lengths: bool = True,
    bytes_per_element: float | None = None,
    workers: bool = True,
    skip: Collection[str] = (),
) -> None:
    """Run all checks of the contract over a pipeline.

    Choose small data of which every node gives some, not many, elements: some tens are enough to reach all
    states, and every cut point is tried.

    Args:
        make: Builds the pipeline anew at each call.
        most: The most elements of a pass that are looked at; endless pipelines are cut off there.
        ordered: Whether the order is promised, as `parallel_map(in_order=False)` does not.
        once: Whether the streams together deliver the elements that one stream delivers; true for all that does
            not gather elements or choose among them.
        unique: Whether a pass has every restore key once, see `check_keys`.
        lengths: Whether what `length` says is exact, see `check_streams`.
        bytes_per_element: What an element in a buffer may add to the state, in bytes; None sets no bound.
        workers: Whether to run the checks that start processes too; they take some seconds.
        skip: Names of checks to leave out, as `check_` is followed by them: "pickle", "streams", ...

    Raises:
        ContractError: If the contract is broken; the message says how.
        ValueError: If `skip` names no check.

    Example:
        >>> import energon_nodes as en
        >>> check_contract(lambda: en.items(range(20), shuffle=True).batch(3), workers=False)
        >>> class Pairs(en.Node[tuple[int, int]]):
        ...     source: en.Node[int]
        ...
        ...     def run(self):
        ...         before = None  # a local variable: lost at a resume
        ...         for value, key in self.source.pairs():
        ...             if before is not None:
        ...                 yield (before, value), key
        ...             before = value
        >>> check_contract(lambda: Pairs(en.items(range(4))))
        Traceback (most recent call last):
        ...
        energon_nodes.testing.report.ContractError: check_resume: a resume at element 1 of pass 1: the rest ...
          expected: [(1, 2), (2, 3)]
          got:      [(2, 3)]
        in
          Pairs()
          └─ Items(4 elements)
    """
    checks: dict[str, Callable[[], None]] = {
        "state": lambda: check_state(make, most=most, bytes_per_element=bytes_per_element),
        "resume": lambda: check_resume(make, most=most, ordered=ordered),
        "two_resumes": lambda: check_two_resumes(make, most=most, ordered=ordered),
        "rollback": lambda: check_rollback(make, most=most, ordered=ordered),
        "end": lambda: check_end(make, most=most, ordered=ordered),
        "iteration": lambda: check_iteration(make, most=most, ordered=ordered),
        "reset": lambda: check_reset(make, most=most, ordered=ordered),
        "copies": lambda: check_copies(make, most=most, ordered=ordered),
        "pickle": lambda: check_pickle(make, most=most, ordered=ordered),
        "keys": lambda: check_keys(make, most=most, ordered=ordered, unique=unique),
        "restore": lambda: check_restore(make, most=most),
        "errors": lambda: check_errors(make, most=most, ordered=ordered),
        "functions": lambda: check_functions(make, most=most, ordered=ordered),
        "streams": lambda: check_streams(make, most=most, ordered=ordered, lengths=lengths),
        "torchdata_loader": lambda: check_torchdata_loader(make, most=most, ordered=ordered),
        "loader": lambda: check_loader(make, most=most, ordered=ordered),
    }
    if once:
        checks["once"] = lambda: check_once(make)
    if ordered:
        checks["topologies"] = lambda: check_topologies(make, most=most)
    if workers:
        checks["stateful_dataloader"] = lambda: check_stateful_dataloader(make, most=most, ordered=ordered)
    if workers and ordered:
        checks["processes"] = lambda: check_processes({"pipeline": make}, most=most, hash_seeds=[1])
    known = {*checks, "once", "topologies", "stateful_dataloader", "processes"}
    unknown = sorted(set(skip) - known)
    if unknown:
        raise ValueError(f"skip names {unknown[0]!r}, which is no check; the checks are {', '.join(sorted(known))}")
    for name, check in checks.items():
        if name not in skip:
            check()
