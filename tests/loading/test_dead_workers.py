"""Workers that are killed or crash, and outputs that do not come in time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

import energon_nodes as en
from tests.loading.pipelines import mixed, pid_of, round_trip

SECONDS = 20.0  # no error may take longer; most take much less


def workers_of(loader: Any) -> list[int]:
    """Return the processes that were started for a loader, oldest first."""
    del loader
    return sorted(process.pid for process in multiprocessing.active_children() if process.pid is not None)


def kill(pid: int) -> None:
    """Kill a process and wait for its end; torch may report it here already, as in any trainer's code."""
    process = next(child for child in multiprocessing.active_children() if child.pid == pid)
    try:
        os.kill(pid, signal.SIGKILL)
        process.join(SECONDS)
    except RuntimeError as error:
        if "killed by signal" not in str(error):
            raise
    while process.exitcode is None:
        process.join(SECONDS)


@pytest.fixture
def in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


def endless_pids() -> en.Node[Any]:
    return mixed(400).map(pid_of)


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("way", ["next", "for", "resume"])
def test_a_killed_worker_is_a_named_error_and_nothing_is_lost(way: str, persistent: bool) -> None:
    expected = list(mixed(400).loader(streams=2))
    with endless_pids().loader(num_workers=2, persistent_workers=persistent) as loader:
        iterator, got = iter(loader), []
        pids = {}
        for turn in range(10):
            value, pid = next(iterator)
            got.append(value)
            pids[turn % 2] = pid
        kill(pids[1])
        with pytest.raises(en.WorkerError, match=rf"worker 1 of the loader \(process {pids[1]}\) died of SIGKILL"):
            got.extend(value for value, _ in iterator)
        state = round_trip(loader.state_dict())
        if way == "next":
            got += [value for value, _ in iterator]
        elif way == "for":
            got += [value for value, _ in loader]
    if way == "resume":
        again = endless_pids().loader()
        again.load_state_dict(state)
        got += [value for value, _ in again]
    assert got == expected


@pytest.mark.usefixtures("in_time")
def test_a_worker_that_dies_before_its_first_output_is_a_named_error_each_time() -> None:
    with en.items(range(8)).map(die).loader(num_workers=2) as loader:
        iterator = iter(loader)
        for _ in range(2):
            with pytest.raises(en.WorkerError, match=r"worker \d of the loader .* died of SIGKILL"):
                next(iterator)
        assert loader.state_dict()["step"] == 0


def die(value: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


@pytest.mark.usefixtures("in_time")
def test_workers_killed_between_passes_are_replaced() -> None:
    reference = mixed().loader(streams=2)
    first, second, third = list(reference), list(reference), list(reference)
    with mixed().loader(num_workers=2) as loader:
        assert list(loader) == first
        kill(workers_of(loader)[0])
        assert list(loader) == second
        for pid in workers_of(loader):
            kill(pid)
        assert list(loader) == third


@pytest.mark.usefixtures("in_time")
def test_a_worker_killed_in_a_pass_that_is_then_left_does_not_disturb_the_next() -> None:
    reference = mixed().loader(streams=2)
    first, second = list(reference), list(reference)
    with mixed().loader(num_workers=2) as loader:
        assert next(iter(loader)) == first[0]
        kill(workers_of(loader)[1])
        assert list(loader) == second


@pytest.mark.usefixtures("in_time")
def test_a_worker_that_exits_says_its_exit_code() -> None:
    says = r"worker 0 of the loader \(process \d+\) ended with exit code 3"
    with en.items(range(8)).map(leave).loader(num_workers=1) as loader, pytest.raises(en.WorkerError, match=says):
        next(iter(loader))


def leave(value: int) -> int:
    os._exit(3)


@pytest.mark.usefixtures("in_time")
def test_an_interrupt_in_the_middle_of_a_call_loses_nothing() -> None:
    expected = list(mixed(200).loader(streams=2))
    with mixed(200).loader(num_workers=2) as loader:
        iterator, got = iter(loader), []
        previous = signal.signal(signal.SIGALRM, interrupt)
        try:
            interrupts = 0
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            while len(got) < len(expected):
                try:
                    got.append(next(iterator))
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts < 4:
                        signal.setitimer(signal.ITIMER_REAL, 0.05)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    assert interrupts
    assert got == expected


def interrupt(number: int, frame: Any) -> None:
    """Act as Ctrl-C does, but only inside a call of the loader, where an output can be under way."""
    while frame is not None:
        if frame.f_code.co_name == "_receive":
            raise KeyboardInterrupt
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, 0.002)


@pytest.mark.usefixtures("in_time")
def test_an_output_that_does_not_come_in_time_names_its_worker_and_can_be_waited_for() -> None:
    read, write = os.pipe()

    def wait_for_the_test(value: int) -> int:
        if value == 3:
            os.read(read, 1)
        return value

    try:
        with en.items(range(8)).map(wait_for_the_test).loader(num_workers=2, timeout=0.5) as loader:
            iterator = iter(loader)
            got = [next(iterator) for _ in range(3)]
            with pytest.raises(
                en.WorkerError, match=r"worker 1 of the loader gave no output within timeout=0.5 seconds"
            ):
                next(iterator)
            os.write(write, b"x")
            assert got + list(iterator) == list(range(8))
    finally:
        os.close(read)
        os.close(write)
