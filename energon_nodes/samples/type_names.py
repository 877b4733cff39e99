"""Which class a reference such as `{__module__: megatron.energon, __class__: TextSample}` means."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any

from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.core.spelling import did_you_mean
from energon_nodes.samples import types
from energon_nodes.samples.sample import CrudeSample, Sample

__all__ = ["SAMPLE_TYPES", "import_type", "resolve_type"]

SAMPLE_TYPES: Mapping[str, type[Any]] = MappingProxyType(
    {"Sample": Sample, "CrudeSample": CrudeSample} | {name: getattr(types, name) for name in types.__all__}
)
"""The types of this library by the names that dataset files use."""

_OURS = ("megatron.energon", "energon_nodes")


def resolve_type(module: str, name: str, *, trust: bool = False) -> type[Any]:
    """Return the type of samples that a dataset names.

    Names of `megatron.energon` mean the types of this library, whether or not that package is installed. A type of
    the user is found without further ado if the program has imported its module; importing one because a
    dataset names it runs its code, and needs trust.

    Example:
        >>> resolve_type("megatron.energon", "TextSample").__module__
        'energon_nodes.samples.types'
        >>> resolve_type("my_project.types", "Page")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.TrustError: the sample type my_project.types:Page is not part of this library: ...

    Args:
        module: The name of the module.
        name: The name of the class in it.
        trust: Whether modules may be imported because the dataset names them.

    Returns:
        The class: a dataclass.

    Raises:
        DatasetError: There is no such class, or it is no dataclass.
        TrustError: The module is not imported yet, and `trust` is False.
    """
    if any(module == ours or module.startswith(ours + ".") for ours in _OURS):
        if name in SAMPLE_TYPES:
            return SAMPLE_TYPES[name]
        if module not in sys.modules:  # a user may well have types under such a name, once imported
            raise DatasetError(
                f"{module} has no sample type {name!r} that is known here{did_you_mean(name, SAMPLE_TYPES)}"
            )
    if module not in sys.modules:
        if name in SAMPLE_TYPES and not _is_installed(module):
            return SAMPLE_TYPES[name]  # an old path of the same type; Megatron-Energon finds it in the same way
        if not trust:
            raise TrustError(
                f"the sample type {module}:{name} is not part of this library: import {module} in the program "
                "before, or allow the dataset to import it with trust=True"
            )
    return import_type(f"{module}:{name}")


def import_type(path: str) -> type[Any]:
    """Import a type of samples by its path.

    Example:
        >>> import energon_nodes as en
        >>> en.import_type("energon_nodes:TextSample") is en.TextSample
        True

    Args:
        path: `package.module:Class`. Importing the module runs its code.

    Returns:
        The class.

    Raises:
        DatasetError: The module cannot be imported, or has no such class, or the class is no dataclass.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise DatasetError(f"a type is written package.module:Class, got {path!r}")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise DatasetError(
            f"the module of the sample type {path} cannot be imported ({error}): install it, or put its folder on "
            "the Python path"
        ) from error
    for step in name.split("."):
        if not hasattr(found, step):
            raise DatasetError(f"{module} has no {name!r}{did_you_mean(step, dir(found))}")
        found = getattr(found, step)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, CrudeSample))):
        raise DatasetError(
            f"{path} is no type of samples: it must be a dataclass, such as one derived from "
            f"energon_nodes.Sample, and it is {found!r}"
        )
    return found


def _is_installed(module: str) -> bool:
    root = module.partition(".")[0]
    try:
        return root in sys.modules or importlib.util.find_spec(root) is not None
    except ValueError:
        return False
