"""The files below a folder or behind a URL, by their relative names."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import FileIO
from itertools import islice

from energon_nodes.core.errors import NotInStoreError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import SUFFIXES
from energon_nodes.storage.remote import ask

__all__ = ["FolderEntries"]

_THREADS = 16
_FOLDERS = 4096  # folders whose way was looked at and is remembered
_LISTED = 100_000  # names of a folder that are listed for a message
_LOOKED_AT = 2000  # of these, names that an unknown one is compared with


class FolderEntries:
    """Read files of a folder, and nothing outside it.

    Names are relative, with slashes. One that leads out of the folder is refused, be it by `..`, by a slash at its
    start, or through a symbolic link.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"a cat")
        ...     entries = FolderEntries(folder)
        ...     entries.read("a.txt"), list(entries.names()), "../a.txt" in entries
        (b'a cat', ['a.txt'], False)

    Args:
        root: The folder or URL.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._remote = paths.is_url(root)
        self._real = root if self._remote else os.path.realpath(root)
        self._inside: dict[str, bool] = {}

    def __len__(self) -> int:
        return sum(1 for _ in self.names())

    def names(self) -> Iterator[str]:
        """Yield the names of all files, sorted folder by folder; hidden folders are left out."""
        return iter(paths.list_files(self.root, ("",)))

    def split(self, name: str) -> tuple[str, str]:
        """Return what stands before the first dot of the file's own name, with folders, and what stands behind it."""
        folder, slash, base = name.rpartition("/")
        stem, _, part = base.partition(".")
        return f"{folder}{slash}{stem}", part

    def shard_of(self, name: str) -> str:
        """Return what stands in place of a shard in the sources of a sample: the folder."""
        return self.root

    def __contains__(self, name: str) -> bool:
        try:
            path = self._path(name)
        except NotInStoreError:
            return False
        if self._remote:
            return bool(ask(path, "look for", lambda fs, at: fs.isfile(at)))
        return os.path.isfile(path)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Args:
            name: Its name.

        Returns:
            The bytes.

        Raises:
            NotInStoreError: There is no such file, it is a folder, or the name leads out of the store.
            OSError: It cannot be read.
        """
        path = self._path(name)
        try:
            if self._remote:
                return paths.read_bytes(path)
            with FileIO(path) as file:
                return file.readall()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise self._missing([name]) from None

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Return the bytes of many files, remote ones side by side.

        Args:
            names: Their names; one may stand several times.

        Returns:
            The bytes of each, in order.

        Raises:
            NotInStoreError: One or more do not exist.
            OSError: One cannot be read.
        """
        if not self._remote or not names:
            return [self.read(name) for name in names]
        files = {name: self._path(name) for name in names}
        try:
            with ThreadPoolExecutor(min(_THREADS, len(files)), "energon_nodes-store") as pool:
                found = list(pool.map(paths.read_bytes, files.values()))
        except FileNotFoundError:
            raise self._missing([name for name in files if name not in self]) from None
        data = dict(zip(files, found, strict=True))
        return [data[name] for name in names]

    def _path(self, name: str) -> str:
        """Return the path of a file that a name may mean."""
        pieces = name.split("/")
        if not name or "\0" in name:
            why = "holds a zero byte, which no name of a file can" if name else "is empty: give the name of a file"
            raise NotInStoreError(f"the name {name!r} that was asked of the store {self.root} {why}")
        if name[0] == "/" or ".." in pieces:
            raise NotInStoreError(
                f"the name {name!r} leads out of the store {self.root}: names are relative to it, without '..'"
            )
        path = paths.join(self.root, name)
        if self._remote:
            return path
        folder = name.rpartition("/")[0]
        inside = self._inside.get(folder)
        if inside is None:
            inside = self._is_inside(paths.join(self.root, folder)) if folder else True
            if len(self._inside) >= _FOLDERS:
                self._inside.clear()
            self._inside[folder] = inside
        if not inside or (os.path.islink(path) and not self._is_inside(path)):
            raise NotInStoreError(
                f"the name {name!r} leads out of the store {self.root} through a symbolic link, to "
                f"{os.path.realpath(path)}: make a store of that folder, or put the file itself here"
            )
        return path

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real == self._real or real.startswith(os.path.join(self._real, ""))

    def _missing(self, names: Sequence[str]) -> NotInStoreError:
        name = names[0] if names else ""
        more = f" (and {len(names) - 1} more of the names asked for)" if len(names) > 1 else ""
        with suppress(OSError, ValueError):
            if paths.is_dir(paths.join(self.root, name)):
                there = self._listed(name.strip("/"), "")
                inside = f"ask for one of its files, such as {listed(there[:3])}" if there else "it is empty"
                return NotInStoreError(f"no file {name!r} in {self.root}{more}: it is a folder; {inside}")
        return NotInStoreError(f"no file {name!r} in {self.root}{more}{self._hint(name)}")

    def _hint(self, name: str) -> str:
        """Say what is there instead of a name."""
        folder = name.rpartition("/")[0]
        there: list[str] = []
        with suppress(OSError, ValueError, NotInStoreError):
            there = self._listed(folder, name)
        if not there:
            return f": there is no folder {folder!r} in it" if folder else ": the folder is empty"
        close = did_you_mean(name, there)
        shards = [entry for entry in there if entry.endswith(SUFFIXES)]
        if shards and not close:
            return (
                f": the folder holds tars such as {shards[0]!r}, which were never prepared; prepare it to look up the "
                "files inside by KEY.PART"
            )
        return close or f"; there are {listed(there[:3])}"

    def _listed(self, folder: str, name: str) -> list[str]:
        """Return the names in a folder, of very many those next to this one."""
        front = f"{folder}/" if folder else ""
        if self._remote:
            found: list[str] = ask(paths.join(self.root, folder), "list", lambda fs, at: fs.ls(at, detail=False))
            names = sorted([front + str(entry).rstrip("/").rpartition("/")[2] for entry in found])
        else:
            self._path(f"{front}x")
            with os.scandir(paths.join(self.root, folder)) as entries:
                names = sorted(front + entry.name for entry in islice(entries, _LISTED))
        start = max(0, bisect(names, name) - _LOOKED_AT // 2)
        return names[start : start + _LOOKED_AT]
