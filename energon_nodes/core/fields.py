"""The kinds of fields a node declares besides its plain configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

__all__ = ["buffer", "kind_of", "scratch", "shared", "state", "tuning"]

_KIND = "energon_nodes.kind"


def _declare(kind: str, **options: Any) -> Any:
    metadata = {_KIND: kind} | options.pop("metadata", {})
    return dataclasses.field(metadata=metadata, **options)


def kind_of(field: dataclasses.Field[Any]) -> str:
    """Return what a field is: "config", "tuning", "state", "buffer", "shared" or "scratch"."""
    return field.metadata.get(_KIND, "config")


def state(kind: Callable[[], Any] = int, *, per_pass: bool = True, init: Literal[False] = False) -> Any:
    """Declare a field that is saved as it is: an int, float, str, bytes, bool, or lists and dicts of them.

    Args:
        kind: Makes the value before the first element, e.g. `int` for 0.
        per_pass: Whether the next pass begins with a fresh value.
        init: Tells type checkers that the field is no argument of the class; leave it.

    Example:
        >>> from energon_nodes.core.node import Node
        >>> class First(Node[int]):
        ...     source: Node[int]
        ...     taken: int = state(int)
        ...
        ...     def run(self):
        ...         for pair in self.source.pairs():
        ...             if self.taken:
        ...                 return
        ...             self.taken += 1
        ...             yield pair
        >>> import energon_nodes as en
        >>> list(First(en.items([3, 4])))
        [3]
    """
    return _declare("state", init=init, repr=False, default_factory=kind, metadata={"per_pass": per_pass})


def buffer(*, lazy: bool = False, columns: bool = False, init: Literal[False] = False) -> Any:
    """Declare a buffer of pairs: elements that were pulled and not delivered yet.

    Its state is the restore keys of its pairs, never the values.

    Args:
        lazy: Leave the values unbuilt after a resume; the node rebuilds them when it needs them.
            Otherwise they are rebuilt together before `run` is entered.
        columns: Keep flat integer keys in columns, for large buffers: the state of 10,000 elements
            is then taken in some microseconds.
        init: Tells type checkers that the field is no argument of the class; leave it.

    Example:
        >>> from energon_nodes.core.node import Node
        >>> from energon_nodes.core.restore import Buffer
        >>> class Pairs(Node[tuple[int, int]]):
        ...     source: Node[int]
        ...     held: Buffer = buffer()
        ...
        ...     def run(self):
        ...         for pair in self.source.pairs():
        ...             self.held.append(pair)
        ...             if len(self.held) == 2:
        ...                 (first, one), (second, two) = self.held
        ...                 self.held.clear()
        ...                 yield (first, second), (one, two)
        >>> import energon_nodes as en
        >>> list(Pairs(en.items(range(4))))
        [(0, 1), (2, 3)]
    """
    options = {"lazy": lazy, "columns": columns}
    return _declare("buffer", init=init, repr=False, default=None, metadata=options)


def tuning(default: Any = dataclasses.MISSING) -> Any:
    """Declare configuration that may differ between saving and loading: it does not shape the order.

    Args:
        default: The value where none is given; without it the argument is required. Give it by name: that is
            where type checkers look.

    Example:
        >>> from energon_nodes.core.node import Node
        >>> class Logged(Node[int]):
        ...     source: Node[int]
        ...     label: str = tuning(default="")
        ...
        ...     def run(self):
        ...         yield from self.source.pairs()
        >>> import energon_nodes as en
        >>> state = Logged(en.items(range(4)), "before").state_dict()
        >>> Logged(en.items(range(4)), "after").reset(state)
    """
    return _declare("tuning", default=default)


def shared(default: Any = None, *, init: Literal[False] = False) -> Any:
    """Declare an immutable heavy part, such as an index: made in `check`, shared by clones, part of pickles.

    Args:
        default: The value before `check` has made the part.
        init: Tells type checkers that the field is no argument of the class; leave it.

    Example:
        >>> from energon_nodes.core.node import Node
        >>> class Words(Node[str]):
        ...     text: str
        ...     words: list[str] = shared()
        ...
        ...     def check(self):
        ...         self.words = self.text.split()
        ...
        ...     def run(self):
        ...         yield from ((word, (self.epoch, number)) for number, word in enumerate(self.words))
        >>> node = Words("a b c")
        >>> node.clone().words is node.words
        True
    """
    return _declare("shared", init=init, repr=False, default=default)


def scratch(kind: Callable[[], Any], *, init: Literal[False] = False) -> Any:
    """Declare a run-time object, such as a queue of futures: never saved, made anew for each pass and load.

    Args:
        kind: Makes the object.
        init: Tells type checkers that the field is no argument of the class; leave it.

    Example:
        >>> from energon_nodes.core.node import Node
        >>> class Lengths(Node[int]):
        ...     source: Node[str]
        ...     known: dict[str, int] = scratch(dict)  # a cache: losing it changes nothing
        ...
        ...     def run(self):
        ...         for value, key in self.source.pairs():
        ...             if value not in self.known:
        ...                 self.known[value] = len(value)
        ...             yield self.known[value], key
        >>> import energon_nodes as en
        >>> list(Lengths(en.items(["a", "bc", "a"])))
        [1, 2, 1]
    """
    return _declare("scratch", init=init, repr=False, default_factory=kind)
