"""How user functions are called: with the random numbers of their element."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from energon_nodes.core.graph import is_stateful
from energon_nodes.core.randomness import ElementRandom, global_seed

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = [
    "Rng",
    "bind_call",
    "check_function",
    "check_sources",
    "is_generator_function",
    "is_pure",
    "refuse_generator",
]

Rng: TypeAlias = bool | Literal["global"]
"""False: no random numbers. True: a generator is passed. "global": the global generators are seeded."""


def check_function(node: str, name: str, function: object, rng: Rng = False) -> None:
    """Raise unless `function` is callable and `rng` one of its three values."""
    if not callable(function):
        raise TypeError(f"{node} needs a callable {name}, got {function!r}")
    if rng is not True and rng is not False and rng != "global":
        raise ValueError(f'{node} needs rng=False, True or "global", got {rng!r}')


def is_generator_function(function: object) -> bool:
    """Return whether calling `function` makes a generator: also a method, a partial, or an object with `__call__`.

    Example:
        >>> def twice(value):
        ...     yield value
        ...     yield value
        >>> is_generator_function(twice), is_generator_function(print)
        (True, False)
    """
    return isgeneratorfunction(function) or isgeneratorfunction(getattr(type(function), "__call__", None))  # noqa: B004


def refuse_generator(node: str, name: str, function: object, remedy: str) -> None:
    """Raise a TypeError if calling `function` would only make a generator, and run none of its code."""
    if is_generator_function(function):
        raise TypeError(f"{node} needs a {name} that returns, got the generator function {function!r}: {remedy}")


def check_sources(node: str, sources: tuple[object, ...]) -> None:
    """Raise a ValueError unless there is a node to read from."""
    if not sources:
        raise ValueError(f"{node} needs at least one source, got none")


def is_pure(function: object, pure: bool | None) -> bool:
    """Return whether calls can be repeated: as the user says, else unless the function has a state."""
    return not is_stateful(function) if pure is None else pure


def bind_call(
    node: Node[Any], function: Callable[..., Any], rng: Rng, seed: int | None, *, fresh: bool = False
) -> Callable[[Any, Any], Any]:
    """Return `call(value, key)` that calls `function` with the random numbers of the element `key`.

    Args:
        node: The bound node that calls; its identity sets its draws apart from those of others.
        function: `function(value)`, or `function(value, generator)` with `rng=True`.
        rng: How the function gets its random numbers.
        seed: The node's own seed, or None for the seed of the run.
        fresh: Whether every call gets a generator of its own, for functions that use it after they return.

    Returns:
        A function of value and restore key.
    """
    if rng is False:
        return lambda value, key: function(value)
    source = ElementRandom(node.context.seed if seed is None else seed, node.identity, "element")
    if rng is True and fresh:
        return lambda value, key: function(value, source.fresh(key))
    if rng is True:
        return lambda value, key: function(value, source.at(key))

    def call_seeded(value: Any, key: Any) -> Any:
        with global_seed(source.seed_at(key)):
            return function(value)

    return call_seeded
