"""`prefetch` runs its source in a thread, and ends that thread."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import energon_nodes as en

LONG = 30  # seconds that nothing takes unless it hangs


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "energon_nodes.prefetch"]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_elements_come_in_their_order() -> None:
    node = en.items(range(50)).prefetch(3)
    assert [list(node), list(node)] == [list(range(50))] * 2
    assert len(node) == 50


def test_the_source_is_pulled_ahead_and_no_further() -> None:
    pulled: list[int] = []
    node = en.items(range(50)).tap(pulled.append).prefetch(3)
    assert next(node) == 0
    wait_until(lambda: len(pulled) == 4)
    time.sleep(0.01)
    assert pulled == [0, 1, 2, 3]
    node.stop()


def test_nothing_is_pulled_before_the_first_call() -> None:
    pulled: list[int] = []
    node = en.items(range(50)).tap(pulled.append).prefetch(3)
    node.state_dict()
    assert pulled == []
    assert threads() == []


def test_an_error_comes_behind_the_elements_before_it_and_the_stream_goes_on() -> None:
    def fail(value: int) -> int:
        if value == 2:
            raise ValueError("two")
        return value

    node = en.items(range(5)).map(fail).prefetch(4)
    assert [next(node), next(node)] == [0, 1]
    with pytest.raises(ValueError, match="two") as caught:
        next(node)
    assert "restore key (0, 2)" in caught.value.__notes__
    assert list(node) == [3, 4]


def test_an_element_that_is_being_pulled_is_in_the_state() -> None:
    inside, go = threading.Event(), threading.Event()

    def slow(value: int) -> int:
        if value == 1:
            inside.set()
            assert go.wait(LONG)
        return value

    node = en.items(range(4)).map(slow).prefetch(2)
    assert next(node) == 0
    assert inside.wait(LONG)
    states: list[Any] = []
    thread = threading.Thread(target=lambda: states.append(node.state_dict()))
    thread.start()
    go.set()
    thread.join(LONG)
    again = en.items(range(4)).map(slow).prefetch(2)
    again.reset(states[0])
    assert list(again) == list(node) == [1, 2, 3]


def test_threads_end_with_the_pass() -> None:
    assert list(en.items(range(9)).prefetch(2).prefetch(3)) == list(range(9))
    wait_until(lambda: threads() == [])


def test_threads_end_when_the_pipeline_is_stopped_reset_or_dropped() -> None:
    node = en.items(range(1000)).prefetch(2).map(str).prefetch(2)
    next(node)
    assert len(threads()) == 2
    node.stop()
    assert threads() == []
    next(node)
    node.reset()
    assert threads() == []
    next(node)
    assert len(threads()) == 2
    seen = weakref.ref(node)
    del node
    gc.collect()
    assert seen() is None
    wait_until(lambda: gc.collect() >= 0 and threads() == [])  # the inner one is free when the outer thread has ended


def test_stopping_loses_nothing() -> None:
    node = en.items(range(100)).prefetch(3)
    taken: list[int] = []
    for _ in range(20):
        taken += [next(node), next(node)]
        node.stop()
    assert taken + list(node) == list(range(100))


def test_finalizers_do_not_gather_over_passes() -> None:
    node = en.items(range(3)).prefetch(1)
    for _ in range(20):
        list(node)
    found = [item for item in gc.get_objects() if type(item).__name__ == "_Filler"]
    assert len(found) <= 2


BEGIN = "import threading, energon_nodes as en\nnode = en.items(range(10**6))"
PROGRAMS = [  # the rest of each, and its exit status
    (".prefetch(2)\nprint(next(node))", 0),
    (".parallel_map(str, workers=2).prefetch(2)\nprint(next(node))", 0),
    (
        ".map(lambda x: x if x < 2 else threading.Event().wait()).prefetch(2)\nprint(next(node))",
        0,
    ),  # it hangs in a pull
    (".prefetch(2)\nfor x in node:\n    print(x)\n    raise SystemExit(3)", 3),
]


def test_the_end_of_the_program_ends_the_thread_quietly() -> None:
    settings: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", BEGIN + rest], **settings) for rest, _ in PROGRAMS]
    for process, (rest, status) in zip(running, PROGRAMS, strict=True):
        output, errors = process.communicate(timeout=2 * LONG)
        assert (process.returncode, output.strip(), errors) == (status, "0", ""), rest


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded, use of fork:DeprecationWarning")
def test_a_running_pipeline_that_was_carried_over_a_fork_says_so_and_does_not_hang() -> None:
    node = en.items(range(100)).prefetch(2)
    next(node)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - measured in the parent only
        try:
            next(node)
        except RuntimeError as error:
            found = str(error)
        else:
            found = "no error"
        fresh = node.clone()
        found += f" {next(fresh)} {node.state_dict()['format']}"
        node.stop()
        os.write(writer, found.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    os.waitpid(child, 0)
    assert found == "a pipeline with prefetch was running when this process was forked: run a clone() of it here 0 1"
    node.stop()


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_what_is_no_count_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=rf"prefetch needs an int n >= 1, got n={n!r}"):
        en.items([1]).prefetch(n)
