"""A pool of processes that start quickly and share nothing with the program that starts them."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from energon_nodes.core.errors import WorkerError

__all__ = ["Subprocesses", "serve"]

T = TypeVar("T")

# The package itself stands in as a mere folder: its own import brings torch, which takes a hundred times as long as
# what runs here needs.
_START = (
    "import sys, types; "
    "sys.path[:] = sys.argv[2:]; "
    "package = sys.modules['energon_nodes'] = types.ModuleType('energon_nodes'); "
    "package.__path__ = [sys.argv[1]]; "
    "from energon_nodes.storage.subprocesses import serve; "
    "serve()"
)
_PACKAGE = str(Path(__file__).resolve().parents[1])


class Subprocesses(Executor):
    """Run functions of `energon_nodes.storage` and the layers below it in new Python processes.

    In contrast to the pools of the standard library this needs no `if __name__ == "__main__"` in the program, is safe
    beside threads, and starts in a tenth of a second. A process that dies fails its own call only.

    Args:
        workers: How many processes there are at most; they are started when they are needed.

    Example:
        >>> from energon_nodes.storage.tar import padded
        >>> with Subprocesses(2) as pool:
        ...     list(pool.map(padded, [1, 513]))
        [512, 1024]
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._tasks: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._waiting = 0  # threads without a task
        self._closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function in one of the processes."""
        task = pickle.dumps((fn, args, kwargs), pickle.HIGHEST_PROTOCOL)
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool was shut down")
            self._tasks.put((future, task))
            if self._waiting:
                self._waiting -= 1
            elif len(self._threads) < self._workers:
                name = f"energon_nodes-process-{len(self._threads)}"
                thread = threading.Thread(target=self._feed, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done what was submitted."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                while not self._tasks.empty():
                    entry = self._tasks.get()
                    if entry is not None:
                        entry[0].cancel()
            for _ in self._threads:
                self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _feed(self) -> None:
        """Give tasks to one process, and a new one the next task if it died."""
        process: subprocess.Popen[bytes] | None = None
        try:
            while (entry := self._tasks.get()) is not None:
                future, task = entry
                if not future.set_running_or_notify_cancel():
                    self._is_waiting()
                    continue
                try:
                    if process is None:
                        process = _started()
                    good, result = _ask(process, task)
                except (OSError, EOFError, pickle.UnpicklingError) as error:
                    future.set_exception(_death(process, error))
                    process = _ended(process)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result) if good else future.set_exception(result)
                self._is_waiting()
        finally:
            _ended(process)

    def _is_waiting(self) -> None:
        with self._lock:
            self._waiting += self._tasks.empty()


def _started() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _START, _PACKAGE, *sys.path]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ask(process: subprocess.Popen[bytes], task: bytes) -> tuple[bool, Any]:
    _send(cast("BinaryIO", process.stdin), task)
    return cast("tuple[bool, Any]", pickle.loads(_receive(cast("BinaryIO", process.stdout))))


def _death(process: subprocess.Popen[bytes] | None, error: BaseException) -> WorkerError:
    if process is None:
        return WorkerError(f"a process cannot be started ({error}); give an executor= of your own, or free memory")
    process.kill()
    status = process.wait()
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return WorkerError(
        f"process {process.pid} died in the middle of a call ({how}); it may have run out of memory: use fewer workers"
    )


def _ended(process: subprocess.Popen[bytes] | None) -> None:
    """Let a process end, which it does when nothing more can come, and wait for it."""
    if process is None:
        return
    for pipe in (process.stdin, process.stdout):
        try:
            cast("BinaryIO", pipe).close()
        except OSError:  # what was still to be written goes nowhere
            pass
    process.wait()


def _send(pipe: BinaryIO, data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: BinaryIO) -> bytes:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    data = pipe.read(size := int.from_bytes(head, "little"))
    if len(data) < size:
        raise EOFError
    return data


def serve() -> None:
    """Answer calls from the standard input until it ends: the other side of `Subprocesses`."""
    # The terminal sends an interrupt to all; the program decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints must not get between the answers
    while True:
        try:
            task = _receive(source)
        except EOFError:
            return
        _send(target, _answer(task))


def _answer(task: bytes) -> bytes:
    try:
        function, args, kwargs = pickle.loads(task)
        return pickle.dumps((True, function(*args, **kwargs)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        try:
            answer = pickle.dumps((False, error), pickle.HIGHEST_PROTOCOL)
            pickle.loads(answer)
        except Exception:
            answer = pickle.dumps((False, WorkerError(f"{type(error).__qualname__}: {error}")))
        return answer
