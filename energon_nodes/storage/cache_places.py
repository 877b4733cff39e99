"""Where a cache folder lies, and how much may be put there."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress

from energon_nodes.storage import paths
from energon_nodes.storage.cache_presence import enter, leave
from energon_nodes.storage.discovery import PathLike

__all__ = ["chosen_root", "room_on_disk"]

_MOST = 64 << 30
_TEMPORARY = re.compile(r"energon_nodes-cache-[0-9]+-[0-9a-f]{16}")


def chosen_root(folder: PathLike | None) -> str:
    """Return the path of a cache folder of this user.

    Example:
        >>> chosen_root("/scratch") == f"/scratch/energon_nodes-cache-{os.geteuid()}"
        True

    Args:
        folder: The folder that it lies in. None gives a new name among the temporary files, and removes there what
            dead processes have left.

    Returns:
        The path; nothing is made.

    Raises:
        ValueError: It is a URL.
    """
    if folder is None:
        _remove_left_over(tempfile.gettempdir())
        return os.path.join(tempfile.gettempdir(), f"energon_nodes-cache-{os.geteuid()}-{os.urandom(8).hex()}")
    path = paths.local(os.fspath(folder))
    if paths.is_url(path):
        raise ValueError(f"cache_pool needs a folder on a local disk, got {path!r}")
    return os.path.join(os.path.abspath(path), f"energon_nodes-cache-{os.geteuid()}")


def room_on_disk(root: str) -> int:
    """Return half of the bytes that are free on the disk of a folder that may not exist yet, at most 64 GiB."""
    while not os.path.isdir(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    free = _MOST
    with suppress(OSError):
        free = shutil.disk_usage(root).free
    return max(1, min(_MOST, free // 2))


def _remove_left_over(folder: str) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid():
                        leave(entry.path, enter(entry.path))  # clears it if nobody is in it
