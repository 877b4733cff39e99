"""What happens to an element that fails: when it is made, and when it is rebuilt after a resume."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from energon_nodes.core.errors import FatalSampleError, RestoreError, ShardError, SkipSample, annotate, shown_key
from energon_nodes.core.restore import DROPPED, Key

if TYPE_CHECKING:
    from energon_nodes.core.node import Node
    from energon_nodes.core.share import ErrorPolicy

__all__ = ["apply_policy", "rebuild_or_drop"]

_log = logging.getLogger("energon_nodes")


def apply_policy(node: Node[Any], error: Exception, key: Key | None, value: Any, streak: int) -> int:
    """Raise the error of an element, or return the number of failures in a row if it is to be skipped."""
    if isinstance(error, SkipSample):
        node.skipped += 1
        return streak
    context = node.context
    policy: ErrorPolicy = getattr(node, "on_error", None) or context.on_error
    annotate(error, repr(node), key, value, None if key is None else _place_of(node, key))
    if isinstance(error, StopIteration):  # inside a generator it would pass for the end of the data
        fatal = FatalSampleError(f"a function of {node!r} raised StopIteration; let it return or raise SkipSample")
        for note in getattr(error, "__notes__", []):
            fatal.add_note(note)
        raise fatal from error
    if policy == "raise" or isinstance(error, FatalSampleError):
        raise error
    node.failed += 1
    if streak + 1 > context.tolerance:
        raise FatalSampleError(
            f"{streak + 1} elements in a row failed at {node!r}; the tolerance is {context.tolerance}. "
            "The cause of the last one is above: code or data are broken"
        ) from error
    if callable(policy):
        policy(error, key)
    elif isinstance(error, ShardError):  # more than this element may be gone: what follows in a cut shard, say
        _log.warning("%r goes on behind damaged data: %s", node, error)
    return streak + 1


def _place_of(node: Node[Any], key: Key) -> str | None:
    try:
        return node.locate(key)
    except Exception:  # an error is on its way; what cannot be said about it must not hide it
        return None


def rebuild_or_drop(node: Node[Any], name: str, keys: Sequence[Key]) -> Sequence[Any]:
    """Rebuild elements of the buffer field `name`, `DROPPED` in the places of those that fail and are to be skipped."""
    try:
        return node.rebuild(name, keys)
    except (FatalSampleError, NotImplementedError):
        raise
    except Exception as error:
        if len(keys) > 1:  # which of them?
            return [value for key in keys for value in rebuild_or_drop(node, name, [key])]
        problem = RestoreError(
            f"the element with restore key {shown_key(keys[0])}, in the buffer of {node!r}, could not be rebuilt "
            f"after a resume: {type(error).__name__}: {error}. Functions before a buffer must give the same again "
            'for the same input (or be marked pure=False); on_restore_error="skip" drops such elements',
            node=repr(node),
            key=keys[0],
        )
        policy = node.context.on_restore_error
        if policy == "raise":
            raise problem from error
        if callable(policy):
            problem.__cause__ = error
            policy(problem, keys[0])
        return [DROPPED]
