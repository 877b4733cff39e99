"""Values that a program has made itself, put aside until they are needed: on disk as plain data, never as code."""

from __future__ import annotations

import io
import os
import pickle
from typing import TYPE_CHECKING, Any

from energon_nodes.core.encoders import decode_value, encode_value, register_encoder
from energon_nodes.core.errors import SampleError
from energon_nodes.samples.lazy import Lazy
from energon_nodes.storage.provenance import Source

if TYPE_CHECKING:
    from energon_nodes.samples.cache_pool import CachePool

__all__ = ["KeptLazy", "packed", "unpacked"]

_BYTES, _PLAIN = b"B", b"P"


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise SampleError(f"a file of the cache asks for {module_name}.{global_name}; this library did not write it")


def packed(value: Any) -> bytes:
    """Return a value as bytes.

    Args:
        value: Bytes, numbers, texts, arrays, tensors, PIL images, dataclasses, whatever else has a registered encoder,
            and containers of these.

    Raises:
        TypeError: A type inside the value has no encoder.

    Example:
        >>> unpacked(packed({"a": (1, b"2")}))
        {'a': (1, b'2')}
        >>> unpacked(b"P" + pickle.dumps(print))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.SampleError: a file of the cache asks for builtins.print; this library did not ...
    """
    if type(value) is bytes:
        return _BYTES + value
    try:
        return _PLAIN + pickle.dumps(encode_value(value), protocol=5)
    except TypeError as error:
        kind = type(value).__qualname__
        raise TypeError(
            f"to_cache cannot keep this {kind}: {str(error).partition(':')[0]}. Files of the cache hold plain data, no "
            "pickled objects: call energon_nodes.register_encoder for the type, or keep what it is made of"
        ) from error


def unpacked(data: bytes) -> Any:
    """Return the value that `packed` has turned into bytes; nothing in them can run code."""
    if data[:1] == _BYTES:
        return data[1:]
    return decode_value(_PlainUnpickler(io.BytesIO(memoryview(data)[1:])).load())


class KeptLazy(Lazy):
    """Stand for a value that was put into a cache pool; `pool.to_cache(value)` makes it.

    The file belongs to this object and goes with it. A pickle and a checkpoint hold the value itself. Where the pool
    has no room, the object holds the packed bytes: `get` returns the same in all cases.

    Example:
        >>> import energon_nodes as en
        >>> with en.cache_pool() as pool:
        ...     later = pool.to_cache([1, 2], "numbers")
        ...     later.get(), later.source, later == pool.to_cache([1, 2], "numbers")
        ([1, 2], None, False)

    Args:
        name: What it is called in messages.
        data: The packed value, or None if it lies in a file.
        path: The file.
        pool: The pool, which removes the file.
    """

    __slots__ = ("_data", "_path", "_pool", "_process")

    def __init__(self, name: str, data: bytes | None, path: str = "", pool: CachePool | None = None) -> None:
        self.name = name
        self._data, self._path, self._pool = data, path, pool
        self._process = os.getpid()

    def read(self) -> Any:
        """Return the value, a new one each time."""
        return unpacked(self._packed())

    @property
    def source(self) -> Source | None:
        """None: the value was made, not read."""
        return None

    def _packed(self) -> bytes:
        if self._data is not None:
            return self._data
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except OSError as error:
            raise SampleError(
                f"the value {self.name!r} is not in the cache pool {self._pool!r} any more: the pool was closed, or "
                f"the process that put it there has dropped it or ended ({error}). Call get() before"
            ) from error

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<lazy value {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptLazy, (self.name, self._packed())

    def __del__(self) -> None:
        if self._pool is not None and self._process == os.getpid():
            self._pool.drop_kept(self._path)


register_encoder(
    KeptLazy,
    "lazy_value",
    lambda lazy: [lazy.name, lazy._packed()],  # pyright: ignore[reportPrivateUsage]
    lambda encoded: KeptLazy(encoded[0], encoded[1]),
)
