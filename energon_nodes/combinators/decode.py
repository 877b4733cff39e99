"""`decode`: turn the encoded parts of samples into values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from energon_nodes.combinators.map import Map
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.image_modes import ImageModeName
from energon_nodes.samples.images import Backend
from energon_nodes.samples.pixels import Filter

__all__ = ["decode"]


@add_verb
def decode(
    source: Node[dict[str, Any]],
    *,
    image: ImageModeName | None = "pil",
    resize: tuple[int, int] | None = None,
    filter: Filter = "bicubic",
    scaled: bool = False,
    exif: bool = False,
    guess_content: bool = False,
    handlers: Mapping[str, Callable[[bytes], Any]] | Callable[[str, bytes], Any] | None = None,
    parts: Collection[str] | None = None,
    trust: bool = False,
    backend: Backend = "auto",
    inflate_limit: int = 1 << 30,
    on_error: ErrorPolicy | None = None,
) -> Node[dict[str, Any]]:
    """Decode the parts of samples by the ends of their names: images, text, JSON, arrays, and others.

    It is `map(Decoder(...))`, and `Decoder` describes every kind of part. To decode in threads, give a
    `Decoder` to `parallel_map`.

    Example:
        >>> import energon_nodes as en
        >>> list(en.items([{"__key__": "a", "txt": b"a cat", "cls": b"3"}]).decode())
        [{'__key__': 'a', 'txt': 'a cat', 'cls': 3}]

    Args:
        source: A node of samples: dicts of part names and bytes.
        image: The kind of image: "pil", "torchrgb8" (uint8, 3 x height x width), "rgb8" (numpy), and others;
            None leaves images as bytes.
        resize: Height and width to resize images to while decoding, or None.
        filter: The filter of the resize, "bicubic" or "bilinear", with Pillow's pixels.
        scaled: Decode large JPEGs at a smaller scale, towards the size to resize to.
        exif: Turn images upright as their EXIF orientation says.
        guess_content: Look at the first bytes of each part, whatever its name says.
        handlers: Decoders that come before the built-in ones, by the end of the part's name, or one function of
            `(part name, bytes)` that returns NotImplemented for what it leaves to the others.
        parts: Ends of the names of the parts to decode; the others stay bytes. None is all.
        trust: Load pickles, object arrays and full torch files, which can run code.
        backend: What decodes colour JPEGs: "auto", "pillow" or "simplejpeg".
        inflate_limit: The most bytes that a gz or npz part may unpack to.
        on_error: What happens to a sample with a part that cannot be decoded: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of samples with values in place of bytes.

    Raises:
        ValueError: For settings that cannot work.
    """
    decoder = Decoder(
        image=image,
        resize=resize,
        filter=filter,
        scaled=scaled,
        exif=exif,
        guess_content=guess_content,
        handlers=handlers,
        parts=parts,
        trust=trust,
        backend=backend,
        inflate_limit=inflate_limit,
    )
    return Map(source, decoder, on_error=on_error)
