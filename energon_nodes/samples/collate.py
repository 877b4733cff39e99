"""Make a batch of samples: field by field, by the type of its values or by a rule of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, is_dataclass
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch

from energon_nodes.core.errors import SampleError
from energon_nodes.core.spelling import listed
from energon_nodes.samples.padding import NUMERIC, Pad, numbers_to_tensor, stack
from energon_nodes.samples.records import has_fields, is_named_tuple, names_of, required_of

__all__ = ["Collate", "Rule", "collate"]

Rule: TypeAlias = Literal["pad", "stack", "list"] | Pad | Callable[[list[Any]], Any]
"""What becomes of the values of a field: a name, a `Pad` with its settings, or a function of the list of values."""


@dataclass(frozen=True)
class Collate:
    """Make a batch of a list of samples.

    Samples are dicts, dataclasses, named tuples or tuples, nested as they like; the batch has the same form. The type
    of a field's values decides what becomes of them:

    | values | in the batch |
    |---|---|
    | tensors | a tensor with the batch as first dimension; different sizes are padded with zeros on the right |
    | numpy arrays and scalars of numbers | the same, as a tensor of the same dtype |
    | bool, int, float | `torch.tensor(values)`: bool, int64, float32 (torch's default dtype) |
    | dicts, dataclasses, named tuples | one of these, its fields collated in turn |
    | strings, bytes, lists, tuples, images, anything else | a list of the values |
    | None in every sample | None |
    | `__key__`, `__sources__` and others that begin with two underscores | a list of the values |

    None beside strings and other listed values stays in the list; None beside tensors or numbers is an error, as are
    tensors of different ranks or dtypes, dicts with different keys, and samples of different types. A dataclass that
    has a class method `from_samples` makes its batch with it.

    Args:
        rules: What to do with certain fields instead: by the name of a field at any depth (`"image"`), by the path
            to it (`"meta.boxes"`), or by the type of its values or a base of it. Paths come before names, and
            names before types. See `Rule`; `"pad"` and `"stack"` take lists of numbers too.
        default: The rule for tensors and arrays.
        into: The type of the batch, if it is not the type of the samples: a dataclass or named tuple, whose fields are
            filled by name, or `dict`. Fields of the samples that it does not have are left out.

    Raises:
        TypeError: At construction, for rules that are none.
        SampleError: When called, for samples that do not go together; the message names field and samples.
        ValueError: When called without samples.

    Example:
        >>> import energon_nodes as en
        >>> samples = en.items(
        ...     [{"tokens": [1, 2, 3], "text": "abc", "score": 1}, {"tokens": [4], "text": "d", "score": 2}]
        ... )
        >>> next(samples.batch(2, collate=en.Collate(rules={"tokens": en.Pad(value=-1)})))
        {'tokens': tensor([[ 1,  2,  3],
                [ 4, -1, -1]]), 'text': ['abc', 'd'], 'score': tensor([1, 2])}
    """

    rules: Mapping[str | type, Rule] | None = None
    _: KW_ONLY
    default: Rule = "pad"
    into: type[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rules, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Collate needs rules as a mapping, got {self.rules!r}: write collate=Collate() or collate")
        for name, rule in {**(self.rules or {}), "default": self.default}.items():
            if not isinstance(name, str | type):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"a rule belongs to the name of a field or to a type, got {name!r}")
            if not (rule in ("pad", "stack", "list") if isinstance(rule, str) else callable(rule)):
                raise TypeError(
                    f"the rule of {name!r} must be 'pad', 'stack', 'list', a Pad or a function of the list of values, "
                    f"got {rule!r}"
                )
        if self.into is not None and not (self.into is dict or is_dataclass(self.into) or is_named_tuple(self.into)):
            raise TypeError(f"into must be a dataclass, a named tuple or dict, got {self.into!r}")

    def __call__(self, samples: Sequence[Any]) -> Any:
        """Return the batch of the samples."""
        if not len(samples):
            raise ValueError("a batch needs at least one sample, got none")
        run = _Run(self, list(samples))
        if self.into is not None:
            return run.into(self.into)
        if type(samples[0]) is tuple:
            return run.tuples(samples)
        return run.column(run.samples, "", "")


def collate(samples: Sequence[Any]) -> Any:
    """Make a batch of a list of samples, by the types of their fields.

    It is `Collate()`, which describes what becomes of each type and takes rules for single fields.

    Example:
        >>> import energon_nodes as en
        >>> images = [{"__key__": "a", "image": torch.zeros(3, 4, 4)}, {"__key__": "b", "image": torch.zeros(3, 4, 6)}]
        >>> batch = next(en.items(images).batch(2, collate=en.collate))
        >>> batch["__key__"], batch["image"].shape
        (['a', 'b'], torch.Size([2, 3, 4, 6]))

    Args:
        samples: Dicts, dataclasses, named tuples, tuples, tensors, or other values.

    Returns:
        The batch.

    Raises:
        SampleError: The samples do not go together.
        ValueError: There are none.
    """
    return _PLAIN(samples)


_PLAIN = Collate()


class _Run(NamedTuple):
    """Collate one list of samples."""

    settings: Collate
    samples: list[Any]

    def column(self, values: list[Any], path: str, name: str) -> Any:
        """Return what becomes of the values of one field."""
        rules = self.settings.rules
        rule: Rule | None = None
        if rules and path:
            rule = rules[path] if path in rules else rules.get(name)
        if rule is None and name[:2] == "__":
            return values
        if rule is None:
            first = next((value for value in values if value is not None), None)
            if first is None:
                return None
            if rules and (path or not has_fields(first)):
                rule = next((rules[kind] for kind in type(first).__mro__ if kind in rules), None)
            if rule is None:
                return self.by_type(first, values, path)
        return self.apply(rule, values, path)

    def apply(self, rule: Rule, values: list[Any], path: str) -> Any:
        if rule == "list":
            return values
        describe = _Describe(self.samples, path)
        if rule == "pad":
            return _PAD.apply(values, describe)
        if rule == "stack":
            return stack(values, describe)
        if isinstance(rule, Pad):
            return rule.apply(values, describe)
        try:
            return rule(values)
        except Exception as error:
            error.add_note(f"in the rule for {describe.field}")
            raise

    def by_type(self, first: Any, values: list[Any], path: str) -> Any:
        kind = cast("type[Any]", type(first))
        if kind is str or issubclass(kind, str | bytes | list):
            return values
        if kind is torch.Tensor or issubclass(kind, torch.Tensor):
            return self.apply(self.settings.default, values, path)
        if isinstance(first, np.ndarray):
            numeric = cast("np.ndarray[Any, Any]", first).dtype.kind in NUMERIC
            return self.apply(self.settings.default, values, path) if numeric else values
        if _is_number(first):
            if not _all_of(kind, values):
                self.refuse_others(values, path, _is_number, "a number")
            return numbers_to_tensor(values, _Describe(self.samples, path))
        if kind is dict or isinstance(first, Mapping):
            if not _all_of(kind, values):
                self.refuse_others(values, path, lambda value: isinstance(value, Mapping), "a mapping")
            return self.mappings(values, path)
        if is_dataclass(kind) or is_named_tuple(kind):
            if not _all_of(kind, values):
                self.refuse_others(values, path, lambda value: type(value) is kind, f"a {kind.__name__}")
            return self.records(kind, values, path)
        return values

    def refuse_others(self, values: list[Any], path: str, fits: Callable[[Any], bool], what: str) -> None:
        for number, value in enumerate(values):
            if not fits(value):
                describe = _Describe(self.samples, path)
                found = "None" if value is None else f"a {type(value).__name__}"
                raise SampleError(
                    f"{describe(number)} is {found}, where others have {what}: fill it in before, leave such samples "
                    "out, or use the rule 'list'"
                )

    def mappings(self, values: list[Mapping[str, Any]], path: str) -> dict[str, Any]:
        names = list(values[0])
        sizes = list(map(len, values))
        columns: dict[str, Any] = {}
        try:
            if sizes.count(len(names)) == len(sizes):
                columns = {name: list(map(itemgetter(name), values)) for name in names}
        except KeyError:
            columns.clear()
        if len(columns) != len(names):
            self.refuse_other_keys(values, path)
        return {name: self.column(column, _below(path, name), name) for name, column in columns.items()}

    def refuse_other_keys(self, values: list[Mapping[str, Any]], path: str) -> None:
        describe = _Describe(self.samples, path)
        number = next(number for number, value in enumerate(values) if value.keys() != values[0].keys())
        raise SampleError(
            f"a batch needs one set of keys, but {describe(0)} has {listed(values[0])} and {describe(number)} has "
            f"{listed(values[number])}: make them alike before, or use the rule 'list'"
        )

    def records(self, kind: type[Any], values: list[Any], path: str) -> Any:
        if hasattr(kind, "from_samples"):
            return kind.from_samples(values)
        names = names_of(kind)
        columns = {name: self.column(list(map(attrgetter(name), values)), _below(path, name), name) for name in names}
        if not is_dataclass(kind):
            return kind(**columns)
        # Without __init__ and __post_init__, which are made for one sample.
        batch: Any = object.__new__(kind)
        for name, column in columns.items():
            object.__setattr__(batch, name, column)
        return batch

    def tuples(self, values: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        width = len(values[0])
        self.refuse_others(
            list(values),
            "",
            lambda value: type(value) is tuple and len(cast("Any", value)) == width,
            f"a tuple of {width}",
        )
        return tuple([self.column([value[at] for value in values], str(at), str(at)) for at in range(width)])

    def into(self, kind: type[Any]) -> Any:
        if hasattr(kind, "from_samples"):
            return kind.from_samples(self.samples)
        first = self.samples[0]
        self.refuse_others(self.samples, "", lambda value: type(value) is type(first), f"a {type(first).__name__}")
        is_mapping = isinstance(first, Mapping)
        given = list(cast("Mapping[str, Any]", first)) if is_mapping else names_of(cast("type[Any]", type(first)))
        names = given if kind is dict else [name for name in names_of(kind) if name in given]
        lacking = [name for name in required_of(kind) if name not in names]
        if lacking:
            raise SampleError(
                f"into={kind.__name__} needs the fields {listed(lacking)}, which the samples do not have (they have "
                f"{listed(given)})"
            )
        if is_mapping:
            columns = self.mappings(
                [{name: sample[name] for name in names if name in sample} for sample in self.samples], ""
            )
        else:
            columns = {name: self.column(list(map(attrgetter(name), self.samples)), name, name) for name in names}
        return columns if kind is dict else cast("Any", kind)(**columns)


class _Describe(NamedTuple):
    """Name the values of a field in errors."""

    samples: list[Any]
    path: str

    @property
    def field(self) -> str:
        return f"field {self.path!r}" if self.path else "the samples"

    def __call__(self, number: int) -> str:
        sample = self.samples[number]
        if isinstance(sample, Mapping):
            key = cast("Mapping[str, Any]", sample).get("__key__")
        else:
            key = getattr(sample, "__key__", None)
        name = f"sample {number}" + (f" ({key!r})" if key is not None else "")
        return f"field {self.path!r} of {name}" if self.path else name


_PAD = Pad()


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _all_of(kind: type[Any], values: list[Any]) -> bool:
    return list(map(type, values)).count(kind) == len(values)


def _is_number(value: Any) -> bool:
    if isinstance(value, np.generic):
        return cast("Any", value).dtype.kind in NUMERIC
    return isinstance(value, bool | int | float | complex)
