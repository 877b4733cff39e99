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
from energon_nodes.storage.tar import BLOCK, TarError, compression_of, next_member

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
            raise DatasetError("the path is empty: name a folder, a tar or a pattern")
        if not _is_pattern(text) and paths.is_dir(text):
            root = paths.folder(text)
            names = paths.list_files(root, suffixes)
            if not names:
                raise DatasetError(
                    f"no shards (*{suffixes[0]}) in the folder {text} or below it{_lines(root, suffixes)}"
                )
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
    if suffixes is SUFFIXES:
        for file in files:
            if not file.endswith(SUFFIXES):
                _check_is_tar(file)
    if len(files) == 1 and not paths.exists(files[0]):
        raise DatasetError(f"{files[0]} does not exist{_nearest(files[0], suffixes)}")
    return files


def _check_is_tar(file: str) -> None:
    """Raise if neither the name nor the first bytes of a file are those of a tar."""
    if not paths.exists(file) or paths.is_dir(file):  # reported by whoever opens it
        return
    head = paths.read_range(file, 0, BLOCK)
    try:
        next_member(lambda offset, size: head if offset == 0 else paths.read_range(file, offset, offset + size), 0)
    except TarError:
        packed = file.rpartition(".")[0] if compression_of(head) is not None else ""
        hint = f"; it is compressed ({compression_of(head)}): decompress it first" if packed else ""
        raise DatasetError(f"{file} is neither a tar nor a .jsonl file{hint}") from None


def _lines(root: str, suffixes: tuple[str, ...]) -> str:
    """Return what to do with a folder that has JSON lines and no shards."""
    found = paths.list_files(root, (".jsonl",)) if suffixes is SUFFIXES else ()
    if not found:
        return ""
    counted = f"{len(found)} files of JSON lines" if len(found) > 1 else "a file of JSON lines"
    return (
        f"; it has {counted}, and these are prepared, checked and shown one by one: name one, as in "
        f"{paths.join(root, found[0])} (energon_nodes.jsonl reads the whole folder)"
    )


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
