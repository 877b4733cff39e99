"""`energon-nodes info`: show what is in a dataset."""

from __future__ import annotations

import click

from energon_nodes.cli.printing import columns, plain_text, print_json, readable_size
from energon_nodes.recipes.summary import Summary, summarize

__all__ = ["info"]

_KINDS = {"prepared": "prepared dataset", "tars": "tar shards, never prepared", "jsonl": "JSON lines"}
_SHOWN = 30


@click.command()
@click.argument("path")
@click.option("--parts/--no-parts", default=True, help="Count parts; without index.sqlite all headers are read.")
@click.option("--dataset-config", metavar="NAME", help="The dataset file in .nv-meta.  [default: dataset.yaml]")
@click.option("--split-config", metavar="NAME", help="The split file in .nv-meta.  [default: split.yaml]")
@click.option("--progress/--no-progress", default=None, help="Show a bar.  [default: in a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; its keys are in docs/command-line.md.")
def info(
    path: str,
    parts: bool,
    dataset_config: str | None,
    split_config: str | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Show what is in a dataset: counts, sizes, splits, the type of the samples, and their parts.

    PATH is a prepared dataset, a folder of tars, a tar, or a .jsonl file.

    \b
    Examples:
      energon-nodes info coco/
      energon-nodes info shards/0000.tar                 a single tar, never prepared
      energon-nodes info coco/ --json | jq .splits

    Exit status: 0 fine, 1 when there is no dataset, 2 for wrong usage.
    """
    summary = summarize(path, parts=parts, dataset_config=dataset_config, split_config=split_config, progress=progress)
    if as_json:
        print_json(summary.as_dict())
        return
    _show(summary)


def _show(summary: Summary) -> None:
    click.secho(plain_text(summary.path), bold=True)
    rows = [
        ["kind", _KINDS[summary.kind] + (f" ({summary.energon_version})" if summary.energon_version else "")],
        ["samples", f"{summary.samples:,}"],
        ["shards", f"{summary.shards:,}"],
        ["size", f"{readable_size(summary.bytes)} ({summary.bytes:,} bytes)"],
        ["sample type", summary.sample_type or "not said"],
    ]
    rows += [["", f"{field} ← {access}"] for field, access in (summary.field_map or {}).items()]
    if summary.sample_loader:
        rows.append(["sample loader", summary.sample_loader])
    if summary.subflavors:
        rows.append(["subflavors", str(summary.subflavors)])
    if summary.kind == "prepared":
        rows.append(["lookup by key", "yes" if summary.indexed else "no (there is no index.sqlite)"])
    if summary.media:
        rows.append(["media metadata", f"{summary.media:,} entries"])
    for line in columns(rows):
        click.echo(f"  {plain_text(line)}")
    if summary.splits:
        _show_table("splits", ["part", "shards", "samples", "share", "size", "excluded"], _split_rows(summary))
    if summary.parts:
        _show_table("parts", ["part", "samples", "share", "size", "mean"], _part_rows(summary))
    for warning in summary.warnings:
        click.echo(f"{click.style('warning', fg='yellow')}: {plain_text(warning)}")


def _split_rows(summary: Summary) -> list[list[str]]:
    rows = [
        [
            name,
            f"{part.shards:,}",
            f"{part.samples:,}",
            f"{part.percent:.1f} %",
            readable_size(part.bytes),
            _excluded(part.excluded_shards, part.excluded_samples),
        ]
        for name, part in summary.splits.items()
    ]
    if summary.unsplit_shards:
        rows.append(["(none)", f"{summary.unsplit_shards:,}", "", "", "", ""])
    return rows


def _excluded(shards: int, samples: int) -> str:
    pieces = [f"{shards:,} shards"] * bool(shards) + [f"{samples:,} samples"] * bool(samples)
    return ", ".join(pieces)


def _part_rows(summary: Summary) -> list[list[str]]:
    parts = summary.parts or {}
    rows = [
        [
            name or "(empty)",
            f"{part.samples:,}",
            f"{part.percent:.1f} %",
            readable_size(part.bytes),
            readable_size(part.mean_bytes),
        ]
        for name, part in list(parts.items())[:_SHOWN]
    ]
    if len(parts) > _SHOWN:
        rows.append([f"… {len(parts) - _SHOWN} more", "", "", "", ""])
    return rows


def _show_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    lines = columns([heads, *rows], right=range(1, len(heads)))
    click.secho(f"\n{title}", bold=True)
    click.secho(f"  {lines[0]}", dim=True)
    for line in lines[1:]:
        click.echo(f"  {plain_text(line)}")
