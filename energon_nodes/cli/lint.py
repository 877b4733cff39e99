"""`energon-nodes lint`: check a dataset and list everything that is wrong."""

from __future__ import annotations

from collections import Counter

import click

from energon_nodes.cli.printing import plain_text, print_json
from energon_nodes.cli.wording import for_command
from energon_nodes.recipes.lint import find_problems
from energon_nodes.recipes.problems import Problem

__all__ = ["lint"]

_COLOURS = {"error": "red", "warning": "yellow"}


@click.command()
@click.argument("path")
@click.option("--decode/--no-decode", default=True, help="Read and decode every part (default), or read headers only.")
@click.option("--trust", is_flag=True, help="Run Python that lies beside the data, and load pickled parts.")
@click.option("--dataset-config", metavar="NAME", help="The dataset file in .nv-meta.  [default: dataset.yaml]")
@click.option("--split-config", metavar="NAME", help="The split file in .nv-meta.  [default: split.yaml]")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes.  [default: one for each core]")
@click.option("--progress/--no-progress", default=None, help="Show a bar.  [default: in a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with counts and problems.")
@click.pass_context
def lint(
    ctx: click.Context,
    path: str,
    decode: bool,
    trust: bool,
    dataset_config: str | None,
    split_config: str | None,
    workers: int | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Check a dataset and list everything that is wrong with it.

    PATH is a prepared dataset, a folder of tars, a tar, or a .jsonl file. Nothing is changed.

    Every problem has a code, a severity, its place (shard, key, byte) and a remedy. The codes are listed in
    docs/command-line.md. Errors lose data or stop a run; warnings may be meant so.

    \b
    Checked are
      shards    compressed, cut short, damaged, empty, missing, not listed
      members   keys twice or interleaved, parts twice, sparse files, odd names
      indices   .tar.idx, index.sqlite and .info.json against the data
      metadata  the split and dataset.yaml
      samples   every part can be decoded, every field of the type is there

    \b
    Examples:
      energon-nodes lint coco/
      energon-nodes lint coco/ --no-decode               seconds instead of minutes
      energon-nodes lint coco/ --json > problems.json

    Exit status: 0 without errors (warnings may be there), 1 with errors, 2 for wrong usage.
    """
    found = find_problems(
        path,
        decode=decode,
        trust=trust,
        dataset_config=dataset_config,
        split_config=split_config,
        workers=workers,
        progress=progress,
    )
    counts: Counter[str] = Counter()
    listed: list[Problem] = []
    for problem in found:
        counts[problem.severity] += 1
        if as_json:
            listed.append(problem)
        else:
            _show(problem)
    if as_json:
        print_json(
            {
                "path": path,
                "errors": counts["error"],
                "warnings": counts["warning"],
                "problems": [problem.as_dict() for problem in listed],
            }
        )
    else:
        click.secho(_total(counts), bold=True, fg="red" if counts["error"] else "green")
    ctx.exit(1 if counts["error"] else 0)


def _show(problem: Problem) -> None:
    from tqdm import tqdm

    head = click.style(f"{problem.severity} {problem.code}", fg=_COLOURS[problem.severity], bold=True)
    where = f"  {problem.place}" if problem.place else ""
    # Written around the bar, which stays below.
    with tqdm.external_write_mode():
        click.echo(f"{head}{where}\n    {plain_text(for_command(problem.what))}\n    → {problem.remedy}")


def _total(counts: Counter[str]) -> str:
    if not counts:
        return "no problems"
    return ", ".join(
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in ("error", "warning")
        if counts[severity]
    )
