"""The page of the documentation that holds the benchmark tables."""

from __future__ import annotations

from collections.abc import Mapping

from tests.benchmarks.table import Row, markdown

PREFACE = """# Benchmarks

This page is written by

```bash
nox -s bench -- --markdown docs/benchmarks.md
```

or, in an environment that has `tests/benchmarks/requirements.txt` and this package, by `python
tests/benchmarks/run.py --markdown docs/benchmarks.md`. `--only reading` runs one group, `--quick` fewer and shorter
rounds, `--strict` makes a missed bound an error.

All contenders of a table run in turn, round after round, each in a process of its own. A ratio is the median over the
rounds of the two figures of one round; figures are medians. Absolute figures tell about the machine; ratios tell
about the code.

- **Data T**: 100,000 samples of a 300-byte txt and a 150-byte json in 20 tars. **Data I**: 5,000 JPEGs of 400×400
  (about 40 KB) with captions in 10 tars. All data are made by `tests/benchmarks/data.py`.
- **The header loop** maps each tar of data T into memory and walks its headers: name, size, key, parts. It touches no
  payload.
- **The mean id step** is the mean distance between the numbers of neighbours in the stream: about 33,000 in a uniform
  shuffle of data T, 1 in order. Speed counts only at equal shuffle quality.
- Peers run at the quickest settings that we found; `tests/benchmarks/peers.py` says which, and what was slower.
"""


def page(environment: str, tables: Mapping[str, list[Row]]) -> str:
    """Return the page: what was measured and where, then a table for each title."""
    return "\n".join([PREFACE, f"Measured with {environment}", "", *(markdown(*table) for table in tables.items())])
