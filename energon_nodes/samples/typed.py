"""Make typed samples of crude ones: the field map and the sample loader both end here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, cast

from energon_nodes.core.errors import DatasetError, SampleError
from energon_nodes.core.spelling import did_you_mean, listed

__all__ = ["OWN_FIELDS", "SampleLoader", "Typed", "place_of"]

OWN_FIELDS = ("__restore_key__", "__subflavors__", "__sources__")
"""Fields that the library fills, and that the data cannot."""


class Typed:
    """Know the fields of a type of samples, and make samples of it.

    Args:
        sample_type: A dataclass. Of the common fields of `Sample` it gets those that it has.
        subflavors: What the dataset says about all samples.

    Raises:
        DatasetError: It is no dataclass.

    Example:
        >>> from energon_nodes.samples.types import TextSample
        >>> typed = Typed(TextSample, {"language": "en"})
        >>> typed.required, typed.make({"__key__": "a"}, {"text": "fine"}).__subflavors__
        (('text',), {'language': 'en'})
    """

    def __init__(self, sample_type: type[Any], subflavors: Mapping[str, Any] | None = None) -> None:
        if not (isinstance(sample_type, type) and is_dataclass(sample_type)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DatasetError(f"a sample type must be a dataclass, got {sample_type!r}")
        self.sample_type = sample_type
        self.subflavors = dict(subflavors or {})
        declared = [field for field in fields(sample_type) if field.init]
        self.names = tuple(field.name for field in declared)
        self.required = tuple(
            field.name
            for field in declared
            if field.default is MISSING and field.default_factory is MISSING and field.name not in _FILLED
        )
        self._filled = frozenset(self.names) & _FILLED

    @property
    def open_names(self) -> tuple[str, ...]:
        """The fields that the data can fill."""
        return tuple(name for name in self.names if name not in OWN_FIELDS)

    def problem(self, names: Iterable[str], how: str) -> str | None:
        """Return what is wrong with filling these fields and no others, or None.

        Args:
            names: The fields that get values.
            how: What to write for a field that is missing, with `FIELD` in the place of its name.
        """
        given = list(names)
        kind = self.sample_type.__name__
        for name in given:
            if name in OWN_FIELDS and name in self.names:
                return f"{kind}.{name} is filled by the library; leave it out"
            if name not in self.names:
                shown = [field for field in self.open_names if field[:2] != "__"]
                return f"{kind} has no field {name!r}{did_you_mean(name, shown)} (its fields: {listed(shown)})"
        missing = [name for name in self.required if name not in given]
        if missing:
            return (
                f"{kind} needs the field{'s' if len(missing) > 1 else ''} {listed(missing)}, which nothing fills: "
                f"{how.replace('FIELD', missing[0])}"
            )
        return None

    def make(self, sample: Mapping[str, Any], values: dict[str, Any]) -> Any:
        """Return a sample with these values, and with the name and the origin of the crude one."""
        filled = self._filled
        if "__key__" in filled and "__key__" not in values:
            values["__key__"] = sample.get("__key__")
        if "__restore_key__" in filled:
            values["__restore_key__"] = sample.get("__restore_key__", ())
        if "__subflavors__" in filled:
            values["__subflavors__"] = self.subflavors.copy()
        if "__sources__" in filled:
            values["__sources__"] = sample.get("__sources__")
        return self.sample_type(**values)


_FILLED = frozenset({"__key__", *OWN_FIELDS})


def place_of(sample: Mapping[str, Any]) -> str:
    """Return how an error names a crude sample: by its key and its shard.

    Example:
        >>> place_of({"__key__": "cat", "__shard__": "a.tar"}), place_of({})
        ("sample 'cat' of shard 'a.tar'", 'a sample')

    Args:
        sample: The sample.
    """
    text = f"sample {sample['__key__']!r}" if "__key__" in sample else "a sample"
    return text + (f" of shard {sample['__shard__']!r}" if sample.get("__shard__") is not None else "")


class SampleLoader:
    """Make typed samples with a function that gets the crude sample and returns the values of the fields.

    Args:
        sample_type: The type of the samples.
        load: Gets the dict of decoded parts with `__key__`, `__shard__`, `__restore_key__`, `__sources__`; returns a
            dict of the fields. It may set `__key__`; the other common fields are those of the crude sample.
        subflavors: What the dataset says about all samples.

    Raises:
        DatasetError: At construction, if the type is no dataclass.
        SampleError: When called, for a result that does not fit the type.

    Example:
        >>> from energon_nodes.samples.types import TextSample
        >>> def load(raw):
        ...     return {"text": raw["json"]["words"], "__key__": "book/" + raw["__key__"]}
        >>> SampleLoader(TextSample, load)({"__key__": "a", "json": {"words": "fine"}}).__key__
        'book/a'
    """

    def __init__(self, sample_type: type[Any], load: Any, subflavors: Mapping[str, Any] | None = None) -> None:
        self._typed = Typed(sample_type, subflavors)
        self._load = load

    def __repr__(self) -> str:
        return f"SampleLoader({self._typed.sample_type.__name__}, {self._load!r})"

    def __call__(self, sample: Mapping[str, Any]) -> Any:
        """Return the typed sample."""
        result = self._load({"__restore_key__": (), **sample})
        if not isinstance(result, Mapping):
            raise SampleError(f"the sample loader must return a dict of fields, got {result!r} for {place_of(sample)}")
        given = cast("Mapping[str, Any]", result)
        values = {str(name): value for name, value in given.items() if name not in OWN_FIELDS}
        problem = self._typed.problem(values, "let the sample loader return 'FIELD' too")
        if problem is not None:
            raise SampleError(f"what the sample loader returned for {place_of(sample)} does not fit: {problem}")
        return self._typed.make(sample, values)
