"""Packs of tokens: bounds, positions, padding, batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import energon_nodes as en
from energon_nodes.core.encoders import decode_value, encode_value

DOCS = [torch.tensor([5, 6, 7]), torch.tensor([8]), torch.tensor([9, 10])]


def test_bounds_positions_and_lengths_say_where_documents_are() -> None:
    pack = en.concat_tokens(DOCS)
    assert pack.tokens.tolist() == [5, 6, 7, 8, 9, 10]
    assert (pack.cu_seqlens.tolist(), pack.cu_seqlens.dtype) == ([0, 3, 4, 6], torch.int32)
    assert (pack.position_ids.tolist(), pack.position_ids.dtype) == ([0, 1, 2, 0, 0, 1], torch.int64)
    assert (pack.lengths.tolist(), pack.lengths.dtype) == ([3, 1, 2], torch.int32)
    assert pack.max_seqlen == 3
    assert (pack.fields, pack.extra) == ({}, {})


@pytest.mark.parametrize("make", [torch.tensor, np.array, list], ids=["tensor", "array", "list"])
def test_documents_may_be_tensors_arrays_or_lists(make: Any) -> None:
    pack = en.concat_tokens([make([1, 2]), make([3])])
    assert (pack.tokens.tolist(), pack.tokens.dtype) == ([1, 2, 3], torch.int64)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bfloat16])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    assert en.ConcatTokens(pad_to=5)([torch.ones(3, dtype=dtype)]).tokens.dtype is dtype


def test_fields_with_a_value_for_each_token_are_joined_and_others_listed() -> None:
    docs = [
        {"__key__": name, "tokens": torch.arange(size), "labels": torch.arange(size) + 1, "image": torch.zeros(2, 2)}
        for name, size in (("a", 2), ("b", 3))
    ]
    pack = en.concat_tokens(docs)
    assert pack.fields["labels"].tolist() == [1, 2, 1, 2, 3]
    assert list(pack.fields) == ["labels"]
    assert pack.extra["__key__"] == ["a", "b"]
    assert len(pack.extra["image"]) == 2
    assert set(pack.as_dict()) >= {"tokens", "labels", "image", "__key__", "cu_seqlens", "max_seqlen"}


def test_fields_can_be_named() -> None:
    docs = [{"input_ids": [1, 2], "weights": torch.zeros(2, 4), "scores": torch.zeros(7)}]
    pack = en.ConcatTokens("input_ids", fields=["weights"])(docs)
    assert pack.fields["weights"].shape == (2, 4)
    assert list(pack.extra) == ["scores"]


def test_samples_may_be_dataclasses() -> None:
    @dataclass
    class Doc:
        tokens: torch.Tensor
        name: str

    pack = en.concat_tokens([Doc(torch.tensor([1]), "a"), Doc(torch.tensor([2]), "b")])
    assert (pack.tokens.tolist(), pack.extra) == ([1, 2], {"name": ["a", "b"]})


def test_padding_is_a_segment_of_its_own_or_outside() -> None:
    inside = en.ConcatTokens(pad_to=9, pad=-1)(DOCS)
    assert inside.tokens.tolist()[6:] == [-1, -1, -1]
    assert inside.cu_seqlens.tolist() == [0, 3, 4, 6, 9]
    assert inside.position_ids.tolist()[6:] == [0, 1, 2]
    assert inside.lengths.tolist() == [3, 1, 2]
    outside = en.ConcatTokens(pad_to=12, padding="outside")(DOCS)
    assert outside.cu_seqlens.tolist() == [0, 3, 4, 6]
    assert (outside.tokens.shape, outside.position_ids.tolist()[6:], outside.max_seqlen) == ((12,), [0] * 6, 3)
    assert en.ConcatTokens(pad_to=20)(DOCS).max_seqlen == 14  # kernels need that of the padding too
    assert en.ConcatTokens(pad_to=6)(DOCS).cu_seqlens.tolist() == [0, 3, 4, 6]
    assert en.ConcatTokens(pad_to_multiple=4)(DOCS).tokens.shape == (8,)


def test_padding_of_labels_is_ignored_by_the_loss() -> None:
    docs = [{"tokens": torch.tensor([1, 2]), "labels": torch.tensor([2, 3]), "loss_mask": torch.tensor([1.0, 1.0])}]
    pack = en.ConcatTokens(pad_to=3)(docs)
    assert (pack.tokens[2], pack.fields["labels"][2], pack.fields["loss_mask"][2]) == (0, -100, 0)
    pack = en.ConcatTokens(pad_to=3, pad={"tokens": 7})(docs)
    assert (pack.tokens[2], pack.fields["labels"][2]) == (7, -100)


def test_separators_stand_behind_each_document_and_count() -> None:
    pack = en.ConcatTokens(separator=0)(DOCS)
    assert pack.tokens.tolist() == [5, 6, 7, 0, 8, 0, 9, 10, 0]
    assert pack.cu_seqlens.tolist() == [0, 4, 6, 9]
    docs = [{"tokens": torch.tensor([1]), "labels": torch.tensor([1])}]
    pack = en.ConcatTokens(separator={"tokens": 9, "labels": -100})(docs)
    assert (pack.tokens.tolist(), pack.fields["labels"].tolist()) == ([1, 9], [1, -100])
    with pytest.raises(en.SampleError, match="no separator for the field 'labels', only for 'tokens'"):
        en.ConcatTokens(separator={"tokens": 9})(docs)


def test_documents_may_be_empty() -> None:
    pack = en.concat_tokens([torch.tensor([], dtype=torch.int64), torch.tensor([1])])
    assert pack.cu_seqlens.tolist() == [0, 0, 1]
    assert en.concat_tokens([[], [1]]).tokens.tolist() == [1]


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ([torch.zeros(2, 2)], r"field 'tokens' of document 0 has shape \(2, 2\)"),
        ([torch.tensor([1]), torch.tensor([1.0])], "torch.int64 in document 0 and torch.float32 in document 1"),
        ([{"tokens": torch.zeros(2), "labels": torch.zeros(3)}], "field 'labels' of document 0 has shape"),
        ([{"ids": torch.zeros(2)}], "no field 'tokens', only 'ids'"),
        ([{"tokens": [1], "a": 1}, {"tokens": [1]}], "document 0 has .* and document 1 has"),
        ([["a", "b"]], "is a list that cannot become a tensor"),
        ([torch.zeros(30)], "a pack of 30 tokens is longer than pad_to=20"),
    ],
)
def test_what_does_not_go_together_is_named(docs: Any, message: str) -> None:
    with pytest.raises(en.SampleError, match=message):
        en.ConcatTokens(pad_to=20)(docs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad_to": 0}, "pad_to >= 1"),
        ({"pad_to": 2, "pad_to_multiple": 2}, "not both"),
        ({"padding": "left"}, "got 'left'"),
        ({"fields": "labels"}, "a list of fields"),
    ],
)
def test_settings_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        en.ConcatTokens(**options)


def test_a_batch_of_packs_stacks_them() -> None:
    combine = en.ConcatTokens(pad_to=8)
    packs = [combine([{"tokens": doc, "name": "x"} for doc in DOCS]), combine([{"tokens": DOCS[0], "name": "y"}])]
    batch = en.collate(packs)
    assert isinstance(batch, en.PackedTokens)
    assert batch.tokens.shape == batch.position_ids.shape == (2, 8)
    assert batch.cu_seqlens.tolist() == [[0, 3, 4, 6, 8], [0, 3, 8, 8, 8]]
    assert batch.lengths.tolist() == [[3, 1, 2], [3, 0, 0]]
    assert (batch.max_seqlen, batch.extra) == (5, {"name": [["x"] * 3, ["y"]]})
    with pytest.raises(en.SampleError, match=r"packs of 3 and of 6 tokens cannot be stacked.*PackedTokens.join"):
        en.collate([en.concat_tokens(DOCS), en.concat_tokens(DOCS[:1])])


def test_packs_can_be_joined_to_one() -> None:
    joined = en.PackedTokens.join([en.concat_tokens(DOCS), en.concat_tokens(DOCS[:2])])
    whole = en.concat_tokens([*DOCS, *DOCS[:2]])
    for name in ("tokens", "position_ids", "cu_seqlens", "lengths"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))
    with pytest.raises(en.SampleError, match="pack 0 has padding outside of its segments"):
        en.PackedTokens.join([en.ConcatTokens(pad_to=9, padding="outside")(DOCS)])
    with pytest.raises(en.SampleError, match="need the same fields"):
        en.PackedTokens.join([en.concat_tokens(DOCS), en.concat_tokens([{"tokens": DOCS[0], "a": 1}])])


def test_a_pack_can_stand_in_a_checkpoint() -> None:
    pack = en.concat_tokens(DOCS)
    again = decode_value(encode_value(pack))
    assert torch.equal(again.cu_seqlens, pack.cu_seqlens)
    assert type(again) is en.PackedTokens
