"""Values that stand for files of a store, and are read when they are needed."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from energon_nodes.core.encoders import register_encoder
from energon_nodes.core.errors import StateError
from energon_nodes.samples.sample import Sample
from energon_nodes.storage.provenance import Source

if TYPE_CHECKING:
    from energon_nodes.samples.store import Store

__all__ = [
    "Lazy",
    "check_notable",
    "decode_lazy",
    "encode_lazy",
    "live_store",
    "note_source",
    "remember_store",
    "resolve",
]

_stores: WeakSet[Store] = WeakSet()  # of this process


class Lazy:
    """Stand for a file of a store; `store.lazy(name)` makes it.

    It is small, never changes, and does not keep what `get` has returned. Two that stand for the same file
    are equal. Buffers hold it like any other value. In a checkpoint that has to hold values, it says which store it
    belongs to; whoever loads the checkpoint has to have a store of that path, so a state cannot lead to other files.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     texts = en.store(folder, decode=True)
        ...     later = texts.lazy("a.txt")
        ...     later.name, later == texts.lazy("a.txt"), later.get()
        ('a.txt', True, 'a cat')

    Args:
        store: The store.
        name: As for `store[name]`.
    """

    __slots__ = ("name", "store")

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name

    def get(self, sample: Any = None) -> Any:
        """Read the file.

        Args:
            sample: A dict or a `Sample`, which is changed: `__sources__` is one `Source` longer. None notes nothing.

        Returns:
            What `store[name]` returns.

        Raises:
            TypeError: The sample has no `__sources__` that could be set.
            NotInStoreError: There is no such file; see `store[name]`, also for the other errors.
        """
        if sample is not None:
            check_notable("get", sample)
        value = self.read()
        if sample is not None:
            note_source(sample, self.source)
        return value

    def read(self) -> Any:
        """Return what `get` returns, once more each time."""
        return self.store[self.name]

    @property
    def source(self) -> Source | None:
        """What `get(sample)` notes; None for a value that comes from no file."""
        return self.store.source_of(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"{self.store!r}.lazy({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy, (self.store, self.name)

    def __copy__(self) -> Lazy:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Lazy:
        return self

    def _identity(self) -> Any:
        return (self.store.identity, self.name)


# ---- in samples ------------------------------------------------------------------------------


def resolve(sample: Any) -> Any:
    """Replace the lazy values in a sample by what they stand for.

    It is meant for `encode=` of `pack_to` and `pack`, and for `map`; the verb `resolve` is that. Lazy values are found
    in dicts, lists, tuples and dataclasses, at any depth. Files of one store are read together. Each sample (a dict
    with a `__key__`, or a `Sample`) gets the sources of what was read for it.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     texts = en.store(folder, decode=True)
        ...     sample = {"__key__": "a", "pieces": ["see", texts.lazy("a.txt")]}
        ...     done = en.resolve(sample)
        ...     done["pieces"], len(done["__sources__"]), "__sources__" in sample
        (['see', 'a cat'], 1, False)

    Args:
        sample: Any value.

    Returns:
        A copy of it as far as it holds lazy values; the value itself if it holds none.

    Raises:
        NotInStoreError: A file does not exist; see `store[name]`, also for the other errors.
    """
    wanted = list(_lazies(sample))
    if not wanted:
        return sample
    values = iter(zip(wanted, _read(wanted), strict=True))
    return _replaced(sample, lambda: next(values), [])


def _lazies(value: Any) -> Iterator[Lazy]:
    """Yield the lazy values in a value, in the order in which `_replaced` meets them."""
    if isinstance(value, Lazy):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from _lazies(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _lazies(item)
    elif _is_record(value):
        for field in dataclasses.fields(value):
            yield from _lazies(getattr(value, field.name, None))


def _read(wanted: list[Lazy]) -> list[Any]:
    """Return the values of all, those that are plain files of one store in one read."""
    groups: dict[Any, list[int]] = {}
    for number, lazy in enumerate(wanted):
        groups.setdefault(id(lazy.store) if type(lazy) is Lazy else ("alone", number), []).append(number)
    values: list[Any] = [None] * len(wanted)
    for numbers in groups.values():
        first = wanted[numbers[0]]
        if len(numbers) == 1:
            values[numbers[0]] = first.read()
        else:
            found = first.store.get_many([wanted[number].name for number in numbers])
            for number, value in zip(numbers, found, strict=True):
                values[number] = value
    return values


def _replaced(value: Any, take: Callable[[], tuple[Lazy, Any]], sources: list[Source]) -> Any:
    """Return a value with the lazy ones replaced; the sources of those outside samples inside it go to `sources`."""
    if isinstance(value, Lazy):
        lazy, found = take()
        if lazy.source is not None:
            sources.append(lazy.source)
        return found
    if next(_lazies(value), None) is None:
        return value
    is_sample = isinstance(value, Sample) or (isinstance(value, dict) and "__key__" in value)
    noted: list[Source] = [] if is_sample else sources
    result: Any
    if isinstance(value, dict):
        result = copy.copy(cast("dict[Any, Any]", value))
        for name, item in cast("dict[Any, Any]", value).items():
            result[name] = _replaced(item, take, noted)
    elif isinstance(value, (list, tuple)):
        kind = cast("Any", type(cast("object", value)))
        items = [_replaced(item, take, noted) for item in cast("list[Any]", value)]
        result = kind._make(items) if hasattr(kind, "_make") else items if kind is list else kind(items)
    else:
        result = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                object.__setattr__(result, field.name, _replaced(getattr(value, field.name), take, noted))
    if is_sample:
        for source in noted:
            note_source(result, source)
    return result


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


# ---- sources ---------------------------------------------------------------------------------


def check_notable(who: str, sample: Any) -> None:
    """Raise a TypeError unless a source can be noted in a sample."""
    if not isinstance(sample, dict | Sample):
        kind = cast("type[Any]", type(sample))
        raise TypeError(f"{who} notes the source in a dict or a Sample, got a {kind.__name__}")


def note_source(sample: Any, source: Source | None) -> None:
    """Put a source behind those in the `__sources__` of a dict or a `Sample`."""
    if source is None:
        return
    if isinstance(sample, dict):
        fields = cast("dict[str, Any]", sample)
        fields["__sources__"] = (*(fields.get("__sources__") or ()), source)
    else:
        sample.__sources__ = (*(sample.__sources__ or ()), source)


# ---- stores of this process ------------------------------------------------------------------


def remember_store(store: Store) -> None:
    """Let lazy values in checkpoints and pickles find a store, as long as it is used."""
    _stores.add(store)


def live_store(path: str | os.PathLike[str], decode: Any) -> Store | None:
    """Return a store of this process that was made with these arguments, if there is one."""
    shown = repr(decode)
    for store in _live():
        if os.fspath(store.given) == os.fspath(path) and repr(store.decode) == shown:
            return store
    return None


def _live() -> list[Store]:
    while True:
        try:
            return list(_stores)
        except RuntimeError:  # another thread made a store meanwhile
            continue


def encode_lazy(lazy: Lazy) -> list[Any]:
    """Return the store and the name of a lazy value as plain data."""
    kind, path, decode = lazy.store.identity
    return [kind, path, decode, lazy.name]


def decode_lazy(encoded: list[Any]) -> Lazy:
    """Return a lazy value of a store of this process.

    Raises:
        StateError: This process has no such store.
    """
    kind, path, decode, name = encoded
    found = [store for store in _live() if store.identity[:2] == (kind, path)]
    same = [store for store in found if store.identity[2] == decode]
    if not same:  # the settings of a decoder may change, as functions may
        same = [store for store in found if (store.decode is None) == (decode == repr(None))]
    if same:
        return Lazy(same[0], name)
    stores = sorted({repr(store) for store in _live()})
    raise StateError(
        f"the checkpoint holds {name!r} of the store {path} (decode={decode}), and this process has no such store: "
        "make it with energon_nodes.store before the state is loaded, and keep it. There "
        f"{'are ' + ', '.join(stores) if stores else 'is none'}"
    )


register_encoder(Lazy, "lazy_file", encode_lazy, decode_lazy)
