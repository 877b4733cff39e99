"""Who uses a cache folder: the first to come removes what dead processes left, the last to leave removes everything.

Each process holds a shared lock on one file. Whoever gets it exclusively is alone. The system lets go of locks when a
process dies, however it dies, so nothing that a crash leaves behind can pass for a living user.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress

__all__ = ["ENTRY", "LEDGER", "enter", "entries_of", "leave", "remove_dead", "remove_own", "start_own"]

LEDGER = "ledger"
"""The file of the counts."""

ENTRY = re.compile(r"[0-9a-f]{32}")
"""What the names of cached files look like; nothing else is taken for one, and removed."""

_LOCK = "lock"
_OWN = re.compile(r"use-[0-9]+-[0-9a-f]{8}")
_NEW = re.compile(r"new-[0-9]+")
_TRIES = 100  # to come in while others leave and remove the folder


def enter(root: str) -> int:
    """Become a user of a cache folder; it is made if it does not exist, and cleared if nobody uses it.

    Args:
        root: The folder, which holds nothing else.

    Returns:
        What `leave` needs.

    Raises:
        OSError: It cannot be made, is another user's, or its file system has no locks.
    """
    for _ in range(_TRIES):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(root, 0o700)
        found = os.lstat(root)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{root} is no folder of this user: choose another folder for the cache")
        try:
            lock = os.open(f"{root}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # removed by the last one, just now
            continue
        try:
            if _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(lock, root):
                _clear(root)
            fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one who clears
            if _is_at(lock, root):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise OSError(f"the cache folder {root} was removed by others again and again")


def leave(root: str, lock: int) -> None:
    """Stop being a user; the last one removes all files that the library made, and the folder if it is empty then."""
    try:
        # On failure the shared lock is gone too, so of two that leave at once one succeeds.
        if _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(lock, root):
            _clear(root)
            with suppress(FileNotFoundError):
                os.unlink(f"{root}/{_LOCK}")
            with suppress(OSError):
                os.rmdir(root)
    finally:
        os.close(lock)


def start_own(root: str) -> tuple[str, int]:
    """Make the folder of this process inside a cache folder, whose lock says that the process is alive.

    Call it while the ledger is locked: before it is locked itself, `remove_dead` would take it for a dead one's.

    Returns:
        The folder, and the open lock on it.
    """
    own = f"{root}/use-{os.getpid()}-{os.urandom(4).hex()}"
    os.mkdir(own, 0o700)
    lock = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return own, lock


def remove_own(own: str) -> None:
    """Remove the folder of a process, and what the library made in it."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(own)):
            if ENTRY.fullmatch(entry.name) or _NEW.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
    with suppress(OSError):
        os.rmdir(own)


def remove_dead(root: str, mine: str) -> list[str]:
    """Remove the folders of processes that have died, and return those of the living.

    Call it while the ledger is locked.
    """
    living: list[str] = []
    for entry in list(os.scandir(root)):
        if not _OWN.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            continue
        if entry.path == mine:
            living.append(mine)
            continue
        try:
            lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # it has just left
            continue
        try:
            if _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
                remove_own(entry.path)
            else:
                living.append(entry.path)
        finally:
            os.close(lock)
    return living


def entries_of(folder: str) -> list[tuple[str, os.stat_result]]:
    """Return names and facts of the cached files in a folder, finished or not."""
    found: list[tuple[str, os.stat_result]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if ENTRY.fullmatch(entry.name) or _NEW.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


def _clear(root: str) -> None:
    for entry in list(os.scandir(root)):
        if _OWN.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            remove_own(entry.path)
        elif ENTRY.fullmatch(entry.name) or entry.name == LEDGER:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)


def _lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True


def _is_at(lock: int, root: str) -> bool:
    """Return whether the open file is still the one that others find."""
    try:
        there = os.stat(f"{root}/{_LOCK}")
    except FileNotFoundError:
        return False
    here = os.fstat(lock)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
