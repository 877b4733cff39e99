"""Checks of settings that many nodes share: each error gives the rule, the value and who asks."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

__all__ = ["check_policy", "check_size", "plain_int"]


def plain_int(who: str, name: str, value: object) -> int:
    """Return a setting as a plain int; integers of numpy are taken, everything else is refused.

    Raises:
        TypeError: If it is no integer.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{who} needs an int {name}, got {name}={value!r}")
    return index(value)


def check_size(node: str, name: str, value: object, least: int) -> None:
    """Raise a ValueError unless `value` is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{node} needs an int {name} >= {least}, got {name}={value!r}")


def check_policy(node: str, policy: object, name: str = "on_error") -> None:
    """Raise a ValueError unless `policy` is an error policy, or None for that of the run."""
    if policy not in (None, "raise", "skip") and not callable(policy):
        raise ValueError(f'{node} needs {name}="raise", "skip" or a callable(error, key), got {policy!r}')
