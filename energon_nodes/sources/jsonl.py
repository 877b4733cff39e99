"""`jsonl`: the records of JSON Lines files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from energon_nodes.core.fields import scratch, shared, state, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.sources.numbered import Numbered, absolute
from energon_nodes.sources.subset import Bound, Section
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.jsonl_set import IndexSource, open_lines
from energon_nodes.storage.shard_set import ShardSet

__all__ = ["Jsonl", "jsonl"]


class Jsonl(Numbered):
    r"""Deliver the records of JSON Lines files; see `jsonl`, which makes it.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.jsonl")
        ...     _ = path.write_text('{"n": 1}\n{"n": 2}\n')
        ...     source = en.jsonl(path)
        >>> isinstance(source, Jsonl), source.count
        (True, 2)
    """

    family: ClassVar[str] = "jsonl"
    path: str | tuple[str, ...] = tuning()
    _: KW_ONLY
    shuffled: bool = False  # `shuffle` is a verb
    seed: int | None = None
    sequence_length: int | None = None
    parallel_sequences: int = 1
    shuffle_epochs: int = 1
    sections: tuple[Section, ...] = tuning(default=())  # `subset` is a verb
    fixed_epoch: bool = False
    index: IndexSource = tuning(default="auto")
    cache: str | None = tuning(default=None)
    parse: bool = tuning(default=True)
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
        if self.index not in ("auto", "file", "scan"):
            raise ValueError(f'jsonl needs index="auto", "file" or "scan", got index={self.index!r}')
        self.begin(open_lines(self.path, index=self.index, cache=self.cache, parse=self.parse))

    def describe(self) -> list[str]:
        """Return what `repr` shows."""
        files = len(self.shard_set.names)
        shown = [repr(self.path), f"{self.count} records" + (f" in {files} files" if files > 1 else "")]
        return shown + self.order_shown() + ([] if self.parse else ["parse=False"])


def jsonl(
    path: PathLike | Iterable[PathLike],
    *,
    shuffle: bool = False,
    seed: int | None = None,
    sequence_length: int | None = None,
    parallel_sequences: int = 1,
    shuffle_epochs: int = 1,
    subset: tuple[Bound, Bound] | None = None,
    fixed_epoch: bool = False,
    index: IndexSource = "auto",
    cache: PathLike | None = None,
    parse: bool = True,
    on_error: ErrorPolicy | None = None,
) -> Node[dict[str, Any]]:
    r"""Deliver the objects of JSON Lines files: text files with one JSON object on each line.

    A sample is a dict with the object under `json`, its number as `__key__`, the name of its file as `__shard__`, and
    `__sources__`. The restore key is `(epoch, number)`. Several files are one range of records, in the order of the
    files, and the numbers go on from file to file. Blank lines are no records; lines may end with a line feed alone
    or after a carriage return, and the file may begin with a UTF-8 byte order mark.

    Integers of any size are exact (up to the 4,300 digits that Python's `int` reads). `NaN` and `Infinity`, which JSON
    does not have but Python writes, are read as floats. Of a name that stands twice in an object, the last value
    counts.

    Shuffling and streams are those of `shards`: sequences of neighbours are permuted over all files, and a
    `.shuffle(n)` behind the source mixes them.

    Records are found through the index `<name>.jsonl.idx` that `prepare` (this library's and Megatron-Energon's)
    writes beside a file; without one the file is looked through when the source is made, at a few hundred MB a second.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "texts.jsonl")
        ...     _ = path.write_text('{"text": "one"}\n\n{"text": "two", "big": 123456789012345678901234567890}\n')
        ...     samples = list(en.jsonl(path))
        >>> samples[1]["json"], samples[1]["__key__"], samples[1]["__shard__"]
        ({'text': 'two', 'big': 123456789012345678901234567890}, '1', 'texts.jsonl')

    Args:
        path: A file, a folder with `*.jsonl` in it or below it, a brace or glob pattern, or a list of these; local or
            a URL that fsspec understands.
        shuffle: Whether each pass has another random order.
        seed: A seed for this node; None takes the one of the loader.
        sequence_length: How many neighbours stay together under `shuffle`, at least 1. None takes 100, and fewer
            where that would give less than 100 sequences.
        parallel_sequences: How many sequences are read side by side, one sample of each in turn, at least 1.
        shuffle_epochs: How many epochs are shuffled together, at least 1: a pass then has every sample so many times,
            in one order over all of them, each with random draws of its own.
        subset: Two bounds that cut the records: fractions `(0.0, 0.5)`, percentages `("0%", "50%")`, or numbers
            `(100, 200)`, the second of which may be "end".
        fixed_epoch: Whether every pass repeats the same order and the same random draws, for validation.
        index: "auto" takes the index file beside each file that has one, and looks through the others; "file" refuses
            files without one; "scan" looks at no index file.
        cache: A folder that keeps the index of files that have none; without it they are looked through in each run.
        parse: Whether `json` is the parsed object; False leaves it the bytes of the line, unchecked, for another
            parser or for a cheap shuffle buffer.
        on_error: What happens to a line that is no JSON object or not UTF-8: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of the samples.

    Raises:
        DatasetError: There is nothing to read, a file is compressed, or an index is out of step with its file.
        ValueError: A setting is out of its range.
    """
    return Jsonl(
        absolute(path) if isinstance(path, str | os.PathLike) else tuple([absolute(entry) for entry in path]),
        shuffled=shuffle,
        seed=seed,
        sequence_length=sequence_length,
        parallel_sequences=parallel_sequences,
        shuffle_epochs=shuffle_epochs,
        sections=() if subset is None else (subset,),
        fixed_epoch=fixed_epoch,
        index=index,
        cache=None if cache is None else os.fspath(cache),
        parse=parse,
        on_error=on_error,
    )
