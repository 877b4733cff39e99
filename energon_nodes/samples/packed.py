"""Packs of token tensors: documents one behind the other, with what attention kernels need to keep them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch

from energon_nodes.core.errors import SampleError
from energon_nodes.core.spelling import listed

__all__ = ["PackedTokens"]


@dataclass(kw_only=True, slots=True)
class PackedTokens:
    """Hold documents of tokens one behind the other.

    `cu_seqlens` and `max_seqlen` are what the varlen functions of flash-attn take, and `PackedSeqParams` of Megatron.

    Example:
        >>> import energon_nodes as en
        >>> pack = en.concat_tokens([torch.tensor([5, 6, 7]), torch.tensor([8, 9])])
        >>> pack.tokens, pack.cu_seqlens
        (tensor([5, 6, 7, 8, 9]), tensor([0, 3, 5], dtype=torch.int32))
        >>> pack.position_ids, pack.lengths, pack.max_seqlen
        (tensor([0, 1, 2, 0, 1]), tensor([3, 2], dtype=torch.int32), 3)

    Args:
        tokens: The tokens of all documents, shape `(T,)`, in their own dtype.
        position_ids: The position of each token in its document, int64 of shape `(T,)`.
        cu_seqlens: Where segments begin and where the last one ends, int32 of shape `(segments + 1,)`: the documents,
            and the padding where that makes a segment.
        lengths: The length of each document, int32 of shape `(documents,)`; the rest of the `T` tokens is padding.
        max_seqlen: The length of the longest segment.
        fields: What else has a value for each token (labels, a loss mask), by name; each of shape `(T, ...)`.
        extra: All other fields of the documents, by name: lists of a value for each document.
    """

    tokens: torch.Tensor
    position_ids: torch.Tensor
    cu_seqlens: torch.Tensor
    lengths: torch.Tensor
    max_seqlen: int
    fields: dict[str, torch.Tensor]
    extra: dict[str, list[Any]]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it in one flat dict, `fields` and `extra` by their own names, for models that take a dict.

        Example:
            >>> import energon_nodes as en
            >>> doc = {"__key__": "a", "tokens": torch.tensor([1, 2]), "loss_mask": torch.tensor([0, 1])}
            >>> sorted(en.concat_tokens([doc]).as_dict())
            ['__key__', 'cu_seqlens', 'lengths', 'loss_mask', 'max_seqlen', 'position_ids', 'tokens']
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own.pop("extra") | own.pop("fields") | own

    @classmethod
    def from_samples(cls, packs: Sequence[PackedTokens]) -> Self:
        """Stack packs of one length: what `batch(size, collate=en.collate)` does with them.

        Rows of `cu_seqlens` with fewer segments repeat their last value, which makes segments without tokens; rows of
        `lengths` end in zeros.

        Example:
            >>> import energon_nodes as en
            >>> combine = en.ConcatTokens(pad_to=4)
            >>> packs = [combine([torch.tensor([1, 2]), torch.tensor([3])]), combine([torch.tensor([4, 5, 6, 7])])]
            >>> batch = PackedTokens.from_samples(packs)
            >>> batch.tokens.tolist(), batch.cu_seqlens.tolist()
            ([[1, 2, 3, 0], [4, 5, 6, 7]], [[0, 2, 3, 4], [0, 4, 4, 4]])

        Args:
            packs: Packs of one length, as `pad_to` makes them.

        Returns:
            A batch: the tensors have a first dimension more, `extra` a list for each pack.

        Raises:
            SampleError: If the packs differ in length, or in their fields.
        """
        _refuse_other_fields(packs)
        sizes = [pack.tokens.shape[0] for pack in packs]
        if len(set(sizes)) > 1:
            raise SampleError(
                f"packs of {min(sizes)} and of {max(sizes)} tokens cannot be stacked: let ConcatTokens(pad_to=...) "
                "make them equal, or join them to one longer pack with collate=PackedTokens.join"
            )
        return cls(
            tokens=torch.stack([pack.tokens for pack in packs]),
            position_ids=torch.stack([pack.position_ids for pack in packs]),
            cu_seqlens=_stacked([pack.cu_seqlens for pack in packs], repeat=True),
            lengths=_stacked([pack.lengths for pack in packs], repeat=False),
            max_seqlen=max(pack.max_seqlen for pack in packs),
            fields={name: torch.stack([pack.fields[name] for pack in packs]) for name in packs[0].fields},
            extra={name: [pack.extra[name] for pack in packs] for name in packs[0].extra},
        )

    @classmethod
    def join(cls, packs: Sequence[PackedTokens]) -> Self:
        """Join packs to one longer pack, whatever their lengths: a collate for varlen attention over a whole batch.

        Example:
            >>> import energon_nodes as en
            >>> packs = [en.concat_tokens([torch.tensor([1, 2])]), en.concat_tokens([torch.tensor([3])])]
            >>> PackedTokens.join(packs).cu_seqlens
            tensor([0, 2, 3], dtype=torch.int32)

        Args:
            packs: At least one pack, in which padding makes a segment or is absent.

        Returns:
            One pack.

        Raises:
            SampleError: If the packs differ in their fields, or the segments of one do not reach its end.
        """
        _refuse_other_fields(packs)
        begins = np.cumsum([0, *(pack.tokens.shape[0] for pack in packs)])
        for number, pack in enumerate(packs):
            if pack.cu_seqlens[-1] != pack.tokens.shape[0]:
                raise SampleError(
                    f"pack {number} has padding outside of its segments, behind which no segment can be joined: use "
                    'padding="segment", or no padding'
                )
        ends = [pack.cu_seqlens[1:] + int(begin) for pack, begin in zip(packs, begins, strict=False)]
        return cls(
            tokens=torch.cat([pack.tokens for pack in packs]),
            position_ids=torch.cat([pack.position_ids for pack in packs]),
            cu_seqlens=torch.cat([packs[0].cu_seqlens[:1], *ends]),
            lengths=torch.cat([pack.lengths for pack in packs]),
            max_seqlen=max(pack.max_seqlen for pack in packs),
            fields={name: torch.cat([pack.fields[name] for pack in packs]) for name in packs[0].fields},
            extra={name: [value for pack in packs for value in pack.extra[name]] for name in packs[0].extra},
        )


def _stacked(rows: list[torch.Tensor], *, repeat: bool) -> torch.Tensor:
    """Stack rows of different lengths, filled up with their last value or with zeros."""
    result = rows[0].new_zeros((len(rows), max(row.shape[0] for row in rows)))
    for number, row in enumerate(rows):
        result[number, : row.shape[0]] = row
        if repeat:
            result[number, row.shape[0] :] = row[-1]
    return result


def _refuse_other_fields(packs: Sequence[PackedTokens]) -> None:
    for number, pack in enumerate(packs):
        if pack.fields.keys() != packs[0].fields.keys() or pack.extra.keys() != packs[0].extra.keys():
            raise SampleError(
                "the packs of a batch need the same fields, but pack 0 has "
                f"{listed([*packs[0].fields, *packs[0].extra])} and pack {number} has "
                f"{listed([*pack.fields, *pack.extra])}"
            )
