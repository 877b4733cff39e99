"""Cookers: functions that make samples of crude ones, and which samples each of them is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar, cast, overload

from energon_nodes.core.graph import is_stateful
from energon_nodes.samples.sample import Sample

__all__ = ["Cooker", "basic_sample_keys", "cooker"]

Y = TypeVar("Y", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])
_COMMON = ("__key__", "__restore_key__", "__subflavors__", "__sources__")


@dataclass(frozen=True)
class Cooker(Generic[Y]):
    """Say which samples a cooking function is for; `cook` takes the first cooker that matches a sample.

    All conditions have to hold; without any, every sample matches.

    Example:
        >>> import energon_nodes as en
        >>> def caption(sample):
        ...     return en.TextSample(**en.basic_sample_keys(sample), text=sample["txt"])
        >>> Cooker(caption, has_subflavors={"kind": "web"}, has_parts=["txt"])
        Cooker(caption, has_subflavors={'kind': 'web'}, has_parts=['txt'])

    Args:
        fn: `fn(sample, ...)`; `cook` says what it may ask for besides.
        has_subflavors: Subflavors that the sample must have, with these values; it may have others too.
        where: `where(sample)`, whose truth decides.
        has_parts: Names of parts (of fields, for a typed sample) that must be there.

    Raises:
        TypeError: If `fn` or `where` is not callable, or a condition of another kind than it should be.
        ValueError: If `where` has a state, which it would lose at a resume.
    """

    fn: Callable[..., Y]
    has_subflavors: Mapping[str, Any] | None = None
    _: KW_ONLY
    where: Callable[[Any], Any] | None = None
    has_parts: Collection[str] = field(default=())

    def __post_init__(self) -> None:
        given: Any = self.has_subflavors
        if not callable(self.fn):
            raise TypeError(f"a cooker needs a callable fn, got {self.fn!r}")
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"a cooker needs has_subflavors as a dict of names and values, got {given!r}")
        if self.where is not None and not callable(self.where):
            raise TypeError(f"a cooker needs a callable where, got {self.where!r}")
        if is_stateful(self.where):
            raise ValueError(f"a cooker needs a where without a state, got {self.where!r}: let fn raise SkipSample")
        if isinstance(self.has_parts, str):
            raise TypeError(f'a cooker needs has_parts as names such as ["jpg", "txt"], got {self.has_parts!r}')

    def __repr__(self) -> str:
        shown = [getattr(self.fn, "__qualname__", type(self.fn).__name__).replace("<locals>.", "")]
        shown += [f"has_subflavors={dict(self.has_subflavors)!r}"] if self.has_subflavors else []
        shown += [f"has_parts={list(self.has_parts)!r}"] if self.has_parts else []
        if self.where is not None:
            shown.append(f"where={getattr(self.where, '__qualname__', self.where)}".replace("<locals>.", ""))
        return f"Cooker({', '.join(shown)})"

    def matches_dataset(self, subflavors: Mapping[str, Any]) -> bool:
        """Return whether samples with these subflavors may match: what is the same for all of a dataset."""
        wanted = self.has_subflavors or {}
        return all(name in subflavors and subflavors[name] == value for name, value in wanted.items())

    def matches_sample(self, sample: Any) -> bool:
        """Return whether the conditions hold that each sample may answer in another way."""
        if self.has_parts:
            if isinstance(sample, Mapping):
                if not all(part in sample for part in self.has_parts):
                    return False
            elif not all(hasattr(sample, part) for part in self.has_parts):
                return False
        return self.where is None or bool(self.where(sample))


@overload
def cooker(fn: F, /) -> F: ...
@overload
def cooker(*, need_primary: bool = False, need_cache: bool = False) -> Callable[[F], F]: ...
def cooker(fn: Any = None, /, *, need_primary: bool = False, need_cache: bool = False) -> Any:
    """Mark a cooking function as one that needs the primary store or the cache, as in Megatron-Energon.

    A parameter named `primary` or `cache` says the same, so the mark is only needed where the function takes
    `**keywords`. It is not wrapped.

    Example:
        >>> @cooker(need_primary=True)
        ... def caption(sample, **stores):
        ...     return stores["primary"][sample["__key__"] + ".txt"]
        >>> import energon_nodes as en
        >>> texts = {"a.txt": b"a cat"}
        >>> list(en.items([{"__key__": "a"}]).cook(caption, primary=texts))
        [b'a cat']

    Args:
        fn: The function, where the decorator is written without parentheses.
        need_primary: Whether `cook` must have a primary store, and passes it.
        need_cache: Whether `cook` must have a cache, and passes it.

    Returns:
        The function, or a decorator of it.
    """

    def mark(function: F) -> F:
        marked = cast("Any", function)
        marked.__cooker_need_primary__, marked.__cooker_need_cache__ = need_primary, need_cache
        return function

    return mark if fn is None else mark(fn)


def basic_sample_keys(sample: Mapping[str, Any] | Sample, extra_sources: Iterable[Any] = ()) -> dict[str, Any]:
    """Return the name and the origin of a sample, as arguments for the sample that is made of it.

    Example:
        >>> import energon_nodes as en
        >>> crude = {"__key__": "a", "__shard__": "0.tar", "__subflavors__": {"lang": "en"}, "txt": "fine"}
        >>> basic_sample_keys(crude)
        {'__key__': 'a', '__subflavors__': {'lang': 'en'}}
        >>> en.TextSample(**basic_sample_keys(crude), text=crude["txt"]).text
        'fine'

    Args:
        sample: A dict of parts, or a typed sample.
        extra_sources: Where else data of the new sample came from; they follow those of `sample`. What was read by
            `store.get(name, sample)` is among those already.

    Returns:
        Those of `__key__`, `__restore_key__`, `__subflavors__` and `__sources__` that the sample has.
    """
    if isinstance(sample, Mapping):
        found = {name: sample[name] for name in _COMMON if name in sample}
    else:
        found = {name: getattr(sample, name) for name in _COMMON if hasattr(sample, name)}
    extra = tuple(extra_sources)
    if extra:
        found["__sources__"] = (*(found.get("__sources__") or ()), *extra)
    return found
