"""`join`: put the samples of several datasets together that have the same key."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any, Literal, TypeVar, cast

from energon_nodes.combinators.calls import check_function
from energon_nodes.core import graph
from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import SampleError, SkipSample
from energon_nodes.core.fields import buffer, tuning
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.restore import Buffer, Key
from energon_nodes.core.share import ErrorPolicy

__all__ = ["Join", "join", "joined"]

Y = TypeVar("Y")
Nonmatch = Literal["error", "skip", "none"]
_MODES = ("error", "skip", "none")
_FIRST = 8  # so few are looked up at first: whoever waits for the first sample need not wait for hundreds


class Join(Node[Y]):
    """Put together the samples of several sides that have the same key; see `joined`, which makes it.

    Example:
        >>> import energon_nodes as en
        >>> images = en.items([{"__key__": "a", "jpg": 1}, {"__key__": "b", "jpg": 2}])
        >>> texts = en.items([{"__key__": "b", "txt": "two"}, {"__key__": "a", "txt": "one"}])
        >>> [(sample["jpg"], sample["txt"]) for sample in Join((images, texts), names=None, nonmatch=("error",))]
        [(1, 'one'), (2, 'two')]
    """

    sources: tuple[Node[Any], ...]
    _: KW_ONLY
    names: tuple[str, ...] | None
    nonmatch: tuple[Nonmatch, ...]
    joiner: Callable[..., Y] | None = tuning(default=None)
    ahead: int = tuning(default=256)
    on_error: ErrorPolicy | None = tuning(default=None)
    held: Buffer = buffer()

    def check(self) -> None:
        if len(self.sources) < 2:
            raise ValueError(
                "join needs at least two sides, got one: give the datasets that the samples are joined with"
            )
        for mode in self.nonmatch:
            if mode not in _MODES:
                raise ValueError(f'join needs nonmatch="error", "skip" or "none", got {mode!r}')
        check_size("join", "ahead", self.ahead, 1)
        if self.joiner is not None:
            check_function("join", "joiner", self.joiner)
        elif self.names is not None:
            raise ValueError("join needs a joiner where the sides have names: it gets their samples by keyword")
        for source in self.sources[1:]:
            source.check_lookup()
            for node in graph.walk(source):
                if getattr(node, "on_error", None) is not None:
                    raise ValueError(
                        f"{node!r} is on a side that join looks up, where its on_error is not asked: give it to "
                        "the join, which decides about the whole sample"
                    )

    def bound(self) -> None:
        # A type of samples says itself how it is made of others.
        joiner = _merged if self.joiner is None else getattr(self.joiner, "from_joined", self.live("joiner"))
        names = self.names
        self._join: Callable[[Sequence[Any]], Y] = (
            (lambda samples: joiner(*samples))
            if names is None
            else (lambda samples: joiner(**dict(zip(names, samples, strict=True))))
        )

    def run(self) -> Iterator[tuple[Y, Key]]:
        pairs, held, streak = self.source.pairs(), self.held, 0
        count = min(self.ahead, _FIRST)
        while True:
            if not held:
                held.extend(islice(pairs, count))
                if not held:
                    return
                count = min(self.ahead, 4 * count)
            for samples in self._rows([value for value, _ in held], [key for _, key in held]):
                value, key = held[0]
                try:
                    if isinstance(samples, Exception):
                        raise samples
                    result = self._join(samples)
                except Exception as error:
                    del held[0]
                    streak = self.fail(error, key, value, streak)
                    continue
                del held[0]
                streak = 0
                yield result, key

    @property
    def source(self) -> Node[Any]:
        """The side whose samples come one after the other."""
        return self.sources[0]

    def _rows(self, values: Sequence[Any], keys: Sequence[Key]) -> list[list[Any] | Exception]:
        """Return for each sample of the first side its row of samples, or what stands in the way."""
        rows: list[Any] = [[value] for value in values]
        names: list[str] = []
        for number, value in enumerate(values):
            name = value.get("__key__") if hasattr(value, "get") else getattr(value, "__key__", None)
            if not isinstance(name, str):
                rows[number] = SampleError(
                    f"join needs samples with a __key__, and the first side gave a {type(value).__name__} with "
                    f"__key__={name!r}"
                )
            names.append(str(name))
        passes = [_pass_of(key) for key in keys]
        for side, mode in enumerate(self.nonmatch, 1):
            self._add(side, mode, rows, names, passes)
        return rows

    def _add(self, side: int, mode: Nonmatch, rows: list[Any], names: Sequence[str], passes: Sequence[int]) -> None:
        source = self.sources[side]
        try:
            found = source.lookup(names, passes)
        except Exception as error:
            error.add_note(f"while join looked up samples in {self._name(side)}, {source!r}")
            raise
        present = [number for number, key in enumerate(found) if key is not None]
        wanted = [key for key in found if key is not None]
        for number, value in zip(present, _restored(source, wanted), strict=True):
            if isinstance(rows[number], list):
                if isinstance(value, Exception):
                    value.add_note(f"in {self._name(side)} of the join, {source!r}")
                    rows[number] = value
                else:
                    rows[number].append(value)
        if len(present) == len(rows):
            return
        for number, key in enumerate(found):
            if key is not None or not isinstance(rows[number], list):
                continue
            if mode == "none":
                rows[number].append(None)
            elif mode == "skip":
                rows[number] = SkipSample()
            else:
                what = f"side {side}" if self.names is None else f"the side {self.names[side]!r}"
                rows[number] = SampleError(
                    f'no sample with the key {names[number]!r} in {what} of the join, {source!r}; nonmatch="skip" '
                    'leaves such samples out, nonmatch="none" gives None for the missing one'
                )

    def _name(self, side: int) -> str:
        return f"side {side}" if self.names is None else f"the side {self.names[side]!r}"

    def rebuild(self, name: str, keys: Sequence[Key]) -> Sequence[Any]:
        return self.source.restore_many(keys)

    def restore_many(self, keys: Sequence[Key]) -> list[Y]:
        restored: list[Y] = []
        for samples in self._rows(self.source.restore_many(keys), keys):
            if isinstance(samples, Exception):
                raise samples
            restored.append(self._join(samples))
        return restored

    def locate(self, key: Key) -> str | None:
        return self.source.locate(key)

    def length(self, stream: int, streams: int) -> float | None:
        return None if "skip" in self.nonmatch else self.source.length(stream, streams)


def _restored(source: Node[Any], keys: Sequence[Key]) -> list[Any]:
    """Rebuild elements; an exception stands in the place of one that fails."""
    if not keys:
        return []
    try:
        return source.restore_many(keys)
    except Exception as error:
        if len(keys) == 1:
            return [error]
        return [value for key in keys for value in _restored(source, [key])]


def _pass_of(key: Key) -> int:
    """Return a number that stands for the pass of an element: random draws of the other sides depend on it."""
    if len(key) == 2 and type(key[0]) is int and type(key[1]) is int:
        return key[0]
    return zlib.crc32(repr(key).encode())


def _merged(first: Any, *others: Any) -> Any:
    """Return one dict with the parts of all; what begins with two underscores is that of the first."""
    if not isinstance(first, dict):
        raise _needs_joiner(first)
    merged: dict[str, Any] = cast("dict[str, Any]", first).copy()
    for side, other in enumerate(others, 1):
        if other is None:
            continue
        if not isinstance(other, dict):
            raise _needs_joiner(other)
        sample = cast("dict[str, Any]", other)
        together = {**merged, **sample}
        shared = len(merged) + len(sample) - len(together)
        for name in _COMMON:
            if name in sample and name in merged:
                together[name] = merged[name]
                shared -= 1
        if shared:
            names = sorted(name for name in merged.keys() & sample.keys() if name not in _COMMON)
            raise SampleError(
                f"side {side} of the join has the part {names[0]!r}, which a side before it has too: rename one "
                "with map, read other parts= in one of them, or give a joiner"
            )
        sources, added = merged.get("__sources__"), sample.get("__sources__")
        if sources and added:
            together["__sources__"] = sources + added
        merged = together
    return merged


_COMMON = ("__key__", "__shard__", "__restore_key__", "__subflavors__", "__sources__")


def _needs_joiner(sample: Any) -> SampleError:
    return SampleError(
        f"join needs a joiner for samples that are no dicts, got a {type(sample).__name__}: a type with from_joined, "
        "or a function of the samples"
    )


def joined(
    sides: Sequence[Node[Any]] | Mapping[str, Node[Any]],
    *,
    nonmatch: Nonmatch | Sequence[Nonmatch] | Mapping[str, Nonmatch] = "error",
    joiner: Callable[..., Y] | None = None,
    ahead: int = 256,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]:
    """Put together the samples of several sides that have the same key.

    The first side gives the order: its samples come one after the other, and those of the others are looked up by
    `__key__`. Nothing has to be prepared for it: a dataset that was prepared has a table of its keys, or gets one at
    the first join. Sides whose samples lie in the same order are read nearly one after the other, others are read at
    random. The restore key is that of the first side.

    The other sides end in a source that finds samples by key (`shards`, `dataset`, `jsonl`, `items`), of any split;
    behind it may stand what gives one element for each, such as `map` and `decode`. Their random draws are those of
    the first side's pass.

    Example:
        >>> import energon_nodes as en
        >>> images = en.items([{"__key__": "a", "jpg": 1}, {"__key__": "b", "jpg": 2}])
        >>> texts = en.items([{"__key__": "b", "txt": "two"}])
        >>> def pair(image, text):
        ...     return image["jpg"], text and text["txt"]
        >>> list(en.joined({"image": images, "text": texts}, nonmatch="none", joiner=pair))
        [(1, None), (2, 'two')]

    Args:
        sides: The datasets, the one that gives the order first; with names, the joiner gets its samples by keyword.
        nonmatch: What happens where a side has no sample with the key: "error"; "skip" leaves the sample out;
            "none" gives the joiner None. One for all sides, or one for each but the first.
        joiner: A function of one sample from each side, in order or by name; or a type whose `from_joined` is one,
            such as a `Sample`. None, for dicts: one dict with the parts of all, and key and subflavors of the first.
        ahead: How many samples are looked up together, at least 1.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Returns:
        A node of what the joiner returns.

    Raises:
        TypeError: A side cannot be looked up by key, or the joiner cannot be called.
        ValueError: There are less than two sides, or `nonmatch` does not fit them.
    """
    names = tuple(sides) if isinstance(sides, Mapping) else None
    nodes = tuple(sides.values()) if isinstance(sides, Mapping) else tuple(sides)
    return Join(
        nodes,
        names=names,
        nonmatch=_modes(nonmatch, names, len(nodes) - 1),
        joiner=joiner,
        ahead=ahead,
        on_error=on_error,
    )


def _modes(
    nonmatch: Nonmatch | Sequence[Nonmatch] | Mapping[str, Nonmatch], names: tuple[str, ...] | None, count: int
) -> tuple[Nonmatch, ...]:
    if isinstance(nonmatch, str):
        return (nonmatch,) * count
    if not isinstance(nonmatch, (Mapping, list, tuple)):
        raise ValueError(f'join needs nonmatch="error", "skip" or "none", or one for each side, got {nonmatch!r}')
    if isinstance(nonmatch, Mapping):
        unknown = [name for name in nonmatch if names is None or name not in names[1:]]
        if unknown:
            raise ValueError(
                f"join got nonmatch for {unknown}, which are not sides that are looked up: these are "
                f"{list(names[1:]) if names else 'without names'}"
            )
        return tuple([nonmatch.get(name, "error") for name in (names or ())[1:]])
    if len(nonmatch) != count:
        raise ValueError(f"join needs nonmatch for each of {count} sides that are looked up, got {list(nonmatch)}")
    return tuple(nonmatch)


@add_verb
def join(
    source: Node[Any],
    *sides: Node[Any],
    nonmatch: Nonmatch | Sequence[Nonmatch] = "error",
    joiner: Callable[..., Y] | None = None,
    ahead: int = 256,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]:
    """Put together each sample with those of other datasets that have the same key.

    It is `joined([source, *sides])`, which says more.

    Example:
        >>> import energon_nodes as en
        >>> images = en.items([{"__key__": "a", "jpg": 1}, {"__key__": "b", "jpg": 2}])
        >>> texts = en.items([{"__key__": "b", "txt": "two"}, {"__key__": "a", "txt": "one"}])
        >>> list(images.join(texts))
        [{'__key__': 'a', 'jpg': 1, 'txt': 'one'}, {'__key__': 'b', 'jpg': 2, 'txt': 'two'}]

    Args:
        source: The dataset that gives the order.
        *sides: The datasets that are looked up.
        nonmatch: "error", "skip" or "none" where a side has no such sample; one for all sides, or one for each.
        joiner: A function of one sample from each side, or a type whose `from_joined` is one; None, for dicts: one
            dict with the parts of all.
        ahead: How many samples are looked up together, at least 1.
        on_error: "raise", "skip" or `callable(error, key)`; None takes the loader's.

    Returns:
        A node of what the joiner returns.

    Raises:
        TypeError: A side cannot be looked up by key, or the joiner cannot be called.
        ValueError: There is no side, or `nonmatch` does not fit them.
    """
    return joined([source, *sides], nonmatch=nonmatch, joiner=joiner, ahead=ahead, on_error=on_error)
