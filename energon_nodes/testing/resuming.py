"""Whether a pipeline goes on exactly where it was saved, and what follows it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from energon_nodes.core.node import Node
from energon_nodes.testing.report import compare
from energon_nodes.testing.runs import Cut, Make, Trace, dump, fresh, load, resumed, run_pass, run_passes, spread, trace

__all__ = ["check_end", "check_iteration", "check_reset", "check_resume", "check_rollback", "check_two_resumes"]


def check_resume(make: Make, *, most: int = 64, cuts: int = 40, ordered: bool = True) -> None:
    """Check that a run that is saved and resumed anywhere delivers what an uninterrupted run delivers.

    States are taken before the first element, between any two, after the last one, and after the
    end was seen, in three passes; they go through `torch.save` and `torch.load(weights_only=True)`
    into a new pipeline, whose running pass and the passes after it are compared. Taking states must not
    change the run.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at; endless pipelines are cut off there.
        cuts: The most cut points that are tried.
        ordered: Whether the order is promised; False compares the elements before and after the cut as a whole.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_resume(lambda: en.items(range(9)).shuffle(4).batch(2))
    """
    check = "check_resume"
    seen = trace(make, most)
    node = fresh(make)
    for number, (expected, got) in enumerate(zip(seen.passes, run_passes(node, 3, most), strict=True)):
        what = f"pass {number + 1} of a run that was saved at each element (expected) and of one left alone (got)"
        compare(check, what, node, expected, got, ordered=ordered)
    for cut in seen.some(cuts):
        node = resumed(make, cut.state)
        _compare_rest(check, str(cut), node, seen, cut, run_passes(node, 3 - cut.of_pass, most, cut.taken), ordered)


def _compare_rest(
    check: str, what: str, node: Node[Any], seen: Trace, cut: Cut, got: list[list[Any]], ordered: bool
) -> None:
    """Compare what followed a cut with the uninterrupted run."""
    before = seen.passes[cut.of_pass][: cut.taken]
    rest = seen.passes[cut.of_pass][cut.taken :]
    if ordered:
        compare(check, f"{what}: the rest of that pass", node, rest, got[0])
    else:
        compare(check, f"{what}: the elements before and after it", node, before + rest, before + got[0], ordered=False)
    for later, elements in enumerate(got[1:], start=1):
        compare(
            check, f"{what}: pass {later} after it", node, seen.passes[cut.of_pass + later], elements, ordered=ordered
        )


def check_two_resumes(make: Make, *, most: int = 64, cuts: int = 12, ordered: bool = True) -> None:
    """Check that a resumed run can be saved and resumed again: at once, after one element, and further on.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        cuts: The most points of the first save that are tried.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_two_resumes(lambda: en.items(range(9)).shuffle(4).prefetch(2))
    """
    check = "check_two_resumes"
    seen = trace(make, most)
    for cut in seen.some(cuts):
        left = len(seen.passes[cut.of_pass]) - cut.taken
        for more in sorted({0, 1, 2, left // 2, left}):
            first = resumed(make, cut.state)
            between = run_pass(first, min(more, left))
            second = resumed(make, first.state_dict())
            rest, *later = run_passes(second, 3 - cut.of_pass, most, cut.taken + len(between))
            what = f"{cut}, and another {len(between)} elements later"
            _compare_rest(check, what, second, seen, cut, [between + rest, *later], ordered)


def check_rollback(make: Make, *, most: int = 64, cuts: int = 24, ordered: bool = True) -> None:
    """Check that a running pipeline goes to any saved point, back and forth, with `reset(state)`.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        cuts: The most points that are visited.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_rollback(lambda: en.items("abc").flat_map(lambda letter: [letter, letter]).repeat(2))
    """
    seen = trace(make, most)
    node = fresh(make)
    points = seen.some(cuts)
    visits = [point for pair in zip(points, reversed(points), strict=True) for point in pair]
    for number, cut in enumerate(visits):
        run_pass(node, number % 7)
        node.reset(load(dump(cut.state)))
        got = run_passes(node, 1 if number % 3 else 3 - cut.of_pass, most, cut.taken)
        _compare_rest("check_rollback", f"{cut}, on a pipeline that was running", node, seen, cut, got, ordered)


def check_end(make: Make, *, most: int = 64, ordered: bool = True) -> None:
    """Check that a pass that has ended stays ended, and that the next `for` is the next pass.

    Pipelines that do not end within `most` elements pass the check.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_end(lambda: en.items(range(5), shuffle=True).limit(3))
    """
    check = "check_end"
    seen = trace(make, most, passes=2)
    ends = [cut for cut in seen.cuts if cut.ended]
    if len(ends) < 2:
        return
    node = fresh(make)
    run_pass(node, most)
    for again in range(3):
        compare(check, f"call {again + 2} of next() at the end of the pass", node, [], run_pass(node, 1))
    compare(check, "the pass that a second `for` runs", node, seen.passes[1], list(islice(node, most)), ordered=ordered)
    node = resumed(make, ends[0].state)
    got = list(islice(node, most))
    compare(check, "the pass that a `for` runs after a resume at the end", node, seen.passes[1], got, ordered=ordered)
    last = next(cut for cut in seen.cuts if cut.taken == len(seen.passes[0]) and not cut.ended)
    node = resumed(make, last.state)
    compare(check, "a resume after the last element, before the end was seen", node, [], run_pass(node, 1))
    got = list(islice(node, most))
    compare(check, "the `for` after that resume", node, seen.passes[1], got, ordered=ordered)


def check_iteration(make: Make, *, most: int = 64, cuts: int = 8, ordered: bool = True) -> None:
    """Check that a `for` gives what `next` gives, and that states are taken and loaded inside of it.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        cuts: The most points that are tried.
        ordered: Whether the order is promised; the points are left out where it is not.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_iteration(lambda: en.items(range(9)).shuffle(3).batch(2))
    """
    check = "check_iteration"
    expected = run_passes(fresh(make), 2, most)
    node = fresh(make)
    compare(check, "a `for` over the pipeline", node, expected[0], list(islice(node, most)), ordered=ordered)
    node.reset(None)
    compare(check, "a second `for`", node, expected[1], list(islice(node, most)), ordered=ordered)
    if not ordered:
        return
    for taken in spread(len(expected[0]) + 1, cuts):
        node = fresh(make)
        iterator = iter(node)
        got = list(islice(iterator, taken))
        state = dump(node.state_dict())
        rest = expected[0][taken:]
        again = resumed(make, load(state))
        what = f"a resume of a state that was taken in a `for` at element {taken}"
        compare(check, what, node, rest, run_pass(again, most - taken))
        if len(rest) < 3:  # the `for` ends here
            continue
        got += list(islice(iterator, 2))
        node.reset(load(state))
        what = f"the `for` in which the pipeline was set back to element {taken}"
        compare(check, what, node, rest, list(islice(iterator, most - taken)))
        node.reset(load(state))
        iterator = iter(node)
        mixed = [next(node), next(iterator), *islice(node, most - taken - 2)]
        compare(check, f"next(pipeline), next(iterator) and another `for`, from element {taken} on", node, rest, mixed)
        compare(check, "the elements before", node, expected[0][: taken + 2], got)


def check_reset(make: Make, *, most: int = 64, cuts: int = 12, ordered: bool = True) -> None:
    """Check that `reset(None)` starts the next pass wherever it is called, and once only.

    Called before anything was taken, or a second time, it changes nothing. In the middle of a pass, a
    resumed pipeline goes on after it as one that was not interrupted.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        cuts: The most points that are tried.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_reset(lambda: en.items(range(9), shuffle=True).repeat().epochize(4))
    """
    check = "check_reset"
    seen = trace(make, most)
    node = fresh(make)
    node.reset(None)
    compare(check, "reset(None) before the first element", node, seen.passes[0], run_pass(node, most), ordered=ordered)
    for cut in (cut for cut in seen.some(cuts) if cut.of_pass == 0):
        running = fresh(make)
        got = run_pass(running, cut.taken + cut.ended)  # one more call sees the end
        compare(check, "the elements before the reset", running, seen.passes[0][: cut.taken], got, ordered=ordered)
        running.reset(None)
        running.reset(None)
        expected = run_passes(running, 2, most)
        loaded = resumed(make, cut.state)
        loaded.reset(None)
        for number, got in enumerate(run_passes(loaded, 2, most)):
            what = f"pass {number + 1} after reset(None) twice (expected), and after one reset(None) after {cut} (got)"
            compare(check, what, running, expected[number], got, ordered=ordered)
