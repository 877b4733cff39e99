"""The files below a folder, local or remote."""

from __future__ import annotations

import os
from collections.abc import Iterator

from energon_nodes.storage.remote import ask, filesystem
from energon_nodes.storage.urls import is_url

__all__ = ["list_files"]


def list_files(root: str, suffixes: tuple[str, ...]) -> list[str]:
    """List the files below a folder, folder links followed and hidden folders left out.

    Example:
        >>> filesystem("memory://")[0].pipe({"/ls/b/1.tar": b"", "/ls/a.tar": b"", "/ls/a.txt": b""})
        >>> list_files("memory://ls", (".tar",))
        ['a.tar', 'b/1.tar']

    Args:
        root: A folder.
        suffixes: The endings of the names that are wanted.

    Returns:
        Names relative to `root`, sorted folder by folder (`a/x` stands before `a-b/x`).

    Raises:
        OSError: The folder cannot be listed.
    """
    if is_url(root):
        names = _remote_names(root)
    else:
        names = list(_local_names(root, "", set()))
    wanted = [name for name in names if name.endswith(suffixes)]
    return sorted(wanted, key=lambda name: name.split("/"))


def _local_names(root: str, below: str, inside: set[tuple[int, int]]) -> Iterator[str]:
    status = os.stat(os.path.join(root, below))
    here = (status.st_dev, status.st_ino)
    if here in inside:  # a link to a folder that contains it
        return
    with os.scandir(os.path.join(root, below)) as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.is_dir():
                if not entry.name.startswith("."):
                    yield from _local_names(root, name + "/", inside | {here})
            else:
                yield name


def _remote_names(root: str) -> list[str]:
    found = [str(name) for name in ask(root, "list", lambda fs, name: fs.find(name))]
    base = filesystem(root)[1].rstrip("/")
    names = [name[len(base) :].lstrip("/") for name in found]
    return [name for name in names if not any(part.startswith(".") for part in name.split("/")[:-1])]
