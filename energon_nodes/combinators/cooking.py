"""Call the first cooker that matches a sample, with what its function asks for."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any, cast

from energon_nodes.combinators.calls import Rng, is_generator_function
from energon_nodes.core.errors import NoCookerError, StateError
from energon_nodes.core.graph import is_stateful
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.samples.cookers import Cooker

__all__ = ["Cooking", "StatefulCooking", "cooking"]

_MOST_DATASETS = 10_000  # whose choices are kept


@dataclass(frozen=True, slots=True)
class _Bound:
    """A cooker, and what its function is called with."""

    cooker: Cooker[Any]
    test: Callable[[Any], bool] | None  # of a sample; None for all
    stores: dict[str, Any]
    draws: bool
    gives_many: bool

    def call(self, sample: Any, rng: Any) -> Any:
        if self.stores:  # a store notes in the sample what was read: in a sample of this call's own
            sample = cast("Any", sample).copy() if isinstance(sample, dict) else copy.copy(sample)
        if self.draws:
            return self.cooker.fn(sample, rng=rng, **self.stores)
        return self.cooker.fn(sample, **self.stores)


class Cooking:
    """Cook samples; `cooking` makes it.

    Args:
        cookers: They are asked in this order.
        offered: What functions may ask for by name: auxiliary stores, `primary`, `cache`.
        rng: Whether, and how, functions get random numbers.

    Example:
        >>> kitchen = Cooking([Cooker(str.upper, where=str.islower), Cooker(str.lower)], {}, False)
        >>> kitchen, kitchen("ab"), kitchen("CD")
        (cook(upper, lower), 'AB', 'cd')
    """

    def __init__(self, cookers: Sequence[Cooker[Any]], offered: Mapping[str, Any], rng: Rng) -> None:
        self._cookers, self._offered = tuple(cookers), dict(offered)
        self._rng: Rng = rng
        self._bound = [_bind(each, self._offered, rng) for each in cookers]
        self._known: dict[Any, tuple[_Bound, ...]] = {}
        self.gives_many = any(each.gives_many for each in self._bound)
        """Whether a sample may become any number of samples: one of the functions is a generator function."""
        if rng is True and not any(each.draws for each in self._bound):
            raise ValueError("cook got rng=True, and no cooker has a parameter named rng that would get the generator")

    def __repr__(self) -> str:
        return f"cook({', '.join(_name(each.fn) for each in self._cookers)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cookers, self._offered, self._rng)

    def __call__(self, sample: Any, rng: Any = None) -> Any:
        """Return what the first cooker that matches makes of the sample: an iterable if `gives_many`."""
        for each in self._candidates(_subflavors(sample)):
            if each.test is None or each.test(sample):
                made = each.call(sample, rng)
                return (made,) if self.gives_many and not each.gives_many else made
        raise self._no_cooker(sample)

    def check_used(self, names: Iterable[str]) -> None:
        """Raise a TypeError unless every one of these stores is asked for by one of the functions."""
        unused = [name for name in names if not any(name in each.stores for each in self._bound)]
        if not unused:
            return
        asked: dict[str, None] = {}
        for each in self._cookers:
            asked |= dict.fromkeys(parameter.name for parameter in _parameters(each.fn))
        functions = ", ".join(_name(each.fn) for each in self._cookers)
        raise TypeError(
            f"cook got {listed(unused)} in aux, and no cooking function has a parameter of this name"
            f"{did_you_mean(unused[0], asked) or '.'} The functions are {functions}; their parameters behind the "
            f"sample: {listed(asked)}. Name the parameter as the store, or leave it out"
        )

    def _candidates(self, subflavors: Mapping[str, Any]) -> Iterable[_Bound]:
        """Return the cookers that can match samples of a dataset; the choice is made once for its subflavors."""
        try:
            key = frozenset(subflavors.items())
            found = self._known.get(key)
        except TypeError:  # a value that has no hash
            return self._choose(subflavors)
        if found is None:
            if len(self._known) >= _MOST_DATASETS:
                self._known.clear()
            found = self._known[key] = self._choose(subflavors)
        return found

    def _choose(self, subflavors: Mapping[str, Any]) -> tuple[_Bound, ...]:
        return tuple([each for each in self._bound if each.cooker.matches_dataset(subflavors)])

    def _no_cooker(self, sample: Any) -> NoCookerError:
        parts: Any = getattr(sample, "__dataclass_fields__", ())
        if isinstance(sample, Mapping):
            parts = cast("Mapping[str, Any]", sample)
        offered = "; ".join(repr(each) for each in self._cookers)
        return NoCookerError(
            f"no cooker matches a sample with the subflavors {dict(_subflavors(sample))!r} and the parts "
            f"{[name for name in parts if name[:2] != '__']!r}. The cookers are {offered}. Add one that matches, and "
            "last one without conditions for all others; it may raise SkipSample to leave them out"
        )


class StatefulCooking(Cooking):
    """Cook samples by functions of which some have a state: each stream has copies of these, and shares the stores.

    Example:
        >>> class Numbers:
        ...     count = 0
        ...
        ...     def __call__(self, sample):
        ...         self.count += 1
        ...         return self.count
        ...
        ...     def state_dict(self):
        ...         return {"count": self.count}
        ...
        ...     def load_state_dict(self, state):
        ...         self.count = state["count"]
        >>> kitchen = StatefulCooking([Cooker(Numbers())], {}, False)
        >>> kitchen("a"), kitchen("b"), kitchen.state_dict()
        (1, 2, {'0': {'count': 2}})
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> StatefulCooking:
        copied = [replace(each, fn=copy.deepcopy(each.fn, memo)) for each in self._cookers]
        return type(self)(copied, self._offered, self._rng)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the functions by the number of their cookers."""
        return {name: fn.state_dict() for name, fn in self._stateful().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the functions into the states that `state_dict` returned."""
        stateful = self._stateful()
        if set(state) != set(stateful):
            raise StateError(
                f"the checkpoint was saved with states of the cooking functions {listed(state)} (counted from 0) "
                f"and of {self!r} those with a state are {listed(stateful)}: give the cookers as they were "
                "when the checkpoint was saved, or start afresh"
            )
        for name, fn in stateful.items():
            fn.load_state_dict(state[name])

    def _stateful(self) -> dict[str, Any]:
        return {str(number): each.fn for number, each in enumerate(self._cookers) if is_stateful(each.fn)}


def cooking(
    cookers: Sequence[Cooker[Any] | Callable[..., Any]],
    *,
    aux: Mapping[str, Any] | None = None,
    primary: Any = None,
    cache: Any = None,
    rng: Rng = False,
) -> Cooking:
    """Return a function that cooks samples, from what the verb `cook` takes.

    Example:
        >>> def join(sample, texts):
        ...     return texts[sample]
        >>> cooking([join], aux={"texts": {"a": "a cat"}})("a")
        'a cat'

    Raises:
        TypeError: There is no cooker, one is none, a function asks for something that is not offered, or none asks for
            a store in `aux`.
        ValueError: A store has a name that stands for something else.
    """
    if not cookers:
        raise TypeError("cook needs at least one cooking function or Cooker, got none")
    if aux is not None and not isinstance(aux, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'cook needs aux as a dict of names and stores, such as {{"images": store}}, got {aux!r}')
    for name in cast("Mapping[Any, Any]", aux or {}):
        if not isinstance(name, str) or name in ("primary", "cache", "rng") or not name.isidentifier():
            raise ValueError(
                f"cook needs names of parameters in aux, got {name!r}: functions get the stores by these names, and "
                "primary, cache and rng have arguments of their own"
            )
    offered = dict(aux or {})
    offered |= {name: value for name, value in (("primary", primary), ("cache", cache)) if value is not None}
    made = [_as_cooker(each) for each in cookers]
    kind = StatefulCooking if any(is_stateful(each.fn) for each in made) else Cooking
    kitchen = kind(made, offered, rng)
    kitchen.check_used(aux or {})
    return kitchen


def _as_cooker(given: Any) -> Cooker[Any]:
    if isinstance(given, Cooker):
        return cast("Cooker[Any]", given)
    if not callable(given):
        raise TypeError(f"cook needs functions and Cookers, got {given!r}")
    return Cooker(given)


def _bind(cooker: Cooker[Any], offered: Mapping[str, Any], rng: Rng) -> _Bound:
    """Find what a cooking function asks for by the names of its parameters, or by the marks of `@cooker`."""
    fn = cooker.fn
    marked = [name for name in ("primary", "cache") if getattr(fn, f"__cooker_need_{name}__", False)]
    stores: dict[str, Any] = {}
    draws = False
    for parameter in _parameters(fn):
        name = parameter.name
        if parameter.kind is Parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is Parameter.VAR_KEYWORD:  # all the stores, and what is marked, as in Megatron-Energon
            stores |= {each: value for each, value in offered.items() if each not in ("primary", "cache")}
        elif name == "rng" and rng is True:
            draws = True
        elif name in offered and parameter.kind is not Parameter.POSITIONAL_ONLY:
            stores[name] = offered[name]
        elif parameter.default is Parameter.empty:
            raise TypeError(_not_offered(fn, f"has a parameter {name!r}", name, offered, rng))
    for name in marked:
        if name not in offered:
            raise TypeError(_not_offered(fn, f"is marked with need_{name}=True", name, offered, rng))
        stores[name] = offered[name]
    test = cooker.matches_sample if cooker.has_parts or cooker.where is not None else None
    return _Bound(cooker, test, stores, draws, is_generator_function(fn) or is_generator_function(inspect.unwrap(fn)))


def _parameters(fn: Any) -> list[Parameter]:
    """Return the parameters behind the sample."""
    try:
        return list(inspect.signature(fn).parameters.values())[1:]
    except ValueError:  # a function of C that tells nothing
        return []


def _not_offered(fn: Any, asks: str, name: str, offered: Mapping[str, Any], rng: Rng) -> str:
    names = [*offered, *(["rng"] if rng is True else [])]
    remedy = {
        "primary": "give cook(..., primary=energon_nodes.store(path))",
        "cache": "give cook(..., cache=...)",
        "rng": "give cook(..., rng=True)",
    }.get(name, f"give cook(..., aux={{{name!r}: store}}), or the parameter a default")
    return (
        f"the cooking function {_name(fn)} {asks}, which cook does not offer: {remedy}. "
        f"Offered {'are ' + ', '.join(names) if names else 'is nothing'}"
    )


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _subflavors(sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return cast("Mapping[str, Any]", sample).get("__subflavors__") or {}
    return getattr(sample, "__subflavors__", None) or {}
