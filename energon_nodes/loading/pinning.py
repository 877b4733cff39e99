"""Copy the tensors of an output to pinned memory, from where they go to a device without waiting."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, cast

import torch
from torch.utils.data._utils import pin_memory as torch_pinning  # with the function that DataLoader itself uses

__all__ = ["can_pin", "pin"]


def can_pin() -> bool:
    """Return whether there is an accelerator; warn as torch's DataLoader does if there is none."""
    found = torch.accelerator.is_available() if hasattr(torch, "accelerator") else torch.cuda.is_available()
    if not found:
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=2,
        )
    return found


def pin(value: Any) -> Any:
    """Return an output with its tensors in pinned memory; those in fields of dataclasses are replaced."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "pin_memory"):
        for field in dataclasses.fields(value):
            object.__setattr__(value, field.name, pin(getattr(value, field.name)))
        return value
    return cast("Any", torch_pinning).pin_memory(value)
