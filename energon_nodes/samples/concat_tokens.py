"""Make a pack of documents of tokens: joined, separated, padded, with the bounds of the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import SampleError
from energon_nodes.core.spelling import listed
from energon_nodes.samples.packed import PackedTokens
from energon_nodes.samples.records import has_fields, names_of

__all__ = ["ConcatTokens", "concat_tokens"]

Number: TypeAlias = int | float | bool
_PADS: dict[str, Number] = {"labels": -100}  # what torch's cross entropy ignores
_from_numpy = cast("Any", torch).from_numpy


@dataclass(frozen=True)
class ConcatTokens:
    """Make a pack of documents of tokens: a `combine` for `pack` and `pack_to`.

    Documents are 1-d tensors, arrays or lists of numbers, or samples (dicts, dataclasses, named tuples) with such a
    field. Of samples, the other fields with a value for each token are joined too, and all further fields are kept as
    lists of a value for each document.

    Example:
        >>> import energon_nodes as en
        >>> docs = en.items([torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6])])
        >>> combine = ConcatTokens(pad_to=8, separator=0, pad=-1)
        >>> pack = next(docs.pack_to(8, length=lambda doc: len(doc) + 1, combine=combine))
        >>> pack.tokens, pack.cu_seqlens
        (tensor([ 1,  2,  3,  0,  4,  5,  0, -1]), tensor([0, 4, 7, 8], dtype=torch.int32))

    Args:
        tokens: The name of the field with the tokens.
        fields: The names of the other fields with a value for each token. None: those that are 1-d tensors or
            arrays in the first sample.
        separator: Stands behind each document and counts for its length, so `length` of `pack_to` has to count it
            too: a number, or numbers by field. None puts nothing there.
        pad_to: The length of every pack, usually the capacity; None leaves packs as long as they are.
        pad_to_multiple: Pad to a multiple of this instead, as kernels for 8-bit floats ask for.
        pad: What is filled in: a number, or numbers by field. Where none is given it is 0, and -100 for `labels`, which
            torch's cross entropy ignores.
        padding: What the padding is: "segment" makes it a last segment of its own, to which no document attends;
            "outside" leaves it behind the last value of `cu_seqlens`, where varlen kernels compute nothing.

    Raises:
        ValueError: If a setting is out of its range.
        SampleError: When called: for a pack longer than `pad_to`, or fields that do not go together.
    """

    tokens: str = "tokens"
    _: KW_ONLY
    fields: Sequence[str] | None = None
    separator: Number | Mapping[str, Number] | None = None
    pad_to: int | None = None
    pad_to_multiple: int | None = None
    pad: Number | Mapping[str, Number] | None = None
    padding: Literal["segment", "outside"] = "segment"

    def __post_init__(self) -> None:
        for name in ("pad_to", "pad_to_multiple"):
            if getattr(self, name) is not None:
                check_size("ConcatTokens", name, getattr(self, name), 1)
        if self.pad_to is not None and self.pad_to_multiple is not None:
            raise ValueError("ConcatTokens needs pad_to or pad_to_multiple, not both")
        if self.padding not in ("segment", "outside"):
            raise ValueError(f'ConcatTokens needs padding="segment" or "outside", got {self.padding!r}')
        if isinstance(self.fields, str):
            raise ValueError(f"ConcatTokens needs a list of fields, got the string {self.fields!r}")

    def __call__(self, documents: Sequence[Any]) -> PackedTokens:
        """Return the pack of the documents, of which there is at least one."""
        if not len(documents):
            raise ValueError("a pack needs at least one document, got none")
        columns = self._columns(documents)
        sizes = np.array([len(tokens) for tokens in columns[self.tokens]], np.int64)
        parts = {name: self._parts(name, columns[name], sizes) for name in self._per_token(documents[0], columns)}
        if self.separator is not None:
            sizes += 1
        total = int(sizes.sum())
        missing = self._padded_length(total) - total
        if missing:
            for name, tensors in parts.items():
                pad = _PADS.get(name, 0) if self.pad is None else _of(self.pad, name, None)
                tensors.append(tensors[0].new_full((missing, *tensors[0].shape[1:]), pad))
        joined = {name: torch.cat(tensors) for name, tensors in parts.items()}
        segments = np.append(sizes, missing) if missing and self.padding == "segment" else sizes
        ends = np.zeros(len(segments) + 1, np.int32)
        np.cumsum(segments, out=ends[1:])
        positions = np.zeros(total + missing, np.int64)
        positions[: ends[-1]] = np.arange(ends[-1]) - np.repeat(ends[:-1], segments)
        return PackedTokens(
            tokens=joined.pop(self.tokens),
            position_ids=_from_numpy(positions),
            cu_seqlens=_from_numpy(ends),
            lengths=_from_numpy(sizes.astype(np.int32)),
            max_seqlen=int(segments.max()),
            extra={name: column for name, column in columns.items() if name != self.tokens and name not in joined},
            fields=joined,
        )

    def _columns(self, documents: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the values of each field."""
        first = documents[0]
        if not has_fields(first):
            return {self.tokens: list(documents)}
        names = list(cast("Any", first)) if isinstance(first, Mapping) else names_of(cast("type[Any]", type(first)))
        for name in (self.tokens, *(self.fields or ())):
            if name not in names:
                raise SampleError(
                    f"the documents have no field {name!r}, only {listed(names)}: say which by "
                    "ConcatTokens(tokens=..., fields=[...])"
                )
        if not isinstance(first, Mapping):
            return {name: [getattr(document, name) for document in documents] for name in names}
        for number, document in enumerate(documents):
            if document.keys() != first.keys():
                raise SampleError(
                    f"the documents of a pack need the same fields, but document 0 has {listed(names)} and document "
                    f"{number} has {listed(list(document))}"
                )
        return {name: [document[name] for document in documents] for name in names}

    def _per_token(self, first: Any, columns: dict[str, list[Any]]) -> list[str]:
        if self.fields is not None and has_fields(first):
            return [self.tokens, *self.fields]
        return [name for name in columns if name == self.tokens or _is_row(columns[name][0])]

    def _parts(self, name: str, values: list[Any], sizes: NDArray[np.int64]) -> list[torch.Tensor]:
        """Return the tensors of a field that are to be joined, separators among them."""
        tensors = [value if isinstance(value, torch.Tensor) else _as_tensor(name, value) for value in values]
        for number, tensor in enumerate(tensors):
            if not tensor.ndim or tensor.shape[0] != sizes[number] or (name == self.tokens and tensor.ndim != 1):
                raise SampleError(
                    f"field {name!r} of document {number} has shape {tuple(tensor.shape)}, which is no value for each "
                    f"of its {sizes[number]} tokens: name the fields that have by ConcatTokens(fields=[...])"
                )
            if tensor.dtype is not tensors[0].dtype:
                raise SampleError(
                    f"field {name!r} has {tensors[0].dtype} in document 0 and {tensor.dtype} in document {number}: "
                    "convert it before"
                )
        if self.separator is not None:
            mark = tensors[0].new_full((1, *tensors[0].shape[1:]), _of(self.separator, name, "separator"))
            tensors = [part for tensor in tensors for part in (tensor, mark)]
        return tensors

    def _padded_length(self, total: int) -> int:
        if self.pad_to_multiple is not None:
            return -(-total // self.pad_to_multiple) * self.pad_to_multiple
        if self.pad_to is not None and total > self.pad_to:
            raise SampleError(
                f"a pack of {total} tokens is longer than pad_to={self.pad_to}: let the capacity be at most that, and "
                "`length` count the separators"
            )
        return total if self.pad_to is None else self.pad_to


def concat_tokens(documents: Sequence[Any]) -> PackedTokens:
    """Make a pack of documents of tokens: a `combine` for `pack` and `pack_to`.

    It is `ConcatTokens()`, which describes what documents are and has settings for padding and separators.

    Example:
        >>> import energon_nodes as en
        >>> docs = en.items([{"tokens": torch.arange(size), "labels": torch.arange(size)} for size in (3, 4, 2)])
        >>> pack = next(docs.pack_to(6, length="tokens", combine=en.concat_tokens))
        >>> pack.cu_seqlens, list(pack.fields)
        (tensor([0, 3], dtype=torch.int32), ['labels'])

    Args:
        documents: At least one; tensors, arrays or lists of numbers, or samples with such fields.

    Returns:
        The pack.

    Raises:
        SampleError: If fields do not go together.
    """
    return _PLAIN(documents)


_PLAIN = ConcatTokens()


def _of(setting: Number | Mapping[str, Number], name: str, what: str | None) -> Number:
    """Return the number for a field."""
    if not isinstance(setting, Mapping):
        return setting
    if name in setting or what is None:
        return setting.get(name, _PADS.get(name, 0))
    raise SampleError(f"ConcatTokens has no {what} for the field {name!r}, only for {listed(list(setting))}")


def _is_row(value: Any) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray) and cast("Any", value).ndim == 1


def _as_tensor(name: str, value: Any) -> torch.Tensor:
    try:
        return torch.tensor(value) if len(value) else torch.tensor(value, dtype=torch.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SampleError(
            f"field {name!r} of a document is a {type(value).__name__} that cannot become a tensor: {error}"
        ) from error
