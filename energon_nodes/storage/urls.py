"""The text of paths and URLs: no file is touched here."""

from __future__ import annotations

import os
import re

__all__ = ["folder", "is_url", "join", "local", "parent", "relative"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z][A-Za-z0-9+.-]*::")


def is_url(path: str) -> bool:
    """Tell whether a path goes through fsspec: it names a protocol other than `file`.

    Example:
        >>> is_url("s3://bucket/a.tar"), is_url("/data/a.tar"), is_url("file:///data/a.tar")
        (True, False, False)

    Args:
        path: A path or URL.

    Returns:
        True for URLs.
    """
    return _URL.match(path) is not None and not path.startswith(("file://", "local://"))


def local(path: str | os.PathLike[str]) -> str:
    """Return a path as text, `file://` URLs as plain absolute paths, other URLs unchanged.

    Example:
        >>> local("file:///data/a.tar"), local("memory://a.tar")
        ('/data/a.tar', 'memory://a.tar')

    Args:
        path: A path, a `pathlib.Path` or a URL.

    Returns:
        The text that all other functions of this module take.
    """
    text = os.fspath(path)
    for protocol in ("file://", "local://"):
        if text.startswith(protocol):
            return text[len(protocol) :]
    return text


def folder(path: str | os.PathLike[str]) -> str:
    """Return the path of a folder as text, without a slash at its end unless it is a root.

    Example:
        >>> folder("/data/coco/"), folder("/"), folder("s3://bucket/"), folder("memory://")
        ('/data/coco', '/', 's3://bucket', 'memory://')

    Args:
        path: A path, a `pathlib.Path` or a URL.

    Returns:
        The text that all other functions of this module take.
    """
    text = local(path)
    short = text.rstrip("/")
    return text if not short or short.endswith(":") else short


def join(root: str, name: str) -> str:
    """Put a relative name behind a folder.

    Example:
        >>> join("s3://bucket/data/", "a/0.tar"), join("", "0.tar")
        ('s3://bucket/data/a/0.tar', '0.tar')

    Args:
        root: A folder, or "" for the working directory.
        name: A name relative to it.

    Returns:
        The path.
    """
    if not root:
        return name
    return f"{root}{name}" if root.endswith("/") else f"{root}/{name}"


def parent(path: str) -> str:
    """Return the folder of a file: "" for a bare name.

    Example:
        >>> parent("memory://data/0.tar"), parent("0.tar"), parent("/0.tar")
        ('memory://data', '', '/')

    Args:
        path: A path or URL.

    Returns:
        The folder, without a slash at its end.
    """
    head, slash, _ = path.rpartition("/")
    if head.endswith((":/", ":")) and is_url(path):
        return head + slash
    return head or slash


def relative(path: str, root: str) -> str:
    """Return the name of a file below a folder.

    Example:
        >>> relative("/data/x/0.tar", "/data"), relative("0.tar", "")
        ('x/0.tar', '0.tar')

    Args:
        path: A path below `root`.
        root: The folder.

    Returns:
        The name, without a slash at its start.
    """
    return path[len(root) :].lstrip("/") if root else path
