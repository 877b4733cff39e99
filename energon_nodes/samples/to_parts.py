"""From elements of a pipeline to named parts of bytes: what a shard holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, cast

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import SampleError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.samples.encode import encode_part
from energon_nodes.storage.tar_writer import member_name

__all__ = ["Encode", "Encoded", "ToParts"]

Encode: TypeAlias = str | Callable[[Any], bytes] | tuple[str, Callable[[Any], bytes]] | None
"""How a field is written: under the name of a part, through a function, both, or (None) not at all."""

Encoded: TypeAlias = tuple[str | None, dict[str, bytes]]
"""The key of a sample, None where it has none, and its parts."""

_OURS = frozenset({"__key__", "__restore_key__", "__shard__", "__sources__", "__subflavors__"})
_FORM = "a part name, a function of the value that returns bytes, (part name, function), or None to leave it out"


class ToParts:
    """Turn samples, dicts or dataclasses, into a key and the bytes of their parts.

    Args:
        encode: How fields are written, by name; others are written under their own name.
        key: Makes the key of a sample; None takes `__key__`.
        quality: The quality of JPEG and WebP images.

    Raises:
        TypeError: An entry of `encode` says none of the things that it can say.
        ValueError: Two entries name the same part.

    Example:
        >>> to_parts = ToParts({"caption": "txt", "length": None})
        >>> to_parts({"__key__": "a", "caption": "a cat", "length": 5, "json": {"id": 1}})
        ('a', {'txt': b'a cat', 'json': b'{"id": 1}'})
    """

    def __init__(
        self,
        encode: Mapping[str, Encode] | None = None,
        key: Callable[[Any], str] | None = None,
        quality: int = 95,
    ) -> None:
        check_size("write", "quality", quality, 1)
        if quality > 100:
            raise ValueError(f"write needs quality <= 100, got quality={quality}")
        if key is not None and not callable(key):
            raise TypeError(f"write needs key as a function of a sample, or None for its __key__, got {key!r}")
        self._key = key
        self._quality = quality
        self._rules: dict[str, tuple[str, Callable[[Any], bytes] | None] | None] = {}
        for name, rule in (encode or {}).items():
            self._rules[name] = _rule_of(name, rule)
        named = [rule[0] for rule in self._rules.values() if rule is not None]
        twice = sorted({part for part in named if named.count(part) > 1})
        if twice:
            raise ValueError(f"encode writes two fields under the part {twice[0]!r}; every part has a name of its own")

    def __repr__(self) -> str:
        return "ToParts"

    def described(self) -> dict[str, str | None]:
        """Return what `encode` says as plain data, for a comparison with an earlier run."""
        return {name: None if rule is None else rule[0] for name, rule in self._rules.items()}

    def __call__(self, sample: Any) -> Encoded:
        """Return the key and the parts of a sample.

        Raises:
            SampleError: A value cannot be written, or a name cannot be.
        """
        values = self._values(sample)
        key = self._key_of(sample, values)
        parts: dict[str, bytes] = {}
        for name, value in values.items():
            if name in _OURS:
                continue
            rule = self._rules.get(name, (name, None))
            if rule is None:
                continue
            part, function = rule
            if part in parts:
                raise SampleError(f"{_name(key)} has two fields for the part {part!r}; rename one with encode=")
            try:
                member_name("a" if key is None else key, part)
                parts[part] = self._bytes(name, part, value, function)
            except ValueError as error:
                raise SampleError(f"{_name(key)} cannot be written: {error}") from error
        if not parts:
            raise SampleError(f"{_name(key)} has no parts, and a shard holds nothing but parts")
        return key, parts

    def _values(self, sample: Any) -> Mapping[str, Any]:
        if isinstance(sample, Mapping):
            values = cast("Mapping[Any, Any]", sample)
            for name in values:
                if not isinstance(name, str):
                    raise SampleError(f"a sample has the field {name!r}, and the names of parts are text")
            return values
        if not is_dataclass(sample) or isinstance(sample, type):
            raise SampleError(
                f"an element is a {type(sample).__name__}, and samples are dicts of parts or dataclasses: make such of "
                "it with map(...) (a batch with unbatch())"
            )
        names = [field.name for field in fields(sample)]
        unknown = sorted(set(self._rules) - set(names))
        if unknown:
            raise SampleError(
                f"encode names the field {unknown[0]!r}, which {type(sample).__name__} does not have"
                f"{did_you_mean(unknown[0], names)}; its fields: {listed(names)}"
            )
        found = {name: getattr(sample, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _key_of(self, sample: Any, values: Mapping[str, Any]) -> str | None:
        key = values.get("__key__") if self._key is None else self._key(sample)
        if key is not None and not isinstance(key, str):
            raise SampleError(f"the key of a sample is text, got {key!r}: make it so with key=lambda sample: ...")
        if key is None and self._key is not None:
            raise SampleError("the function key= returned None for a sample")
        return key

    def _bytes(self, name: str, part: str, value: Any, function: Callable[[Any], bytes] | None) -> bytes:
        if function is None:
            return encode_part(part, value, self._quality)
        data: Any = function(value)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ValueError(f"the function for {name!r} in encode returned a {type(data).__name__}, not bytes")
        return bytes(cast("bytes", data))


def _rule_of(name: str, rule: Any) -> tuple[str, Callable[[Any], bytes] | None] | None:
    if rule is None:
        return None
    part, function = name, rule
    if isinstance(rule, str):
        part, function = rule, None
    elif isinstance(rule, tuple) and len(cast("tuple[Any, ...]", rule)) == 2:
        part, function = cast("tuple[Any, Any]", rule)
    if not isinstance(part, str) or not (function is None or callable(function)):
        raise TypeError(f"encode[{name!r}] must be {_FORM}, got {rule!r}")
    return part, cast("Callable[[Any], bytes] | None", function)


def _name(key: str | None) -> str:
    return "a sample" if key is None else f"the sample {key!r}"
