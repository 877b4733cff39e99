import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from energon_nodes.core.errors import DatasetError, WorkerError
from energon_nodes.storage.subprocesses import Subprocesses
from energon_nodes.storage.tar import padded


def test_calls_run_in_other_processes_and_come_back_in_order() -> None:
    with Subprocesses(2) as pool:
        assert list(pool.map(padded, range(0, 5120, 512))) == list(range(0, 5120, 512))
        assert pool.submit(os.getpid).result() != os.getpid()


def test_there_are_no_more_processes_than_asked_for() -> None:
    with Subprocesses(2) as pool:
        assert len({future.result() for future in [pool.submit(os.getpid) for _ in range(20)]}) <= 2


def test_processes_do_not_import_torch() -> None:
    with Subprocesses(1) as pool:
        assert pool.submit(eval, "'torch' in __import__('sys').modules").result() is False


def test_what_a_call_raises_is_raised() -> None:
    with Subprocesses(1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.submit(eval, "1 / 0").result()
        assert pool.submit(padded, 1).result() == 512


def test_an_error_that_cannot_be_sent_is_told() -> None:
    code = "exec('class E(Exception):\\n def __init__(self, a, b): super().__init__(a)\\nraise E(1, 2)', {})"
    with Subprocesses(1) as pool, pytest.raises(WorkerError, match="E: 1"):
        pool.submit(eval, code).result()


def test_errors_of_the_library_arrive_as_themselves() -> None:
    code = "exec('from energon_nodes.core.errors import DatasetError\\nraise DatasetError(\"is no regular\")', {})"
    with Subprocesses(1) as pool, pytest.raises(DatasetError, match="is no regular"):
        pool.submit(eval, code).result()


def test_a_process_that_dies_fails_its_call_alone() -> None:
    with Subprocesses(1) as pool:
        with pytest.raises(WorkerError, match=r"died in the middle of a call \(signal SIGKILL\)"):
            pool.submit(os.kill, pool.submit(os.getpid).result(), signal.SIGKILL).result()
        with pytest.raises(WorkerError, match="exit status 3"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(padded, 1).result() == 512


def test_what_a_call_prints_does_not_get_into_the_answers(capfd: pytest.CaptureFixture[str]) -> None:
    with Subprocesses(1) as pool:
        assert pool.submit(print, "hello").result() is None
        assert pool.submit(os.write, 1, b"there\n").result() == 6
    assert capfd.readouterr().err == "hello\nthere\n"


def test_what_was_not_begun_can_be_cancelled() -> None:
    pool = Subprocesses(1)
    first = pool.submit(time.sleep, 0.05)
    others = [pool.submit(padded, 1) for _ in range(5)]
    pool.shutdown(cancel_futures=True)
    assert first.done()
    assert all(future.cancelled() or future.result() == 512 for future in others)
    assert others[-1].cancelled()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(padded, 1)


def test_many_threads_may_submit() -> None:
    found: list[int] = []
    with Subprocesses(2) as pool:
        threads = [
            threading.Thread(target=lambda: found.extend(pool.map(padded, range(1, 3000, 512)))) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted(6 * [512 * k for k in range(1, 7)])


def test_a_script_needs_no_guard_and_leaves_no_process_behind() -> None:
    script = textwrap.dedent(
        """
        from energon_nodes.storage.subprocesses import Subprocesses
        import os
        pool = Subprocesses(1)
        print(pool.submit(os.getpid).result(), flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    child = int(done.stdout)
    deadline = time.monotonic() + 10
    while _is_alive(child):
        assert time.monotonic() < deadline, "the process outlived the program that started it"
        time.sleep(0.01)


def _is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
