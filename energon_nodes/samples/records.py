"""What has named fields: mappings, dataclasses and named tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, cast

__all__ = ["has_fields", "is_named_tuple", "names_of", "required_of"]


def is_named_tuple(kind: type[Any]) -> bool:
    """Tell whether a type is a named tuple."""
    return hasattr(kind, "_fields") and issubclass(kind, tuple)


def has_fields(value: Any) -> bool:
    """Tell whether a value has named fields that can be gone into."""
    kind = cast("type[Any]", type(value))
    return isinstance(value, Mapping) or is_dataclass(kind) or is_named_tuple(kind)


def names_of(kind: type[Any]) -> list[str]:
    """Return the fields of a dataclass or a named tuple; other types have none."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    return list(getattr(kind, "_fields", ()))


def required_of(kind: type[Any]) -> list[str]:
    """Return the fields that have to be given when a dataclass or a named tuple is made."""
    if is_dataclass(kind):
        return [
            field.name
            for field in fields(kind)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        ]
    defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
    return [name for name in names_of(kind) if name not in defaults]
