"""The fields of typed samples as people see them: what the dataset file makes of the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, cast

from energon_nodes.cli.peek import Glance
from energon_nodes.cli.printing import shortened
from energon_nodes.cli.showing import MOST_BYTES
from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.recipes.datasets import sample_maker
from energon_nodes.recipes.lint_samples import needed_parts
from energon_nodes.samples.decode import Decoder
from energon_nodes.storage.dataset_config import read_dataset_config
from energon_nodes.storage.metadata import is_prepared

__all__ = ["FieldsView", "described_value", "view_of"]


class FieldsView(NamedTuple):
    """Say how samples become typed ones, and try it.

    Example:
        >>> FieldsView("crude").note
        'crude'

    Args:
        note: The type of the samples, and what fills its fields; or why that is not known.
        make: Makes a typed sample of decoded parts; None where there is nothing to make, or it may not run.
        decoder: Decodes the parts.
    """

    note: str
    make: Callable[[dict[str, Any]], Any] | None = None
    decoder: Decoder | None = None

    def fields_of(self, glance: Glance) -> dict[str, str] | str:
        """Return the fields of a sample by name, described, or why it cannot be made.

        Args:
            glance: The sample.
        """
        if self.make is None or self.decoder is None or glance.error is not None:
            return {}
        needed = needed_parts(self.make)
        sample: dict[str, Any] = {"__key__": glance.key, "__shard__": glance.shard}
        try:
            for part in glance.parts:
                if needed is None or part.name in needed:
                    if part.size > MOST_BYTES:
                        return f"part {part.name!r} is too large to be shown"
                    sample[part.name] = glance.read(part, MOST_BYTES)
            made = self.make(self.decoder(sample))
        except Exception as error:  # from the data, or from code beside them: it is shown
            return f"{error}" if isinstance(error, DatasetError) else f"{type(error).__name__}: {error}"
        return {name: described_value(value) for name, value in _entries(made).items() if name[:2] != "__"}


def view_of(root: str, dataset_config: str | None, trust: bool) -> FieldsView:
    """Find out what the dataset file makes of samples; code beside the data runs with `trust` alone.

    Example:
        >>> view_of("memory://no/dataset", None, False).note
        'never prepared'

    Args:
        root: The dataset.
        dataset_config: The dataset file in `.nv-meta`.
        trust: Whether Python beside the data may run.

    Returns:
        The view.
    """
    if root.endswith(".jsonl"):
        return FieldsView("JSON lines")
    if not is_prepared(root):
        return FieldsView("never prepared")
    try:
        config = read_dataset_config(root, dataset_config)
        if config.crude:
            return FieldsView("crude samples")
        make, _ = sample_maker(config, trust, config.subflavors)
    except TrustError:
        return FieldsView("made by code beside the data, which was not run (--trust runs it)")
    except DatasetError as error:
        return FieldsView(f"not known: {error}")
    name = config.sample_type.name if config.sample_type is not None else ""
    filled = ", ".join(f"{field} ← {access}" for field, access in (config.field_map or {}).items())
    return FieldsView(f"{name}: {filled}" if filled else name, make, Decoder(image="torchrgb", trust=trust))


def described_value(value: Any, length: int = 120) -> str:
    """Describe a value in a line: shapes of arrays, beginnings of texts.

    Example:
        >>> import numpy as np
        >>> described_value(np.zeros((3, 2), np.uint8)), described_value(["a", None]), described_value(b"123")
        ('uint8 array 3×2', '["a", None]', '3 bytes')

    Args:
        value: Any value.
        length: How many characters of text are kept.

    Returns:
        The text.
    """
    if isinstance(value, str):
        return f'"{shortened(value, length)}"'
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{kind} {type(value).__name__.lower().replace('ndarray', 'array')} {'×'.join(map(str, value.shape))}"
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        shown = ", ".join(described_value(item, length // 2) for item in items[:4])
        return f"[{shown}{f', … {len(items) - 4} more' if len(items) > 4 else ''}]"
    return shortened(repr(value), length)


def _entries(sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return cast("Mapping[str, Any]", sample)
    if is_dataclass(sample) and not isinstance(sample, type):
        return {field.name: getattr(sample, field.name) for field in fields(sample)}
    return {"value": sample}
