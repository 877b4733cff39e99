"""Python that lies beside the data: run only where the user trusts it, and once in each process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import blake2b
from types import ModuleType
from typing import Any

from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.core.spelling import did_you_mean
from energon_nodes.storage import paths
from energon_nodes.storage.fork_lock import ForkLock

__all__ = ["UserFunction", "trusted_function"]

_lock = ForkLock()
_modules: dict[str, tuple[tuple[int, int], ModuleType]] = {}  # by path, with the version of the file


@dataclass(frozen=True)
class UserFunction:
    """Call a function of a Python file that lies beside the data; `trusted_function` makes it.

    It is pickled as path and name: another process runs the file itself, at the first call.

    Example:
        >>> UserFunction("/data/coco/.nv-meta/sample_loader.py", "part_filter").name
        'part_filter'

    Args:
        path: The file.
        name: The function in it.
    """

    path: str
    name: str

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        loaded = _modules.get(self.path)
        module = loaded[1] if loaded is not None else _run(self.path)
        return getattr(module, self.name)(*args)


def trusted_function(path: str, name: str, *, trust: bool, reason: str) -> UserFunction:
    """Return a function of a file beside the data, after running the file.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> filesystem("memory://")[0].pipe("/beside/sample_loader.py", b"def double(x): return 2 * x")
        >>> double = trusted_function("memory://beside/sample_loader.py", "double", trust=True, reason="an example")
        >>> double(4)
        8

    Args:
        path: The file. Its `__name__` and `__file__` are set; imports relative to it do not work.
        name: The function in it.
        trust: Whether the user allows it.
        reason: Who asks for it: the start of the error.

    Returns:
        The function. The file is run once in each process, and again only where it is made anew from a changed file.

    Raises:
        TrustError: `trust` is False.
        DatasetError: The file does not exist or fails, or has no such function.
    """
    if not trust:
        raise TrustError(
            f"{reason} needs the Python file {path}, which comes with the data: read it, and allow it to run with "
            "trust=True"
        )
    try:
        version = paths.identity(path)
    except OSError as error:
        raise DatasetError(f"{reason} needs the Python file {path}, which cannot be read: {error}") from error
    with _lock():
        loaded = _modules.get(path)
        module = loaded[1] if loaded is not None and loaded[0] == version else _run(path, version)
    if not callable(getattr(module, name, None)):
        functions = [known for known, value in vars(module).items() if callable(value) and known[:1] != "_"]
        raise DatasetError(
            f"{reason} needs the function {name!r}, and {path} has none{did_you_mean(name, functions)}: define it, or "
            "name another as in file.py:function"
        )
    return UserFunction(path, name)


def _run(path: str, version: tuple[int, int] | None = None) -> ModuleType:
    with _lock():
        if version is None:
            loaded = _modules.get(path)
            if loaded is not None:  # another thread was first
                return loaded[1]
            version = paths.identity(path)
        source = paths.read_bytes(path)
        module = ModuleType(f"energon_nodes_beside_data_{blake2b(path.encode(), digest_size=6).hexdigest()}")
        module.__file__ = path
        # Known by its name, so that dataclasses and pickles of what the file defines work.
        sys.modules[module.__name__] = module
        try:
            exec(compile(source, path, "exec"), vars(module))
        except Exception as error:
            del sys.modules[module.__name__]
            raise DatasetError(f"the Python file {path} beside the data failed: {error!r}") from error
        _modules[path] = (version, module)
        return module
