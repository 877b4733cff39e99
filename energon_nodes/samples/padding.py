"""One tensor of many values: stacked where the shapes agree, padded where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, cast

import numpy as np
import torch

from energon_nodes.core.errors import SampleError

__all__ = ["NUMERIC", "Pad", "numbers_to_tensor", "stack"]

NUMERIC = "biufc"
"""The kinds of numpy dtypes that become tensors."""

Describe = Callable[[int], str]
"""Names a member of a batch for an error, by its position."""


@dataclass(frozen=True)
class Pad:
    """Pad tensors to the largest size in each dimension, and stack them.

    It is a rule of `Collate`, and a function of a list of values too. Tensors and numpy arrays are taken, and lists of
    numbers, which become tensors first. The result has the shape `(batch, *largest sizes)` and the dtype of the values.

    Args:
        value: What the rest is filled with; it must be a value of the dtype.
        side: Where the rest is, in every dimension: `"right"`, behind the values, or `"left"`, before them.

    Raises:
        ValueError: At construction, for another side.
        SampleError: When called, for values of different ranks or dtypes.

    Example:
        >>> import energon_nodes as en
        >>> en.Pad(value=-1, side="left")([[1, 2, 3], [4]])
        tensor([[ 1,  2,  3],
                [-1, -1,  4]])
    """

    value: float = 0
    side: Literal["right", "left"] = "right"

    def __post_init__(self) -> None:
        if self.side not in ("right", "left"):
            raise ValueError(f"Pad needs side='right' or side='left', got side={self.side!r}")

    def __call__(self, values: Sequence[Any]) -> torch.Tensor:
        """Return the padded tensor."""
        return self.apply(values, "value {}".format)

    def apply(self, values: Sequence[Any], describe: Describe) -> torch.Tensor:
        """Return the padded tensor, and name the values in errors as `describe` says."""
        stacked = _stacked_at_once(values)
        if stacked is not None:
            return stacked
        tensors = _tensors(values, describe)
        shapes = [tensor.shape for tensor in tensors]
        if shapes.count(shapes[0]) == len(shapes):
            return torch.stack(tensors)
        for number, shape in enumerate(shapes):
            if len(shape) != len(shapes[0]):
                raise SampleError(
                    f"padding needs one number of dimensions, but {describe(0)} has shape {tuple(shapes[0])} and "
                    f"{describe(number)} has shape {tuple(shape)}: give them one rank before, or use the rule 'list'"
                )
        largest = [max(sizes) for sizes in zip(*shapes, strict=True)]
        padded = self._filled(tensors[0], (len(tensors), *largest))
        for row, tensor in zip(padded, tensors, strict=True):
            if self.side == "right":
                place = tuple([slice(size) for size in tensor.shape])
            else:
                place = tuple([slice(most - size, most) for size, most in zip(tensor.shape, largest, strict=True)])
            row[place] = tensor
        return padded

    def _filled(self, like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        try:
            filled = like.new_full(shape, cast("Any", self.value))
        except (RuntimeError, TypeError) as error:
            raise SampleError(f"{self} cannot fill a tensor of {like.dtype}: {error}") from error
        if filled.numel() and filled.view(-1)[0].item() != self.value and not like.is_floating_point():
            raise SampleError(f"{self} cannot fill a tensor of {like.dtype}, which does not hold {self.value!r}")
        return filled


def stack(values: Sequence[Any], describe: Describe) -> torch.Tensor:
    """Stack tensors, arrays, or lists of numbers, which must have one shape.

    Example:
        >>> stack([torch.zeros(2), torch.ones(2)], str).shape
        torch.Size([2, 2])

    Args:
        values: At least one.
        describe: Names a value for an error, by its position.

    Returns:
        A tensor of shape `(len(values), *shape)` and of the dtype of the values.

    Raises:
        SampleError: Shapes or dtypes differ, or a value is no tensor.
    """
    stacked = _stacked_at_once(values)
    if stacked is not None:
        return stacked
    tensors = _tensors(values, describe)
    try:
        return torch.stack(tensors)
    except RuntimeError:
        for number, tensor in enumerate(tensors):
            if tensor.shape != tensors[0].shape:
                raise SampleError(
                    f"stacking needs one shape, but {describe(0)} has shape {tuple(tensors[0].shape)} and "
                    f"{describe(number)} has shape {tuple(tensor.shape)}: resize or crop them before, pad them with "
                    "the rule 'pad', or use the rule 'list'"
                ) from None
        raise


def numbers_to_tensor(values: Sequence[Any], describe: Describe) -> torch.Tensor:
    """Make a tensor of numbers.

    Example:
        >>> numbers_to_tensor([1, 2], str), numbers_to_tensor([0.5, 1], str), numbers_to_tensor([np.uint8(3)], str)
        (tensor([1, 2]), tensor([0.5000, 1.0000]), tensor([3], dtype=torch.uint8))

    Args:
        values: Python numbers, or numpy scalars.
        describe: Names a value for an error, by its position.

    Returns:
        A tensor of shape `(len(values),)`: bool, int64, or torch's default float dtype; numpy scalars of one type
        keep it.

    Raises:
        SampleError: A number is too large for 64 bits.
    """
    first = cast("type[Any]", type(values[0]))
    if issubclass(first, np.generic) and all(type(value) is first for value in values):
        return _from_numpy(np.array(values))
    plain: list[Any] = [cast("Any", value).item() if isinstance(value, np.generic) else value for value in values]
    try:
        return torch.tensor(plain)
    except (OverflowError, RuntimeError, ValueError):
        number = max(range(len(plain)), key=lambda at: abs(plain[at]))
        raise SampleError(
            f"a tensor holds integers of 64 bits, but {describe(number)} is {plain[number]}: use the rule 'list'"
        ) from None


_dtype_of = attrgetter("dtype")


def _stacked_at_once(values: Sequence[Any]) -> torch.Tensor | None:
    """Stack tensors of one shape and dtype, with as few looks at each as possible; return None for all others."""
    try:
        dtypes = list(map(_dtype_of, values))
        if dtypes.count(dtypes[0]) == len(dtypes):
            return torch.stack(values)  # pyright: ignore[reportArgumentType]  # any sequence will do
    except (AttributeError, TypeError, RuntimeError):
        pass
    return None


def _tensors(values: Sequence[Any], describe: Describe) -> list[torch.Tensor]:
    """Return all values as tensors of one dtype."""
    if all(isinstance(value, torch.Tensor) for value in values):
        tensors = cast("list[torch.Tensor]", values)
    else:
        tensors = [_tensor(value, describe, number) for number, value in enumerate(values)]
        # An empty list has no dtype of its own.
        known = next((tensor.dtype for tensor in tensors if tensor.numel()), tensors[0].dtype)
        tensors = [
            tensor.to(known) if isinstance(value, list | tuple) and not tensor.numel() else tensor
            for value, tensor in zip(values, tensors, strict=True)
        ]
    dtype = tensors[0].dtype
    if any(tensor.dtype is not dtype for tensor in tensors):
        number = next(number for number, tensor in enumerate(tensors) if tensor.dtype is not dtype)
        raise SampleError(
            f"a batch needs one dtype, but {describe(0)} has {dtype} and {describe(number)} has "
            f"{tensors[number].dtype}: convert them before, or use the rule 'list'"
        )
    return tensors


def _tensor(value: Any, describe: Describe, number: int) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    try:
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(cast("Any", value))
            return _from_numpy(array if array.flags.writeable else array.copy())
        if isinstance(value, list | tuple | bool | int | float | complex):
            return torch.tensor(value)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise SampleError(
            f"{describe(number)} cannot become a tensor ({error}): convert it before, or use the rule 'list'"
        ) from error
    kind = "None" if value is None else f"a {type(cast('object', value)).__name__}"
    raise SampleError(
        f"{describe(number)} is {kind}, which is no tensor: fill it in before, leave such samples out, or use the rule "
        "'list'"
    )


def _from_numpy(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor that shares the memory of the array where torch can."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(step < 0 for step in array.strides):
        array = array.copy()
    return cast("Any", torch).from_numpy(array)
