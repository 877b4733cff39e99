"""Where files for lookup lie that cannot lie beside their dataset: a cache folder of the user."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from platformdirs import user_cache_dir

from energon_nodes.storage import paths
from energon_nodes.storage.remote import ask
from energon_nodes.storage.writing import TEMPORARY

__all__ = ["cache_folder", "cached_file", "local_copy"]

_log = logging.getLogger("energon_nodes.storage")


def cache_folder() -> str:
    """Return the folder of what can be made again: `ENERGON_NODES_CACHE`, or that of the system for the user.

    Example:
        >>> os.environ["ENERGON_NODES_CACHE"] = "/scratch/cache"
        >>> cache_folder()
        '/scratch/cache'
        >>> del os.environ["ENERGON_NODES_CACHE"]
    """
    return os.environ.get("ENERGON_NODES_CACHE") or user_cache_dir("energon_nodes", appauthor=False)


@contextmanager
def cached_file(root: str, owner: str, suffix: str, make: Callable[[str], None]) -> Generator[str]:
    """Give a file in the cache folder, made by `make(path)` where it is not there.

    Files of the same dataset that are out of date are removed. Where the cache folder cannot be written to, the file
    is gone when the block ends: whoever has opened or mapped it goes on with it.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.environ["ENERGON_NODES_CACHE"] = folder
        ...     with cached_file("memory://data", "1", ".table", lambda path: None) as path:
        ...         os.path.getsize(path)
        0
        >>> del os.environ["ENERGON_NODES_CACHE"]

    Args:
        root: The dataset.
        owner: What the file is tied to.
        suffix: How its name ends.
        make: Writes it.

    Yields:
        Its path.

    Raises:
        OSError: Nothing can be written anywhere.
    """
    folder = os.path.join(cache_folder(), "keys")
    name = root if paths.is_url(root) else os.path.abspath(root)
    stem = f"{os.path.basename(name)[:60]}-{_digest(name)}"
    path = os.path.join(folder, f"{stem}-{_digest(owner)}{suffix}")
    if os.path.exists(path):
        yield path
        return
    partial, kept = _new_file(folder, root)
    try:
        make(partial)
        if kept:
            os.replace(partial, path)
            _remove_others(folder, stem, suffix, path)
        yield path if kept else partial
    finally:
        with suppress(OSError):
            os.unlink(partial)


@contextmanager
def local_copy(path: str) -> Generator[str]:
    """Give a local file with the content of `path`: the file itself, or a copy that is gone when the block ends.

    Example:
        >>> with local_copy("/etc/hostname") as name:
        ...     name
        '/etc/hostname'

    Args:
        path: A path or URL.

    Yields:
        The name of the local file.

    Raises:
        OSError: It cannot be read.
    """
    if not paths.is_url(path):
        yield path
        return
    handle, copy = tempfile.mkstemp(prefix=TEMPORARY)
    os.close(handle)
    try:
        ask(path, "copy", lambda fs, name: fs.get_file(name, copy))
        yield copy
    finally:
        with suppress(OSError):
            os.unlink(copy)


def _new_file(folder: str, root: str) -> tuple[str, bool]:
    """Return a new file in the folder, or else one in the folder for temporary files, and whether it is the first."""
    try:
        os.makedirs(folder, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
        kept = True
    except OSError as error:
        _log.warning(
            "the key table of %s is made anew in each process: it cannot be kept in %s (%s)", root, folder, error
        )
        handle, partial = tempfile.mkstemp(prefix=TEMPORARY)
        kept = False
    os.close(handle)
    return partial, kept


def _remove_others(folder: str, stem: str, suffix: str, path: str) -> None:
    for other in glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(stem)}-*{suffix}")):
        if other != path:
            with suppress(OSError):
                os.unlink(other)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
