"""`parallel_map` applies a function in threads or processes, ahead of the consumer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import energon_nodes as en
from energon_nodes.combinators import pools
from energon_nodes.combinators.pools import drop_pool, pool

LONG = 30  # seconds that nothing takes unless it hangs


@pytest.fixture(autouse=True)
def _end_the_pools() -> Iterator[None]:
    """Let no test find the processes of another one."""
    yield
    for executor in list(pools._pools.values()):
        drop_pool(executor)


def draw(value: int, rng: np.random.Generator) -> tuple[int, float]:
    return value, float(rng.random())


def negative(value: int) -> int:
    return -value


def process_of(value: int) -> int:
    return os.getpid()


def fail_at_three(value: int) -> int:
    if value == 3:
        raise ValueError("three")
    return value


class Awkward(Exception):
    """An error that cannot be built again from its pickle."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"awkward {first} {second}")


def raise_awkward(value: int) -> int:
    raise Awkward(value, 2)


def skip_odd(value: int) -> int:
    if value % 2:
        raise en.SkipSample
    return value


def die_at_three(value: int) -> int:
    if value == 3 and not os.environ.get("ENERGON_NODES_TEST_SPARE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def lock(value: int) -> Any:
    return threading.Lock() if value == 1 else value


# ---- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["thread", "process"])
def test_results_come_in_the_order_of_the_source(method: Any) -> None:
    node = en.items(range(20)).parallel_map(negative, workers=2, method=method, mp_context="fork")
    assert list(node) == [-value for value in range(20)]
    assert list(node) == [-value for value in range(20)]
    assert len(node) == 20


def test_results_come_in_order_however_uneven_they_are_ready() -> None:
    ready = [threading.Event() for _ in range(8)]

    def wait(value: int) -> int:
        assert ready[value].wait(LONG)
        if value:
            ready[value - 1].set()  # later ones end first
        return value

    ready[3].set()
    ready[7].set()
    assert list(en.items(range(8)).parallel_map(wait, workers=4, ahead=4)) == list(range(8))


def test_out_of_order_gives_what_is_ready_first() -> None:
    ready = [threading.Event() for _ in range(4)]

    def wait(value: int) -> int:
        assert ready[value].wait(LONG)
        return value

    node = en.items(range(4)).parallel_map(wait, workers=4, ahead=4, in_order=False)
    taken: list[int] = []
    for number in (2, 0, 3, 1):
        ready[number].set()
        taken.append(next(node))
    assert taken == [2, 0, 3, 1]


def test_out_of_order_every_element_comes_once_across_a_state() -> None:
    ready = [threading.Event() for _ in range(12)]

    def wait(value: int) -> int:
        assert ready[value].wait(LONG)
        return value

    def make() -> en.Node[int]:
        return en.items(range(12)).parallel_map(wait, workers=4, ahead=6, in_order=False)

    node = make()
    taken = []
    for number in (3, 1, 2):
        ready[number].set()
        taken.append(next(node))
    state = node.state_dict()
    for event in ready:
        event.set()
    again = make()
    again.reset(state)
    assert sorted(taken + list(again)) == list(range(12))
    assert sorted(taken + list(node)) == list(range(12))


def test_the_next_elements_are_worked_on_while_one_waits() -> None:
    started = [threading.Event() for _ in range(6)]
    go = threading.Event()

    def work(value: int) -> int:
        started[value].set()
        assert value or go.wait(LONG)
        return value

    node = en.items(range(6)).parallel_map(work, workers=2, ahead=4)
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.append(next(node)))
    thread.start()
    for value in range(4):
        assert started[value].wait(LONG)
    assert not started[4].is_set()
    go.set()
    thread.join(LONG)
    assert taken == [0]
    assert list(node) == [1, 2, 3, 4, 5]


# ---- random numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["thread", "process"])
def test_draws_are_those_of_map(method: Any) -> None:
    expected = list(en.items(range(9)).map(draw, rng=True))
    assert list(en.items(range(9)).parallel_map(draw, rng=True, method=method, mp_context="fork")) == expected


def test_global_generators_work_in_processes() -> None:
    def make(verb: str, **options: Any) -> Any:
        return list(getattr(en.items(range(6)), verb)(draw_globally, rng="global", **options))

    assert make("parallel_map", method="process", mp_context="fork") == make("map")


def draw_globally(value: int) -> float:
    return float(np.random.random())


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["thread", "process"])
def test_an_error_names_the_element_and_the_stream_goes_on(method: Any) -> None:
    node = en.items(range(6)).parallel_map(fail_at_three, method=method, mp_context="fork")
    assert [next(node) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three") as caught:
        next(node)
    assert "restore key (0, 3)" in caught.value.__notes__
    assert list(node) == [4, 5]


@pytest.mark.parametrize("method", ["thread", "process"])
def test_errors_are_skipped_and_counted(method: Any) -> None:
    node = en.items(range(6)).parallel_map(fail_at_three, method=method, mp_context="fork", on_error="skip")
    assert list(node) == [0, 1, 2, 4, 5]
    assert node.failed == 1
    node = en.items(range(6)).parallel_map(skip_odd, method=method, mp_context="fork")
    assert list(node) == [0, 2, 4]
    assert node.skipped == 3


def test_an_error_that_cannot_be_sent_is_reported_as_text() -> None:
    node = en.items([1]).parallel_map(raise_awkward, method="process", mp_context="fork")
    with pytest.raises(en.SampleError, match="Awkward: awkward 1 2"):
        next(node)


def test_a_result_that_cannot_be_sent_is_an_error_of_its_element() -> None:
    node = en.items(range(3)).parallel_map(lock, method="process", mp_context="fork")
    assert next(node) == 0
    with pytest.raises(TypeError, match="pickle"):
        next(node)
    assert next(node) == 2


def test_a_process_that_is_killed_is_a_named_error_within_seconds_and_the_next_call_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = en.items(range(8)).parallel_map(die_at_three, workers=2, method="process", mp_context="fork", ahead=3)
    begin = time.monotonic()
    taken: list[int] = []
    with pytest.raises(en.WorkerError, match=r"a worker process of ParallelMap\(fn=die_at_three.*died \(killed"):
        taken.extend(node)
    while len(taken) < 8:
        try:
            taken.append(next(node))
        except en.WorkerError:  # the same element again
            monkeypatch.setenv("ENERGON_NODES_TEST_SPARE", "1")
    assert taken == list(range(8))
    assert time.monotonic() - begin < LONG


def test_another_stream_on_the_pool_of_a_killed_process_goes_on_too() -> None:
    killer = en.items([3]).parallel_map(die_at_three, workers=2, method="process", mp_context="fork")
    other = en.items(range(30)).parallel_map(process_of, workers=2, method="process", mp_context="fork")
    first = next(other)
    with pytest.raises(en.WorkerError):
        next(killer)
    count, errors = 0, 0
    while count < 29:
        try:
            assert next(other) != os.getpid()
            count += 1
        except en.WorkerError:
            errors += 1
            assert errors < 5
    assert first != os.getpid()


# ---- settings --------------------------------------------------------------------------------


def test_mistakes_are_refused_at_construction() -> None:
    source = en.items(range(3))
    for options, message in [
        ({"workers": 0}, "parallel_map needs an int workers >= 1, got workers=0"),
        ({"ahead": 0}, "parallel_map needs an int ahead >= 1, got ahead=0"),
        ({"method": "fork"}, 'parallel_map needs method="thread" or "process", got \'fork\''),
        ({"rng": "global"}, r'parallel_map\(rng="global"\) needs method="process": threads share'),
    ]:
        with pytest.raises(ValueError, match=message):
            source.parallel_map(negative, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="parallel_map needs a callable fn"):
        source.parallel_map(3)  # type: ignore[call-overload]


def test_a_function_that_processes_cannot_get_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match=r"needs a function that can be pickled, got <function .*top of a module"):
        en.items([1]).parallel_map(lambda x: x, method="process")
    with pytest.raises(ValueError, match="can be pickled"):
        en.items([1]).parallel_map(threading.Lock().acquire, method="process")


class Stateful:
    def __call__(self, value: int) -> int:
        return value

    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None: ...


def test_a_function_with_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot call .* in parallel: it has a state; use map"):
        en.items([1]).parallel_map(Stateful())


def test_processes_inside_the_workers_of_a_loader_are_refused() -> None:
    node = en.items(range(4)).parallel_map(negative, method="process").batch(2)
    with pytest.raises(ValueError, match=r'method="process"\) cannot run in the workers of a loader.*method="thread"'):
        node.loader(num_workers=1)
    assert list(en.items(range(4)).parallel_map(negative).loader(num_workers=1)) == [0, -1, -2, -3]


def test_nodes_with_the_same_settings_share_a_pool() -> None:
    assert pool("thread", 3, None) is pool("thread", 3, None)
    assert pool("thread", 3, None) is not pool("thread", 2, None)


def test_dropping_a_pool_leaves_its_successor_alone() -> None:
    old = pool("thread", 5, None)
    drop_pool(old)
    new = pool("thread", 5, None)
    drop_pool(old)
    assert pool("thread", 5, None) is new


def test_many_elements_are_rebuilt_in_parallel_and_in_order() -> None:
    names: set[str] = set()

    def name(value: int) -> int:
        names.add(threading.current_thread().name)
        return -value

    node = en.items(range(40)).parallel_map(name, workers=2)
    assert node.restore_many([(0, number) for number in reversed(range(40))]) == [
        -number for number in reversed(range(40))
    ]
    assert all("energon_nodes" in found for found in names)
