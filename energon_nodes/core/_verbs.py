"""The class that carries the fluent verbs; `_verbs.pyi`, generated beside it, has their signatures."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T", covariant=True)


class Verbs(Generic[T]):
    """Carry one method for each verb; node classes add them when they are defined."""
