"""The passes of a loader: which iteration is the present one, where it begins, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from energon_nodes.loading.engines import Engine
from energon_nodes.loading.host import Change
from energon_nodes.loading.state import Position

__all__ = ["Session"]


class Session:
    """Run one iteration after the other on an engine, which is made when it is needed.

    Args:
        make_engine: Makes the engine. It must not hold the loader: a loader that is dropped ends its workers at once.
    """

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self.make_engine = make_engine
        self._engine: Engine | None = None
        self._position: Position | None = None  # where to go before anything is taken
        self._unsaved: Exception | None = None  # why a closed engine has left no position
        self._touched = False  # whether anything was taken
        self._passes = self._step = 0
        self._present = 0  # the number of the present iteration
        self._waiting = False  # whether it has taken nothing yet
        self._changed = False  # whether the engine's iterator is out of date
        self._resumed = False  # whether it goes on where a state was taken, without an output or an error so far

    def new_iteration(self) -> int:
        """Return the number of a new iteration; the one before it is over."""
        self._present += 1
        self._waiting = True
        return self._present

    def outputs(self, iteration: int) -> Iterator[Any]:
        """Give the outputs of an iteration; made again after an error, the iterator goes on behind it.

        Raises:
            RuntimeError: If the iteration is not the present one.
        """
        self._refuse_stale(iteration)
        if self._waiting:
            self._begin()
        engine = self._running()
        while True:
            self._changed = False
            try:
                for value in engine.outputs():
                    self._resumed = False
                    self._step += 1
                    yield value
                    if iteration != self._present:
                        self._refuse_stale(iteration)
                    if self._changed:
                        break
            except Exception:
                self._resumed = False  # the pass was not empty, even if nothing comes behind the failed element
                raise
            if self._changed:
                continue
            if not self._resumed:
                return
            self._resumed = False  # the state was taken behind the last output: an empty pass helps nobody
            self._next_pass(engine)

    def _refuse_stale(self, iteration: int) -> None:
        if iteration != self._present:
            raise RuntimeError(
                "this iterator is out of date: the loader was iterated again, was closed, or a state was loaded since"
            )

    def position(self) -> Position:
        """Return where the streams stand behind the last output that was received."""
        if self._waiting and self._touched and self._position is None:
            self._begin()  # an iteration was asked for, so the pass before it is over
        if self._position is not None:
            return self._position
        engine = self._running()
        return Position(self._passes, self._step, engine.turn, engine.entries())

    def change(self, changes: dict[int, Change]) -> None:
        """Plan a change of weights in each stream, from behind the last output that was received."""
        position = self.position()
        engine = self._running()
        if self._position is not None:
            engine.begin(position.entries)
        engine.change(changes)
        self._changed = True
        if self._position is not None:
            self._position = replace(position, entries=engine.entries())

    def go_to(self, position: Position) -> None:
        """Let the next iteration begin at a position; one that has taken nothing yet does so too."""
        if not self._waiting:
            self._present += 1
        self._position = position
        self._unsaved = None

    def close(self) -> None:
        """End the engine; the next iteration goes on where it stood."""
        engine = self._engine
        if engine is None:
            return
        try:
            if self._touched and self._position is None:
                self.go_to(self.position())
        except Exception as error:  # it counts when somebody wants to go on
            self._unsaved = error
        finally:
            self._engine = None
            engine.close()

    def _begin(self) -> None:
        if self._unsaved is not None:
            raise self._unsaved
        engine, position = self._running(), self._position
        if position is not None:
            engine.begin(position.entries)
            self._passes, self._step = position.passes, position.step
            self._position, self._touched = None, True
            self._resumed = not position.has_ended()
            if not self._resumed:
                self._next_pass(engine)
        elif self._touched:
            self._resumed = engine.lost_workers
            if not self._resumed:
                self._next_pass(engine)
        self._touched = True
        self._waiting = False

    def _next_pass(self, engine: Engine) -> None:
        engine.next_pass()
        self._passes += 1
        self._step = 0

    def _running(self) -> Engine:
        if self._engine is None:
            self._engine = self.make_engine()
        return self._engine
