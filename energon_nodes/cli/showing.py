"""What people see of the parts of a sample: shortened text, readable JSON, sizes of pictures, small pictures."""

from __future__ import annotations

import base64
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from energon_nodes.cli.printing import readable_json, shortened
from energon_nodes.recipes.lint_samples import reason_of
from energon_nodes.samples.image_modes import IMAGE_EXTENSIONS
from energon_nodes.samples.parts import Limits, basic_decoder, inflate
from energon_nodes.samples.sniff import sniff

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["MOST_BYTES", "ShownPart", "show_part"]

MOST_BYTES = 32 << 20
"""Of larger parts only the beginning is read, so pictures larger than this are not shown."""

_TEXTS = ("txt", "text", "transcript", "caption", "md", "html", "xml", "csv", "tsv", "yaml", "yml", "srt", "vtt", "py")
_NUMBERS = ("cls", "cls2", "index", "inx", "id")
_LONGEST_JSON = 1 << 20
_INFLATED = 64 << 20


@dataclass(frozen=True)
class ShownPart:
    """Hold what people see of one part.

    Example:
        >>> show_part("txt", b"a cat", 5, 100)
        ShownPart(name='txt', size=5, kind='text', detail='', text='a cat', picture=None, error=None)

    Args:
        name: The name of the part.
        size: Its bytes.
        kind: "image", "text", "json", "number", "array" or "bytes".
        detail: What it is, in a few words, such as "320×240 JPEG RGB".
        text: Its content as text, shortened; "" for pictures.
        picture: A small picture as the text of a `data:` URL.
        error: Why it cannot be shown.
    """

    name: str
    size: int
    kind: str
    detail: str = ""
    text: str = ""
    picture: str | None = None
    error: str | None = None


def show_part(name: str, data: bytes, size: int, length: int, thumbnail: int = 0) -> ShownPart:
    """Make of a part what people see of it. Nothing in it is run, whatever it is.

    Example:
        >>> show_part("json", b'{"a": [1, 2]}', 13, 100).text
        '{"a": [1, 2]}'
        >>> show_part("jpg", b"no picture", 10, 100).error
        'UnidentifiedImageError: ...'

    Args:
        name: The name of the part.
        data: Its content, or the first `MOST_BYTES` of it.
        size: The bytes that it has.
        length: How many characters of text are kept.
        thumbnail: The longer side of the small picture; 0 for none. JSON is set in lines where there is one.

    Returns:
        What to show.
    """
    extension = name.lower().rpartition(".")[2]
    if extension == "gz" and len(data) == size:
        try:
            inner = show_part(name[:-3], inflate(data, _INFLATED), size, length, thumbnail)
        except Exception as error:  # damaged files raise whatever the decoder ran into
            return ShownPart(name, size, "bytes", "gzip", error=_said(error))
        return ShownPart(name, size, inner.kind, f"gzip {inner.detail}".strip(), inner.text, inner.picture, inner.error)
    show = _way(extension, data)
    try:
        kind, detail, text, picture = show(_Content(extension, data, size, length, thumbnail))
    except Exception as error:
        kind = "image" if show is _image else "json" if show is _json else "bytes"
        text = "" if show is _image else _beginning(data, length)
        return ShownPart(name, size, kind, text=text, error=_said(error))
    return ShownPart(name, size, kind, detail, text, picture)


class _Content(NamedTuple):
    """Hold what is to be shown, and how much of it."""

    extension: str
    data: bytes
    size: int
    length: int
    thumbnail: int


_Shown = tuple[str, str, str, str | None]


def _way(extension: str, data: bytes) -> Callable[[_Content], _Shown]:
    if extension in IMAGE_EXTENSIONS:
        return _image
    if extension in ("json", "jsn"):
        return _json
    if extension in _TEXTS:
        return _text
    if extension in _NUMBERS:
        return _number
    if extension in ("npy", "ten", "tb", "npz"):
        return _array
    if sniff(data) == "image":
        return _image
    return _bytes


def _said(error: Exception) -> str:
    return shortened(reason_of(error), 300)


def _text(content: _Content) -> _Shown:
    text = content.data[: 4 * content.length + 4].decode("utf-8", "replace")
    # Counted in characters where all of it is there, guessed from the bytes where it is not.
    more = (
        len(text) - content.length
        if len(content.data) <= 4 * content.length + 4 and len(content.data) == content.size
        else content.size - content.length
    )
    wrong = "not UTF-8" if "\ufffd" in text[: content.length] and b"\xef\xbf\xbd" not in content.data else ""
    return "text", wrong, text if len(text) <= content.length else f"{text[: content.length]}… ({more} more)", None


def _json(content: _Content) -> _Shown:
    if content.size > _LONGEST_JSON:
        return "json", "", _beginning(content.data, content.length), None
    value = json.loads(content.data)
    text = readable_json(value) if content.thumbnail else json.dumps(value, ensure_ascii=False)
    return "json", _outline(value), shortened(text, content.length), None


def _outline(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value)} keys"  # pyright: ignore[reportUnknownArgumentType]
    return f"{len(value)} elements" if isinstance(value, list) else ""  # pyright: ignore[reportUnknownArgumentType]


def _number(content: _Content) -> _Shown:
    return "number", "", str(int(content.data)), None


def _array(content: _Content) -> _Shown:
    if len(content.data) < content.size:
        return "array", "", "", None
    decode = basic_decoder(content.extension, Limits(False, _INFLATED))
    value: Any = decode(content.data) if decode is not None else content.data
    if isinstance(value, dict):
        pieces = [f"{name}: {_shape(array)}" for name, array in cast("dict[str, Any]", value).items()]
    else:
        pieces = [_shape(array) for array in cast("list[Any]", value if isinstance(value, list) else [value])]
    return "array", shortened(", ".join(pieces), 200), "", None


def _shape(array: Any) -> str:
    return f"{array.dtype} {'×'.join(map(str, array.shape)) or 'scalar'}"


def _bytes(content: _Content) -> _Shown:
    return "bytes", "", _beginning(content.data, min(content.length, 64)), None


def _beginning(data: bytes, length: int) -> str:
    """Return the beginning of bytes: as text where it is text, else in hexadecimal."""
    head = data[:length]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        text = head[: error.start].decode() if error.start > length - 4 else ""
    if text and all(char.isprintable() or char in "\n\t\r" for char in text):
        return text + ("…" if len(data) > length else "")
    return head[:24].hex(" ") + (" …" if len(data) > 24 else "")


def _image(content: _Content) -> _Shown:
    from PIL import Image

    if len(content.data) < content.size:
        return "image", "too large to be shown", "", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of huge pictures and odd metadata; errors are shown
        with Image.open(io.BytesIO(content.data)) as opened:
            detail = f"{opened.width}×{opened.height} {opened.format} {opened.mode}"
            frames = int(getattr(opened, "n_frames", 1))
        if frames > 1:
            detail += f", {frames} frames"
        return "image", detail, "", _thumbnail(content.data, content.thumbnail) if content.thumbnail else None


def _thumbnail(data: bytes, longest: int) -> str:
    from PIL import Image

    from energon_nodes.samples.images import ImageDecoder

    with Image.open(io.BytesIO(data)) as opened:
        alpha = "A" in opened.getbands() or "transparency" in opened.info
    # The library's decoder, so that the picture is the one that training sees.
    image: Image.Image = ImageDecoder("pilrgba" if alpha else "pilrgb")(data)
    image.thumbnail((longest, longest))
    buffer = io.BytesIO()
    image.save(buffer, *(("PNG",) if alpha else ("JPEG",)), quality=82)
    kind = "png" if alpha else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
