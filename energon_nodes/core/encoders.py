"""Values in checkpoints: plain data as it is, other types through registered encoders.

Buffers save restore keys. Only behind a node that cannot rebuild its elements (a foreign node, a
`pure=False` function) are values saved, and then as plain data that
`torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from energon_nodes.core.errors import StateError

__all__ = ["EMPTY_BYTES", "PLAIN_TYPES", "decode_value", "encode_value", "register_encoder"]

PLAIN_TYPES = frozenset({int, float, str, bytes, bool, type(None)})
"""The types of single values that a checkpoint holds as they are; subclasses are not among them."""

EMPTY_BYTES = {"__encoded__": "bytes", "value": ""}
"""Stands for `b""`, which `torch.save` writes in a way that `torch.load(weights_only=True)` refuses."""

_Encoder: TypeAlias = tuple[str, Callable[[Any], Any]]
_encoders: dict[type, _Encoder] = {}
_decoders: dict[str, Callable[[Any], Any]] = {}


def register_encoder(kind: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Register how values of a type are saved in checkpoints.

    Numpy arrays and scalars, torch tensors, PIL images, dataclasses and named tuples have encoders already.

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
    kind = cast("type[Any]", type(value))
    if kind in PLAIN_TYPES:
        return EMPTY_BYTES if kind is bytes and not value else value
    if kind is list:
        return [encode_value(item) for item in value]
    if kind is tuple:
        return tuple([encode_value(item) for item in value])
    if kind is dict:
        items = cast("dict[Any, Any]", value)
        if all(type(key) is str and key != "__encoded__" for key in items):
            return {key: encode_value(item) for key, item in items.items()}
    return _encode_object(value, cast("type[Any]", type(value)))


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` has encoded.

    Raises:
        StateError: If the checkpoint names an encoder or a type that this process does not know.

    Example:
        >>> decode_value(encode_value({1: np.float32(0.5)}))
        {1: np.float32(0.5)}
    """
    kind = cast("type[Any]", type(value))
    if kind is list:
        return [decode_value(item) for item in value]
    if kind is tuple:
        return tuple([decode_value(item) for item in value])
    if kind is not dict:
        return value
    name = value.get("__encoded__")
    if name is None:
        return {key: decode_value(item) for key, item in value.items()}
    inner = decode_value(value["value"])
    if name == "dataclass":
        result = object.__new__(_type_at(value["type"], dataclasses.is_dataclass))
        for field, item in inner.items():
            object.__setattr__(result, field, item)
        return result
    if name == "namedtuple":
        return _type_at(value["type"], _is_named_tuple)._make(inner)
    if name not in _decoders:
        _register_torch()
        _register_pillow()
    if name not in _decoders:
        raise StateError(f"the checkpoint holds a value saved by the encoder {name!r}, which is not registered here")
    return _decoders[name](inner)


def _encode_object(value: Any, kind: type[Any]) -> dict[str, Any]:
    found = _encoders.get(kind) or _find_encoder(kind)
    if found is not None:
        return {"__encoded__": found[0], "value": encode_value(found[1](value))}
    if dataclasses.is_dataclass(kind):
        fields = {field.name: encode_value(getattr(value, field.name)) for field in dataclasses.fields(kind)}
        return {"__encoded__": "dataclass", "type": _path_of(kind), "value": fields}
    if _is_named_tuple(kind):
        return {"__encoded__": "namedtuple", "type": _path_of(kind), "value": [encode_value(item) for item in value]}
    raise TypeError(
        f"a checkpoint cannot hold a value of type {kind.__qualname__}: call energon_nodes.register_encoder for it, "
        "or make the nodes before the buffer restorable (a source with random access, pure functions), so that "
        "the buffer saves restore keys"
    )


# ---- types that are found by their name ------------------------------------------------------


def _is_named_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and hasattr(cast("Any", kind), "_fields")


def _path_of(kind: type[Any]) -> str:
    path = f"{kind.__module__}:{kind.__qualname__}"
    if _at(path) is not kind:
        raise TypeError(
            f"a checkpoint cannot hold a value of {kind.__qualname__}: it could not be found again under that name in "
            f"{kind.__module__}; define the class at the top of a module"
        )
    return path


def _type_at(path: str, fits: Callable[[type[Any]], bool]) -> Any:
    # A checkpoint must not import code: the type is looked up among the modules that are loaded.
    found = _at(path)
    if not (isinstance(found, type) and fits(found)):
        raise StateError(f"the checkpoint holds a {path}, which is not known here: import its module first")
    return found


def _at(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# ---- encoders that come with the library -----------------------------------------------------


def _find_encoder(kind: type[Any]) -> _Encoder | None:
    """Return the encoder for a type that has no entry of its own, and give it one."""
    if issubclass(kind, np.generic):
        found = _encoders[np.generic]
    elif kind.__module__.partition(".")[0] == "PIL":
        found = _register_pillow(kind)
    elif kind.__module__.partition(".")[0] == "torch":
        found = _register_torch(kind)
    else:
        found = None
    if found is not None:
        _encoders[kind] = found
    return found


def _encode_array(value: Any) -> list[Any]:
    if value.dtype.hasobject:
        raise TypeError("a checkpoint cannot hold an array of Python objects; use a numeric dtype")
    return [dtype_to_descr(value.dtype), list(value.shape), value.tobytes()]


def _decode_array(encoded: list[Any]) -> Any:
    descr, shape, data = encoded
    return np.ndarray(shape, descr_to_dtype(descr), data).copy()


def _register_torch(kind: type[Any] | None = None) -> _Encoder | None:
    """Register an encoder for tensors where torch is loaded, and return it if `kind` is their type."""
    if "torch" not in sys.modules:
        return None
    import torch  # only where the program has loaded it

    def encode(value: torch.Tensor) -> list[Any]:
        if value.layout != torch.strided or value.is_quantized:
            raise TypeError(f"a checkpoint cannot hold a {value.layout} tensor; make it a dense one")
        flat = value.detach().cpu().contiguous().reshape(-1)
        return [str(value.dtype).removeprefix("torch."), list(value.shape), flat.view(torch.uint8).numpy().tobytes()]

    def decode(encoded: list[Any]) -> torch.Tensor:
        dtype, shape, data = encoded
        result = torch.empty(shape, dtype=getattr(torch, dtype))
        result.view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(data, np.uint8)
        return result

    if torch.Tensor not in _encoders:
        register_encoder(torch.Tensor, "tensor", encode, decode)
    return _encoders[torch.Tensor] if kind is torch.Tensor else None


def _register_pillow(kind: type[Any] | None = None) -> _Encoder | None:
    """Register an encoder for PIL images, and return it if `kind` is a type of them."""
    from PIL import Image  # only for programs that save images

    def encode(value: Image.Image) -> list[Any]:
        pixels = value.tobytes()  # loads the image: its palette is known after that
        palette = value.palette and [value.palette.mode, bytes(value.getpalette(value.palette.mode) or b"")]
        info = {name: item for name, item in value.info.items() if _is_plain(item)}
        return [value.mode, list(value.size), pixels, palette, info]

    def decode(encoded: list[Any]) -> Image.Image:
        mode, size, pixels, palette, info = encoded
        result = Image.frombytes(mode, tuple(size), pixels)
        if palette is not None:
            result.putpalette(palette[1], palette[0])
        result.info.update(info)
        return result

    if Image.Image not in _encoders:
        register_encoder(Image.Image, "pil", encode, decode)
    return _encoders[Image.Image] if kind is not None and issubclass(kind, Image.Image) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, cast("list[Any]", value)))
    return type(value) in PLAIN_TYPES


register_encoder(dict, "dict", lambda x: list(x.items()), dict)
register_encoder(set, "set", list, set)
register_encoder(frozenset, "frozenset", list, frozenset)
register_encoder(bytearray, "bytearray", bytes, bytearray)
register_encoder(bytes, "bytes", bytes.decode, str.encode)  # only empty ones
register_encoder(complex, "complex", lambda x: [x.real, x.imag], lambda x: complex(*x))
register_encoder(np.ndarray, "array", _encode_array, _decode_array)
register_encoder(np.generic, "scalar", _encode_array, lambda encoded: _decode_array(encoded)[()])
