"""Put the files of a dataset in their places so that at every moment there is the old dataset or the new one."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.index import index_path
from energon_nodes.storage.metadata import META_FOLDER
from energon_nodes.storage.writing import TEMPORARY, file_mode, make_folder, remove, replacing, write_bytes

__all__ = ["Built", "Offsets", "place_files", "preparing", "scratch_file", "write_indices"]

_THREADS = 16
_ABANDONED = 3600.0
"""Seconds after which a key table that another program began to write is taken for left over."""
_INDEX = re.compile(re.escape(TEMPORARY) + r".*\.tar\.idx-")


@contextmanager
def preparing(root: str, folders: Iterable[str]) -> Generator[None]:
    """Hold a dataset for one program that prepares it; what an earlier one left half done is removed first.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with preparing(folder, [""]):
        ...         os.listdir(folder)
        ['.nv-meta']

    Args:
        root: The folder or URL of the dataset.
        folders: The folders that shards lie in, relative to it.

    Raises:
        DatasetError: Another program is preparing it.
        OSError: The folder cannot be written to.
    """
    meta = paths.join(root, META_FOLDER)
    if paths.is_url(root):
        make_folder(meta)
        yield
        return
    is_new = not os.path.isdir(meta)
    make_folder(meta)
    handle = os.open(meta, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(f"another program is preparing {root}; wait until it has ended") from None
        except OSError:  # file systems without locks
            pass
        _clear(root, folders)
        yield
    finally:
        os.close(handle)
        if is_new and not os.listdir(meta):
            os.rmdir(meta)


def _clear(root: str, folders: Iterable[str]) -> None:
    for folder in {META_FOLDER, *folders}:
        place = os.path.join(root, folder)
        for name in os.listdir(place):
            if not name.startswith(TEMPORARY):
                continue
            path = os.path.join(place, name)
            # Key tables are made by readers too; other files in the folders of shards are not ours to judge.
            ours = _INDEX.match(name) if folder != META_FOLDER else not name.startswith(f"{TEMPORARY}keys.table")
            if ours or (folder == META_FOLDER and _age(path) > _ABANDONED):
                remove(path)


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


class Offsets:
    """Keep the offsets of all shards in a file without a name until they are written.

    Args:
        file: An empty file, open for reading and writing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     offsets = Offsets(file)
        ...     offsets.add("0.tar", np.array([0, 1024]))
        ...     offsets.flush()
        ...     offsets.names, np.frombuffer(offsets.read("0.tar"), "<u8").tolist()
        (['0.tar'], [0, 1024])
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0

    @property
    def names(self) -> list[str]:
        """The shards that were added."""
        return list(self._places)

    def add(self, name: str, offsets: NDArray[np.integer]) -> None:
        """Add the offsets of a shard."""
        data = offsets.astype("<u8").tobytes()
        self._file.write(data)
        self._places[name] = (self._end, len(data))
        self._end += len(data)

    def flush(self) -> None:
        """Make sure that `read` finds what was added."""
        self._file.flush()

    def read(self, name: str) -> bytes:
        """Return the content of the index of a shard; threads may ask at the same time."""
        start, size = self._places[name]
        return os.pread(self._file.fileno(), size, start)


def write_indices(root: str, offsets: Offsets) -> list[str]:
    """Write the index of each shard beside it, unless the one that is there is the same.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as file:
        ...     offsets = Offsets(file)
        ...     offsets.add("0.tar", np.array([0, 1024]))
        ...     write_indices(folder, offsets), os.listdir(folder)
        (['0.tar.idx'], ['0.tar.idx'])

    Args:
        root: The folder or URL of the dataset.
        offsets: The offsets of all shards.

    Returns:
        The files that were written, relative to `root`.

    Raises:
        OSError: One cannot be written.
    """
    offsets.flush()

    def write(shard: str) -> str | None:
        name = index_path(shard)
        path, data = paths.join(root, name), offsets.read(shard)
        if _has(path, data):
            return None
        write_bytes(path, data)
        return name

    # Threads: each waits for the disk, or for a store, until its file is safe.
    with ThreadPoolExecutor(_THREADS, "energon_nodes-index") as pool:
        return [name for name in pool.map(write, offsets.names) if name is not None]


def _has(path: str, data: bytes) -> bool:
    try:
        return paths.size(path) == len(data) and paths.read_once(path, [0], [len(data)])[0] == data
    except FileNotFoundError:
        return False


class Built(NamedTuple):
    """Name a file that was built under another name.

    Example:
        >>> Built("/data/.nv-meta/.partial-index.sqlite-x").path[-1]
        'x'

    Args:
        path: The local file, which is moved.
    """

    path: str


def place_files(stack: ExitStack, root: str, files: Sequence[tuple[str, str | Built]]) -> None:
    """Write metadata files to temporary names, which get their places when the stack is closed, in this order.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     make_folder(f"{folder}/.nv-meta")
        ...     with ExitStack() as stack:
        ...         place_files(stack, folder, [("index.uuid", "1"), (".info.json", "{}")])
        ...     sorted(os.listdir(f"{folder}/.nv-meta"))
        ['.info.json', 'index.uuid']

    Args:
        stack: What closes the files.
        root: The folder or URL of the dataset.
        files: The name of each file, and its text, or where it was built.

    Raises:
        OSError: One cannot be written.
    """
    for name, content in reversed(files):
        path = paths.join(root, f"{META_FOLDER}/{name}")
        if isinstance(content, Built) and not paths.is_url(root):
            partial = content.path
            stack.enter_context(_moving(partial, path))
        else:
            partial = stack.enter_context(replacing(path))
        if isinstance(content, Built) and partial != content.path:
            shutil.move(content.path, partial)
        # To the disk now, so that the renames follow one another without waiting.
        with open(partial, "rb+") as file:
            if isinstance(content, str):
                file.write(content.encode())
                file.flush()
            os.fsync(file.fileno())


@contextmanager
def _moving(partial: str, path: str) -> Generator[None]:
    os.chmod(partial, file_mode())
    yield
    os.replace(partial, path)


@contextmanager
def scratch_file(root: str, name: str) -> Generator[str]:
    """Give the name of an empty local file to build `name` in; it is gone when the block ends, unless it was moved.

    Example:
        >>> with scratch_file("memory://data", "index.sqlite") as path:
        ...     os.path.basename(path)[:22]
        '.partial-index.sqlite-'

    Args:
        root: The folder or URL of the dataset. The file lies beside the others where that is a local folder.
        name: The name that it shall have.
    """
    folder = None if paths.is_url(root) else os.path.join(root, META_FOLDER)
    handle, path = tempfile.mkstemp(prefix=f"{TEMPORARY}{name}-", dir=folder)
    os.close(handle)
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
