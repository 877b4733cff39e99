"""Run the benchmarks and print their tables: `python tests/benchmarks/run.py [--only reading] [--quick]`.

With `--strict` the exit status is 1 when a bound of ours is missed or a row that has one could not be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests` and, without an installation, `energon_nodes`

from tests.benchmarks import data
from tests.benchmarks.harness import Settings
from tests.benchmarks.page import page
from tests.benchmarks.table import Row, plain

GROUPS = {
    "reading": "Reading data T in one process",
    "jsonl": "Reading 100,000 JSON lines in one process",
    "lookup": "Random access to data T by name",
    "images": "Decoding JPEGs to uint8 3×224×224",
    "workers": "Two worker processes on data I",
    "node_cost": "The cost of a node",
    "state": "Taking and loading state",
    "mixing": "Joining and blending",
    "packing": "Packing 100,000 documents to 2,048 tokens",
    "lazy": "Lazy values and a cache pool",
    "startup": "Start-up and memory",
    "prepare_speed": "Preparing data T",
}
PACKAGES = (
    "torch torchdata numpy pillow simplejpeg webdataset megatron-energon litdata grain array_record mosaicml-streaming"
)


def main() -> int:
    options = parse()
    settings = Settings(options.data, options.rounds or (3 if options.quick else 7), options.quick)
    tables: dict[str, list[Row]] = {}
    print(environment())
    for name in options.only or GROUPS:
        started = time.perf_counter()
        tables[name] = group(name)(settings)
        print(plain(GROUPS[name], tables[name]), f"\n({time.perf_counter() - started:.0f} s{others()})", flush=True)
    if options.json:
        records = {name: [row.record() for row in rows] for name, rows in tables.items()}
        options.json.write_text(json.dumps(records, indent=2, ensure_ascii=False))
    if options.markdown:
        options.markdown.write_text(page(environment(), {GROUPS[name]: rows for name, rows in tables.items()}))
    return verdict([row for rows in tables.values() for row in rows], options.strict)


def group(name: str) -> Callable[[Settings], list[Row]]:
    """Return the function that measures a group: `rows` in the module of that name."""
    return import_module(f"tests.benchmarks.{name}").rows


def verdict(rows: list[Row], strict: bool) -> int:
    missed = [row.label for row in rows if row.verdict == "MISS"]
    absent = [row.label for row in rows if row.verdict == "NOT RUN"]
    print(
        f"\n{sum(row.verdict == 'PASS' for row in rows)} bounds kept, {len(missed)} missed, {len(absent)} rows not run"
    )
    for label in missed:
        print(f"missed: {label}")
    return 1 if strict and (missed or absent) else 0


def others() -> str:
    """Return a warning when other programs compete for the cores: then only many rounds give ratios to go by."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"; the machine is busy, load {load:.1f} on {cores} cores: ratios scatter" if load > cores + 0.5 else ""


def environment() -> str:
    """Return the machine and the versions in one paragraph."""
    found = {name: installed(name) for name in PACKAGES.split()}
    versions = ", ".join(f"{name} {release}" for name, release in found.items() if release)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{machine}; {versions}."


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure energon_nodes beside plain loops and its peers.")
    parser.add_argument("--only", nargs="+", choices=GROUPS, metavar="NAME", help=f"groups: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter ones: for development")
    parser.add_argument("--rounds", type=int, help="rounds of every contender (7, with --quick 3)")
    parser.add_argument("--data", type=Path, default=data.default_root(), help="folder of the data (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bound is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
