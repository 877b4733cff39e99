"""Write `dataset.yaml`, so that this library and Megatron-Energon read the same from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from energon_nodes.storage.dataset_config import Reference
from energon_nodes.storage.split_text import quoted

__all__ = ["dataset_text"]


def dataset_text(
    sample_type: Reference | None,
    *,
    field_map: Mapping[str, str] | None = None,
    sample_loader: str | None = None,
    part_filter: str | Sequence[str] | None = None,
    subflavors: Mapping[str, Any] | None = None,
) -> str:
    """Write the text of a dataset file.

    Example:
        >>> print(dataset_text(Reference("megatron.energon", "TextSample"), field_map={"text": "txt"}), end="")
        sample_type:
          __module__: megatron.energon
          __class__: TextSample
        field_map:
          text: txt

    Args:
        sample_type: The type of the samples, None for crude ones.
        field_map: The access for each field.
        sample_loader: `file.py:function`.
        part_filter: `file.py:function`, or the names of parts.
        subflavors: What holds for all samples; plain data as JSON has it.

    Returns:
        YAML.

    Raises:
        ValueError: `subflavors` hold something that is no plain data.
    """
    indent = "" if sample_type is None else "  "
    module, name = sample_type or ("megatron.energon", "CrudeWebdataset")
    lines = [] if sample_type is None else ["sample_type:"]
    lines += [f"{indent}__module__: {module}", f"{indent}__class__: {name}"]
    if field_map is not None:
        lines.append("field_map:" if field_map else "field_map: {}")
        lines += [f"  {quoted(field)}: {quoted(access)}" for field, access in field_map.items()]
    if sample_loader is not None:
        lines.append(f"sample_loader: {quoted(sample_loader)}")
    if isinstance(part_filter, str):
        lines.append(f"part_filter: {quoted(part_filter)}")
    elif part_filter is not None:
        lines += ["part_filter:", *(f"- {quoted(part)}" for part in part_filter)]
    if subflavors:
        lines.append("subflavors:")
        for key, value in subflavors.items():
            try:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"subflavors need plain data (text, numbers, lists, mappings), got {key}: {value!r} ({error})"
                ) from None
            lines.append(f"  {quoted(str(key))}: {text}")
    return "\n".join(lines) + "\n"
