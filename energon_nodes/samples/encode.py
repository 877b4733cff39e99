"""Encode the values of a part as bytes, by the end of its name: the inverse of decoding."""

from __future__ import annotations

import io
import json
import operator
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from PIL import Image

from energon_nodes.core.spelling import listed

__all__ = ["encode_part"]

_IMAGES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP"}
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the time of writing must not show


def encode_part(part: str, value: Any, quality: int = 95) -> bytes:
    r"""Return the bytes of a part.

    The text after the last dot of the name decides, in any case of letters.

    | extension | values |
    |---|---|
    | any | bytes, bytearray, memoryview: as they are |
    | txt, text, transcript | str, as UTF-8 |
    | cls, cls2, index, inx, id | int, also of numpy or torch |
    | json, jsn | what `json.dumps` takes: tuples become lists, and NaN stays what it is |
    | npy | numpy array or number, torch tensor |
    | npz | mapping of names to these |
    | jpg, jpeg, png, webp | PIL image; uint8 array of shape (H, W) or (H, W, C); uint8 tensor of shape (C, H, W) |

    The same value gives the same bytes, with the same versions of numpy and Pillow.

    Example:
        >>> encode_part("txt", "Grüße"), encode_part("cls", 7), encode_part("meta.json", {"a": [1, None]})
        (b'Gr\xc3\xbc\xc3\x9fe', b'7', b'{"a": [1, null]}')
        >>> encode_part("html", "<p>")
        Traceback (most recent call last):
        ...
        ValueError: no rule turns a str into the bytes of a part 'html': give bytes, a function with encode={'html': ...

    Args:
        part: The name of the part.
        value: What it should decode to.
        quality: The quality of JPEG and WebP images, from 1 to 100; colour is stored at half the resolution.

    Returns:
        The bytes.

    Raises:
        ValueError: There is no rule for such a value, or the encoder refuses it.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)  # pyright: ignore[reportUnknownArgumentType]
    extension = part.rpartition(".")[2].lower()
    rule = _RULES.get(extension)
    try:
        if extension in _IMAGES:
            return _image(value, _IMAGES[extension], quality)
        data = None if rule is None else rule(value)
    except Exception as error:
        raise ValueError(
            f"{_kind(value)} cannot become the bytes of a part {part!r}: {type(error).__name__}: {error}"
        ) from error
    if data is None:
        fitting = f", or a name that ends with {listed(fits)}" if (fits := _extensions_for(value)) else ""
        raise ValueError(
            f"no rule turns {_kind(value)} into the bytes of a part {part!r}: give bytes, a function with "
            f"encode={{{part!r}: ...}}{fitting}"
        )
    return data


def _text(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else None


def _number(value: Any) -> bytes | None:
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        return None
    return str(operator.index(value)).encode()


def _json(value: Any) -> bytes:
    text = _to_json(value)
    try:
        return text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, which JSON holds as escapes only
        return json.dumps(value).encode()


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(value, torch.Tensor):
        return cast("np.ndarray[Any, Any]", value.detach().cpu().numpy())
    return np.asanyarray(cast("Any", value)) if isinstance(value, np.ndarray | np.generic) else None


def _npy(value: Any) -> bytes | None:
    array = _array(value)
    if array is None:
        return None
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _npz(value: Any) -> bytes | None:
    if not isinstance(value, Mapping):
        return None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # numpy.savez writes the time into it
        for name, array in cast("Mapping[Any, Any]", value).items():
            data = _npy(array)
            if data is None:
                raise TypeError(f"the entry {name!r} is {_kind(array)}, not an array")
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY), data)
    return buffer.getvalue()


def _image(value: Any, form: str, quality: int) -> bytes:
    if isinstance(value, Image.Image):
        image = value
    else:
        pixels = _array(value)
        if pixels is None:
            raise TypeError("an image is a PIL image, a numpy array or a torch tensor")
        if pixels.dtype != np.uint8:
            raise TypeError(f"the pixels are {pixels.dtype}, and images hold uint8, as decode(image='torchrgb8') gives")
        if isinstance(value, torch.Tensor) and pixels.ndim == 3:
            pixels = pixels.transpose(1, 2, 0)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)):
            order = "(C, H, W) for tensors" if isinstance(value, torch.Tensor) else "(H, W, C) for arrays"
            raise TypeError(f"the shape {tuple(value.shape)} is not that of an image: (H, W), or {order}")
        image = Image.fromarray(np.ascontiguousarray(pixels))
    buffer = io.BytesIO()
    options: dict[str, Any] = {} if form == "PNG" else {"quality": quality}
    if form == "JPEG":
        options["subsampling"] = "4:2:0"
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _kind(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, np.ndarray | torch.Tensor):
        array = cast("Any", value)
        return f"a {name} of {array.dtype} and shape {tuple(array.shape)}"
    return f"a {name}"


def _extensions_for(value: Any) -> list[str]:
    if isinstance(value, str):
        return ["txt"]
    if isinstance(value, np.ndarray | torch.Tensor):
        return ["npy"]
    if isinstance(value, Image.Image):
        return ["jpg", "png"]
    return ["json"] if isinstance(value, dict | list | tuple | int | float | bool) else []


_RULES: dict[str, Callable[[Any], bytes | None]] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), _number),
    **dict.fromkeys(("json", "jsn"), _json),
    "npy": _npy,
    "npz": _npz,
}
