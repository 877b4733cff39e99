"""Whether pipelines are descriptions: clones, branches and pickles share nothing that moves."""

from __future__ import annotations

import pickle
from typing import Any

from energon_nodes.combinators.zip import zip_nodes
from energon_nodes.core.node import Node
from energon_nodes.testing.report import canonical, compare, failure, require
from energon_nodes.testing.runs import Make, fresh, run_pass, run_passes, walk

__all__ = ["check_copies", "check_pickle"]


def check_copies(make: Make, *, most: int = 64, ordered: bool = True) -> None:
    """Check that one pipeline can be run, built on and used in two branches without sharing state.

    A clone of a running pipeline starts afresh; two clones run side by side without disturbing each other; both
    branches of a diamond give all elements.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_copies(lambda: en.items(range(9), shuffle=True).batch(2))
    """
    check = "check_copies"
    expected = run_passes(fresh(make), 2, most)
    base = fresh(make)
    start = run_pass(base, 3)
    clones = [base.clone(), base.clone()]
    derived = base.map(_itself)
    got: list[list[Any]] = [[], []]
    for number in range(most + 2):  # the second clone runs at half the speed of the first
        for who in (0, 1) if number % 2 else (0,):
            got[who] += run_pass(clones[who], min(1, most - len(got[who])))
    got[1] += run_pass(clones[1], most - len(got[1]))
    for who in (0, 1):
        what = f"clone {who + 1} of a running pipeline, beside another"
        compare(check, what, base, expected[0], got[who], ordered=ordered)
    compare(
        check,
        "the pipeline itself, which ran before its clones",
        base,
        expected[0],
        start + run_pass(base, most - len(start)),
        ordered=ordered,
    )
    compare(check, "a pipeline built on a running one", derived, expected[0], run_pass(derived, most), ordered=ordered)
    _check_diamond(check, base, most, ordered)


def _check_diamond(check: str, base: Node[Any], most: int, ordered: bool) -> None:
    keyed = base.with_keys()
    alone = [canonical(pair) for pair in run_pass(keyed.clone(), most)]
    diamond = zip_nodes(keyed.map(_itself), keyed)
    rows = run_pass(diamond, most)
    random = any(node.draws_random() for node in walk(base))
    for side, branch in enumerate(("left", "right")):
        got = [canonical(row[side]) for row in rows]
        what = f"the {branch} branch of a diamond"
        if not random:
            compare(check, what, diamond, alone, got, ordered=ordered)
        elif len(set(alone)) == len(alone):  # where it draws, a branch has an order of its own
            require(len(set(got)) == len(got), check, f"{what} has an element twice", diamond, got=got)


def check_pickle(make: Make, *, most: int = 64, ordered: bool = True) -> None:
    """Check that the graph can be pickled, started or not, and that the copy is the same pipeline, unstarted.

    Loaders pickle graphs when they start workers by "spawn". Whether the copy works in another process is a
    matter of `check_processes`.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_pickle(lambda: en.items(range(9)).map(str).batch(2))
    """
    check = "check_pickle"
    expected = run_passes(fresh(make), 2, most)
    node = fresh(make)
    for what in ("an unstarted graph", "a graph that was running"):
        try:
            copy: Any = pickle.loads(pickle.dumps(node))
        except Exception as error:
            what += f" cannot be pickled: {error!r}. Use functions that a module defines by name, or leave this check "
            raise failure(check, f"{what}out where workers are always forked", node) from error
        for number, got in enumerate(run_passes(copy, 2, most)):
            compare(check, f"pass {number + 1} of the copy of {what}", node, expected[number], got, ordered=ordered)
        run_pass(node, 3)


def _itself(value: Any) -> Any:
    return value
