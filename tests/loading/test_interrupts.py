"""Interrupts and exits in user functions: nothing is lost in a state that is taken then, and nothing hangs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import energon_nodes as en


class Interrupting:
    """Pass values on; raise once, at the first value that is 17 or holds it."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error

    def __call__(self, value: Any) -> Any:
        if self.error is not None and (17 in value if isinstance(value, list) else value == 17):
            error, self.error = self.error, None
            raise error
        return value


BUILDS: dict[str, Callable[[Any], en.Node[Any]]] = {
    "map": lambda fn: en.items(range(1, 40)).map(fn).batch(4),
    "filter": lambda fn: en.items(range(1, 40)).filter(fn).batch(4),
    "tap": lambda fn: en.items(range(1, 40)).tap(fn).batch(4),
    "flat_map": lambda fn: en.items(range(1, 40)).flat_map(lambda value: [fn(value)]).batch(4),
    "batch": lambda fn: en.items(range(1, 40)).batch(4, collate=fn),
    "prefetch": lambda fn: en.items(range(1, 40)).map(fn).prefetch(3).batch(4),
    "parallel_map": lambda fn: en.items(range(1, 40)).parallel_map(fn).batch(4),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", BUILDS)
def test_a_state_taken_after_an_interrupt_lacks_nothing(verb: str, error: BaseException) -> None:
    build = BUILDS[verb]
    loader = build(Interrupting(error)).loader()
    seen: list[Any] = []
    with pytest.raises(type(error)):
        seen.extend(loader)  # what was received before the interrupt is kept
    seen = [list(range(first, first + 4)) for first in range(1, 17, 4)]
    resumed = build(lambda value: value).loader()
    resumed.load_state_dict(loader.state_dict())
    assert seen + list(resumed) == list(build(lambda value: value))


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_the_next_pass_begins_behind_an_error_in_prefetch(error: BaseException) -> None:
    loader = en.items(range(20)).map(Interrupting(error)).prefetch(2).loader()
    with pytest.raises(type(error)):
        list(loader)
    assert list(loader) == list(range(20))


def leave_at_seven(value: int) -> int:
    if value == 7:
        sys.exit(3)
    return value


def test_an_exit_in_a_worker_is_an_error_that_names_it() -> None:
    with en.items(range(12)).map(leave_at_seven).loader(num_workers=2) as loader:
        with pytest.raises(en.WorkerError, match="SystemExit was raised in a worker: 3") as caught:
            list(loader)
        assert "leave_at_seven" in "".join(caught.value.__notes__)


def test_an_iterator_that_another_thread_is_in_is_refused() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(value: int) -> int:
        entered.set()
        go_on.wait()
        return value

    iterator = iter(en.items([1, 2]).map(wait).loader())
    received: list[int] = []
    thread = threading.Thread(target=lambda: received.append(next(iterator)))
    thread.start()
    entered.wait()
    with pytest.raises(RuntimeError, match="another thread's call"):
        next(iterator)
    go_on.set()
    thread.join()
    assert received == [1]
    assert list(iterator) == [2]
