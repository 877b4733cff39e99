"""From what a user says about the type of the samples to a `dataset.yaml`, checked against types and data."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.samples.field_map import FieldMap, parse_access
from energon_nodes.samples.sample import CrudeSample
from energon_nodes.samples.type_names import SAMPLE_TYPES, import_type
from energon_nodes.samples.typed import Typed
from energon_nodes.storage import paths
from energon_nodes.storage.dataset_config import Reference
from energon_nodes.storage.dataset_yaml import dataset_text
from energon_nodes.storage.metadata import META_FOLDER

__all__ = ["SampleFile", "sample_file"]

_CRUDE = frozenset({"crude", "Crude", "CrudeSample", "CrudeWebdataset"})
_ENERGON = "megatron.energon"
_DEEPER = {"VQAOCRSample": "megatron.energon.flavors.vqa_and_ocr"}  # which Megatron-Energon has not at its top


@dataclass(frozen=True)
class SampleFile:
    """Hold the dataset file to write, and what it needs from the data.

    Args:
        text: Its content.
        field_map: The access for each field.
        parts: The parts that it lists, in `part_filter`.
        kind: The name of the type of the samples.

    Example:
        >>> SampleFile("", {"text": "txt"}).problem({"text": 4}, 4)
        "no sample has the part 'txt' that the field 'text' needs (the parts: 'text'); did you mean 'text'?"
    """

    text: str
    field_map: Mapping[str, str] | None = None
    parts: tuple[str, ...] = ()
    kind: str = "Sample"

    def problem(self, parts: Mapping[str, int], samples: int) -> str | None:
        """Return why no sample at all could be made of these parts, or None.

        Args:
            parts: How many samples have each part.
            samples: How many samples there are.
        """
        for field, access in (self.field_map or {}).items():
            wanted = [one.part for one in parse_access(access) if one.part[:2] != "__"]
            if samples and wanted and not any(part in parts for part in wanted):
                near = next((hint for part in wanted if (hint := did_you_mean(part, parts))), "")
                which = f"the part {wanted[0]!r}" if len(wanted) == 1 else f"any of the parts {listed(wanted)}"
                return f"no sample has {which} that the field {field!r} needs (the parts: {listed(parts)}){near}"
        return None

    def warnings(self, parts: Mapping[str, int], samples: int) -> list[str]:
        """Return which samples will fail, as far as the names of parts tell.

        Args:
            parts: How many samples have each part.
            samples: How many samples there are.
        """
        found: list[str] = []
        for field, access in (self.field_map or {}).items():
            wanted = list(dict.fromkeys(one.part for one in parse_access(access) if one.part[:2] != "__"))
            if not wanted:
                continue
            absent = [part for part in wanted if part not in parts]
            if absent:
                found.append(f"field {field!r}: no sample has {listed(absent)}{did_you_mean(absent[0], parts)}")
            if samples and sum(parts.get(part, 0) for part in wanted) < samples:
                have = sum(parts.get(part, 0) for part in wanted)
                found.append(f"field {field!r}: only {have:,} of {samples:,} samples have {listed(wanted)}")
        absent = [part for part in self.parts if part not in parts]
        if absent and samples:
            found.append(f"part_filter: no sample has {listed(absent)}{did_you_mean(absent[0], parts)}")
        return found


def sample_file(
    root: str,
    sample_type: Any,
    *,
    field_map: Mapping[str, str] | None = None,
    sample_loader: str | None = None,
    part_filter: str | Sequence[str] | None = None,
    subflavors: Mapping[str, Any] | None = None,
) -> SampleFile:
    """Make the dataset file for a type of samples.

    Example:
        >>> print(sample_file("/data", "TextSample", field_map={"text": "txt"}).text, end="")
        sample_type:
          __module__: megatron.energon
          __class__: TextSample
        field_map:
          text: txt

    Args:
        root: The folder of the dataset.
        sample_type: A class, its name if it is one of this library, `package.module:Class`, or "crude".
        field_map: The access for each field.
        sample_loader: `file.py:function`, a file in `.nv-meta`.
        part_filter: `file.py:function`, or the names of parts; needed with a sample loader.
        subflavors: What holds for all samples.

    Returns:
        The file.

    Raises:
        DatasetError: These do not go together, or a file or function does not exist.
        ValueError: Something is of another form.
    """
    listed_parts = () if part_filter is None or isinstance(part_filter, str) else tuple(part_filter)
    if part_filter is not None and not part_filter:
        raise ValueError("part_filter needs a file.py:function or at least one part, got an empty one")
    if isinstance(part_filter, str):
        part_filter = _beside(root, "part_filter", part_filter)
    if sample_loader is not None:
        sample_loader = _beside(root, "sample_loader", sample_loader)
    if sample_type is CrudeSample or (isinstance(sample_type, str) and sample_type in _CRUDE):
        if field_map is not None or sample_loader is not None:
            raise ValueError("crude samples have no fields: leave out field_map and sample_loader, or name a type")
        return SampleFile(dataset_text(None, part_filter=part_filter, subflavors=subflavors), None, listed_parts)
    kind = _class_of(sample_type)
    if (field_map is None) == (sample_loader is None):
        fields = [name for name in Typed(kind).open_names if name[:2] != "__"]
        example = "{" + ", ".join(f"{name!r}: 'PART'" for name in fields[:2]) + "}"
        raise ValueError(
            f"{kind.__name__} needs either a field_map, as in {example}, or a sample_loader, and got "
            f"{'neither' if field_map is None else 'both'} (its fields: {listed(fields)})"
        )
    if field_map is not None:
        if part_filter is not None:
            raise ValueError("a field_map says itself which parts are read: leave out part_filter")
        FieldMap(kind, field_map)
    elif part_filter is None:
        raise ValueError(
            "a sample_loader needs a part_filter: list the parts that it uses, as in part_filter=['jpg', 'json']"
        )
    text = dataset_text(
        _reference(kind),
        field_map=field_map,
        sample_loader=sample_loader,
        part_filter=part_filter,
        subflavors=subflavors,
    )
    return SampleFile(text, field_map, listed_parts, kind.__name__)


def _class_of(sample_type: Any) -> type[Any]:
    if isinstance(sample_type, str):
        if ":" in sample_type:
            return import_type(sample_type)
        if sample_type not in SAMPLE_TYPES:
            raise ValueError(
                f"there is no sample type {sample_type!r}{did_you_mean(sample_type, SAMPLE_TYPES)} (types of this "
                f"library: {listed(SAMPLE_TYPES)}; others are written package.module:Class)"
            )
        return SAMPLE_TYPES[sample_type]
    if not isinstance(sample_type, type):
        raise TypeError(f"sample_type must be a class, a name or package.module:Class, got {sample_type!r}")
    return sample_type


def _reference(kind: type[Any]) -> Reference:
    if SAMPLE_TYPES.get(kind.__name__) is kind:
        return Reference(_DEEPER.get(kind.__name__, _ENERGON), kind.__name__)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise ValueError(
            f"{kind.__qualname__} of {kind.__module__} cannot be imported by other programs: define it at the top of "
            "a module of its own, and import it from there"
        )
    return Reference(kind.__module__, kind.__qualname__)


def _beside(root: str, key: str, value: str) -> str:
    """Return a reference to a function beside the data after looking whether it is there; nothing is run."""
    file, _, name = value.partition(":")
    name = name or key
    if not file.endswith(".py") or file.startswith("/") or ".." in file.split("/"):
        raise ValueError(
            f"{key} must name a Python file in {META_FOLDER}, as in 'sample_loader.py:{key}', got {value!r}"
        )
    path = paths.join(root, f"{META_FOLDER}/{file}")
    try:
        tree = ast.parse(paths.read_bytes(path))
    except FileNotFoundError:
        raise DatasetError(f"{key} names {path}, which does not exist: write it before") from None
    except (SyntaxError, ValueError) as error:
        raise DatasetError(f"{key} names {path}, which is no Python: {error}") from error
    names = _names_in(tree)
    if name not in names:
        raise DatasetError(f"{key} needs the function {name!r}, and {path} has none{did_you_mean(name, names)}")
    return f"{file}:{name}"


def _names_in(tree: ast.Module) -> set[str]:
    """Return what the top of a module defines, as far as that can be seen without running it."""
    names: set[str] = set()
    for item in ast.walk(tree):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(item.name)
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            names.add(item.id)
        elif isinstance(item, ast.alias):
            names.add(item.asname or item.name)
    return names
