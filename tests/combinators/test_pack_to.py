"""`pack_to` makes packs of bounded length."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
import torch

import energon_nodes as en
from energon_nodes.testing import check_resume

LENGTHS = [5, 7, 3, 9, 1, 8, 2, 6, 4, 5, 3, 7, 2, 1, 6, 8]


def itself(value: int) -> int:
    return value


def flat(packs: Iterable[list[Any]]) -> list[Any]:
    return [member for pack in packs for member in pack]


def words(lengths: list[int] = LENGTHS) -> en.Node[str]:
    return en.items([chr(97 + number) * length for number, length in enumerate(lengths)])


@pytest.mark.parametrize("strategy", ["best_fit", "knapsack", "first_fit", "sequential"])
@pytest.mark.parametrize("buffer_size", [1, 5, 1000])
@pytest.mark.parametrize("most", [None, 2])
def test_packs_are_those_that_pack_lengths_chooses(strategy: Any, buffer_size: int, most: int | None) -> None:
    settings: dict[str, Any] = {"strategy": strategy, "max_per_pack": most, "buffer_size": buffer_size}
    packs = list(words().pack_to(10, length=len, **settings))
    texts = list(words())
    assert packs == [[texts[member] for member in pack] for pack in en.pack_lengths(LENGTHS, 10, **settings)]
    assert sorted(flat(packs)) == sorted(texts)
    assert all(sum(map(len, pack)) <= 10 for pack in packs)


def test_sequential_keeps_the_order_and_holds_no_more_than_a_pack() -> None:
    pulled: list[str] = []
    node = words().tap(pulled.append).pack_to(10, length=len, strategy="sequential")
    assert next(node) == ["aaaaa"]
    assert len(pulled) == 2
    assert ["aaaaa", *flat(node)] == list(words())


def test_a_source_that_ends_in_the_middle_of_a_buffer_is_packed_to_its_end() -> None:
    for count in range(len(LENGTHS)):
        packs = list(words(LENGTHS[:count]).pack_to(10, length=len, buffer_size=6))
        assert sorted(flat(packs)) == sorted(words(LENGTHS[:count]))


def test_the_length_can_be_that_of_a_field() -> None:
    class Doc(NamedTuple):
        text: str

    assert list(en.items([Doc("abc"), Doc("d")]).pack_to(4, length="text")) == [[Doc("abc"), Doc("d")]]
    assert len(list(en.items([{"text": "abc"}, {"text": "de"}]).pack_to(4, length="text"))) == 2


def test_an_element_that_is_too_long_is_an_error_that_says_what_to_do() -> None:
    node = en.items([4, 12, 5]).pack_to(10, length=itself)
    with pytest.raises(
        en.SampleError, match=r"an element of length 12 does not fit into a pack of capacity 10.*alone"
    ) as caught:
        next(node)
    assert caught.value.__notes__[1] == "restore key (0, 1)"
    assert list(node) == [[4, 5]]
    node = en.items([4, 12, 5]).pack_to(10, length=itself, on_error="skip")
    assert list(node) == [[4, 5]]
    assert node.failed == 1


@pytest.mark.parametrize("strategy", ["best_fit", "knapsack", "first_fit", "sequential"])
def test_an_element_that_is_too_long_can_be_alone(strategy: Any) -> None:
    packs = list(en.items([4, 12, 5, 11, 3]).pack_to(10, length=itself, oversize="alone", strategy=strategy))
    assert [12] in packs
    assert [11] in packs
    assert sorted(flat(packs)) == [3, 4, 5, 11, 12]


def test_an_element_that_is_too_long_can_be_shortened() -> None:
    node = words([4, 12, 5, 30]).pack_to(10, length=len, oversize=lambda text: text[:10])
    pairs = list(node.with_keys())
    assert sorted(len(text) for pack, _ in pairs for text in pack) == [4, 5, 10, 10]
    assert node.restore_many([key for _, key in pairs]) == [pack for pack, _ in pairs]


def test_a_function_that_does_not_shorten_enough_is_named() -> None:
    node = words([12, 3]).pack_to(10, length=len, oversize=lambda text: text[:11])
    with pytest.raises(en.SampleError, match="made a length of 11 out of 12"):
        next(node)
    assert list(node) == [["bbb"]]


@pytest.mark.parametrize(("length", "message"), [(-1, "at least 0, length gave -1"), (0.5, "lengths that are ints")])
def test_what_is_no_length_is_an_error_of_its_element(length: Any, message: str) -> None:
    node = en.items([1, 2]).pack_to(10, length=lambda value: length if value == 1 else value)
    with pytest.raises(en.SampleError, match=message):
        next(node)
    assert list(node) == [[2]]


def test_lengths_may_be_integers_of_any_library() -> None:
    assert list(en.items([3, 4]).pack_to(7, length=lambda value: torch.tensor(value))) == [[3, 4]]


def test_lengths_that_always_fail_end_the_stream() -> None:
    endless = en.items([12]).repeat().pack_to(10, length=itself, on_error="skip")
    with pytest.raises(en.FatalSampleError, match="101 elements in a row"):
        next(endless)


def test_three_in_a_pack_saved_in_the_middle_of_a_buffer_repeat_and_lose_nothing() -> None:
    def make() -> en.Node[Any]:
        return en.items(LENGTHS, shuffle=True).pack_to(20, length=itself, max_per_pack=3, buffer_size=10)

    check_resume(make)


def test_after_a_resume_nothing_is_measured_again_and_values_come_when_they_are_due() -> None:
    read: list[int] = []
    measured: list[int] = []

    class Store:
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, index: int) -> int:
            read.append(index)
            return index % 7 + 1

    def measure(value: int) -> int:
        measured.append(value)
        return value

    def make() -> Any:
        return en.items(Store()).pack_to(20, length=measure, buffer_size=600)

    node = make()
    next(node)
    state = node.state_dict()
    expected = [next(node) for _ in range(50)]
    read.clear()
    measured.clear()
    node = make()
    node.reset(state)
    got = [next(node)]
    assert len(read) < 100
    assert len(measured) < 20  # new ones alone
    assert got + [next(node) for _ in range(49)] == expected


def test_the_state_of_a_large_buffer_is_small() -> None:
    node = en.items(range(10_000)).pack_to(4000, length=lambda value: value % 300, buffer_size=5000)
    next(node)
    assert len(pickle.dumps(node.state_dict())) < 5 * 5000


def test_encode_runs_late_and_combine_gets_what_it_made() -> None:
    encoded: list[str] = []

    def encode(text: str) -> str:
        encoded.append(text)
        return text.upper()

    node = words().pack_to(10, length=len, encode=encode, combine="-".join)
    assert next(node) == "AAAAA-JJJJJ"
    assert encoded == ["aaaaa", "jjjjj"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity >= 1"),
        ({"buffer_size": 0}, "buffer_size >= 1"),
        ({"max_per_pack": 0}, "max_per_pack >= 1"),
        ({"strategy": "worst_fit"}, "needs a strategy of"),
        ({"oversize": "drop"}, 'oversize="error", "alone" or a function that shortens a value, got \'drop\''),
        ({"rng": True}, "rng=True without encode"),
    ],
)
def test_settings_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        en.items([1]).pack_to(**{"capacity": 10, "length": itself} | options)
    with pytest.raises(TypeError, match="callable length"):
        en.items([1]).pack_to(10, length=3)  # type: ignore[call-overload]


def test_another_capacity_or_strategy_is_refused_at_a_resume() -> None:
    state = words().pack_to(10, length=len).state_dict()
    with pytest.raises(en.StateError, match="capacity=10 where this pipeline has capacity=11"):
        words().pack_to(11, length=len).reset(state)
    with pytest.raises(en.StateError, match="strategy='best_fit'"):
        words().pack_to(10, length=len, strategy="knapsack").reset(state)


def test_packs_of_tokens_are_batched_in_a_loader() -> None:
    docs = en.items([{"tokens": torch.full((length,), length), "name": f"{length}"} for length in LENGTHS])
    node = docs.pack_to(10, length="tokens", combine=en.ConcatTokens(pad_to=10)).batch(2, collate=en.collate)
    batches = list(node.loader(num_workers=0))
    assert batches[0].tokens.shape == (2, 10)
    assert sum(int(batch.lengths.sum()) for batch in batches) == sum(LENGTHS)


def test_it_is_shown_as_it_is_written() -> None:
    node = en.items(["a", "b"]).pack_to(4, length=len)
    assert repr(node) == "PackTo(capacity=4, length=len)"
    other = en.items(["a", "b"]).pack_to(4, length="tokens")
    with pytest.raises(en.StateError, match=r"with length='text' where this pipeline has length='tokens'"):
        other.reset(en.items(["a", "b"]).pack_to(4, length="text").state_dict())
