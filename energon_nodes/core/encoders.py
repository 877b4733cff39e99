"""Values in checkpoints: plain data as it is, other types through registered encoders.

Buffers save restore keys. Only behind a node that cannot rebuild its elements (a foreign node, a
`pure=False` function) are values saved, and then as plain data that
`torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from energon_nodes.core.errors import StateError

__all__ = ["decode_value", "encode_value", "register_encoder"]

_SCALARS = (int, float, str, bytes, bool, type(None))
_encoders: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_decoders: dict[str, Callable[[Any], Any]] = {}


def register_encoder(kind: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Register how values of a type are saved in checkpoints.

    Args:
        kind: The type; subclasses need an entry of their own.
        name: The name under which the values stand in the checkpoint.
        encode: Turns a value into values that have encoders themselves (plain data, arrays, ...).
        decode: The inverse of `encode`.

    Raises:
        ValueError: If the name is taken by another type.

    Example:
        >>> from fractions import Fraction
        >>> register_encoder(Fraction, "fraction", lambda x: [x.numerator, x.denominator], lambda x: Fraction(*x))
        >>> decode_value(encode_value(Fraction(1, 3)))
        Fraction(1, 3)
    """
    if name in _decoders and _encoders.get(kind, ("", None))[0] != name:
        raise ValueError(f"an encoder named {name!r} exists already; choose another name for {kind.__qualname__}")
    _encoders[kind] = (name, encode)
    _decoders[name] = decode


def encode_value(value: Any) -> Any:
    """Return a value as plain data.

    Raises:
        TypeError: If a type inside the value has no encoder.

    Example:
        >>> encode_value({"a": (1, 2)})
        {'a': (1, 2)}
        >>> encode_value(object())
        Traceback (most recent call last):
        ...
        TypeError: a checkpoint cannot hold a value of type object: call energon_nodes.register_encoder for it, or ...
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        return kind(encode_value(item) for item in value)
    if kind is dict:
        items = cast("dict[Any, Any]", value)
        if all(isinstance(key, str) and key != "__encoded__" for key in items):
            return {key: encode_value(item) for key, item in items.items()}
        return {"__encoded__": "dict", "value": [(encode_value(key), encode_value(item)) for key, item in items.items()]}
    found = _encoders.get(kind) or _extra_encoder(kind)
    if found is not None:
        return {"__encoded__": found[0], "value": encode_value(found[1](value))}
    if dataclasses.is_dataclass(kind):
        fields = {field.name: encode_value(getattr(value, field.name)) for field in dataclasses.fields(kind)}
        return {"__encoded__": "dataclass", "type": f"{kind.__module__}:{kind.__qualname__}", "value": fields}
    raise TypeError(
        f"a checkpoint cannot hold a value of type {kind.__qualname__}: call energon_nodes.register_encoder for it, "
        "or make the nodes before the buffer restorable (a source with random access, pure functions), so that "
        "the buffer saves restore keys"
    )


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` has encoded.

    Raises:
        StateError: If the checkpoint names an encoder or a dataclass that this process does not know.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(decode_value(item) for item in value)
    if kind is not dict:
        return value
    name = value.get("__encoded__")
    if name is None:
        return {key: decode_value(item) for key, item in value.items()}
    inner = decode_value(value["value"])
    if name == "dataclass":
        return _rebuild_dataclass(value["type"], inner)
    if name not in _decoders:
        _extra_encoder(None)
    if name not in _decoders:
        raise StateError(f"the checkpoint holds a value saved by the encoder {name!r}, which is not registered here")
    return _decoders[name](inner)


def _rebuild_dataclass(path: str, fields: dict[str, Any]) -> Any:
    # A checkpoint must not import code: the type is looked up among the modules that are loaded.
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise StateError(f"the checkpoint holds a {path}, which is no dataclass known here: import its module first")
    result = object.__new__(found)
    for field, item in fields.items():
        object.__setattr__(result, field, item)
    return result


def _extra_encoder(kind: type | None) -> tuple[str, Callable[[Any], Any]] | None:
    """Register encoders for the types of libraries that are loaded, and return the one for `kind`."""
    if "torch" in sys.modules:
        import torch

        register_encoder(torch.Tensor, "tensor", lambda x: x.detach().cpu().numpy(), lambda x: torch.from_numpy(x.copy()))
    if "PIL.Image" in sys.modules or kind is None or kind.__module__.startswith("PIL"):
        from PIL import Image

        register_encoder(
            Image.Image,
            "pil",
            lambda x: [x.mode, list(x.size), x.tobytes()],
            lambda x: Image.frombytes(x[0], tuple(x[1]), x[2]),
        )
        if kind is not None and issubclass(kind, Image.Image):
            return _encoders[Image.Image]
    return _encoders.get(kind) if kind is not None else None


def _encode_array(value: np.ndarray[Any, Any]) -> Any:
    if value.dtype.hasobject:
        raise TypeError("a checkpoint cannot hold an array of Python objects; use a numeric dtype")
    return [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]


register_encoder(dict, "dict", lambda x: list(x.items()), lambda x: dict(x))
register_encoder(np.ndarray, "array", _encode_array, lambda x: np.frombuffer(x[2], x[0]).reshape(x[1]).copy())
