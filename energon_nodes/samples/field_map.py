"""From the parts of a sample to the fields of its type, as `field_map` in a `dataset.yaml` says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from energon_nodes.core.errors import DatasetError, SampleError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.samples.typed import Typed, place_of

__all__ = ["Access", "FieldMap", "parse_access"]

S = TypeVar("S")

_INDEXED = re.compile(r"([^\[\],]+)((?:\[[^\[\],]+\])+)", re.DOTALL)
_KEY = re.compile(r"\[([^\[\]]+)\]")


class Access(NamedTuple):
    """Say where in a sample a value lies: in which part, and behind which keys.

    Example:
        >>> str(Access("json", ("words", "-1")))
        'json[words][-1]'

    Args:
        part: The name of the part.
        keys: Keys of mappings, or numbers of elements; one after the other.
    """

    part: str
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.part + "".join(f"[{key}]" for key in self.keys)


def parse_access(text: str) -> tuple[Access, ...]:
    """Read what stands behind a field in a field map.

    Spaces belong to the names of parts and to keys: `a, b` has the alternatives `a` and ` b`.

    Example:
        >>> parse_access("caption.txt,json[captions][0]")
        (Access(part='caption.txt', keys=()), Access(part='json', keys=('captions', '0')))
        >>> parse_access("json[captions")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: 'json[captions' opens and closes brackets unevenly; write part, ...

    Args:
        text: A part, with keys in brackets where the value lies inside the decoded part, or several of these with
            commas between, of which the first that exists is taken.

    Returns:
        The alternatives, in order.

    Raises:
        DatasetError: The brackets are uneven, or an alternative is empty.
    """
    form = "write part, part[key], part[key][0], or alternatives of these with commas between"
    if "," not in text and "[" not in text and "]" not in text:
        return (Access(text),)
    alternatives: list[Access] = []
    for piece in text.split(","):
        if piece.count("[") != piece.count("]"):
            raise DatasetError(f"{text!r} opens and closes brackets unevenly; {form}")
        if not piece or "[]" in piece:
            raise DatasetError(f"{text!r} has an empty {'key' if piece else 'alternative'}; {form}")
        indexed = _INDEXED.fullmatch(piece)
        # Brackets elsewhere belong to the name: the file x.a[0].txt has the part a[0].txt.
        alternatives.append(Access(indexed[1], tuple(_KEY.findall(indexed[2]))) if indexed else Access(piece))
    return tuple(alternatives)


class FieldMap(Generic[S]):
    """Make typed samples of crude ones by saying for each field where its value lies.

    | access | value |
    |---|---|
    | `jpg` | the decoded part `jpg` |
    | `json[caption]` | what stands under `caption` in the decoded part |
    | `json[captions][-1]` | the last element of the list there |
    | `txt,json[caption]` | the first of these that the sample has |

    The map is checked when it is made: every field must exist in the type, and every field without a default must be
    mapped. It can be pickled if the type can.

    Args:
        sample_type: A dataclass, such as `CaptioningSample`.
        fields: The access for each field. `__key__` may be among them.
        subflavors: What the dataset says about all samples.

    Raises:
        DatasetError: At construction, for a map that does not fit the type.
        SampleError: When called, for a sample that lacks a value.

    Example:
        >>> import energon_nodes as en
        >>> to_text = en.FieldMap(en.TextSample, {"text": "txt,json[words][0]"})
        >>> to_text({"__key__": "a", "json": {"words": ["fine"]}}).text
        'fine'
        >>> to_text.parts
        ('txt', 'json')
        >>> en.FieldMap(en.CaptioningSample, {"image": "jpg"})
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: CaptioningSample needs the field 'caption', which nothing fills: map ...
    """

    def __init__(
        self, sample_type: type[S], fields: Mapping[str, str], subflavors: Mapping[str, Any] | None = None
    ) -> None:
        self._typed = Typed(sample_type, subflavors)
        self.sample_type = sample_type
        if not isinstance(fields, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DatasetError(f"a field map is a mapping such as {{'text': 'txt'}}, got {fields!r}")
        for name, text in fields.items():
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DatasetError(f"the access of field {name!r} must be text, got {text!r}; put it in quotes")
        problem = self._typed.problem(fields, "map it to a part, as in 'FIELD: txt' or 'FIELD: json[FIELD]'")
        if problem is not None:
            raise DatasetError(problem)
        self._plan = tuple([(name, parse_access(text)) for name, text in fields.items()])
        self.fields = dict(fields)
        names = [access.part for _, accesses in self._plan for access in accesses if access.part[:2] != "__"]
        self.parts = tuple(dict.fromkeys(names))
        """The parts that may be needed; no others have to be read and decoded."""

    def __repr__(self) -> str:
        return f"FieldMap({self._typed.sample_type.__name__}, {self.fields})"

    def needs(self, part: str) -> bool:
        """Tell whether a part has to be read.

        Example:
            >>> import energon_nodes as en
            >>> to_text = en.FieldMap(en.TextSample, {"text": "txt"})
            >>> to_text.needs("txt"), to_text.needs("jpg")
            (True, False)
        """
        return part in self.parts

    def __call__(self, sample: Mapping[str, Any]) -> S:
        """Return the typed sample."""
        values: dict[str, Any] = {}
        for name, accesses in self._plan:
            for access in accesses:
                try:
                    value = sample[access.part]
                    for key in access.keys:
                        value = _inside(value, key)
                except (LookupError, ValueError, TypeError):
                    continue
                values[name] = value
                break
            else:
                raise SampleError(self._complaint(name, accesses, sample))
        return cast("S", self._typed.make(sample, values))

    def _complaint(self, name: str, accesses: tuple[Access, ...], sample: Mapping[str, Any]) -> str:
        reasons = "; ".join(_reason(access, sample) for access in accesses)
        kind = self._typed.sample_type.__name__
        return (
            f"field {name!r} of {kind} cannot be filled from {place_of(sample)}: {reasons}. Correct "
            "the field map or the data, or pass over such samples with on_error='skip'"
        )


def _inside(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)[key]
    if isinstance(value, str | bytes) or not hasattr(value, "__getitem__"):
        raise TypeError(f"a value of type {type(value).__name__} has nothing inside")
    return value[int(key)]


def _keys_of(value: Any) -> list[str] | None:
    return [str(key) for key in cast("Mapping[Any, Any]", value)] if isinstance(value, Mapping) else None


def _reason(access: Access, sample: Mapping[str, Any]) -> str:
    """Return why an access fails."""
    if access.part not in sample:
        parts = [part for part in sample if part[:2] != "__"]
        return f"it has no part {access.part!r}{did_you_mean(access.part, parts)} (its parts: {listed(parts)})"
    value: Any = sample[access.part]
    for number, key in enumerate(access.keys):
        before = str(Access(access.part, access.keys[:number]))
        keys = _keys_of(value)
        if keys is not None and key not in keys:
            return f"{before} has no key {key!r}{did_you_mean(key, keys)} (its keys: {listed(keys)})"
        try:
            value = _inside(value, key)
        except IndexError:
            return f"{before} has {len(value)} elements, so there is no [{key}]"
        except ValueError:
            return f"{before} is a {type(value).__name__}, so [{key}] must be a whole number"
        except TypeError:
            return f"{before} is a {type(value).__name__}, which has no [{key}]"
    return f"{access} cannot be read"
