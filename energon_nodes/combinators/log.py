"""`log`: tell from time to time how many elements have passed, how fast, and how long they were waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from time import perf_counter
from typing import Any, TypeVar

from energon_nodes.combinators.watching import Meter, Watching
from energon_nodes.core.checks import check_size
from energon_nodes.core.fields import shared, tuning
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key

__all__ = ["Log"]

X = TypeVar("X")


class Log(Watching[X], Node[X], verb="log"):
    r"""Write a line for every `every` elements: how many, how many a second, how long they were waited for.

    The streams of one process count together. The rate is that since the last line, and it counts the time of the
    consumer too: a share of waiting near 0 % means that the data keep up. Elements that are rebuilt from keys are not
    counted. Checkpoints do not know of the node.

    Example:
        >>> import energon_nodes as en, re
        >>> lines = []
        >>> for _ in en.items(range(6)).log(3, label="train", to=lines.append):
        ...     pass
        >>> [re.sub(r"[\d.,]+(?=/s| %)", "N", line) for line in lines]
        ['train: 3 elements, N/s, N % of the time waiting', 'train: 6 elements, N/s, N % of the time waiting']

    Args:
        source: The node to read from.
        every: How many elements one line stands for, at least 1.
        label: What the line begins with.
        to: The name of a logger, a logger, or a function of the text such as `print`. A line is written when
            the next element is asked for, so an error in that function loses none.
        level: The level of the lines in the log, a number or a name such as "INFO"; a logger shows `logging.INFO`
            where the program has asked for it (`logging.basicConfig(level=logging.INFO)`).

    Raises:
        ValueError: If `every` is less than 1, or `level` is the name of no level.
        TypeError: If `to` is neither a name, a logger nor callable, or `level` is neither a number nor a name.
    """

    source: Node[X]
    every: int = tuning(default=1000)
    _: KW_ONLY
    label: str = tuning(default="")
    to: str | logging.Logger | Callable[[str], Any] = tuning(default="energon_nodes")
    level: int | str = tuning(default=logging.INFO)
    meter: Meter = shared()

    def check(self) -> None:
        check_size("log", "every", self.every, 1)
        if not isinstance(self.to, str | logging.Logger) and not callable(self.to):
            raise TypeError(f"log needs the name of a logger, a logger, or a function of the text, got {self.to!r}")
        self.level = _level(self.level)
        self.meter = Meter()

    def run(self) -> Iterator[tuple[X, Key]]:
        meter, every, clock = self.meter, self.every, perf_counter
        pairs = self.source.pairs()
        meter.enter()
        try:
            asked = clock()
            for pair in pairs:
                meter.waited += clock() - asked
                meter.count += 1
                yield pair
                if meter.count % every == 0:
                    self._write()
                asked = clock()
        finally:
            meter.leave()

    def _write(self) -> None:
        elements, seconds, waited = self.meter.restart()
        if not elements:  # another stream of this process has written the line
            return
        percent = min(100.0, 100 * waited / seconds) if seconds else 0.0
        text = f"{self.label}: " * bool(self.label)
        text += f"{self.meter.count:,} elements, {_rate(elements, seconds)}/s, {percent:.0f} % of the time waiting"
        if callable(self.to):
            self.to(text)
        else:
            logger = logging.getLogger(self.to) if isinstance(self.to, str) else self.to
            logger.log(_level(self.level), "%s", text)


def _level(level: Any) -> int:
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    if not isinstance(level, str):
        raise TypeError(f'log needs level, an int or a name such as "INFO", got {level!r}: use logging.INFO, say')
    levels = logging.getLevelNamesMapping()
    if level not in levels:
        names = ", ".join(f'"{name}"' for name in sorted(levels, key=lambda name: levels[name]))
        raise ValueError(f"log needs the name of a level ({names}) or an int, got level={level!r}")
    return levels[level]


def _rate(elements: int, seconds: float) -> str:
    rate = elements / seconds if seconds else 0.0
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
