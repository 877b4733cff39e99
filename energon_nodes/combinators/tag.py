"""`tag`: say something about all samples of a pipeline, for the cookers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from energon_nodes.combinators.map import Map
from energon_nodes.core.node import Node, add_verb

__all__ = ["tag"]

X = TypeVar("X")


class Tagger:
    """Add subflavors to samples.

    Args:
        subflavors: What is added; it replaces what a sample has under the same names.

    Example:
        >>> Tagger({"a": 1})({"__key__": "x", "__subflavors__": {"a": 0, "b": 2}})
        {'__key__': 'x', '__subflavors__': {'a': 1, 'b': 2}}
    """

    def __init__(self, subflavors: Mapping[str, Any]) -> None:
        self._subflavors = dict(subflavors)

    def __repr__(self) -> str:
        return f"tag({self._subflavors!r})"

    def __call__(self, sample: Any) -> Any:
        """Return a shallow copy of the sample with the subflavors; the parts are those of the sample."""
        if isinstance(sample, dict):
            tagged = cast("dict[str, Any]", sample).copy()
            tagged["__subflavors__"] = {**(tagged.get("__subflavors__") or {}), **self._subflavors}
            return tagged
        if not hasattr(sample, "__subflavors__"):
            raise TypeError(
                f"tag needs samples, dicts or objects with __subflavors__, got a {type(sample).__name__}: put it in "
                "front of what makes something else of them"
            )
        tagged = copy.copy(sample)
        merged: dict[str, Any] = {**(sample.__subflavors__ or {}), **self._subflavors}
        object.__setattr__(tagged, "__subflavors__", merged)  # a frozen dataclass is tagged too
        return tagged


@add_verb
def tag(source: Node[X], *, subflavors: Mapping[str, Any]) -> Node[X]:
    """Add subflavors to all samples: what holds for the dataset, and tells cookers which samples are theirs.

    What is added replaces what a sample has under the same name; so the outermost of several tags wins, as with nested
    metadatasets. Dictionaries in subflavors are replaced, not merged.

    Example:
        >>> import energon_nodes as en
        >>> web = en.items([{"__key__": "a", "txt": "hi"}]).tag(subflavors={"kind": "web", "lang": "en"})
        >>> list(web.tag(subflavors={"lang": "de"}))
        [{'__key__': 'a', 'txt': 'hi', '__subflavors__': {'kind': 'web', 'lang': 'de'}}]

    Args:
        source: A node of samples: dicts of parts, or typed samples.
        subflavors: Names and values.

    Returns:
        A node of shallow copies of the samples; their parts are not copied.

    Raises:
        TypeError: If `subflavors` is no mapping; in a run, for an element that is no sample.
    """
    given: Any = subflavors
    if not isinstance(given, Mapping):
        raise TypeError(f"tag needs subflavors as a dict of names and values, got {given!r}")
    return Map(source, Tagger(subflavors))
