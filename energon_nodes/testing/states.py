"""Whether states are small, plain, and independent of the run they were taken from."""

from __future__ import annotations

import pickle
from typing import Any, cast

from energon_nodes.core.fields import kind_of
from energon_nodes.core.node import Node
from energon_nodes.testing.report import require
from energon_nodes.testing.runs import Make, dump, fresh, load, resumed, run_pass, walk

__all__ = ["check_state"]

_PLAIN = (int, float, str, bytes, bool, type(None))


def check_state(make: Make, *, most: int = 64, bytes_per_element: float | None = None) -> None:
    """Check that states are plain data, survive a file, stay what they were, and grow by little per buffered element.

    A state that was taken must not change while the run goes on, nor may loading it change it.

    Args:
        make: Builds the pipeline.
        most: The most elements that are looked at.
        bytes_per_element: How many bytes of a pickled state an element in a buffer may cost, over what
            the state takes without buffered elements; None sets no bound.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_state(lambda: en.items(range(900)).shuffle(300), bytes_per_element=4)
        >>> check_state(lambda: en.wrap([f"{number:90}" for number in range(900)]).shuffle(300), bytes_per_element=4)
        Traceback (most recent call last):
        ...
        energon_nodes.testing.report.ContractError: check_state: the size of the state at element 1 with 300 ...
    """
    check = "check_state"
    node = fresh(make)
    empty = len(pickle.dumps(node.state_dict()))
    taken: list[tuple[Any, str]] = []
    for number in range(most):
        state = node.state_dict()
        odd = _not_plain(state, "state")
        require(odd is None, check, f"the state at element {number} is not plain data: {odd}", node)
        require(repr(load(dump(state))) == repr(state), check, f"the state at element {number} through a file", node)
        held = _buffered(node)
        allowed = empty + 100 * sum(1 for _ in walk(node)) + (bytes_per_element or 0.0) * held
        size = len(pickle.dumps(state))
        what = f"the size of the state at element {number} with {held} buffered elements, in bytes"
        require(
            bytes_per_element is None or size <= allowed, check, what, node, expected=f"at most {allowed:.0f}", got=size
        )
        taken.append((state, repr(state)))
        try:
            next(node)
        except StopIteration:
            break
    for number, (state, before) in enumerate(taken):
        what = f"the state taken at element {number} has changed while the run went on"
        require(repr(state) == before, check, what, node, expected=before, got=state)
    state, before = taken[len(taken) // 2]
    loaded = resumed(make, state)
    loaded.reset(state)
    run_pass(loaded, most)
    what = "the state that was loaded has changed while the resumed run went on"
    require(repr(state) == before, check, what, node, expected=before, got=state)


def _not_plain(value: Any, place: str) -> str | None:
    """Return the place and type of the first thing in a state that is not plain, None if there is none."""
    if type(value) in _PLAIN:
        return None
    if type(value) in (list, tuple):
        parts = [(f"{place}[{number}]", item) for number, item in enumerate(cast("list[Any]", value))]
    elif type(value) is dict:
        parts = [(f"{place}[{key!r}]", item) for key, item in cast("dict[Any, Any]", value).items()]
        parts += [(f"a key of {place}", key) for key in cast("dict[Any, Any]", value)]
    else:
        return f"{place} is a {type(value).__qualname__}"
    return next((odd for where, item in parts if (odd := _not_plain(item, where)) is not None), None)


def _buffered(node: Node[Any]) -> int:
    """Return how many elements the buffers of a graph hold."""
    return sum(
        len(getattr(each, declared.name) or ())
        for each in walk(node)
        for declared in each.__dataclass_fields__.values()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if kind_of(declared) == "buffer"
    )
