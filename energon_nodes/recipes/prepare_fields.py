"""Try a field map on the first samples before anything is written: a mistake in it would fail at every sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import make_dataclass
from itertools import islice
from typing import Any

from energon_nodes.core.errors import DatasetError, SampleError
from energon_nodes.recipes.prepare_types import SampleFile
from energon_nodes.samples.field_map import FieldMap, parse_access
from energon_nodes.storage import paths
from energon_nodes.storage.runs import Run, Runs
from energon_nodes.storage.tar import TarError

__all__ = ["try_fields"]

_LOOKED_AT = 3
_JSON = ("json", "jsn")
_MOST_BYTES = 32 << 20
"""Larger parts are not decoded for this."""
_UNKNOWN = object()
"""Stands for what is not decoded for this: pictures, arrays, pickles, whole parts."""


def try_fields(root: str, names: Sequence[str], file: SampleFile) -> list[str]:
    """Try whether the fields can be filled from the first samples of the first shard that has any.

    Only accesses that look into JSON are tried: whole parts are counted in all shards, which tells more. Nothing that
    could run code is decoded, and no object of the sample type is made.

    Example:
        >>> try_fields("/data", [], SampleFile("", {"text": "txt"}))
        []

    Args:
        root: The folder of the dataset.
        names: Its shards.
        file: The dataset file that is to be written.

    Returns:
        Warnings, of fields that the first sample cannot fill and another one can.

    Raises:
        DatasetError: A field cannot be filled from any of these samples.
    """
    inner = {
        field: access
        for field, access in (file.field_map or {}).items()
        if any(one.keys for one in parse_access(access))
    }
    if not inner:
        return []
    inside = {one.part for access in inner.values() for one in parse_access(access) if one.keys}
    samples = [_read(root, name, run, inside) for name, run in _first(root, names)]
    warnings: list[str] = []
    for field, access in inner.items():
        problems = [_problem(file.kind, field, access, sample) for sample in samples]
        if problems and all(problems):
            tried = f"; {len(problems)} samples were tried" if len(problems) > 1 else ""
            raise DatasetError(f"{root}: {problems[0]}{tried}: correct the field map; nothing was written")
        if problems and problems[0]:
            warnings.append(f"{problems[0]}; one of the next samples can")
    return warnings


def _first(root: str, names: Sequence[str]) -> Iterator[tuple[str, Run]]:
    for name in names:
        try:
            found = list(islice(Runs(paths.join(root, name)), _LOOKED_AT))
        except (TarError, OSError):  # indexing names it
            return
        if found:
            yield from ((name, run) for run in found)
            return


def _read(root: str, shard: str, run: Run, inside: set[str]) -> dict[str, Any]:
    """Return the parts of a sample: JSON that is looked into is decoded, everything else is not known."""
    sample: dict[str, Any] = {"__key__": run.key, "__shard__": shard}
    for part in run.parts:
        sample[part.name] = _UNKNOWN
        if part.name in inside and part.name.lower().rpartition(".")[2] in _JSON and part.size <= _MOST_BYTES:
            with suppress(ValueError, OSError):  # lint names parts that cannot be decoded
                data = paths.read_range(paths.join(root, shard), part.offset, part.offset + part.size)
                sample[part.name] = json.loads(data)
    return sample


def _problem(kind: str, field: str, access: str, sample: dict[str, Any]) -> str | None:
    """Return why a field cannot be filled from a sample, or None where it can or nobody can tell."""
    there = [one for one in parse_access(access) if one.part in sample]
    if not there or any(sample[one.part] is _UNKNOWN for one in there):  # absent parts are counted in all shards
        return None
    alone: FieldMap[Any] = FieldMap(make_dataclass(kind, [field]), {field: access})
    try:
        alone(sample)
    except SampleError as error:
        return str(error).partition(". Correct the field map")[0]
    return None
