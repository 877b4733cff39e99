"""Decode the basic parts: text, numbers, JSON, arrays, msgpack, CBOR, tensors and pickles.

Every decoder takes the bytes of a part. Those that could run code or blow up get `Limits` as well.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from energon_nodes.core.errors import FatalSampleError, TrustError

__all__ = ["Limits", "basic_decoder", "inflate"]

CHUNK = 16
"""Bytes of the header of a chunk of webdataset's tensor format: a magic number and a length."""


class Limits(NamedTuple):
    """Say what the content of a part may do.

    Args:
        trust: Whether pickles may be loaded, which can run any code.
        inflate: The most bytes that a compressed part may unpack to.

    Example:
        >>> Limits(trust=False, inflate=1 << 20).trust
        False
    """

    trust: bool
    inflate: int


def basic_decoder(extension: str, limits: Limits) -> Callable[[bytes], Any] | None:
    """Return the decoder for an extension.

    Args:
        extension: In lower case, without a dot.
        limits: What the content may do.

    Returns:
        A function from bytes to a value, or None for an extension that is not known.

    Example:
        >>> basic_decoder("cls", Limits(False, 1 << 20))(b"7")
        7
    """
    if extension in _PLAIN:
        return _PLAIN[extension]
    if extension in _LIMITED:
        decode = _LIMITED[extension]
        return lambda data: decode(data, limits)
    return None


def inflate(data: bytes, limit: int) -> bytes:
    """Unpack gzip bytes, of one or more members.

    Args:
        data: The compressed bytes.
        limit: The most bytes to unpack to; `decode(inflate_limit=)` sets it.

    Raises:
        ValueError: The bytes are cut short, or unpack to more than `limit` bytes.
        zlib.error: The bytes are not gzip, or damaged.

    Example:
        >>> import gzip
        >>> inflate(gzip.compress(b"text"), limit=10)
        b'text'
    """
    found: list[bytes] = []
    room = limit
    while True:
        member = zlib.decompressobj(wbits=31)
        piece = member.decompress(data, room + 1)
        if len(piece) > room:
            raise _too_large(limit)
        if not member.eof:
            raise ValueError("the gzip bytes end too early")
        found.append(piece)
        room -= len(piece)
        data = member.unused_data.lstrip(b"\0")  # padding between and after members is allowed
        if not data:
            return found[0] if len(found) == 1 else b"".join(found)


def _too_large(limit: int) -> ValueError:
    return ValueError(f"it unpacks to more than {limit} bytes; if that is right, set inflate_limit=")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except ValueError:  # UTF-8 with a byte order mark, UTF-16, UTF-32, or an error for the user
        return json.loads(data)


def _msgpack(data: bytes) -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise _missing("msgpack", "msgpack") from error
    return cast(Any, msgpack).unpackb(data, strict_map_key=False)


def _cbor(data: bytes) -> Any:
    try:
        import cbor2
    except ImportError as error:
        raise _missing("cbor2", "cbor") from error
    return cast(Any, cbor2).loads(data)


def _missing(package: str, extra: str) -> FatalSampleError:
    # Not a SampleError: a policy that skips bad samples would empty the dataset in silence.
    return FatalSampleError(
        f"it needs the package {package}, which is not installed: pip install 'energon_nodes[{extra}]', "
        "or leave the part as bytes with parts="
    )


def _tenbin(data: bytes) -> list[NDArray[Any]]:
    # webdataset's own decoder trusts the lengths, and a negative one keeps it in its loop for ever.
    offset = 0
    while offset < len(data):
        length = int.from_bytes(data[offset + 8 : offset + CHUNK], "little", signed=True)
        if not 0 <= length <= len(data) - offset - CHUNK:
            raise ValueError(f"the chunk at byte {offset} says it has {length} bytes, which the part does not hold")
        offset += CHUNK + -(-length // 64) * 64
    from webdataset import tenbin  # here, since importing webdataset takes long

    return cast(Any, tenbin).decode_buffer(bytearray(data))  # a bytearray, so that the arrays can be written to


def _npy(data: bytes, limits: Limits) -> NDArray[Any]:
    try:
        # Not numpy.load: with trust it would take anything that is no array for a pickle.
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=limits.trust)
    except MemoryError as error:
        raise ValueError(f"its header promises more than memory holds, in {len(data)} bytes") from error
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise _untrusted("an array of Python objects, which is a pickle") from error
        raise


def _npz(data: bytes, limits: Limits) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if size > limits.inflate:
            raise _too_large(limits.inflate)
        return {
            member.filename.removesuffix(".npy"): _npy(archive.read(member), limits)
            if member.filename.endswith(".npy")
            else archive.read(member)
            for member in members
        }


def _pth(data: bytes, limits: Limits) -> Any:
    load = cast(Any, torch.load)
    try:
        return load(io.BytesIO(data), map_location="cpu", weights_only=not limits.trust)
    except pickle.UnpicklingError as error:
        if limits.trust:
            raise
        if "GLOBAL" in str(error):
            raise _untrusted("a torch file with more than tensors and plain values, which is a pickle") from error
        # torch's message would send the user to weights_only=False, which does not help with damaged bytes.
        reason = str(error).partition("WeightsUnpickler error: ")[2].partition("\n")[0]
        raise ValueError(f"torch.load takes it for damaged: {reason}") from error


def _pickle(data: bytes, limits: Limits) -> Any:
    if not limits.trust:
        raise _untrusted("a pickle")
    return pickle.loads(data)


def _untrusted(what: str) -> TrustError:
    return TrustError(
        f"it holds {what}, and loading one can run any code: allow it with trust=True if you trust where the data "
        "come from, or leave the part as bytes with parts="
    )


_PLAIN: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), bytes.decode),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), _json),
    **dict.fromkeys(("mp", "msg"), _msgpack),
    **dict.fromkeys(("ten", "tb"), _tenbin),
    "cbor": _cbor,
}

_LIMITED: dict[str, Callable[[bytes, Limits], Any]] = {
    **dict.fromkeys(("pkl", "pickle", "pyd"), _pickle),
    "npy": _npy,
    "npz": _npz,
    "pth": _pth,
}
