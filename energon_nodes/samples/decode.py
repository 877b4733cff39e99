"""Decode the parts of a sample by their names, or by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, cast

from energon_nodes.core.errors import DecodeError, EnergonNodesError, SampleError, SkipSample
from energon_nodes.samples.image_modes import IMAGE_EXTENSIONS, ImageModeName
from energon_nodes.samples.images import Backend, ImageDecoder
from energon_nodes.samples.parts import Limits, basic_decoder, inflate
from energon_nodes.samples.pixels import Filter
from energon_nodes.samples.sniff import Kind, sniff

__all__ = ["Decoder", "Handler", "PartHandler"]

Handler = Callable[[bytes], Any]
"""A user's decoder for one kind of part: bytes to value."""

PartHandler = Callable[[str, bytes], Any]
"""A user's decoder for any part: (part name, bytes) to value, or to NotImplemented for parts it leaves alone."""

REMEMBERED_NAMES = 1024
"""Part names whose decoders are remembered; data sets with a name for every sample must not fill the memory."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Decoder:
    """Turn the encoded parts of samples into values.

    The text after the last dot of a part's name decides, in any case of letters; a name without a dot is its
    own extension.

    | extension | value |
    |---|---|
    | jpg, png, webp, tif, gif, ... (`IMAGE_EXTENSIONS`) | an image, see `ImageDecoder` |
    | txt, text, transcript | str, from UTF-8 |
    | cls, cls2, index, inx, id | int |
    | json, jsn | what the JSON says; ints of any size are exact |
    | npy, npz | numpy array, dict of arrays; arrays of Python objects only with `trust=True` |
    | mp, msg; cbor | what they hold; need the extras `msgpack` and `cbor` |
    | ten, tb | list of numpy arrays, in webdataset's tensor format |
    | pth | what `torch.load` gives on the CPU: tensors and plain values, more only with `trust=True` |
    | pkl, pickle, pyd | the unpickled value, only with `trust=True` |
    | gz | unpacked, then decoded by the name without `.gz` (the part keeps its name) |
    | anything else | the bytes, untouched |

    Entries whose names begin with two underscores, and values that are not bytes, pass through. Names of
    extensions differ from Megatron-Energon in two points: case never matters, and mpg, mpeg, h5, hdf, bufr and grib
    stay bytes instead of failing as images.

    A decoder is pure and immutable, can be pickled if its handlers can, and may be called from several
    threads at once.

    Args:
        image: A mode of `ImageDecoder`, or None to leave images as bytes.
        resize: Height and width to resize images to while decoding, or None.
        filter: The filter of the resize, `"bicubic"` or `"bilinear"`.
        scaled: Decode large JPEGs at a smaller scale, towards the size to resize to.
        exif: Turn images upright as their EXIF orientation says.
        guess_content: Look at the first bytes of each part, and decode images, gzip, npy and tensors by
            them whatever the name says; the name decides about the rest.
        handlers: Decoders that come before the built-in ones: a mapping from an extension or a longer end
            of the name (`"mask.png"` before `"png"`) to a function of the bytes, or one function of
            `(part name, bytes)` that returns NotImplemented for what it leaves to the others.
        parts: Ends of the names of the parts to decode, as in `handlers`; the others stay bytes. None is all.
        trust: Load pickles, object arrays, full torch files and PostScript, all of which can run code.
        backend: What decodes colour JPEGs: `"auto"`, `"pillow"` or `"simplejpeg"`.
        inflate_limit: The most bytes that a gz or npz part may unpack to.

    Raises:
        ValueError: At construction, for settings that cannot work.
        DecodeError: When called, for a part that cannot be decoded; chained to its cause.
        TrustError: When called, for a part that needs `trust=True`.
        FatalSampleError: When called, for a part whose package is not installed.

    Example:
        >>> decode = Decoder(handlers={"upper.txt": lambda data: data.decode().upper()})
        >>> decode({"__key__": "a", "json": b'{"id": 1}', "TXT": b"cat", "upper.txt": b"cat", "bin": b"x"})
        {'__key__': 'a', 'json': {'id': 1}, 'TXT': 'cat', 'upper.txt': 'CAT', 'bin': b'x'}
        >>> decode({"__key__": "a", "cls": b"three"})
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DecodeError: part 'cls' of sample 'a' cannot be decoded (ValueError: ...
    """

    image: ImageModeName | None = "pil"
    resize: tuple[int, int] | None = None
    filter: Filter = "bicubic"
    scaled: bool = False
    exif: bool = False
    guess_content: bool = False
    handlers: Mapping[str, Handler] | PartHandler | None = None
    parts: Collection[str] | None = None
    trust: bool = False
    backend: Backend = "auto"
    inflate_limit: int = 1 << 30
    _plans: dict[str, Handler | None] = field(init=False, repr=False)  # by part name; None leaves the part alone
    _chosen: dict[str, Handler] = field(init=False, repr=False)
    _only: dict[str, bool] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.image is None and (self.resize is not None or self.scaled or self.exif):
            raise ValueError("image=None leaves images as bytes, so resize, scaled and exif cannot apply; give a mode")
        self._image_decoder()  # checks the settings of images
        if isinstance(self.parts, str):
            raise ValueError(
                f"parts needs a collection of names, got the string {self.parts!r}; write parts=[{self.parts!r}]"
            )
        if self.inflate_limit < 0:
            raise ValueError(f"inflate_limit needs n >= 0 bytes, got inflate_limit={self.inflate_limit!r}")
        if not (self.handlers is None or isinstance(self.handlers, Mapping) or callable(self.handlers)):
            raise ValueError(f"handlers needs a mapping or a function, got {self.handlers!r}")
        for name, handler in self._mapping().items():
            if not callable(handler):
                raise ValueError(f"handlers[{name!r}] must be a function of the bytes, got {handler!r}")
        self._start()

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the sample with its parts decoded."""
        decoded = sample.copy()
        plans = self._plans
        name, data = "", b""
        try:
            for name, data in sample.items():
                try:
                    plan = plans[name]
                except KeyError:
                    plan = self._planned(name)
                if plan is None:
                    continue
                if type(data) is bytes:
                    decoded[name] = plan(data)
                elif isinstance(data, (bytearray, memoryview)):
                    decoded[name] = plan(bytes(cast(bytearray, data)))
        except Exception as error:
            _explain(error, name, data, sample)
        return decoded

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults."""
        shown = [(entry, getattr(self, entry.name)) for entry in fields(self) if entry.init]
        return f"Decoder({', '.join(f'{entry.name}={value!r}' for entry, value in shown if value != entry.default)})"

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self._start()

    def _start(self) -> None:
        only = None if self.parts is None else dict.fromkeys(map(_lowered, self.parts), True)
        chosen = {_lowered(name): handler for name, handler in self._mapping().items()}
        object.__setattr__(self, "_plans", {})
        object.__setattr__(self, "_chosen", chosen)
        object.__setattr__(self, "_only", only)

    def _mapping(self) -> Mapping[str, Handler]:
        handlers: object = self.handlers
        return cast("Mapping[str, Handler]", handlers) if isinstance(handlers, Mapping) else {}

    def _planned(self, name: str) -> Handler | None:
        plan = None
        if name[:2] != "__" and self._asked_for(name.lower()):
            plan = self._plan(name)
        if len(self._plans) >= REMEMBERED_NAMES:
            self._plans.clear()
        self._plans[name] = plan
        return plan

    def _asked_for(self, lowered: str) -> bool:
        only = self._only
        return only is None or bool(_by_end(only, lowered) or _by_end(only, lowered.removesuffix(".gz")))

    def _plan(self, name: str, *, may_inflate: bool = True) -> Handler | None:
        """Return the decoder for a part name, or None to leave such parts as bytes."""
        chosen = _by_end(self._chosen, name.lower())
        if chosen is not None:
            return chosen
        plan = self._plan_by_name(name)
        if self.guess_content:
            plan = self._guessing(name, plan, may_inflate)
        if self.handlers is not None and not isinstance(self.handlers, Mapping):
            plan = _asking(self.handlers, name, plan)
        return plan

    def _plan_by_name(self, name: str) -> Handler | None:
        stem, _, extension = name.rpartition(".")
        extension = extension.lower()
        if extension == "gz":
            return self._inflating(self._plan(stem))
        if extension in IMAGE_EXTENSIONS:
            return self._image_decoder()
        return basic_decoder(extension, self._limits())

    def _inflating(self, plan: Handler | None) -> Handler:
        limit = self.inflate_limit
        return lambda data: inflate(data, limit) if plan is None else plan(inflate(data, limit))

    def _guessing(self, name: str, named: Handler | None, may_inflate: bool) -> Handler:
        by_kind: dict[Kind | None, Handler | None] = {
            "image": self._image_decoder(),
            "npy": basic_decoder("npy", self._limits()),
            "ten": basic_decoder("ten", self._limits()),
        }
        if name.lower().endswith(".gz"):
            by_kind["gz"] = named
        elif may_inflate:  # once: gzip bytes can be made that hold themselves
            by_kind["gz"] = self._inflating(self._plan(name, may_inflate=False))

        def guess(data: bytes) -> Any:
            kind = sniff(data)
            plan = by_kind.get(kind, named)
            return data if plan is None else plan(data)

        return guess

    def _image_decoder(self) -> ImageDecoder | None:
        if self.image is None:
            return None
        return ImageDecoder(self.image, self.resize, self.filter, self.scaled, self.exif, self.backend, self.trust)

    def _limits(self) -> Limits:
        return Limits(self.trust, self.inflate_limit)


def _lowered(name: str) -> str:
    return name.lower().removeprefix(".")


def _by_end(table: Mapping[str, Any], name: str) -> Any:
    """Return the entry for the longest end of a name, cut at dots: `a.b.c`, then `b.c`, then `c`."""
    while name not in table:
        _, dot, name = name.partition(".")
        if not dot:
            return None
    return table[name]


def _asking(handler: PartHandler, name: str, otherwise: Handler | None) -> Handler:
    def ask(data: bytes) -> Any:
        value = handler(name, data)
        if value is not NotImplemented:
            return value
        return data if otherwise is None else otherwise(data)

    return ask


def _explain(error: Exception, name: str, data: Any, sample: dict[str, Any]) -> NoReturn:
    """Raise what becomes of an error in a part: the library's own requests as they are, the rest as DecodeError."""
    where = f"part {name!r}"
    if sample.get("__key__") is not None:
        where += f" of sample {sample['__key__']!r}"
    if sample.get("__shard__") is not None:
        where += f" in shard {sample['__shard__']!r}"
    if isinstance(error, (MemoryError, SkipSample)) or (
        isinstance(error, EnergonNodesError) and not isinstance(error, SampleError)
    ):
        error.add_note(f"while decoding {where}")
        raise error
    raise DecodeError(
        f"{where} cannot be decoded ({type(error).__name__}: {error}; {len(data)} bytes): repair or remove it, leave "
        "it as bytes with parts=, decode it with handlers=, or pass over such samples with on_error='skip'"
    ) from error
