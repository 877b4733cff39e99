"""Run contenders in turn, each in a process of its own, and compare them round by round.

A contender is built once, warmed up once and then measured in every round, so that all of them see the same machine.
The processes stay alive between rounds and only one works at a time: no contender pays for another's imports, threads
or garbage. Before each measurement garbage is collected and what is left is frozen, so a collection during the
measurement scans what the measured code made and not what its imports left.

Absolute figures depend on the machine. A ratio is the median over the rounds of the two figures of one round.
"""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from sys import stderr
from typing import Any

from tests.benchmarks.table import Row

Figures = dict[str, float]
PATIENCE = 300.0  # seconds that a contender may take for one measurement, its construction included


@dataclass(frozen=True)
class Settings:
    """What a run of the benchmarks was asked for."""

    root: Path
    rounds: int
    quick: bool

    @property
    def budget(self) -> float:
        """Return the seconds of work a slow contender does in one round; a fast one does a whole pass."""
        return 1.0 if self.quick else 3.0


@dataclass(frozen=True)
class Contender:
    """A measured thing: `build(*arguments)` runs in its process and returns what is called once in each round."""

    name: str
    build: Callable[..., Callable[[], Figures]]
    arguments: tuple[Any, ...] = ()


@dataclass
class Results:
    """The figures of all contenders, round by round, and the reasons of those that did not run."""

    figures: dict[str, list[Figures]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def ran(self, *names: str) -> bool:
        """Return whether all of `names` were measured."""
        return all(name not in self.failures for name in names)

    def reason(self, label: str, names: Sequence[str]) -> str:
        """Return why the first of `names` that did not run did not; it is named if the row has another label."""
        name = next(name for name in names if name in self.failures)
        return self.failures[name] if label == name else f"{name}: {self.failures[name]}"

    def median(self, name: str, figure: str) -> float:
        """Return the median of a figure over the rounds."""
        return median(round_[figure] for round_ in self.figures[name])

    def ratio(self, name: str, base: str, figure: str = "rate") -> float:
        """Return the median over the rounds of `name`'s figure over `base`'s."""
        return median(a[figure] / b[figure] for a, b in zip(self.figures[name], self.figures[base], strict=True))

    def row(self, label: str, needs: Sequence[str], make: Callable[[], Row]) -> Row:
        """Return `make()`, or a row that tells why one of the contenders it needs did not run."""
        return make() if self.ran(*needs) else Row(label, failure=self.reason(label, needs))


def in_new_process(function: Callable[..., Figures], *arguments: Any) -> Callable[[], Figures]:
    """Return a measurement that calls `function(*arguments)` in a new process each time, for what happens once."""

    def measure() -> Figures:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result(PATIENCE)

    return measure


def compete(contenders: Iterable[Contender], rounds: int) -> Results:
    """Measure all contenders `rounds` times, interleaved; the order turns by one from round to round."""
    results = Results()
    booths: list[Booth] = []
    try:
        for contender in contenders:
            booth = Booth(contender)
            booths.append(booth)
            booth.expect(results)
        for number in range(rounds):
            ready = [booth for booth in booths if booth.name not in results.failures]
            turn = number % max(len(ready), 1)
            for booth in ready[turn:] + ready[:turn]:
                booth.connection.send("measure")
                booth.expect(results)
    finally:
        for booth in booths:
            booth.close()
    return results


class Booth:
    """The process of one contender, seen from the outside."""

    def __init__(self, contender: Contender) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = contender.name
        self.connection, other = context.Pipe()
        # Not a daemon: contenders start worker processes of their own.
        self.process: BaseProcess = context.Process(target=serve, args=(other, contender), daemon=False)
        self.process.start()
        other.close()

    def expect(self, results: Results) -> None:
        """Wait for an answer and note it; `None` says that the contender is ready."""
        try:
            answer = self.connection.recv() if self.connection.poll(PATIENCE) else f"silent for {PATIENCE:.0f} s"
        except EOFError:
            answer = "its process died"
        if isinstance(answer, str):
            results.failures[self.name] = answer
            results.figures.pop(self.name, None)
        elif answer is not None:
            results.figures.setdefault(self.name, []).append(answer)

    def close(self) -> None:
        with suppress(OSError):
            self.connection.send("stop")
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(connection: Connection, contender: Contender) -> None:
    """Build and warm up a contender, then measure it as often as the other side asks."""
    try:
        # A spawned process spawns in turn; what a contender starts shall be started as in any other program.
        multiprocessing.set_start_method(None, force=True)
        with redirect_stdout(stderr):
            measure = contender.build(*contender.arguments)
            measure()
            connection.send(None)
            while connection.recv() == "measure":
                gc.collect()
                gc.freeze()
                connection.send(measure())
                gc.unfreeze()
    except Exception as error:
        traceback.print_exc()
        with suppress(OSError):
            connection.send(f"{type(error).__name__}: {error}".splitlines()[0])
