"""A folder of cached files, shared by processes, within bounds: what was used longest ago goes first.

A file lies in the folder under its name. A process that needs it later has a second name for it, a hard link in a
folder of its own. The file system counts the names, so everybody sees which files are pinned without asking, and the
pins of a process that died go with its folder. All changes are made while the ledger is locked, so the bounds hold.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import count

from energon_nodes.storage.cache_ledger import Counts, Ledger
from energon_nodes.storage.cache_presence import (
    LEDGER,
    enter,
    entries_of,
    leave,
    remove_dead,
    remove_own,
    start_own,
)

__all__ = ["CacheFolder"]

_LOW_WATER = 0.9  # of the bounds: to look at all files is worth it only for many at once
_PATIENCE = 1.0  # seconds until a folder full of pinned files is looked at again


class CacheFolder:
    """Hold byte strings under names of 32 hexadecimal digits.

    What is written here is not forced onto the disk: after a crash of the machine the folder is cleared anyway.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = CacheFolder(f"{folder}/cache", max_bytes=100, max_files=2)
        ...     names = ["0" * 32, "1" * 32, "2" * 32]
        ...     [cache.put(name, b"a cat", pin=False) for name in names], [cache.read(name) for name in names]
        ...     cache.close(), os.listdir(folder)
        ([True, True, True], [None, b'a cat', b'a cat'])
        (None, [])

    Args:
        root: The folder. It is made if need be, and holds nothing else.
        max_bytes: How many bytes there may be, over all processes.
        max_files: How many files there may be.

    Raises:
        OSError: The folder cannot be used: no permission, or a file system without locks or hard links.
    """

    def __init__(self, root: str, max_bytes: int, max_files: int) -> None:
        self.root = root
        self._max_bytes, self._max_files = max_bytes, max_files
        self._numbers = count()
        self._released = 0  # pins that were taken off here
        self._stuck: tuple[int, float] | None = None  # `_released` and the time when nothing could be evicted
        self._life = enter(root)
        try:
            self.ledger = Ledger(f"{root}/{LEDGER}")
            with self.ledger.changing():
                remove_dead(root, "")
                self._own, self._alive = start_own(root)
            self._check_links()
        except BaseException:
            leave(root, self._life)
            raise

    def put(self, name: str, data: bytes, *, pin: bool, shared: bool = True) -> bool:
        """Write a file, whole or not at all.

        Args:
            name: Its name. If others have put it meanwhile, theirs stays.
            data: Its content.
            pin: Keep it until `unpin`.
            shared: Whether other processes find it; False needs `pin`.

        Returns:
            Whether there was room for it.

        Raises:
            OSError: It cannot be written; the disk is full, for instance.
        """
        size, new = len(data), f"{self._own}/new-{next(self._numbers)}"
        with self.ledger.changing() as counts:
            if not self._has_room(counts, size):
                return False
            # Of its full size from now on: whoever adds up the files counts it as this one does.
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(file, size)
            except BaseException:
                os.close(file)
                os.unlink(new)
                raise
            counts.bytes += size
            counts.files += 1
        try:
            with open(file, "wb", buffering=0) as raw:
                view = memoryview(data)
                while view:
                    view = view[raw.write(view) :]
            with self.ledger.changing() as counts:
                if shared:
                    with suppress(FileExistsError):
                        os.link(new, f"{self.root}/{name}")
                if pin:
                    os.rename(new, f"{self._own}/{name}")
                else:
                    self._unlink(new, counts)
                counts.fetched += 1
        except BaseException:
            with suppress(OSError), self.ledger.changing() as counts:
                self._unlink(new, counts)
            raise
        return True

    def pin(self, name: str) -> bool:
        """Keep a file until `unpin`, if it is there; a name is pinned once."""
        with self.ledger.changing():
            try:
                os.link(f"{self.root}/{name}", f"{self._own}/{name}")
            except FileNotFoundError:
                return False
        return True

    def unpin(self, name: str) -> None:
        """Let a file go: from now on it may be evicted; one that was not shared is removed."""
        with suppress(FileNotFoundError), self.ledger.changing() as counts:
            self._unlink(f"{self._own}/{name}", counts)
            self._released += 1

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it is not there; it counts as used now."""
        for path in (f"{self._own}/{name}", f"{self.root}/{name}"):
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            with open(file, "rb", buffering=0) as raw:
                data = raw.readall()
                os.utime(file)
            return data
        return None

    def own_path(self, name: str) -> str:
        """Return the path of a file that this process has pinned."""
        return f"{self._own}/{name}"

    def count(self, *, hits: int = 0, direct: int = 0) -> None:
        """Count values that were read, from here and from where they come from."""
        with self.ledger.changing() as counts:
            counts.hits += hits
            counts.direct += direct

    def close(self) -> None:
        """Leave the folder: what is pinned here is not any more, and the last one to leave removes everything."""
        with suppress(OSError), self.ledger.changing() as counts:
            for name, _ in entries_of(self._own):
                self._unlink(f"{self._own}/{name}", counts)
        remove_own(self._own)
        os.close(self._alive)
        self.ledger.close()
        leave(self.root, self._life)

    def abandon(self) -> None:
        """Close the files after a fork, in the child: the folder belongs to the parent."""
        for file in (self._alive, self._life):  # closing lets go of no lock, the parent has them open too
            os.close(file)
        self.ledger.close()

    # ---- inside ------------------------------------------------------------------------------

    def _has_room(self, counts: Counts, size: int) -> bool:
        if self._fits(counts, size):
            return True
        if size <= self._max_bytes and self._may_look(counts.files):
            self._evict(counts, size)
        if self._fits(counts, size):
            self._stuck = None
            return True
        if self._stuck is None:
            self._stuck = (self._released, time.monotonic())
        return False

    def _fits(self, counts: Counts, size: int) -> bool:
        return counts.bytes + size <= self._max_bytes and counts.files < self._max_files

    def _may_look(self, files: int) -> bool:
        if self._stuck is None:
            return True
        released, since = self._stuck
        if self._released - released < max(1, files // 100) and time.monotonic() < since + _PATIENCE:
            return False
        self._stuck = None
        return True

    def _evict(self, counts: Counts, size: int) -> None:
        """Remove files that nobody has pinned, the ones used longest ago first; count anew what is there."""
        total = files = 0
        free: list[tuple[int, int, str]] = []
        for name, facts in entries_of(self.root):
            total, files = total + facts.st_size, files + 1
            if facts.st_nlink == 1:
                free.append((facts.st_mtime_ns, facts.st_size, name))
        for folder in remove_dead(self.root, self._own):
            for _, facts in entries_of(folder):
                if facts.st_nlink == 1:  # the others were counted above
                    total, files = total + facts.st_size, files + 1
        bytes_left = min(int(self._max_bytes * _LOW_WATER), self._max_bytes - size)
        files_left = min(int(self._max_files * _LOW_WATER), self._max_files - 1)
        for _, length, name in sorted(free):
            if total <= bytes_left and files <= files_left:
                break
            os.unlink(f"{self.root}/{name}")
            total, files = total - length, files - 1
            counts.evicted += 1
        counts.bytes, counts.files = total, files

    def _unlink(self, path: str, counts: Counts) -> None:
        facts = os.stat(path)
        os.unlink(path)
        if facts.st_nlink == 1:  # it had no other name
            counts.bytes -= facts.st_size
            counts.files -= 1

    def _check_links(self) -> None:
        probe = f"{self._own}/new-{next(self._numbers)}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.link(probe, f"{probe}0")
            os.unlink(f"{probe}0")
        finally:
            os.unlink(probe)
