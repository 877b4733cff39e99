"""Rows of the benchmark table, and how they are printed."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import asdict, dataclass

COMPARE = {"≥": operator.ge, "≤": operator.le, ">": operator.gt, "<": operator.lt}
HEAD = ("measured", "figure", "ratio", "against", "bound", "", "note")


@dataclass(frozen=True)
class Bound:
    """What a figure has to reach: `Bound("≥", 1.2)`."""

    sign: str
    limit: float

    def holds(self, figure: float) -> bool:
        """Return whether `figure` keeps the bound."""
        return bool(COMPARE[self.sign](figure, self.limit))


@dataclass(frozen=True)
class Row:
    """One line: a figure, a ratio against something, and the bound on the ratio, or else on the figure."""

    label: str
    figure: float | None = None
    unit: str = ""
    ratio: float | None = None
    against: str = ""
    bound: Bound | None = None
    note: str = ""
    failure: str = ""

    @property
    def verdict(self) -> str:
        """Return PASS or MISS where there is a bound, and say so where a contender did not run."""
        if self.failure:
            return "NOT RUN"
        bounded = self.figure if self.ratio is None else self.ratio
        if self.bound is None or bounded is None:
            return ""
        return "PASS" if self.bound.holds(bounded) else "MISS"

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        return (
            self.label,
            "" if self.figure is None else f"{number(self.figure)} {self.unit}".strip(),
            "" if self.ratio is None else f"{self.ratio:.3g}",
            self.against,
            "" if self.bound is None else f"{self.bound.sign} {self.bound.limit:g}",
            self.verdict,
            self.failure or self.note,
        )

    def record(self) -> dict[str, object]:
        """Return the row as plain data for a JSON file."""
        return {**asdict(self), "verdict": self.verdict}


def number(value: float) -> str:
    """Return a number as a person reads it: three digits that count, thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plain(title: str, rows: Iterable[Row]) -> str:
    """Return a table for the terminal."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    texts = ["  ".join(aligned(line, widths)).rstrip() for line in lines]
    return "\n".join([f"\n{title}", texts[0], "-" * max(map(len, texts)), *texts[1:]])


def aligned(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    right = (1, 2)
    return [
        cell.rjust(w) if k in right else cell.ljust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))
    ]


def markdown(title: str, rows: Iterable[Row]) -> str:
    """Return a table for the documentation."""
    lines = [HEAD, ("---", "--:", "--:", "---", "---", "---", "---"), *(row.cells() for row in rows)]
    return "\n".join([f"## {title}", "", *("| " + " | ".join(line) + " |" for line in lines), ""])
