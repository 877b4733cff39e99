"""`watchdog` tells when an element does not come, and where it hangs."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.combinators.hangs import Watch
from tests.contract import functions as f

SHORT = 0.05


class Gate:
    """A function that hangs at one value until it is told to go on."""

    def __init__(self, at: int) -> None:
        self.at, self.open = at, threading.Event()
        self.told: list[en.Hang] = []

    def fetch(self, value: int) -> int:
        if value == self.at:
            assert self.open.wait(20), "nobody was told of the hang"
        return value

    def tell(self, hang: en.Hang) -> None:
        self.told.append(hang)
        self.open.set()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("energon_nodes.")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    if threads():
        gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith(("energon_nodes.watchdog", "energon_nodes.own_thread")):
            thread.join(10)
    assert not [name for name in threads() if "watchdog" in name or "own_thread" in name]


def test_the_node_and_the_stack_are_told() -> None:
    gate = Gate(3)
    node = en.items(range(6)).map(gate.fetch).map(f.text).batch(2).watchdog(SHORT, on_timeout=gate.tell)
    assert list(node) == [["0", "1"], ["2", "3"], ["4", "5"]]
    hang = gate.told[0]
    assert (hang.node, hang.source) == ("Map(fn=Gate.fetch)", "Batch(size=2)")
    assert hang.seconds >= SHORT
    assert "self.open.wait(20)" in hang.stack
    assert "test_the_node_and_the_stack_are_told" not in hang.stack  # the frames of the consumer
    assert str(hang).startswith("no element from Batch(size=2) for 0.")


BEHIND: dict[str, Callable[[en.Node[int]], en.Node[Any]]] = {
    "prefetch": lambda node: node.prefetch(2).map(f.text),
    "prefetches": lambda node: node.prefetch(2).prefetch(2),
    "watchdog": lambda node: node.watchdog(60).batch(2),
}


@pytest.mark.parametrize("behind", BEHIND)
def test_a_hang_in_another_thread_is_found(behind: str) -> None:
    gate = Gate(2)
    node = BEHIND[behind](en.items(range(4)).map(gate.fetch)).watchdog(SHORT, on_timeout=gate.tell)
    assert len(list(node)) in (2, 4)
    assert gate.told[0].node == "Map(fn=Gate.fetch)"
    assert "self.open.wait(20)" in gate.told[0].stack


def test_a_hang_in_a_pool_shows_the_stack_of_its_thread() -> None:
    gate = Gate(2)
    node = en.items(range(4)).parallel_map(gate.fetch).watchdog(SHORT, on_timeout=gate.tell)
    assert list(node) == [0, 1, 2, 3]
    assert gate.told[0].node == "ParallelMap(fn=Gate.fetch)"
    assert "thread energon_nodes_" in gate.told[0].stack
    assert "self.open.wait(20)" in gate.told[0].stack


def test_a_warning_goes_to_the_log_and_a_line_when_the_element_has_come(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(1)

    class Opener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            gate.open.set()

    opener = Opener()
    logging.getLogger("energon_nodes").addHandler(opener)
    try:
        assert list(en.items(range(3)).map(gate.fetch).watchdog(SHORT)) == [0, 1, 2]
    finally:
        logging.getLogger("energon_nodes").removeHandler(opener)
    first, last = caplog.records
    assert first.levelname == last.levelname == "WARNING"
    assert first.getMessage().startswith("watchdog: no element from Map(fn=Gate.fetch) for 0.")
    assert "it hangs in Map(fn=Gate.fetch):\n  File " in first.getMessage()
    assert last.getMessage().startswith("the element from Map(fn=Gate.fetch) has come after 0.")


def test_reports_come_after_twice_the_time_and_so_on() -> None:
    watch = Watch("source", 10.0, print)
    assert watch.due(100.0) == 110.0  # the consumer has the element
    watch.since = 100.0
    assert [watch.due(now) for now in (100.0, 109.0, 110.0, 110.0, 120.0, 120.0, 139.0)] == [
        110.0,
        110.0,
        110.0,  # one report
        120.0,
        120.0,  # the second
        140.0,
        140.0,
    ]
    watch.since = 150.0
    assert watch.due(155.0) == 160.0


def test_the_time_that_the_consumer_has_the_element_does_not_count() -> None:
    told: list[en.Hang] = []
    for _ in en.items(range(2)).watchdog(SHORT, on_timeout=told.append):
        time.sleep(3 * SHORT)  # this is what takes long
    assert not told


def test_a_function_that_fails_ends_neither_the_watch_nor_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(1)

    def fail_first(hang: en.Hang) -> None:
        if hang.seconds > 1.5 * SHORT:
            gate.open.set()
        else:
            raise OSError("no mail server")

    assert list(en.items(range(3)).map(gate.fetch).watchdog(SHORT, on_timeout=fail_first)) == [0, 1, 2]
    assert "the function that was to be told of a hang has failed" in caplog.text


def test_the_thread_ends_with_the_pipeline() -> None:
    node = en.items(range(4)).watchdog(60)
    next(node)
    assert threads() == ["energon_nodes.watchdog"]
    list(node)
    assert not threads()
    node.reset(None)
    next(node)
    node.reset(None)
    assert not threads()
    next(node)
    del node
    gc.collect()
    assert not threads()


def test_one_thread_watches_for_all() -> None:
    nodes = [en.items(range(4)).watchdog(60 - n) for n in range(5)]
    assert [next(node) for node in nodes] == [0] * 5
    assert threads() == ["energon_nodes.watchdog"]


def test_an_error_passes_and_the_watch_goes_on() -> None:
    gate = Gate(3)
    node = en.items(["0", "x", "3"]).map(int).map(gate.fetch).watchdog(SHORT, on_timeout=gate.tell)
    assert next(node) == 0
    with pytest.raises(ValueError, match="invalid literal"):
        next(node)
    assert list(node) == [3]
    assert len(gate.told) >= 1


def test_raising_gives_the_consumer_an_error_and_the_element_at_the_next_call() -> None:
    gate = Gate(2)
    node = en.items(range(4)).map(gate.fetch).watchdog(SHORT, on_timeout="raise").map(f.text)
    assert [next(node), next(node)] == ["0", "1"]
    before = node.state_dict()
    with pytest.raises(en.WatchdogError, match=r"hangs in Map\(fn=Gate.fetch\)") as raised:
        next(node)
    assert "self.open.wait(20)" in str(raised.value)
    assert isinstance(raised.value, TimeoutError)
    with pytest.raises(en.WatchdogError, match="no state can be taken"):
        node.state_dict()
    with pytest.raises(en.WatchdogError, match="cannot be stopped, since it still hangs"):
        node.reset(before)
    gate.open.set()
    assert next(node) == "2"
    assert node.clone().reset(node.state_dict()) is None
    node.reset(before)
    assert list(node) == ["2", "3"]


def test_raising_passes_the_errors_of_the_source_on() -> None:
    node = en.items(["0", "x", "3"]).map(int).watchdog(60, on_timeout="raise")
    assert next(node) == 0
    with pytest.raises(ValueError, match="invalid literal"):
        next(node)
    assert list(node) == [3]


def test_raising_leaves_no_thread() -> None:
    node = en.items(range(4)).watchdog(60, on_timeout="raise")
    next(node)
    assert threads() == ["energon_nodes.own_thread"]
    list(node)
    assert not threads()
    node.reset(None)
    next(node)
    del node
    gc.collect()


def numbers_of(node: en.Node[int], connection: Any) -> None:
    connection.send(list(node.clone()))
    try:
        connection.send(next(node))
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.parametrize(("on_timeout", "says"), [("warn", 1), ("raise", "run a clone")])
def test_a_fork_while_a_pipeline_runs_takes_no_harm(on_timeout: Any, says: Any) -> None:
    node = en.items(range(4)).watchdog(60, on_timeout=on_timeout)
    next(node)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=numbers_of, args=(node, there), daemon=True)
    process.start()
    assert here.poll(20)
    assert here.recv() == [0, 1, 2, 3]
    assert here.poll(20)
    answer = here.recv()
    assert answer == says or says in answer
    process.join(20)
    assert process.exitcode == 0
    assert list(node) == [1, 2, 3]


def hang_at_three(value: int) -> int:
    if value == 3:
        threading.Event().wait()
    return value


def test_in_a_worker_the_error_comes_to_the_trainer() -> None:
    loader = en.items(range(6)).map(hang_at_three).watchdog(0.3, on_timeout="raise").loader(num_workers=1)
    outputs = iter(loader)
    assert [next(outputs) for _ in range(3)] == [0, 1, 2]
    state = loader.state_dict()
    with pytest.raises(en.WatchdogError, match=r"it hangs in Map\(fn=hang_at_three\)"):
        next(outputs)
    assert loader.state_dict()["step"] == state["step"]
    loader.close()


class Gates:
    """A function that hangs at some values, in whatever process, until each is let through."""

    def __init__(self, *at: int) -> None:
        context = multiprocessing.get_context("fork")
        self.open = {value: context.Event() for value in at}
        self.made = context.Value("q", 0)

    def fetch(self, value: int) -> int:
        if value in self.open:
            assert self.open[value].wait(30), "nobody has opened"
        with self.made.get_lock():
            self.made.value += 1
        return value

    def let_through_after(self, errors: int, outputs: Iterator[int]) -> list[int]:
        """Take all outputs; the value that is due is let through when it was said so often that it is late."""
        got: list[int] = []
        late = 0
        while True:
            try:
                got.append(next(outputs))
                late = 0
            except StopIteration:
                return got
            except en.WatchdogError:
                late += 1
                if late == errors:
                    self.open[len(got)].set()


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("errors", [1, 10])
def test_a_late_element_keeps_its_turn_among_the_streams_of_a_loader(workers: int, errors: int) -> None:
    gates = Gates(0, 3, 4)
    node = en.items(range(8)).map(gates.fetch).watchdog(0.03, on_timeout="raise")
    with node.loader(streams=2, num_workers=workers) as loader:
        assert gates.let_through_after(errors, iter(loader)) == list(range(8))
        assert list(loader) == list(range(8))  # all are open now


def test_a_worker_whose_last_element_is_late_ends_its_streams_in_order() -> None:
    gates = Gates(0, 6, 7)
    node = en.items(range(11)).map(gates.fetch).watchdog(0.03, on_timeout="raise")
    with node.loader(streams=3, num_workers=3) as loader:
        assert gates.let_through_after(3, iter(loader)) == list(range(11))


def test_the_other_workers_do_not_run_away_while_one_is_late() -> None:
    gates = Gates(0)
    node = en.items(range(400)).map(gates.fetch).watchdog(0.01, on_timeout="raise")
    with node.loader(num_workers=2) as loader:
        outputs = iter(loader)
        for _ in range(60):
            with pytest.raises(en.WatchdogError):
                next(outputs)
        assert 1 <= gates.made.value <= 4  # turns 1, 3, 5 and 7; without a bound there are some 60
        gates.open[0].set()
        assert gates.let_through_after(1000, outputs) == list(range(400))


def test_the_state_of_a_loader_with_workers_stays_that_of_the_last_output() -> None:
    gates = Gates(3)
    node = en.items(range(8)).map(gates.fetch).watchdog(0.03, on_timeout="raise")
    with node.loader(streams=2, num_workers=2) as loader:
        outputs = iter(loader)
        assert [next(outputs) for _ in range(3)] == [0, 1, 2]
        state = loader.state_dict()
        for _ in range(12):
            with pytest.raises(en.WatchdogError):
                next(outputs)
            assert loader.state_dict() == state
        gates.open[3].set()
        resumed = node.loader(streams=2)
        resumed.load_state_dict(state)
        assert list(resumed) == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), True, "60"])
def test_a_time_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match="watchdog needs seconds, a finite number > 0, got seconds="):
        en.items([1]).watchdog(seconds)


def test_another_answer_to_a_hang_is_refused() -> None:
    with pytest.raises(ValueError, match=r'watchdog needs on_timeout="warn", "raise" or a callable\(hang\), got .kill'):
        en.items([1]).watchdog(60, on_timeout="kill")  # type: ignore[arg-type]
