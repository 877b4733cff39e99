"""How user functions are called: with the random numbers of their element."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from energon_nodes.core.graph import is_stateful
from energon_nodes.core.randomness import ElementRandom, global_seed

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = ["Rng", "bind_call", "check_function", "check_size", "is_pure", "seeded_call"]

Rng: TypeAlias = bool | Literal["global"]
"""False: no random numbers. True: a generator is passed. "global": the global generators are seeded."""


def check_function(node: str, name: str, function: object, rng: Rng = False) -> None:
    """Raise unless `function` is callable and `rng` one of its three values."""
    if not callable(function):
        raise TypeError(f"{node} needs a callable {name}, got {function!r}")
    if rng is not True and rng is not False and rng != "global":
        raise ValueError(f'{node} needs rng=False, True or "global", got {rng!r}')


def check_size(node: str, name: str, value: object, least: int) -> None:
    """Raise a ValueError unless `value` is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{node} needs {name} >= {least}, got {name}={value!r}")


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


@lru_cache(maxsize=64)
def _element_random(seed: int, identity: tuple[Any, ...]) -> ElementRandom:
    return ElementRandom(seed, identity, "element")


def seeded_call(
    function: Callable[..., Any], rng: Rng, seed: int, identity: tuple[Any, ...], value: Any, key: Any
) -> Any:
    """Call `function` in another process as `bind_call` would in this one."""
    if rng is False:
        return function(value)
    source = _element_random(seed, identity)
    if rng is True:
        return function(value, source.at(key))
    with global_seed(source.seed_at(key)):
        return function(value)
