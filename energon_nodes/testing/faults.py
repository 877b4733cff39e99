"""Whether a stream goes on after an error as if the bad element had not been there."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any

from energon_nodes.core.errors import SampleError, SkipSample
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.testing.report import compare, require, same
from energon_nodes.testing.runs import Make, fresh, graft, resumed, run_pass, run_passes, spread, walk

__all__ = ["check_errors"]


class InjectedError(Exception):
    """Stand for whatever a user function or a reader raises."""


class _Fails:
    """Raise at the elements with some restore keys, and give the value of all others."""

    def __init__(self, keys: Collection[Any], error: type[Exception]) -> None:
        self.keys, self.error = frozenset(keys), error

    def __call__(self, pair: Any) -> Any:
        value, key = pair
        if key in self.keys:
            raise self.error(f"injected at {key}")
        return value


def check_errors(make: Make, *, most: int = 48, faults: int = 16, ordered: bool = True) -> None:
    """Check that the stream goes on after an error at any element, without that element and with all others.

    A function that raises is put above every source of the graph, so that everything over it has to go on, at
    depth 1 and at depth 4. The reference is the same graph, whose bad elements ask to be skipped there. The
    error is raised at each element in turn, at some together, and at all. States taken before
    and after an error go on in a new pipeline. Under `on_error="skip"` the stream is the same, and each
    failure is counted.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        faults: The most elements of each source that are tried one by one.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_errors(lambda: en.items(range(9)).shuffle(4).batch(2))
    """
    leaves = sum(1 for node in walk(fresh(make)) if not node.sources_of())
    undamaged = run_pass(fresh(make), most)
    for leaf in range(leaves):
        pulled = _keys_pulled(make, leaf, most)
        keys = list(dict.fromkeys(pulled))
        sets = [[keys[number]] for number in spread(len(keys), faults)]
        sets += [keys[::3], keys[1::2], keys[: len(keys) // 2], keys[len(keys) // 2 :], keys]
        for number, bad in enumerate(sets):
            if bad:
                times = len(bad) if len(keys) == len(pulled) else most * len(bad)
                _check_faults(make, leaf, bad, times, 3 * (number % 2), most, ordered, undamaged)


def _keys_pulled(make: Make, leaf: int, most: int) -> list[Any]:
    """Return the restore keys of what the graph pulls from one of its sources in two passes."""
    seen: list[Any] = []

    def watch(node: Node[Any], number: int) -> Node[Any]:
        return node.with_keys().tap(lambda pair: seen.append(pair[1])).map(_value) if number == leaf else node

    run_passes(graft(fresh(make), watch), 2, most)
    return seen


def _with_faults(
    make: Make, leaf: int, bad: list[Any], error: type[Exception], depth: int, policy: Any = "raise"
) -> Make:
    def fail(node: Node[Any], number: int) -> Node[Any]:
        if number != leaf:
            return node
        node = node.with_keys().map(_Fails(bad, error))
        for _ in range(depth):
            node = node.map(_itself)
        return node

    def build() -> Node[Any]:
        node = graft(fresh(make), fail)
        node.bind(Context(on_error=policy, tolerance=1_000_000))
        return node

    return build


def _check_faults(
    make: Make, leaf: int, bad: list[Any], times: int, depth: int, most: int, ordered: bool, undamaged: list[Any]
) -> None:
    check = "check_errors"
    what = f"an error at element{'s' * (len(bad) > 1)} {', '.join(map(str, bad[:6]))} of source {leaf}"
    reference = _with_faults(make, leaf, bad, SkipSample, depth)()
    expected = run_passes(reference, 2, most)
    whole = all(len(elements) < most for elements in expected)
    broken = _with_faults(make, leaf, bad, InjectedError, depth)
    seen = _Run(check, what, broken(), times)
    seen.run(most)
    seen.node.reset(None)
    seen.run(most)
    for number in range(1 + whole):  # where a pass that is left begins its next one may depend on the errors met ahead
        place = f"{what}: pass {number + 1}, going on after each error"
        compare(check, place, seen.node, expected[number], seen.passes[number], ordered=ordered)
    lost = len(expected[0]) != len(undamaged) or not all(map(same, expected[0], undamaged))
    place = f"{what}: elements are missing, and no error came"
    require(not lost or seen.errors[0] > 0, check, place, seen.node, expected=undamaged, got=expected[0])
    skipping = _with_faults(make, leaf, bad, InjectedError, depth, "skip")()
    for number, got in enumerate(run_passes(skipping, 2, most)[: 1 + whole]):
        place = f'{what}: pass {number + 1} under on_error="skip"'
        compare(check, place, skipping, expected[number], got, ordered=ordered)
    if whole:
        own = sum(node.failed for node in walk(reference))  # failures of the pipeline's own functions
        failed = sum(node.failed for node in walk(skipping)) - own
        place = f'{what}: failures counted under on_error="skip"'
        # More may have been counted than the consumer has seen: a thread runs ahead of it.
        counted = sum(seen.errors) <= failed <= 2 * times
        require(counted, check, place, skipping, expected=sum(seen.errors), got=failed)
    for taken, errors, state in seen.states:
        again = _Run(check, what, resumed(broken, pickle.loads(state)), times)
        again.run(most - taken)
        place = f"{what}: the rest after a resume at element {taken}, with {errors} errors behind it"
        got = seen.passes[0][:taken] + again.passes[0]
        compare(check, place, again.node, expected[0], got, ordered=ordered)
        left = seen.errors[0] - errors
        require(
            left == again.errors[0],
            check,
            f"{place}: the errors to come",
            again.node,
            expected=left,
            got=again.errors[0],
        )


class _Run:
    """Run passes as a trainer does that catches errors and goes on; keep states from around the first errors."""

    def __init__(self, check: str, what: str, node: Node[Any], times: int) -> None:
        self.check, self.what, self.node, self.times = check, what, node, times
        self.passes: list[list[Any]] = []
        self.errors: list[int] = []
        self.states: list[tuple[int, int, bytes]] = []  # elements taken, errors seen, state

    def run(self, most: int) -> None:
        got: list[Any] = []
        errors = 0
        while len(got) < most:
            watched = not self.passes and len(self.states) < 4
            before = pickle.dumps(self.node.state_dict()) if watched else b""
            try:
                got.append(next(self.node))
            except StopIteration:
                break
            except (InjectedError, SampleError):  # an error that comes again after a resume may have lost its type
                if watched:
                    after = pickle.dumps(self.node.state_dict())
                    self.states += [(len(got), errors, before), (len(got), errors + 1, after)]
                errors += 1
                require(errors <= self.times, self.check, f"{self.what}: an error comes again and again", self.node)
        self.passes.append(got)
        self.errors.append(errors)


def _value(pair: Any) -> Any:
    return pair[0]


def _itself(value: Any) -> Any:
    return value
