"""What order means: verbs change the data by where they stand, and nothing else changes it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes import testing
from tests.contract import functions as f


def chunks(values: list[Any], size: int) -> list[list[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def test_shuffle_then_repeat_drains_each_pass_before_the_next_begins() -> None:
    passes = chunks(list(en.items(range(20)).shuffle(8).repeat(3)), 20)
    assert [sorted(one) for one in passes] == [list(range(20))] * 3
    assert passes[0] != passes[1] != passes[2]


def test_repeat_then_shuffle_mixes_neighbouring_passes() -> None:
    values = list(en.items(range(20)).repeat(3).shuffle(8))
    assert Counter(values) == Counter(list(range(20)) * 3)
    assert any(sorted(one) != list(range(20)) for one in chunks(values, 20))


def test_limit_then_repeat_takes_a_new_hundred_of_a_shuffled_source_in_each_pass() -> None:
    passes = chunks(list(en.items(range(1000), shuffle=True).limit(100).repeat(3)), 100)
    assert all(len(set(one)) == 100 for one in passes)
    assert len(set(passes[0]) & set(passes[1])) < 30
    assert len(set(passes[1]) & set(passes[2])) < 30


def test_limit_then_repeat_takes_a_new_hundred_under_any_number_of_streams() -> None:
    def make() -> en.Node[int]:
        return en.items(range(1000), shuffle=True).limit(100).repeat(2)

    alone = list(make())
    for streams in (2, 3, 7):
        elements = [value for _, value in testing.interleave(make, streams)[0]]
        assert Counter(elements) == Counter(alone)


def test_subset_of_the_source_is_the_same_in_each_pass_in_another_order() -> None:
    passes = chunks([f.number_of(sample) for sample in en.shards(f.tars(), shuffle=True, subset=(5, 15)).repeat(2)], 10)
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(5, 15))
    passes = chunks(list(en.items(range(100), shuffle=True).repeat(2)), 100)
    assert sorted(passes[0]) == sorted(passes[1])
    assert passes[0] != passes[1]


def test_repeat_then_limit_is_one_pass_of_that_many_elements() -> None:
    assert list(en.items("abc").repeat().limit(7)) == list("abcabca")
    assert len(en.items("abc").repeat().limit(7)) == 7


def test_epochize_goes_on_where_the_last_epoch_stopped() -> None:
    epochs = en.items("abcde", shuffle=True).repeat().epochize(4)
    values = [value for _ in range(5) for value in epochs]
    assert [sorted(one) for one in chunks(values, 5)] == [list("abcde")] * 4


def test_limit_begins_anew_in_each_pass() -> None:
    passes = en.items("abcde").limit(2)
    assert [list(passes) for _ in range(3)] == [["a", "b"]] * 3


def test_filter_before_batch_gives_full_batches_and_after_it_whole_ones() -> None:
    assert list(en.items(range(8)).filter(f.odd).batch(2)) == [[1, 3], [5, 7]]
    assert list(en.items(range(8)).batch(2).filter(lambda batch: 3 not in batch)) == [[0, 1], [4, 5], [6, 7]]


def test_fixed_epoch_repeats_order_and_draws() -> None:
    fixed = en.items(range(20), shuffle=True, fixed_epoch=True).map(f.jitter, rng=True).shuffle(5)
    assert list(fixed) == list(fixed)
    free = en.items(range(20), shuffle=True).map(f.jitter, rng=True).shuffle(5)
    assert list(free) != list(free)


def test_seed_of_the_run_changes_order_and_draws_and_a_nodes_own_seed_beats_it() -> None:
    def order(seed: int, own: int | None = None) -> list[Any]:
        pipeline = en.items(range(20), shuffle=True, seed=own).map(f.jitter, rng=True, seed=own).shuffle(5, seed=own)
        return list(pipeline.loader(seed=seed))

    assert order(1) == order(1) != order(2)
    assert order(1, own=5) == order(2, own=5) != order(1)


def test_element_is_augmented_in_the_same_way_under_any_number_of_streams() -> None:
    def make() -> en.Node[Any]:
        return en.items(range(20), shuffle=True).map(f.jitter, rng=True).shuffle(5)

    alone = dict(make())
    for streams in (2, 3, 6):
        assert dict(value for _, value in testing.interleave(make, streams)[0]) == alone


def test_element_is_augmented_anew_in_each_pass() -> None:
    pipeline = en.items(range(20)).map(f.jitter, rng=True)
    first, second = dict(pipeline), dict(pipeline)
    assert all(first[number] != second[number] for number in range(20))


def test_two_random_nodes_draw_independently() -> None:
    pairs = list(en.items([0] * 50).map(f.jitter, rng=True).map(f.jitter, rng=True))
    assert all(first != second for (_, first), second in pairs)


def test_branches_draw_independently_also_where_they_are_the_same_pipeline() -> None:
    one = en.items(range(20), shuffle=True)
    left, right = zip(*en.zip(one, one), strict=True)
    assert sorted(left) == sorted(right)
    assert left != right


def test_counts_are_global_under_any_number_of_streams() -> None:
    testing.check_counts(lambda: en.items(range(60)).limit(25), total=25)
    testing.check_counts(lambda: en.items(range(60)).skip(25), total=35)
    testing.check_counts(lambda: en.items(range(9)).repeat(1.5), total=13, streams=(1, 2, 3, 4))
    testing.check_counts(lambda: en.items(range(60)).repeat().epochize(25), total=25, passes=4)
    testing.check_counts(lambda: en.items(range(60)).batch(2).limit(7), total=7)
    testing.check_counts(lambda: en.items(range(60)).skip(10).limit(20).repeat(2), total=40)


def test_repetitions_of_one_and_a_half_give_every_sample_once_or_twice() -> None:
    counts = Counter(value for _, value in testing.interleave(lambda: en.items(range(9)).repeat(1.5), 3)[0])
    assert sum(counts.values()) == 13
    assert set(counts) == set(range(9))
    assert set(counts.values()) == {1, 2}


@pytest.mark.parametrize("streams", [2, 3, 4, 6])
def test_loader_gives_the_elements_of_unshuffled_items_in_their_order(streams: int) -> None:
    assert list(en.items(range(25)).loader(streams=streams)) == list(range(25))
    assert list(en.items(range(25)).map(f.double).limit(10).loader(streams=streams)) == list(range(0, 20, 2))
