"""Whether a failing function of the pipeline itself drops its element and no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, cast

from energon_nodes.core.errors import FatalSampleError, SkipSample
from energon_nodes.core.fields import kind_of
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.testing.faults import InjectedError
from energon_nodes.testing.report import canonical, compare, failure
from energon_nodes.testing.runs import Make, fresh, run_pass, spread

__all__ = ["check_functions"]


def check_functions(make: Make, *, most: int = 48, faults: int = 6, ordered: bool = True) -> None:
    """Check that the stream goes on after an error in a function of one of its nodes, wherever it comes.

    Every callable in a configuration field (`fn`, `predicate`, `collate`, ...; callables with a state are left out)
    is made to raise at some of its inputs. The reference is the pipeline whose function asks to skip those inputs. A
    function that raises StopIteration must not be taken for the end of the data: that is a `FatalSampleError`.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        faults: The most inputs of each function that are tried.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_functions(lambda: en.items(range(9)).map(str).filter(len).batch(2, collate=tuple))
    """
    for number in range(len(list(_functions(fresh(make))))):
        inputs = _inputs(make, number, most)
        for at in spread(len(inputs), faults):
            _check_failing(make, number, inputs[at], most, ordered)


def _inputs(make: Make, number: int, most: int) -> list[str]:
    """Return what a function is called with in a pass."""
    inputs: dict[str, None] = {}
    run_pass(_with_function(make, number, lambda fn: _Watched(fn, inputs)), most)
    return list(inputs)


def _check_failing(make: Make, number: int, bad: str, most: int, ordered: bool) -> None:
    check = "check_functions"
    skipping = _with_function(make, number, lambda fn: _FailsOn(fn, bad, SkipSample))
    try:
        expected = run_pass(skipping, most)
    except SkipSample as error:
        what = f"a SkipSample of function {number} (counted from the root) came out of the stream"
        raise failure(check, what, skipping) from error
    node = _with_function(make, number, lambda fn: _FailsOn(fn, bad, InjectedError))
    what = f"an error of function {number} (counted from the root) at the input {bad[:60]}"
    got: list[Any] = []
    for _ in range(100 * most):  # an endless source may bring the bad input again and again
        try:
            got.append(next(node))
        except StopIteration:
            break
        except InjectedError:
            pass
        if len(got) == most:
            break
    compare(check, f"{what}: going on after it", node, expected, got, ordered=ordered)
    node = _with_function(make, number, lambda fn: _FailsOn(fn, bad, InjectedError), "skip")
    compare(check, f'{what}: on_error="skip"', node, expected, run_pass(node, most), ordered=ordered)
    node = _with_function(make, number, lambda fn: _FailsOn(fn, bad, StopIteration))
    try:
        got = run_pass(node, most)
    except FatalSampleError:
        return
    whole = run_pass(fresh(make), most)
    if len(got) == len(whole):
        return  # the function was called ahead, for an element that the consumer does not get to
    raise failure(check, f"{what}: a StopIteration in a function passed for the end of the data", node, "an error", got)


def _functions(node: Node[Any]) -> Iterator[tuple[Node[Any], str]]:
    """Yield the places of the functions of a graph, from the root down."""
    if not node.sources_of():
        return
    for declared in dataclasses.fields(cast("Any", node)):
        value = getattr(node, declared.name)
        named = declared.init and kind_of(declared) in ("config", "tuning") and declared.name != "on_error"
        if named and callable(value) and not isinstance(value, Node) and not is_stateful(value):
            yield node, declared.name
    for source in node.sources_of():
        yield from _functions(source)


def _with_function(make: Make, number: int, change: Callable[[Any], Any], policy: Any = "raise") -> Node[Any]:
    node = fresh(make)
    place, name = list(_functions(node))[number]
    setattr(place, name, change(getattr(place, name)))
    node.bind(Context(on_error=policy, tolerance=1_000_000))
    return node


class _Watched:
    """Note the inputs of a function."""

    def __init__(self, fn: Any, inputs: dict[str, None]) -> None:
        self.fn, self.inputs = fn, inputs

    def __call__(self, value: Any, *more: Any) -> Any:
        self.inputs[canonical(value)] = None
        return self.fn(value, *more)


class _FailsOn:
    """Raise where the input is the bad one."""

    def __init__(self, fn: Any, bad: str, error: type[Exception]) -> None:
        self.fn, self.bad, self.error = fn, bad, error

    def __call__(self, value: Any, *more: Any) -> Any:
        if canonical(value) == self.bad:
            raise self.error("injected")
        return self.fn(value, *more)
