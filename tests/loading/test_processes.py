"""How workers are started, what they need, and how everything ends."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import energon_nodes as en
from tests.loading import pipelines
from tests.loading.pipelines import mixed, round_trip

ROOT = Path(__file__).parents[2]
SECONDS = 60.0


def run(code: str, *, check: bool = True, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that has the pipelines of these tests at hand."""
    header = "import energon_nodes as en\nfrom tests.loading.pipelines import *\n"
    return subprocess.run(
        [sys.executable, "-c", header + textwrap.dedent(code)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=check,
        **settings,
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_start_anew_give_the_same_passes_and_resume(method: str) -> None:
    reference = mixed().loader(streams=2)
    first, second = list(reference), list(reference)
    with mixed().loader(num_workers=2, mp_context=method) as loader:
        iterator = iter(loader)
        got = [next(iterator) for _ in range(4)]
        state = round_trip(loader.state_dict())
        assert got + list(iterator) == first
        loader.load_state_dict(state)
        assert list(loader) == first[4:]
        assert list(loader) == second


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_cannot_be_pickled_is_refused_when_the_loader_is_made_and_its_node_named(method: str) -> None:
    pipeline = en.items(range(4)).map(lambda value: value).map(pipelines.add).batch(2)
    with pytest.raises(ValueError, match=r"Map\(fn=<?.*lambda>?\) cannot be pickled, which mp_context='" + method):
        pipeline.loader(num_workers=2, mp_context=method)
    with pytest.raises(ValueError, match=r"on_error=.* cannot be pickled"):
        en.items(range(4)).loader(num_workers=1, mp_context=method, on_error=lambda error, key: None)
    assert list(pipeline.loader(mp_context=method)) == [[1, 2], [3, 4]]  # without workers nothing is sent
    with pipeline.loader(num_workers=1, mp_context="fork") as loader:
        assert list(loader) == [[1, 2], [3, 4]]


def test_the_start_method_of_the_program_counts_where_none_is_given() -> None:
    code = """
        import multiprocessing
        multiprocessing.set_start_method("spawn")
        try:
            en.items(range(4)).map(lambda value: value).loader(num_workers=2)
        except ValueError as error:
            print(error)
    """
    assert "mp_context='spawn'" in run(code).stdout


def test_a_process_pool_is_refused_inside_workers_and_works_without() -> None:
    pipeline = en.items(range(6)).parallel_map(pipelines.add, method="process", workers=1).batch(2)
    with pytest.raises(ValueError, match=r'parallel_map\(method="process"\) cannot run in the workers of a loader'):
        pipeline.loader(num_workers=1)
    assert list(pipeline.loader()) == [[1, 2], [3, 4], [5, 6]]


def test_a_loader_may_fork_while_threads_of_its_pipeline_live_in_the_parent() -> None:
    pipeline = mixed().parallel_map(pipelines.pid_of, workers=2).prefetch(2)
    expected = [value for value, _ in pipeline.loader(streams=2)]
    here = iter(pipeline.loader(streams=2))
    assert next(here)[1] == os.getpid()  # pool and prefetching thread run in this process now
    with pipeline.loader(num_workers=2) as loader:
        iterator = iter(loader)
        got = [next(iterator)]
        state = loader.state_dict()
        got += list(iterator)
    assert [value for value, _ in got] == expected
    assert os.getpid() not in {pid for _, pid in got}
    again = pipeline.loader()
    again.load_state_dict(round_trip(state))
    assert [value for value, _ in again] == expected[1:]
    assert [value for value, _ in here] == expected[1:]


@pytest.mark.filterwarnings("default:'pin_memory' argument is set as true")
def test_pinning_without_an_accelerator_only_warns() -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator")
    pipeline = en.items(range(4)).batch(2, collate=pipelines.as_tensors)
    for workers in (0, 1):
        loader = pipeline.loader(num_workers=workers, pin_memory=True)
        with loader, pytest.warns(UserWarning, match="no accelerator"):
            assert [batch["x"].tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_a_loader_that_is_dropped_ends_its_workers_at_once() -> None:
    before = len(multiprocessing.active_children())
    loader = mixed(400).loader(num_workers=2)
    next(iter(loader))
    assert len(multiprocessing.active_children()) == before + 2
    del loader
    assert len(multiprocessing.active_children()) == before


def test_tensors_come_through_shared_memory_and_are_writable() -> None:
    pipeline = en.items(range(4)).batch(2, collate=pipelines.as_tensors)
    with pipeline.loader(num_workers=2) as loader:
        batches = list(loader)
    assert all(batch["x"].is_shared() for batch in batches)
    assert [batch["x"].add_(1).tolist() for batch in batches] == [[1, 3], [2, 4]]


@pytest.mark.parametrize("end", ["", "del iterators, loaders"])
def test_a_consumer_that_stops_early_leaves_no_trace(end: str) -> None:
    code = f"""
        pipeline = mixed(4000).parallel_map(pid_of, workers=2).prefetch(2)
        loaders = [pipeline.loader(num_workers=2, persistent_workers=persistent) for persistent in (True, False)]
        iterators = [iter(loader) for loader in [*loaders, pipeline.loader()]]
        print(*[next(iterator)[1] for iterator in iterators for _ in range(2)])
        {end}
    """
    done = run(code)
    assert done.stderr == ""
    pids = set(map(int, done.stdout.split()))
    assert len(pids) == 5
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_closing_ends_all_processes_and_threads() -> None:
    code = """
        import multiprocessing, threading
        with mixed(4000).prefetch(2).loader(num_workers=2) as loader:
            next(iter(loader))
            assert len(multiprocessing.active_children()) == 2
        assert not multiprocessing.active_children()
        with mixed(4000).prefetch(2).loader() as loader:
            next(iter(loader))
        assert not [thread for thread in threading.enumerate() if "prefetch" in thread.name], threading.enumerate()
    """
    assert run(code).stderr == ""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_parent_that_is_killed(method: str) -> None:
    program = f"""
        import multiprocessing, os
        from tests.loading.pipelines import *
        makers = [loader_in_a_pass, loader_between_passes, loader_without_an_output]
        kept = [make("{method}") for make in makers[: 3 if "{method}" == "fork" else 1]]
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
        os.read(0, 1)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == (6 if method == "fork" else 2)
        workers = [os.pidfd_open(pid) for pid in pids]
        parent.send_signal(signal.SIGKILL)
        parent.wait(SECONDS)
        for worker in workers:
            assert select.select([worker], [], [], 20)[0], "a worker lives on without its parent"
            os.close(worker)
    finally:
        parent.kill()
        parent.wait(SECONDS)
        parent.stdin.close()
        parent.stdout.close()
