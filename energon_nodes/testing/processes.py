"""Whether another process, with another hash seed, runs the same stream."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from energon_nodes.testing.report import ContractError, compare, failure
from energon_nodes.testing.runs import Make, fresh, resumed, run_pass, run_passes

__all__ = ["check_processes"]

_CHILD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    sys.path[:] = pickle.load(file)
    from energon_nodes.testing.processes import run_cases
    run_cases(file, sys.argv[2])
"""


def check_processes(cases: Mapping[str, Make], *, most: int = 64, hash_seeds: Sequence[int] = (1, 2)) -> None:
    """Check that pickled graphs run the same in new processes, on other values of PYTHONHASHSEED.

    One process for each hash seed runs all cases: what came by pickle, a resume of a state of this process in the
    middle of a pass, and the graph that `make` builds there, where `make` itself can be pickled.

    Args:
        cases: Functions that build pipelines, by a name for the message. All are to be picklable.
        most: The most elements of a pass that are looked at.
        hash_seeds: The values of PYTHONHASHSEED.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_processes({"shuffled": lambda: en.items(range(9), shuffle=True).batch(2)}, hash_seeds=[1])
    """
    expected = {name: run_passes(fresh(make), 2, most) for name, make in cases.items()}
    middle = {name: len(passes[0]) // 2 for name, passes in expected.items()}
    work = [
        (name, _pickled(name, make), _state_at(make, middle[name]), middle[name], most) for name, make in cases.items()
    ]
    for seed, results in zip(hash_seeds, _run_in_processes(work, hash_seeds), strict=True):
        for name, (by_pickle, rest, by_make) in results.items():
            node = fresh(cases[name])
            for number in range(2):
                what = f"{name}: pass {number + 1} in a new process with PYTHONHASHSEED={seed}"
                compare("check_processes", what, node, expected[name][number], by_pickle[number])
                if by_make is not None:
                    compare("check_processes", f"{what}, built there", node, expected[name][number], by_make[number])
            what = f"{name}: the rest of pass 1, resumed in a new process with PYTHONHASHSEED={seed}"
            compare("check_processes", what, node, expected[name][0][middle[name] :], rest)


def _pickled(name: str, make: Make) -> tuple[bytes, bytes | None]:
    try:
        graph = pickle.dumps(fresh(make))
    except Exception as error:
        what = f"{name}: the graph cannot be pickled: {error!r}. Use functions that a module defines by name"
        raise failure("check_processes", what, fresh(make)) from error
    try:
        return graph, pickle.dumps(make)
    except Exception:  # a lambda: the graph itself is enough
        return graph, None


def _state_at(make: Make, taken: int) -> Any:
    node = fresh(make)
    run_pass(node, taken)
    return node.state_dict()


def _run_in_processes(work: list[Any], hash_seeds: Sequence[int]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder, "task.pickle")
        with task.open("wb") as file:
            pickle.dump(sys.path, file)
            for item in work:
                pickle.dump(item, file)
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(task), str(task.with_name(f"{seed}.pickle"))],
                env=os.environ | {"PYTHONHASHSEED": str(seed)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for seed in hash_seeds
        ]
        errors = [process.communicate()[1] for process in running]
        for process, seed, error in zip(running, hash_seeds, errors, strict=True):
            if process.returncode:
                raise ContractError(f"check_processes: the process with PYTHONHASHSEED={seed} failed:\n{error}")
        return [pickle.loads(task.with_name(f"{seed}.pickle").read_bytes()) for seed in hash_seeds]


def run_cases(file: Any, results: str) -> None:
    """Run all cases of a task file in this process and write what they delivered."""
    found: dict[str, Any] = {}
    while True:
        try:
            name, (graph, make), state, middle, most = pickle.load(file)
        except EOFError:
            break
        by_pickle = run_passes(pickle.loads(graph), 2, most)
        rest = run_pass(resumed(lambda graph=graph: pickle.loads(graph), state), most - middle)
        by_make = None if make is None else run_passes(pickle.loads(make)(), 2, most)
        found[name] = (by_pickle, rest, by_make)
    Path(results).write_bytes(pickle.dumps(found))
