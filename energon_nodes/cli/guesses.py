"""Sensible answers for the assistant, guessed from the names of parts and shards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from energon_nodes.samples.media import AV_EXTENSIONS, PICTURE_EXTENSIONS

__all__ = ["guess_field", "guess_split", "guess_type", "has_media"]

_TEXTS = ("txt", "text", "caption", "transcript")
_CLASSES = ("cls", "cls2", "id", "index")
_SPLITS = ("train", "val", "test")

_WANTED = {
    "image": PICTURE_EXTENSIONS,
    "video": AV_EXTENSIONS,
    "caption": ("caption", "txt", "text"),
    "text": _TEXTS,
    "label": _CLASSES,
    "context": ("context", "question", "query"),
    "answers": ("answers", "answer"),
    "choices": ("choices",),
    "correct_choice_idx": ("correct_choice_idx", *_CLASSES),
}
"""Which parts, or keys of a JSON part, are likely to fill a field; a field's own name always is."""


def _ends(parts: Sequence[str], endings: Any) -> list[str]:
    return [part for part in parts if part.lower().rpartition(".")[2] in endings]


def guess_type(parts: Sequence[str], keys: Collection[str] = ()) -> str:
    """Guess the type of samples that have these parts.

    Example:
        >>> guess_type(["jpg", "txt", "json"]), guess_type(["png", "cls"]), guess_type(["txt"])
        ('CaptioningSample', 'ImageClassificationSample', 'TextSample')
        >>> guess_type(["jpg", "json"], ["question", "answers"]), guess_type(["jpg", "json"])
        ('VQASample', 'crude')

    Args:
        parts: The names of the parts.
        keys: The keys of JSON parts.

    Returns:
        The name of a type, or "crude" where several could be meant.
    """
    pictures, videos, texts, classes = (
        _ends(parts, endings) for endings in (PICTURE_EXTENSIONS, AV_EXTENSIONS, _TEXTS, _CLASSES)
    )
    asks = any(key in keys for key in _WANTED["context"])
    if len(videos) == 1 and not pictures and asks:
        return "VidQASample"
    if videos or len(pictures) > 1 or len(texts) > 1 or len(classes) > 1:
        return "crude"
    if not pictures:
        return "TextSample" if texts and not classes else "crude"
    if asks:
        return "MultiChoiceVQASample" if "choices" in keys else "VQASample"
    if classes:
        return "ImageClassificationSample"
    if texts or "caption" in keys:
        return "CaptioningSample"
    return "ImageSample" if len(parts) == 1 else "crude"


def guess_field(field: str, samples: Sequence[dict[str, Any]]) -> str | None:
    """Guess where a field lies in samples.

    Example:
        >>> samples = [{"jpg": b"", "json": {"caption": "a cat", "id": 3}}]
        >>> guess_field("image", samples), guess_field("caption", samples), guess_field("answers", samples)
        ('jpg', 'json[caption]', None)

    Args:
        field: The name of the field.
        samples: Decoded samples.

    Returns:
        The access, or None where nothing is likely.
    """
    if not samples:
        return None
    parts = [part for part in samples[0] if part[:2] != "__"]
    wanted = [field, *_WANTED.get(field, ())]
    for part in parts:
        if part == field:
            return part
    for part in _ends(parts, wanted):
        return part
    for part in parts:
        value = samples[0][part]
        if isinstance(value, dict):
            for key in wanted:
                if key in value:
                    return f"{part}[{key}]"
    return None


def guess_split(names: Sequence[str]) -> str:
    """Guess how shards are to be divided: by names that say it, or by numbers.

    Example:
        >>> guess_split([f"train/{number}.tar" for number in range(3)] + ["val/0.tar"])
        'train:train val:val'
        >>> guess_split([f"{number}.tar" for number in range(10)]), guess_split(["0.tar"])
        ('8,1,1', '1,0,0')

    Args:
        names: The names of the shards.

    Returns:
        Three numbers, or patterns as `NAME:PATTERN` with blanks between.
    """
    found = [part for part in _SPLITS if any(name.startswith(part) for name in names)]
    if "train" in found and len(found) > 1 and all(name.startswith(tuple(found)) for name in names):
        return " ".join(f"{part}:{part}" for part in found)
    return "8,1,1" if len(names) >= 10 else "1,0,0"


def has_media(parts: Sequence[str]) -> bool:
    """Tell whether one of the parts is a picture, audio or video.

    Example:
        >>> has_media(["left.JPG"]), has_media(["txt"])
        (True, False)

    Args:
        parts: The names of the parts.
    """
    return bool(_ends(parts, PICTURE_EXTENSIONS | AV_EXTENSIONS))
