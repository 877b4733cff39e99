"""What all samples have in common: a name and an origin; and the crude sample, a dict of parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self, cast

from energon_nodes.core.encoders import register_encoder

__all__ = ["CrudeSample", "Sample"]


@dataclass(kw_only=True, slots=True)
class Sample:
    """Serve as the base of all types of samples: what a sample is called and where it came from.

    Own types derive from it, as dataclasses with `kw_only=True`. Nothing is checked when a sample is made: the types
    of the fields are those that the data should have.

    Example:
        >>> import energon_nodes as en
        >>> from dataclasses import dataclass
        >>> @dataclass(kw_only=True, slots=True)
        ... class Score(Sample):
        ...     value: float
        >>> Score.derive_from(en.TextSample(__key__="a", text="fine"), value=0.5)
        Score(__key__='a', __restore_key__=(), __subflavors__=None, __sources__=None, value=0.5)

    Args:
        __key__: The name of the sample: what the names of its files begin with.
        __restore_key__: Kept for code that passes it on. Restore keys flow beside the samples, see `with_keys`.
        __subflavors__: What the dataset says about all of its samples.
        __sources__: Where the data came from: one `Source` for each sample of a shard that is in it.
    """

    __key__: str
    __restore_key__: tuple[Any, ...] = ()
    __subflavors__: dict[str, Any] | None = None
    __sources__: tuple[Any, ...] | None = None

    @classmethod
    def derive_from(cls, base: Sample | Mapping[str, Any], **values: Any) -> Self:
        """Make a sample of this type with the name and the origin of another.

        Example:
            >>> import energon_nodes as en
            >>> en.TextSample.derive_from({"__key__": "a", "txt": "fine"}, text="FINE").text
            'FINE'

        Args:
            base: A sample of any type, or a dict of parts.
            **values: The fields of this type; the four common fields may be among them.

        Returns:
            The new sample.
        """
        given = _values_of(base)
        return cls(**({name: given[name] for name in _COMMON if name in given} | values))

    @classmethod
    def extend(cls, base: Sample | Mapping[str, Any], **values: Any) -> Self:
        """Make a sample of this type with all fields of another, and more.

        Example:
            >>> import energon_nodes as en
            >>> from dataclasses import dataclass
            >>> @dataclass(kw_only=True, slots=True)
            ... class Tokens(en.TextSample):
            ...     tokens: list[int]
            >>> Tokens.extend(en.TextSample(__key__="a", text="ab"), tokens=[1, 2]).text
            'ab'

        Args:
            base: A sample whose fields this type has too.
            **values: The other fields; they also replace those of `base`.

        Returns:
            The new sample.
        """
        return cls(**(_values_of(base) | values))

    @classmethod
    def from_joined(cls, *samples: Any, **named: Any) -> Self:
        """Make one sample of samples that belong together, as a join delivers them.

        Name and subflavors are those of the first; later samples replace the fields of earlier ones; the origins are
        those of all. A type that joins in another way, or by name, defines this method itself.

        Example:
            >>> import energon_nodes as en
            >>> from dataclasses import dataclass
            >>> @dataclass(kw_only=True, slots=True)
            ... class Rated(en.TextSample):
            ...     stars: int
            >>> Rated.from_joined(en.TextSample(__key__="a", text="a cat"), {"__key__": "a", "stars": 5}).stars
            5

        Args:
            *samples: Samples of any types, the primary one first; None for one that is missing.
            **named: Refused: how named samples go together is for the type to say.

        Returns:
            The joined sample.

        Raises:
            TypeError: If samples are named, or have a field that this type does not have.
        """
        if named or not samples or samples[0] is None:
            raise TypeError(
                f"{cls.__name__}.from_joined needs the primary sample first and no names, got {len(samples)} samples "
                f"and the names {sorted(named)}: define from_joined(cls, *, name=...) on the type to join by name"
            )
        values: dict[str, Any] = {}
        sources: list[Any] = []
        known = {field.name for field in fields(cls)}
        for sample in samples:
            if sample is None:
                continue
            given = _values_of(sample)
            sources += given.get("__sources__") or ()
            for name, value in given.items():
                if name[:2] == "__":
                    if name in _COMMON:
                        values.setdefault(name, value)
                elif name not in known:
                    raise TypeError(
                        f"{cls.__name__}.from_joined got the field {name!r} of a {type(sample).__name__}, which "
                        f"{cls.__name__} does not have: add the field, or define from_joined on the type"
                    )
                else:
                    values[name] = value
        values["__sources__"] = tuple(sources) or None
        return cls(**values)


_COMMON = tuple(field.name for field in fields(Sample))


def _values_of(base: Sample | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(base, Mapping):
        return dict(base)
    if is_dataclass(base) and not isinstance(cast("object", base), type):
        return {field.name: getattr(base, field.name) for field in fields(base)}
    raise TypeError(f"a sample is a dataclass or a mapping, got {base!r}")


class CrudeSample(dict[str, Any]):
    """Hold the parts of a sample by name, before a function of the user makes a typed sample of them.

    Example:
        >>> import energon_nodes as en
        >>> crude = CrudeSample({"__key__": "a", "txt": "fine"})
        >>> crude["txt"], en.TextSample.derive_from(crude, text=crude["txt"]).__key__
        ('fine', 'a')
    """

    def copy(self) -> CrudeSample:
        """Return a shallow copy of the same type."""
        return type(self)(self)


register_encoder(CrudeSample, "crude_sample", dict, CrudeSample)
