"""`shards`: samples from tar shards, prepared or not, local or remote."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, cast

from energon_nodes.core.fields import scratch, shared, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.sources.numbered import Numbered, absolute
from energon_nodes.sources.subset import Bound, Section
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.open_shards import open_shards
from energon_nodes.storage.reading import PartFilter
from energon_nodes.storage.shard_set import ShardSet

__all__ = ["Shards", "shards"]

Parts = Collection[str] | Callable[[str], bool]


class Shards(Numbered):
    """Deliver the samples of tar shards; see `shards`, which makes it.

    Example:
        >>> import energon_nodes as en, tarfile, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(f"{folder}/0.tar", "w") as tar:
        ...         tar.addfile(tarfile.TarInfo("a.txt"))
        ...     source = en.shards(folder)
        >>> isinstance(source, Shards), source.count
        (True, 1)
    """

    family: ClassVar[str] = "shards"
    path: str | tuple[str, ...] = tuning()
    _: KW_ONLY
    split: str | None = None
    shuffled: bool = False  # `shuffle` is a verb
    seed: int | None = None
    sequence_length: int | None = None
    parallel_sequences: int = 1
    shuffle_epochs: int = 1
    sections: tuple[Section, ...] = tuning(default=())  # `subset` is a verb
    parts: Parts | None = tuning(default=None)
    split_config: str | None = tuning(default=None)
    cache: str | None = tuning(default=None)
    fixed_epoch: bool = False
    on_error: ErrorPolicy | None = tuning(default=None)
    taken: int = state(int)
    pending: Any = scratch(lambda: None)  # the indices of a group that are not taken yet
    group_end: int = scratch(int)  # what `taken` will be when they are
    shard_set: ShardSet = shared()
    first: int = shared()
    count: int = shared()
    length_used: int = shared()

    def check(self) -> None:
        self.check_order()
        self.wants()
        self.begin(open_shards(self.path, split=self.split, split_config=self.split_config, cache=self.cache))

    def wants(self) -> PartFilter | None:
        return _wants(self.parts)

    def describe(self) -> list[str]:
        """Return what `repr` shows."""
        shown = [repr(self.path)]
        shown += [f"split={self.split!r}"] if self.split else []
        shown += [f"{self.count} samples in {len(self.shard_set.names)} shards"]
        return shown + self.order_shown()


def _wants(parts: Parts | None) -> PartFilter | None:
    """Return the part filter as a function, None for all parts."""
    if parts is None:
        return None
    if callable(parts):
        return parts
    if isinstance(parts, str):
        raise ValueError(f'shards needs parts as a collection of names such as ["jpg", "txt"], got {parts!r}')
    return frozenset(parts).__contains__


def _entries(path: Any) -> tuple[Any, ...]:
    if isinstance(path, bytes) or not isinstance(path, Iterable):
        raise TypeError(f"shards needs path as a path or a list of paths, got {path!r}")
    return tuple(cast("Iterable[Any]", path))


def shards(
    path: PathLike | Iterable[PathLike],
    *,
    split: str | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    sequence_length: int | None = None,
    parallel_sequences: int = 1,
    shuffle_epochs: int = 1,
    subset: tuple[Bound, Bound] | None = None,
    parts: Parts | None = None,
    split_config: str | None = None,
    cache: PathLike | None = None,
    fixed_epoch: bool = False,
    on_error: ErrorPolicy | None = None,
) -> Node[dict[str, Any]]:
    """Deliver the samples of tar shards as dicts of bytes.

    A sample has the parts of its files as bytes, and `__key__`, `__shard__` and `__sources__`. The restore
    key is `(epoch, index)`, where the index counts the samples of the split.

    With `shuffle` every pass has another order: the samples are cut into sequences of `sequence_length`
    neighbours, and the sequences are permuted over the whole dataset; `sequence_length=1` is a true global
    shuffle. Longer sequences read faster; a `.shuffle(n)` behind the source mixes them. Under several streams, stream
    `v` of `V` reads the `v`-th of `V` equal parts of that order.

    Example:
        >>> import energon_nodes as en, tempfile, webdataset
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with webdataset.ShardWriter(f"{folder}/%03d.tar", maxcount=3, verbose=0) as writer:
        ...         for number in range(5):
        ...             writer.write({"__key__": f"{number:04d}", "txt": f"caption {number}"})
        ...     source = en.shards(folder)
        ...     len(source), [sample["txt"] for sample in source][-1]
        (5, b'caption 4')

    Args:
        path: A dataset that was prepared for Megatron-Energon, or plain tars: a folder, a file, a brace or glob
            pattern, or a list of these; local or a URL that fsspec understands.
        split: The split part of a prepared dataset; "train" when left out. Plain tars have none.
        shuffle: Whether each pass has another random order.
        seed: A seed for this node; None takes the one of the loader.
        sequence_length: How many neighbours stay together under `shuffle`, at least 1. None takes 100, and fewer
            where that would give less than 100 sequences.
        parallel_sequences: How many sequences are read side by side, one sample of each in turn, at least 1. The next
            ones begin when all of these have ended.
        shuffle_epochs: How many epochs are shuffled together, at least 1: a pass then has every sample so many times,
            in one order over all of them, each with random draws of its own.
        subset: Two bounds that cut the samples of the split: fractions `(0.0, 0.5)`, percentages `("0%", "50%")`,
            or sample numbers `(100, 200)`, the second of which may be "end".
        parts: The parts to read: a collection of names, or a function of a name. None reads all.
        split_config: The split file in `.nv-meta`; by default `split.yaml`, or `split.json`.
        cache: A folder that keeps the index of plain tars between runs; without it they are scanned in each run.
        fixed_epoch: Whether every pass repeats the same order and the same random draws, for validation.
        on_error: What happens to a sample whose bytes are damaged: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of the samples.

    Raises:
        DatasetError: There is nothing to read, or the metadata are wrong.
        ValueError: A setting is out of its range.
        TypeError: `path` is something else.
    """
    entries: tuple[Any, ...] = (path,) if isinstance(path, str | os.PathLike) else _entries(path)
    for entry in entries:
        if not isinstance(entry, str | os.PathLike):
            raise TypeError(f"shards needs path as a path or a list of paths, got {path!r}")
    return Shards(
        absolute(path) if isinstance(path, str | os.PathLike) else tuple([absolute(entry) for entry in entries]),
        split=split,
        shuffled=shuffle,
        seed=seed,
        sequence_length=sequence_length,
        parallel_sequences=parallel_sequences,
        shuffle_epochs=shuffle_epochs,
        sections=() if subset is None else (subset,),
        parts=parts,
        split_config=split_config,
        cache=None if cache is None else os.fspath(cache),
        fixed_epoch=fixed_epoch,
        on_error=on_error,
    )
