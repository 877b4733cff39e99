"""`cache_pool`: files of slow stores, fetched to the local disk while the samples that need them wait in a buffer."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import weakref
from collections import deque
from functools import partial
from numbers import Real
from typing import Any

from energon_nodes.core.checks import check_size
from energon_nodes.samples.fetching import Fetcher, Ticket
from energon_nodes.samples.kept import KeptLazy, packed
from energon_nodes.samples.lazy import Lazy
from energon_nodes.samples.leaving import close_at_exit
from energon_nodes.samples.pooled import PooledLazy
from energon_nodes.samples.store import Store, check_name
from energon_nodes.storage.cache_folder import CacheFolder
from energon_nodes.storage.cache_ledger import Counts
from energon_nodes.storage.cache_places import chosen_root, room_on_disk
from energon_nodes.storage.discovery import PathLike

__all__ = ["CachePool", "cache_pool"]

_log = logging.getLogger("energon_nodes.cache")
_pools: weakref.WeakSet[CachePool] = weakref.WeakSet()
_recent: deque[CachePool] = deque(maxlen=4)  # came from other processes, with a pipeline or with single elements


class CachePool:
    """Fetch files in the background to a local folder, and keep them there within bounds; `cache_pool` makes it.

    A cooking function that has a parameter `cache` gets the pool that `cook(cache=pool)` was given. Pickled, it is
    its settings: all processes of a machine that have it share the folder, and each has threads of its own.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, en.cache_pool() as pool:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     texts = en.store(folder, decode=True)
        ...     later, at_once = pool.lazy(texts, "a.txt"), pool.get(texts, "a.txt")
        ...     later.get(), at_once, pool.counts().files
        ('a cat', 'a cat', 1)
    """

    def __init__(self, root: str, max_bytes: int, max_files: int, threads: int, queue: int) -> None:
        self.root, self.max_bytes, self.max_files = root, max_bytes, max_files
        self.threads, self.queue = threads, queue
        self.closed = self._off = False
        self._alone = 0  # values that were read without the folder
        self._finalizer: Any = None
        self._start_fresh()
        _pools.add(self)

    # ---- what cooking functions call ---------------------------------------------------------

    def lazy(self, store: Store, name: str) -> Lazy:
        """Begin to fetch a file, and return what stands for it.

        Args:
            store: A store, as `energon_nodes.store` returns it.
            name: As for `store[name]`.

        Returns:
            The lazy value. Its `get` waits for this one file; it reads from the store where the file was not
            fetched, and raises what the store raises.

        Raises:
            TypeError: It is no store, or the name is no text.
        """
        _check_store(store)
        check_name(store.path, name)
        fetcher = self._fetcher()
        ticket = None
        if fetcher is not None:
            ticket = fetcher.claim(_file_of(store, name), partial(store.entries.read, name))
        return PooledLazy(self, store, name, ticket)

    def get(self, store: Store, name: str, sample: Any = None) -> Any:
        """Read a file through the cache: from the folder if it is there, else from the store, and keep it.

        Args:
            store: A store, as `energon_nodes.store` returns it.
            name: As for `store[name]`.
            sample: As for `Lazy.get`.

        Returns:
            What `store[name]` returns.

        Raises:
            TypeError: It is no store, the name is no text, or nothing can be noted in the sample.
            NotInStoreError: There is no such file; see `store[name]`, also for the other errors.
        """
        _check_store(store)
        check_name(store.path, name)
        return PooledLazy(self, store, name, None).get(sample)

    def to_cache(self, value: Any, name: str | None = None) -> Lazy:
        """Put a value into the folder that is there already, and return what stands for it.

        It is for what costs much memory while a sample waits: a decoded video, a large array. The file goes
        when the lazy value does, or when its process ends. Where there is no room, the lazy value holds the bytes.

        Args:
            value: Bytes, numbers, texts, arrays, tensors, PIL images, dataclasses, whatever else has an encoder
                (`register_encoder`), and containers of these. Nothing is pickled as an object.
            name: What it is called in messages.

        Returns:
            The lazy value; `get` returns an equal value, a new one each time.

        Raises:
            TypeError: A type inside the value has no encoder.
        """
        data, file = packed(value), os.urandom(16).hex()
        shown = name if name is not None else type(value).__qualname__
        fetcher = self._fetcher()
        if fetcher is not None and fetcher.put(file, data, pin=True, shared=False):
            return KeptLazy(shown, None, fetcher.folder.own_path(file), self)
        return KeptLazy(shown, data)

    # ---- about the pool ----------------------------------------------------------------------

    def counts(self) -> Counts:
        """Return what lies in the folder, and what was done, over all processes that share it.

        Where the folder cannot be used, and once the pool is closed, there is nothing to share: `direct` then counts
        what this process has read from the stores without it.
        """
        fetcher = self._fetcher()
        if fetcher is None:
            return Counts(direct=self._alone)
        fetcher.settle()
        return fetcher.folder.ledger.read()

    def close(self) -> None:
        """End the threads of this process and leave the folder; the last process to leave removes the files.

        Lazy values of stores stay usable, and read from their stores. It happens by itself when the pool is not used
        any more, and at the end of the process.
        """
        self.closed = True
        live = self._live
        self._start_fresh()
        if live is not None:
            live.close()

    def __enter__(self) -> CachePool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CachePool({self.root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.root, self.max_bytes, self.max_files, self.threads, self.queue)

    def __copy__(self) -> CachePool:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CachePool:
        return self

    # ---- inside ------------------------------------------------------------------------------

    def taken(self, lazy: PooledLazy, ticket: Ticket | None) -> bytes:
        """Return the bytes of a file: fetched ahead, from the folder, or from the store."""
        fetcher = self._fetcher()
        store, name = lazy.store, lazy.name
        if fetcher is None:
            data = store.entries.read(name)
            with self._lock:
                self._alone += 1
            return data
        file = _file_of(store, name)
        ticket = ticket or fetcher.join(file)  # another sample may wait for the same file
        data = fetcher.take(ticket) if ticket is not None else None
        if data is not None:
            return data
        data = fetcher.read(file)
        if data is not None:
            fetcher.count(hits=1)
            return data
        data = store.entries.read(name)
        fetcher.put(file, data, pin=False)
        fetcher.count(direct=1)
        return data

    def drop_kept(self, path: str) -> None:
        """Remove the file of a value that nothing stands for any more; a destructor calls it."""
        if self._live is not None:
            self._live.drop(os.path.basename(path))

    def give_back(self, ticket: Ticket) -> None:
        """Let go of a file that was asked for and not taken; a destructor calls it."""
        if self._live is not None:
            self._live.drop(ticket)

    def open(self) -> None:
        """Come into the folder, which tells early whether it can be used."""
        self._fetcher()

    def _fetcher(self) -> Fetcher | None:
        live = self._live
        if live is not None:
            return live
        if self.closed or self._off:
            return None
        with self._lock:
            if self._live is None and not self._off:
                try:
                    folder = CacheFolder(self.root, self.max_bytes, self.max_files)
                except OSError as error:
                    self._off = True
                    _log.warning(
                        "the cache folder %s cannot be used (%s): values are read from where they come from, each when "
                        "it is needed",
                        self.root,
                        error,
                    )
                    return None
                self._live = Fetcher(folder, self.threads, self.queue)
                self._finalizer = weakref.finalize(self, self._live.end)
                self._finalizer.atexit = False
                close_at_exit(self._live)
            return self._live

    def _start_fresh(self) -> None:
        self._lock = threading.Lock()
        self._live: Fetcher | None = None
        if self._finalizer is not None:
            self._finalizer.detach()


def cache_pool(
    folder: PathLike | None = None,
    *,
    max_bytes: float | None = None,
    max_files: int = 1_000_000,
    threads: int = 16,
    queue: int = 100_000,
) -> CachePool:
    """Make a pool that fetches files in the background while samples wait in a buffer.

    A cooking function asks for a picture with `cache.lazy(store, name)` and puts what it gets into the sample. While
    the sample waits in a shuffle or packing buffer, the picture comes to the local disk. `lazy.get()`, or `resolve` for
    a whole sample, waits for no more than this one picture. The order and the content of the samples are the same with
    and without a pool, however quick or slow the store is.

    - Files are shared: what one worker process, or one rank on the machine, has fetched, the others find.
    - The bounds hold over all processes together. What was used longest ago is evicted first, but no file that
      somebody waits for: when the folder is full of these, fetching pauses.
    - The last process that leaves removes the files. What a crash leaves behind is removed by the next pool in the
      same folder (with `folder=None`, by the next pool of the user). Nothing else in the folder is touched.
    - If the folder cannot be used, or the disk is full, the log says so once and values are read from the stores.

    Example:
        >>> import energon_nodes as en, pathlib, tempfile
        >>> def with_text(record, texts, cache):
        ...     return {"__key__": record, "text": cache.lazy(texts, f"{record}.txt")}
        >>> with tempfile.TemporaryDirectory() as folder, en.cache_pool(max_bytes=1e9) as pool:
        ...     for name in ("a", "b"):
        ...         _ = pathlib.Path(folder, f"{name}.txt").write_text(f"text {name}")
        ...     texts = en.store(folder, decode=True)
        ...     pipeline = en.items(["a", "b"]).cook(with_text, aux={"texts": texts}, cache=pool).shuffle(2).resolve()
        ...     sorted(sample["text"] for sample in pipeline)
        ['text a', 'text b']

    Args:
        folder: A folder on a local disk; the files go into a folder of this user inside it. All pools with the same one
            share the files and should have the same bounds. None takes a new one among the temporary files.
        max_bytes: The most that the files may take. None takes half of what is free on the disk, at most 64 GiB.
        max_files: How many files there may be.
        threads: How many files each process fetches at a time.
        queue: How many may wait to be fetched in each process; beyond it, a file is read when it is needed.

    Returns:
        The pool, for `cook(cache=pool)`.

    Raises:
        ValueError: If a setting is out of its range, or the folder is a URL.
    """
    for name, value in (("max_files", max_files), ("threads", threads), ("queue", queue)):
        check_size("cache_pool", name, value, 1)
    root = chosen_root(folder)
    if max_bytes is None:
        max_bytes = room_on_disk(root)
    elif isinstance(max_bytes, bool) or not isinstance(max_bytes, Real) or not 1 <= max_bytes < float("inf"):
        raise ValueError(
            "cache_pool needs max_bytes as a number of bytes >= 1, such as 64e9, or None for half of the disk, got "
            f"max_bytes={max_bytes!r}"
        )
    pool = CachePool(root, int(max_bytes), max_files, threads, queue)
    pool.open()
    return pool


def _check_store(store: object) -> None:
    if not isinstance(store, Store):
        raise TypeError(
            f"a cache pool fetches from a store, got {store!r}: give what energon_nodes.store(path) returns; a value "
            "that is there already goes in with to_cache"
        )


def _file_of(store: Store, name: str) -> str:
    """Return the name of the file that holds the bytes of one file of a store, however it is decoded."""
    return hashlib.blake2b("\0".join((*store.identity[:2], name)).encode(), digest_size=16).hexdigest()


def _reopened(root: str, max_bytes: int, max_files: int, threads: int, queue: int) -> CachePool:
    """Return the pool of this process with these settings: an element that came from another one needs no new one."""
    settings = (root, max_bytes, max_files, threads, queue)
    for pool in list(_pools):
        if settings == (pool.root, pool.max_bytes, pool.max_files, pool.threads, pool.queue) and not pool.closed:
            return pool
    made = CachePool(*settings)
    _recent.append(made)
    return made


def _forget_parent() -> None:
    for pool in list(_pools):
        pool._alone = 0  # pyright: ignore[reportPrivateUsage]
        pool._start_fresh()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_forget_parent)
