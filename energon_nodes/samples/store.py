"""`store`: files by name, from a prepared dataset, a folder, a remote prefix, or a JSON Lines file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from energon_nodes.core.errors import NotInStoreError
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.lazy import Lazy, check_notable, live_store, note_source, remember_store
from energon_nodes.samples.sample import Sample
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.entries import open_entries
from energon_nodes.storage.media_table import MediaTable
from energon_nodes.storage.provenance import Source

if TYPE_CHECKING:
    from energon_nodes.samples.cache_pool import CachePool

__all__ = ["Store", "check_name", "store"]


class Store:
    """Hold named files, and read any of them at any time; `store` makes it.

    It is small when pickled, and can be used from several threads and in workers. What it reads is the dataset as it
    was when the store was made.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     texts = en.store(folder, decode=True)
        ...     sample = {"__key__": "a"}
        ...     texts["a.txt"], texts.get(".txt", sample), len(sample["__sources__"]), "b.txt" in texts
        ('a cat', 'a cat', 1, False)
    """

    def __init__(self, path: PathLike, decode: Decoder | None = None) -> None:
        self.entries = open_entries(path)
        self.decode = decode
        self.given = path
        self._read = self.entries.read
        remember_store(self)

    @property
    def path(self) -> str:
        """The folder, file or URL."""
        return self.entries.root

    def __repr__(self) -> str:
        shown = f", decode={self.decode!r}" if self.decode is not None else ""
        return f"Store({self.path!r}{shown})"

    @cached_property
    def identity(self) -> tuple[str, str, str]:
        """What is equal for stores that give the same: how names are understood, the path, how files are decoded."""
        return type(self.entries).__name__, self.path, repr(self.decode)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.given, self.decode)

    def __getitem__(self, name: str) -> Any:
        """Read a file.

        Args:
            name: `KEY.PART` in a prepared dataset, a relative path in a folder, `N.json` in a JSON Lines file.

        Returns:
            Its bytes, or the decoded value where the store decodes.

        Raises:
            TypeError: The name is no text.
            NotInStoreError: There is no such file, or the name leads out of the folder; it is a KeyError.
            ShardError: A shard cannot be read.
            DecodeError: The content is broken.
            OSError: The file cannot be read.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            check_name(self.path, name)
        data = self._read(name)
        return data if self.decode is None else self.decoded(name, data)

    def get(self, name: str, sample: Any) -> Any:
        """Read a file for a sample, and note in its `__sources__` where the file came from.

        Args:
            name: As for `store[name]`; one that begins with a dot is put behind the key of the sample.
            sample: A dict or a `Sample`, which is changed: `__sources__` is one `Source` longer.

        Returns:
            What `store[name]` returns.

        Raises:
            TypeError: The sample has no `__sources__` that could be set, or the name is no text.
            NotInStoreError: See `store[name]`, also for the other errors.
        """
        check_notable("store.get", sample)
        check_name(self.path, name)
        if name[:1] == ".":
            key: object = sample.__key__ if isinstance(sample, Sample) else sample.get("__key__")
            if not isinstance(key, str):
                raise TypeError(f"the name {name!r} goes behind the key of the sample, whose __key__ is {key!r}")
            name = key + name
        value = self[name]
        note_source(sample, self.source_of(name))
        return value

    def get_many(self, names: Sequence[str]) -> list[Any]:
        """Read many files in as few reads as possible.

        Args:
            names: Their names, in any order.

        Returns:
            The bytes or decoded values, in the order of the names.

        Raises:
            TypeError: It is no sequence of names.
            NotInStoreError: One or more do not exist; see `store[name]`, also for the other errors.
        """
        if isinstance(names, (str, bytes)):
            raise TypeError(
                f"get_many needs a list of names, got {names!r}: give [{names!r}], or read store[{names!r}]"
            )
        try:
            found = self.entries.read_many(names)
        except (AttributeError, TypeError):
            for name in names:
                check_name(self.path, name)
            raise
        if self.decode is None:
            return cast("list[Any]", found)
        return [self.decoded(name, data) for name, data in zip(names, found, strict=True)]

    def lazy(self, name: str, *, cache: CachePool | None = None) -> Lazy:
        """Return a small value that stands for a file, which is read when its `get` is called.

        Args:
            name: As for `store[name]`. Whether there is such a file shows when it is read.
            cache: A pool that fetches the file in the meantime.

        Returns:
            The lazy value; `resolve` replaces those in a sample.

        Raises:
            TypeError: The name is no text.
        """
        check_name(self.path, name)
        return Lazy(self, name) if cache is None else cache.lazy(self, name)

    def source_of(self, name: str) -> Source:
        """Return where a file comes from, as `get` notes it in a sample."""
        return Source(self.path, name, self.entries.shard_of(name), (name,))

    def media(self, name: str) -> dict[str, Any]:
        """Return what is known about a picture, an audio or a video file, without reading it.

        Args:
            name: As for `store[name]`.

        Returns:
            For pictures `width`, `height`, `format`, `mode`; for the others those of `video_duration` (s),
            `video_num_frames`, `video_fps`, `video_width`, `video_height`, `audio_duration` (s), `audio_channels`,
            `audio_sample_rate`, `audio_num_samples` that the file has.

        Raises:
            NotInStoreError: Nothing was stored for this name; `prepare_media` does it.
        """
        check_name(self.path, name)
        found = self._media.get(name) if name in self.entries else None
        if found is None:
            self._read(name)  # a name that does not exist has an error of its own
            raise NotInStoreError(
                f"there are no media metadata of {name!r} in {self.path}: store them with "
                f"energon_nodes.prepare_media({self.path!r})"
            )
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.entries

    def __len__(self) -> int:
        """Count the files; a folder is walked for it."""
        return len(self.entries)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all files."""
        return self.entries.names()

    @cached_property
    def _media(self) -> MediaTable:
        return MediaTable(self.path)

    def decoded(self, name: str, data: bytes) -> Any:
        """Return what `store[name]` returns if `data` are the bytes of the file."""
        if self.decode is None:
            return data
        key, part = self.entries.split(name)
        return self.decode({"__key__": key, part: data})[part]


def check_name(store: str, name: object) -> None:
    """Raise a TypeError unless this can be the name of a file in the store with this path."""
    if not isinstance(name, str):
        raise TypeError(
            f"the names of files in the store {store} are texts such as 'a.txt', got {name!r}, which is of the type "
            f"{type(name).__name__}"
        )


_recent: deque[Store] = deque(maxlen=16)  # came with elements from other processes; the next element needs it again


def _reopened(path: PathLike, decode: Decoder | None) -> Store:
    found = live_store(path, decode) or Store(path, decode)
    if found not in _recent:
        _recent.append(found)
    return found


def store(path: PathLike, *, decode: Decoder | bool | None = None, trust: bool = False) -> Store:
    """Open files that are read by name, beside the stream of samples: pictures that a record names, for instance.

    | path | names |
    |---|---|
    | a prepared dataset | `KEY.PART`, as the files in the shards are called |
    | a folder that is no prepared dataset | paths relative to it; none leads outside |
    | a URL of either | the same; reads are tried again when they fail in a way that can pass |
    | a `.jsonl` file | `17.json` or `17` for its record 17, the first is 0 |

    A dataset prepared by Megatron-Energon gets a table of its keys at the first use, beside it or in the user's cache
    folder; see `write_key_table`.

    Example:
        >>> import energon_nodes as en
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe({"/en_store/a.txt": b"a cat", "/en_store/b/c.json": b"[1]"})
        >>> files = en.store("memory://en_store", decode=True)
        >>> files["a.txt"], files.get_many(["b/c.json", "a.txt"]), sorted(files)
        ('a cat', [[1], 'a cat'], ['a.txt', 'b/c.json'])
        >>> files["a.tx"]
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.NotInStoreError: no file 'a.tx' in memory://en_store; did you mean 'a.txt'?

    Args:
        path: Where the files are. `filesystem://P` means the plain files below P even if P is a prepared dataset.
        decode: None gives bytes; a `Decoder` gives decoded values, and True those of a `Decoder` with its defaults.
        trust: For `decode=True`: whether pickled files may be loaded.

    Returns:
        The store.

    Raises:
        DatasetError: There is nothing to read, or a prepared dataset has no `index.sqlite`.
        ValueError: `trust` is given where it has no effect.
        OSError: The store cannot be reached.
    """
    if decode is True:
        return Store(path, Decoder(trust=trust))
    if trust:
        raise ValueError("store needs trust=True only with decode=True; a Decoder has a setting of its own")
    return Store(path, decode or None)
