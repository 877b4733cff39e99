"""What a broken contract looks like: the error, and the comparison that raises it."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = ["ContractError", "canonical", "compare", "failure", "require", "same"]


class ContractError(AssertionError):
    """Report that a node breaks the contract: which check, where, what was expected, what came, the graph.

    Example:
        >>> from energon_nodes import testing
        >>> import energon_nodes as en
        >>> testing.check_counts(lambda: en.items(range(5)).limit(3), total=4)
        Traceback (most recent call last):
        ...
        energon_nodes.testing.report.ContractError: check_counts: the number of elements of pass 1 under 1 streams
          expected: 4
          got:      3
        in
          Limit(n=3)
          └─ Items(5 elements)
    """


def require(
    holds: bool, check: str, what: str, node: Node[Any], *, expected: object = None, got: object = None
) -> None:
    """Raise a ContractError that explains itself unless `holds`.

    Args:
        holds: What should be true.
        check: The name of the check.
        what: What was looked at, and where.
        node: The graph under test.
        expected: What should have come; left out of the message if this and `got` are None.
        got: What came.
    """
    if not holds:
        raise failure(check, what, node, expected, got)


def failure(check: str, what: str, node: Node[Any], expected: object = None, got: object = None) -> ContractError:
    """Return the error that explains what was looked at, what was expected, what came, and in which graph."""
    lines = [f"{check}: {what}"]
    if expected is not None or got is not None:
        lines += [f"  expected: {_short(expected)}", f"  got:      {_short(got)}"]
    lines += ["in", *(f"  {line}" for line in node.explain().splitlines())]
    return ContractError("\n".join(lines))


def compare(
    check: str, what: str, node: Node[Any], expected: Sequence[Any], got: Sequence[Any], *, ordered: bool = True
) -> None:
    """Raise a ContractError unless two sequences of elements are equal, or hold the same elements in any order."""
    if not ordered:
        expected, got = sorted(expected, key=canonical), sorted(got, key=canonical)
    if len(expected) == len(got) and all(map(same, expected, got)):
        return
    at = next((n for n, pair in enumerate(zip(expected, got, strict=False)) if not same(*pair)), None)
    if at is not None:
        where = f"; the first difference is at position {at}: expected {_short(expected[at])}, got {_short(got[at])}"
    else:
        where = f"; {len(expected)} elements expected, {len(got)} came"
    raise failure(check, what + where, node, expected, got)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal in type and content; arrays, tensors and NaN count as users expect.

    Example:
        >>> same([1, {"a": np.arange(2)}], [1, {"a": np.arange(2)}]), same(1, 1.0), same(float("nan"), float("nan"))
        (True, False, True)
    """
    if left is right:
        return True
    if _kind(left) is not _kind(right):
        return False
    if isinstance(left, (list, tuple)):
        items = cast("list[Any]", left)
        return len(items) == len(right) and all(map(same, items, right))
    if isinstance(left, dict):
        mapping = cast("dict[Any, Any]", left)
        return list(mapping) == list(right) and all(same(mapping[key], right[key]) for key in mapping)
    if isinstance(left, float):
        return left == right or (left != left and right != right)
    if isinstance(left, np.ndarray):
        return _same_arrays(left, right)
    if hasattr(left, "detach"):  # a tensor; this module does not import torch for it
        return left.dtype == right.dtype and same(left.detach().cpu().numpy(), right.detach().cpu().numpy())
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if type(left).__eq__ is object.__eq__:
        return pickle.dumps(left) == pickle.dumps(right)
    return bool(left == right)


def _kind(value: Any) -> type[Any]:
    # A tuple of a special type may be a plain one after a pickle.
    return tuple if isinstance(value, tuple) else cast("type[Any]", type(value))


def _same_arrays(left: Any, right: Any) -> bool:
    nan = left.dtype.kind in "fc"
    return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=nan)


def canonical(value: Any) -> str:
    """Return a text by which values can be sorted and counted, also those that have no order or hash."""
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(canonical, cast("list[Any]", value)))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {canonical(v)}" for k, v in cast("dict[Any, Any]", value).items()) + "}"
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"array({array.dtype.str}, {array.shape}, {array.tobytes().hex()})"
    if hasattr(value, "detach"):
        return "tensor " + canonical(value.detach().cpu().numpy())
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}{canonical([getattr(value, f.name) for f in dataclasses.fields(value)])}"
    if type(value).__eq__ is object.__eq__:
        return f"{type(value).__name__}({pickle.dumps(value).hex()})"
    return repr(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 600 else text[:400] + " ... " + text[-180:]
