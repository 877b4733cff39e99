"""What happens to an element of a buffer that cannot be rebuilt after a resume."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

import energon_nodes as en


class Breakable:
    """A function that fails for chosen values once it is told to, and knows which it has seen."""

    def __init__(self, error: type[Exception] = ValueError) -> None:
        self.error = error
        self.bad: set[int] = set()
        self.seen: set[int] = set()

    def __call__(self, value: int) -> int:
        self.seen.add(value)
        if value in self.bad:
            raise self.error(f"{value} is broken")
        return value


BUFFERS: dict[str, Callable[[en.Node[int]], en.Node[Any]]] = {
    "shuffle": lambda source: source.shuffle(6),
    "shuffle of nested keys": lambda source: source.batch(1).shuffle(6).unbatch(),
    "shuffle at its end": lambda source: source.limit(8).shuffle(6),
    "parallel_map": lambda source: source.parallel_map(abs, workers=1, ahead=6),
    "prefetch": lambda source: source.prefetch(6),
}


def cut(name: str, error: type[Exception] = ValueError) -> tuple[Breakable, list[Any], dict[str, Any], set[int]]:
    """Take three elements; return the function, the elements, the state, and the values that are held in it."""
    function = Breakable(error)
    node = BUFFERS[name](en.items(range(20)).map(function))
    taken = [next(node) for _ in range(3)]
    while isinstance(node, en.Prefetch) and len(node.ahead) < 6:  # its thread fills it
        time.sleep(0.001)
    state = node.state_dict()
    node.stop()
    return function, taken, state, function.seen - set(taken)


def resumed(name: str, function: Breakable, state: dict[str, Any], **options: Any) -> en.Node[Any]:
    node = BUFFERS[name](en.items(range(20)).map(function))
    node.bind(en.Context(**options))
    node.reset(state)
    return node


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("error", [ValueError, en.SkipSample, StopIteration])
def test_it_raises_and_names_node_key_and_cause(name: str, error: type[Exception]) -> None:
    function, _, state, held = cut(name, error)
    function.bad = held
    node = resumed(name, function, state)
    with pytest.raises(
        en.RestoreError, match=r"could not be rebuilt\s+after a resume: .*pure=False.*_error="
    ) as caught:
        next(node)
    assert isinstance(caught.value.cause, error)
    assert caught.value.key
    assert caught.value.node.partition("(")[0] in {"Shuffle", "ParallelMap", "FlatMap", "Prefetch"}


@pytest.mark.parametrize("name", BUFFERS)
def test_the_next_call_tries_again(name: str) -> None:
    function, taken, state, held = cut(name)
    expected = list(resumed(name, function, state))
    node = resumed(name, function, state)
    function.bad = held
    for _ in range(2):
        with pytest.raises(en.RestoreError):
            next(node)
    function.bad = set()
    assert list(node) == expected
    assert len(taken + expected) == (8 if "end" in name else 20)


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("error", [ValueError, en.SkipSample, StopIteration])
def test_skip_drops_what_is_broken_and_counts_it(name: str, error: type[Exception]) -> None:
    function, taken, state, held = cut(name, error)
    expected = list(resumed(name, function, state))
    broken = set(list(expected)[:4:3]) & held
    assert broken
    function.bad = broken
    node = resumed(name, function, state, on_restore_error="skip")
    assert sorted(taken + list(node)) == sorted(set(taken + expected) - broken)
    assert total_failed(node) == len(broken)


def total_failed(node: en.Node[Any]) -> int:
    return node.failed + sum(total_failed(source) for source in node.sources_of())


def test_a_shuffle_without_the_dropped_elements_delivers_all_others_once() -> None:
    function = Breakable()
    node = en.items(range(200)).map(function).shuffle(100)
    first = [next(node) for _ in range(30)]
    state = node.state_dict()
    held = set(range(130)) - set(first)
    function.bad = set(sorted(held)[::3])
    again = en.items(range(200)).map(function).shuffle(100)
    again.bind(en.Context(on_restore_error="skip"))
    again.reset(state)
    rest = list(again)
    assert sorted(first + rest) == sorted(set(range(200)) - function.bad)
    assert again.failed == len(function.bad)


def test_dropped_elements_are_counted_once_over_a_second_resume() -> None:
    function = Breakable()
    node = en.items(range(200)).map(function).shuffle(100)
    first = [next(node) for _ in range(30)]
    state = node.state_dict()
    function.bad = set(sorted(set(range(130)) - set(first))[::3])
    for _ in range(4):
        node = en.items(range(200)).map(function).shuffle(100)
        node.bind(en.Context(on_restore_error="skip"))
        node.reset(state)
        first += [next(node) for _ in range(20)]
        state = node.state_dict()
    rest = list(node)
    assert sorted(first + rest) == sorted(set(range(200)) - function.bad)
    assert node.failed == len(function.bad)


def test_a_batch_is_filled_up_where_a_member_was_dropped() -> None:
    function = Breakable()
    bad_once = Breakable()
    bad_once.bad = {3}
    node = en.items(range(6)).map(function).map(bad_once).batch(5)
    with pytest.raises(ValueError, match="3 is broken"):  # 0, 1 and 2 are held now
        next(node)
    state = node.state_dict()
    function.bad = {1}
    again = en.items(range(6)).map(function).map(bad_once).batch(5)
    again.bind(en.Context(on_restore_error="skip"))
    again.reset(state)
    assert list(again) == [[0, 2, 4, 5]]
    assert again.failed == 1


def test_a_row_of_zip_keeps_its_sides_apart() -> None:
    left, right, last = Breakable(), Breakable(), Breakable()
    last.bad = {0}

    def make() -> en.Node[Any]:
        return en.zip(*(en.items(range(4)).map(function) for function in (left, right, last)))

    node = make()
    with pytest.raises(ValueError, match="0 is broken"):
        next(node)
    state = node.state_dict()
    left.bad = {0}
    again = make()
    again.bind(en.Context(on_restore_error="skip"))
    again.reset(state)
    assert list(again) == [(1, 0, 1), (2, 1, 2), (3, 2, 3)]


def test_a_parent_of_flat_map_that_is_dropped_takes_its_position_with_it() -> None:
    function = Breakable()
    node = en.items(range(4)).map(function).flat_map(lambda value: [value] * 3)
    assert [next(node), next(node)] == [0, 0]
    state = node.state_dict()
    function.bad = {0}
    again = en.items(range(4)).map(function).flat_map(lambda value: [value] * 3)
    again.bind(en.Context(on_restore_error="skip"))
    again.reset(state)
    assert list(again) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert again.failed == 1


def test_a_function_sees_error_and_key_and_decides() -> None:
    function, seen = Breakable(), list[Any]()
    node = en.items(range(9)).map(function).shuffle(9)
    next(node)
    state = node.state_dict()
    function.bad = {2, 5}
    again = en.items(range(9)).map(function).shuffle(9)
    again.bind(en.Context(on_restore_error=lambda error, key: seen.append((type(error), key))))
    again.reset(state)
    list(again)
    assert set(seen) <= {(en.RestoreError, (0, 2)), (en.RestoreError, (0, 5))}
    assert seen


def test_fatal_errors_and_missing_random_access_are_never_skipped() -> None:
    function = Breakable(en.FatalSampleError)
    node = en.items(range(9)).map(function).shuffle(9)
    next(node)
    state = node.state_dict()
    function.bad = set(range(9))
    again = en.items(range(9)).map(function).shuffle(9)
    again.bind(en.Context(on_restore_error="skip"))
    again.reset(state)
    with pytest.raises(en.FatalSampleError, match="is broken"):
        next(again)


def test_an_error_that_does_not_happen_again_does_no_harm() -> None:
    function = Breakable()
    node = en.items(range(30)).map(function).shuffle(10)
    next(node)
    state, rest = node.state_dict(), list(node)
    flaky = iter([True])

    def fail_once(value: int) -> int:
        if next(flaky, False):
            raise OSError("the network is down")
        return value

    again = en.items(range(30)).map(fail_once).shuffle(10)
    again.reset(state)
    assert list(again) == rest


def test_a_shuffle_that_fails_to_rebuild_loses_nothing_of_its_source() -> None:
    function = Breakable()
    node = en.items(range(400)).map(function).shuffle(200)
    taken = [next(node) for _ in range(30)]
    state, held, rest = node.state_dict(), function.seen - set(taken), list(node)
    again = en.items(range(400)).map(function).shuffle(200)
    again.reset(state)
    found: list[int] = []
    for _ in range(400):  # one try with an error, one without
        for function.bad in (held, set[int]()):
            try:
                found.append(next(again))
            except en.RestoreError:
                pass
            except StopIteration:
                break
    assert found == rest


def test_restore_names_nothing_of_a_run_that_was_not_begun() -> None:
    pipeline = en.items([1, 2, 3]).map(str).parallel_map(str, workers=1).batch(2)
    assert pipeline.restore(((0, 2), (0, 0))) == ["3", "1"]


def test_a_restore_error_can_be_sent_to_another_process() -> None:
    error = en.RestoreError("message", node="Map()", key=(0, 1))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.node, again.key) == ("message", "Map()", (0, 1))


def skip(value: int) -> int:
    raise en.SkipSample


def refuse(value: int) -> int:
    raise ValueError(f"{value} is broken")


def test_an_error_of_restore_names_node_and_key() -> None:
    with pytest.raises(ValueError, match="1 is broken") as raised:
        en.items([1]).map(refuse).restore((0, 0))
    assert raised.value.__notes__ == ["while the element with restore key (0, 0) of Map(fn=refuse) was restored"]


def test_a_skipped_sample_cannot_be_restored() -> None:
    with pytest.raises(en.SkipSample, match="a function skips this sample, so the stream has no such element"):
        en.items([1]).map(skip).restore((0, 0))
