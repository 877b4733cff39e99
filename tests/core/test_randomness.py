"""Draws are functions of a key: the same on any machine, thread, and hash seed."""

from __future__ import annotations

import inspect
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from energon_nodes.core.randomness import BLOCK, Draws, ElementRandom, fold, global_seed

# Frozen: a change here changes every shuffled order and every augmentation of every user.
FOLDED = 0x9EEAF98EB96DE19D7685B3643479383
FIRST_WORDS = [1301670197, 362811687, 2413772874, 2271814874]
WORDS_OF_BLOCK_7 = [2658360189, 2947536069]
BELOW_10 = [3, 0, 5, 5, 2, 1, 2, 6, 4, 6, 2, 0]
SEED_OF_ELEMENT = 5640102832496357867


def test_fold_gives_the_frozen_value() -> None:
    assert fold(0, "shuffle", ((1,), 2), "ä") == FOLDED


def test_fold_gives_the_same_under_another_hash_seed() -> None:
    file = inspect.getsourcefile(fold)  # by itself, since importing the package takes seconds
    program = f"import runpy; print(runpy.run_path({file!r})['fold'](0, 'shuffle', ((1,), 2), '\xe4'))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    output = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert int(output.stdout) == FOLDED


def test_fold_tells_apart_what_is_nested_differently() -> None:
    assert len({fold(1, 2, 3), fold((1, 2), 3), fold(1, (2, 3)), fold("1", 2, 3), fold(12, 3)}) == 5


def test_draws_give_the_frozen_sequence() -> None:
    draws = Draws(1, "golden")
    assert draws.block(0)[:4].tolist() == FIRST_WORDS
    assert draws.block(7)[:2].tolist() == WORDS_OF_BLOCK_7
    assert [draws.below(10, count) for count in range(12)] == BELOW_10


def test_draws_are_the_same_in_any_order_of_access() -> None:
    counts = [0, 5 * BLOCK, 3, BLOCK - 1, BLOCK, 2 * BLOCK + 7]
    forwards = {count: Draws("x").word(count) for count in sorted(counts)}
    draws = Draws("x")
    assert {count: draws.word(count) for count in reversed(counts)} == forwards


def test_words_are_the_elements_of_the_blocks() -> None:
    draws = Draws("x")
    assert [draws.word(BLOCK + number) for number in range(9)] == Draws("x").block(1)[:9].tolist()


def test_draws_below_a_bound_are_uniform() -> None:
    draws, bound, count = Draws("uniform"), 7, 14_000
    seen = np.bincount([draws.below(bound, number) for number in range(count)], minlength=bound)
    expected = count / bound
    assert ((seen - expected) ** 2 / expected).sum() < 22.5  # chi-square, 6 degrees of freedom, p = 0.001


def test_draws_of_different_keys_differ() -> None:
    assert len({Draws(seed, "shuffle").word(0) for seed in range(100)}) == 100


def test_an_element_has_the_frozen_random_numbers() -> None:
    source = ElementRandom(0, ((), 0), "element")
    assert source.seed_at((0, 7)) == SEED_OF_ELEMENT
    assert source.at((0, 7)).random() == pytest.approx(0.9988796306307276, abs=0)


def test_a_generator_of_an_elements_own_draws_the_same_and_stays_valid() -> None:
    source = ElementRandom("x")
    expected = source.at((0, 1)).random(3).tolist()
    own = source.fresh((0, 1))
    source.at((0, 2)).random(5)
    assert own.random(3).tolist() == expected


def test_a_generator_starts_anew_for_each_element_however_much_was_drawn_before() -> None:
    source = ElementRandom("x")
    expected = source.at((0, 1)).integers(2**31, size=4).tolist()
    source.at((0, 0)).integers(2, size=3)  # leaves half a word behind
    assert source.at((0, 1)).integers(2**31, size=4).tolist() == expected


def test_threads_have_generators_of_their_own() -> None:
    source = ElementRandom("x")
    expected = [source.at((0, number)).random(1000).tolist() for number in range(4)]
    found: list[list[float]] = [[] for _ in range(4)]
    ready = threading.Barrier(4)

    def draw(number: int) -> None:
        generator = source.at((0, number))
        ready.wait(10)
        for _ in range(1000):
            found[number].append(generator.random())

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == expected


def draw_from_all() -> tuple[float, float, float]:
    return (float(torch.rand(1)), float(np.random.random()), random.random())


def test_the_global_generators_draw_the_same_behind_the_same_seed() -> None:
    with global_seed(3):
        first = draw_from_all()
    with global_seed(3):
        assert draw_from_all() == first
    with global_seed(4):
        assert draw_from_all() != first


def test_the_global_generators_go_on_after_the_block_as_if_it_had_not_been() -> None:
    with global_seed(1):
        expected = (draw_from_all(), draw_from_all())
    with global_seed(1):
        first = draw_from_all()
        with global_seed(9):
            draw_from_all()
        assert (first, draw_from_all()) == expected


def test_the_global_generators_are_put_back_after_an_exception() -> None:
    with global_seed(1):
        expected = draw_from_all()
    with global_seed(1):
        with pytest.raises(KeyError), global_seed(2):
            raise KeyError
        assert draw_from_all() == expected
