"""What pictures, audio and video are like, read from their headers: size, length, rate."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from PIL import Image

from energon_nodes.core.errors import DecodeError, FatalSampleError
from energon_nodes.samples.av_media import av_metadata
from energon_nodes.samples.sniff import sniff
from energon_nodes.storage import paths

__all__ = [
    "AV_EXTENSIONS",
    "PICTURE_EXTENSIONS",
    "MediaFilter",
    "MediaKind",
    "MediaRows",
    "media_metadata",
    "media_rows",
]

MediaKind = Literal["image", "av"]

PICTURE_EXTENSIONS = frozenset("bmp gif ico j2k jp2 jpx jpeg jpg png tif tiff webp".split())
"""Extensions that stand for pictures here; Megatron-Energon has the same list."""

AV_EXTENSIONS = frozenset("aac avi flac m4a m4v mkv mov mp3 mp4 ogg wav webm".split())
"""Extensions that stand for audio and video here; Megatron-Energon has the same list."""

_LOCAL_BUFFER, _REMOTE_BUFFER = 8 * 1024, 64 * 1024
_STRATEGIES = ("extension", "header", "glob:")


@dataclass(frozen=True)
class MediaFilter:
    """Say which files are looked at, and by what they are told apart.

    Example:
        >>> MediaFilter.parse("glob:*.jpg,thumbs/*").takes("a/b.jpg"), MediaFilter.parse("extension").kind("b.MP4", b"")
        (True, 'av')

    Args:
        strategy: "EXTENSION", "HEADER" or "GLOB", as the format spells it.
        patterns: For "GLOB": shell patterns, one of which has to fit the name or what follows its last slash.
    """

    strategy: Literal["EXTENSION", "HEADER", "GLOB"]
    patterns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> MediaFilter:
        """Read a filter from what a user writes: "extension", "header", or "glob:P,P".

        Args:
            text: The text.

        Returns:
            The filter.

        Raises:
            ValueError: It is none of these.
        """
        if text in ("extension", "header"):
            return cls("EXTENSION" if text == "extension" else "HEADER")
        patterns = tuple(filter(None, (pattern.strip() for pattern in text.removeprefix("glob:").split(","))))
        if not text.startswith("glob:") or not patterns:
            raise ValueError(
                f'media must be "extension", "header", or patterns such as "glob:*.jpg,*.png", got {text!r}'
            )
        return cls("GLOB", patterns)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"glob:{','.join(self.patterns)}" if self.patterns else self.strategy.lower()

    def takes(self, name: str) -> bool:
        """Tell whether a file may have to be looked at, by its name alone."""
        if self.strategy == "EXTENSION":
            return _kind_by_name(name) is not None
        base = name.rpartition("/")[2]
        return not self.patterns or any(fnmatchcase(name, each) or fnmatchcase(base, each) for each in self.patterns)

    def kind(self, name: str, head: bytes) -> MediaKind | None:
        """Tell what a file is, None for neither: "HEADER" looks at its first 64 bytes, the others at its name first."""
        if self.strategy == "HEADER":
            return _kind_by_head(head) or _kind_by_name(name)
        return _kind_by_name(name) or (_kind_by_head(head) if self.patterns else None)


class MediaRows(NamedTuple):
    """Hold what `media_rows` found.

    Example:
        >>> MediaRows([("a.png", "image", '{"width":4}')], []).rows[0][1]
        'image'

    Args:
        rows: For each file its name, "image" or "av", and the metadata as JSON.
        unreadable: What could not be read, and why.
    """

    rows: list[tuple[str, str, str]]
    unreadable: list[str]


def media_metadata(
    data: bytes | str | os.PathLike[str] | io.BufferedIOBase, kind: MediaKind = "image"
) -> dict[str, Any]:
    """Read what a picture, an audio or a video file is like, from its header.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> Image.new("RGB", (4, 3)).save(file := io.BytesIO(), "PNG")
        >>> media_metadata(file.getvalue())
        {'width': 4, 'height': 3, 'format': 'PNG', 'mode': 'RGB'}

    Args:
        data: The content, the path of a local file, or an open file.
        kind: "image", or "av" for audio and video, which needs the extra `av`.

    Returns:
        For pictures `width` and `height` as stored, `format` and `mode` as Pillow names them. For the others, see
        `av_metadata`.

    Raises:
        DecodeError: The content is broken.
        FatalSampleError: The extra is not installed.
        OSError: The file cannot be opened.
    """
    if isinstance(data, bytes):
        return _metadata(io.BytesIO(data), kind)
    if isinstance(data, str | os.PathLike):
        with open(data, "rb") as file:
            return _metadata(file, kind)
    return _metadata(data, kind)


def media_rows(path: str, members: Iterable[tuple[str, int, int]], media: MediaFilter) -> MediaRows:
    """Read the metadata of files that lie in a shard, or of one that lies by itself.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.NamedTemporaryFile(suffix=".png") as made:
        ...     Image.new("L", (4, 3)).save(made.name)
        ...     media_rows(made.name, [("a.png", 0, 1000), ("a.txt", 0, 5)], MediaFilter.parse("extension")).rows
        [('a.png', 'image', '{"width":4,"height":3,"format":"PNG","mode":"L"}')]

    Args:
        path: The shard or file, a path or URL.
        members: The name, first byte and size of each.
        media: Which of them are looked at.

    Returns:
        A row for each file that could be read, and a line for each that could not.

    Raises:
        FatalSampleError: Audio or video is among them, and the extra `av` is not installed.
    """
    rows: list[tuple[str, str, str]] = []
    unreadable: list[str] = []
    for name, start, size in members:
        if not media.takes(name):
            continue
        try:
            with io.BufferedReader(
                _Piece(path, start, size), _REMOTE_BUFFER if paths.is_url(path) else _LOCAL_BUFFER
            ) as file:
                head = b"" if media.strategy == "EXTENSION" else file.peek(64)[:64]
                kind = media.kind(name, head)
                if kind is None:
                    if media.patterns:
                        unreadable.append(f"{name}: neither its name nor its content says that it is media")
                    continue
                found = _metadata(file, kind)
        except (DecodeError, OSError) as error:
            unreadable.append(f"{name}: {error}")
        else:
            rows.append((name, kind, json.dumps(found, separators=(",", ":"))))
    return MediaRows(rows, unreadable)


def _metadata(file: Any, kind: MediaKind) -> dict[str, Any]:
    try:
        if kind == "av":
            return av_metadata(file)
        with Image.open(file) as image:
            return {"width": image.width, "height": image.height, "format": image.format, "mode": image.mode}
    except (MemoryError, FatalSampleError):
        raise
    except Exception as error:
        # Pillow and FFmpeg meet broken content with errors of many types.
        what = "picture" if kind == "image" else "audio or video"
        raise DecodeError(f"the header of the {what} cannot be read ({type(error).__name__}: {error})") from error


def _kind_by_name(name: str) -> MediaKind | None:
    extension = name.rpartition(".")[2].lower()
    return "image" if extension in PICTURE_EXTENSIONS else "av" if extension in AV_EXTENSIONS else None


def _kind_by_head(head: bytes) -> MediaKind | None:
    if sniff(head) == "image":
        return "image"
    if head[4:8] == b"ftyp" or head[:4] in (b"\x1a\x45\xdf\xa3", b"OggS", b"fLaC") or head[:3] == b"ID3":
        return "av"
    return "av" if head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"WAVE") else None


class _Piece(io.RawIOBase):
    """Be a file that is a piece of another one; only what is asked for is read."""

    def __init__(self, path: str, start: int, size: int) -> None:
        self._path, self._start, self._size, self._at = path, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, self._size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        length = max(0, min(len(view), self._size - self._at))
        first = self._start + self._at
        data = paths.read_range(self._path, first, first + length) if length else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
