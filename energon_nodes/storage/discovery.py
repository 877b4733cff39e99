"""From what a user writes to a list of shards: a folder, a tar, a pattern, a list of these."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import expand
from energon_nodes.storage.remote import ask

__all__ = ["SUFFIXES", "Found", "PathLike", "find_shards"]

PathLike = str | os.PathLike[str]

SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
"""Files that are looked for in folders. Compressed ones are found so that reading can refuse them by name."""

_GLOB = re.compile(r"[*?\[]")


class Found(NamedTuple):
    """Hold the shards behind a path.

    Example:
        >>> Found("/data", ("x/0.tar", "y/0.tar")).names[1]
        'y/0.tar'

    Args:
        root: The folder that all of them are in.
        names: Their names relative to it, in the order of the global sample range.
    """

    root: str
    names: tuple[str, ...]


def find_shards(path: PathLike | Iterable[PathLike], suffixes: tuple[str, ...] = SUFFIXES) -> Found:
    """Find the shards behind a folder, a file, a brace or glob pattern, or a list of these.

    A folder is searched with its subfolders; what it and a glob give is sorted folder by folder. Braces
    and lists keep the order in which they are written.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe({"/find/x/0.tar": b"", "/find/y/0.tar": b""})
        >>> find_shards("memory://find")
        Found(root='memory://find', names=('x/0.tar', 'y/0.tar'))
        >>> find_shards("memory://find/{y,x}/0.tar").names
        ('y/0.tar', 'x/0.tar')

    Args:
        path: Where the shards are.
        suffixes: The endings of what is looked for in folders, the usual one first.

    Returns:
        Their common folder and their names.

    Raises:
        DatasetError: Nothing is there.
    """
    if isinstance(path, str | os.PathLike):
        text = paths.local(path)
        if not text:
            raise DatasetError("shards needs a path, got an empty one")
        if not _is_pattern(text) and paths.is_dir(text):
            root = paths.folder(text)
            names = paths.list_files(root, suffixes)
            if not names:
                raise DatasetError(f"no shards (*{suffixes[0]}) in the folder {text} or below it")
            return Found(root, tuple(names))
        files = _files(text, suffixes)
    else:
        files = [file for entry in path for file in _members(entry, suffixes)]
        if not files:
            raise DatasetError("shards needs at least one path, got an empty list")
    root = _common_folder(files)
    return Found(root, tuple(paths.relative(file, root) for file in files))


def _members(path: PathLike, suffixes: tuple[str, ...]) -> list[str]:
    text = paths.local(path)
    if not _is_pattern(text) and paths.is_dir(text):
        found = find_shards(text, suffixes)
        return [paths.join(found.root, name) for name in found.names]
    return _files(text, suffixes)


def _is_pattern(text: str) -> bool:
    if "{" not in text and _GLOB.search(text) is None:
        return False
    return paths.is_url(text) or not os.path.exists(text)  # a file may have brackets in its name


def _files(text: str, suffixes: tuple[str, ...]) -> list[str]:
    files: list[str] = []
    for name in expand(text) if _is_pattern(text) else [text]:
        if _GLOB.search(name) is None or not _is_pattern(name):
            files.append(name)
            continue
        if paths.is_url(name):
            protocol = name[: name.index("://") + 3]
            matched = [f"{protocol}{match.lstrip('/')}" for match in ask(name, "list", lambda fs, at: fs.glob(at))]
        else:
            matched = glob.glob(name, recursive=True)
        if not matched:
            raise DatasetError(f"no file matches {name!r}{_nearest(name, suffixes)}")
        files += sorted((match for match in matched if not paths.is_dir(match)), key=lambda match: match.split("/"))
    if len(files) == 1 and not paths.exists(files[0]):
        raise DatasetError(f"{files[0]} does not exist{_nearest(files[0], suffixes)}")
    return files


def _nearest(name: str, suffixes: tuple[str, ...]) -> str:
    """Say which shards are in the folder of a name that does not exist."""
    folder = paths.parent(name) or "."
    while _GLOB.search(folder) is not None:
        folder = paths.parent(folder) or "."
    try:
        there = paths.list_files(folder, suffixes)
    except (OSError, ValueError, ImportError):
        return f"; the folder {folder} cannot be listed"
    if not there:
        return f"; there are no shards in {folder}"
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    return f"; {folder} has {', '.join(there[:3])}{more}"


def _common_folder(files: list[str]) -> str:
    folders = [paths.parent(file).split("/") for file in files]
    common = [pieces[0] for pieces in takewhile(lambda pieces: len(set(pieces)) == 1, zip(*folders, strict=False))]
    root = "/".join(common)
    # "/a" splits into ["", "a"]: one empty piece in common is the root folder, none is the working directory.
    return "/" if common == [""] and files[0].startswith("/") else root
