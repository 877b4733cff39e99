"""`resolve`: read what the lazy values in samples stand for."""

from __future__ import annotations

from typing import Any

from energon_nodes.combinators.map import Map
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.samples.lazy import resolve as resolved

__all__ = ["resolve"]


@add_verb
def resolve(source: Node[Any], *, on_error: ErrorPolicy | None = None) -> Node[Any]:
    """Replace the lazy values in samples by what they stand for.

    It is `map(energon_nodes.resolve)`, and belongs behind the buffers. `pack_to` and `pack` take the function as
    `encode=energon_nodes.resolve`; `parallel_map(energon_nodes.resolve)` does it in several threads.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     texts = en.store(folder, decode=True)
        ...     next(en.items([{"text": "a.txt"}]).map(lambda x: {"text": texts.lazy(x["text"])}).resolve())
        {'text': 'a cat'}

    Args:
        source: A node of samples, or of any values.
        on_error: What happens to a sample that cannot be read: "raise", "skip" or `callable(error, key)`; None takes
            the loader's.

    Returns:
        A node of samples without lazy values.
    """
    return Map(source, resolved, on_error=on_error)
