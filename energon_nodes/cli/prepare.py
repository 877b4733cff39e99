"""`energon-nodes prepare`: make a dataset of a folder of tar shards or a JSON lines file."""

from __future__ import annotations

import sys
from typing import Any

import click

from energon_nodes.cli.prepare_choices import Choices, named_patterns, read_field_map, read_json, read_part_filter
from energon_nodes.cli.printing import columns, plain_text, readable_size
from energon_nodes.cli.wording import for_command
from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.prepare import prepare as prepare_dataset
from energon_nodes.recipes.prepare_types import sample_file
from energon_nodes.recipes.prepared import DuplicateKeysError, Prepared
from energon_nodes.samples.field_map import parse_access
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import META_FOLDER

__all__ = ["prepare"]

_SHOWN = 10


@click.command()
@click.argument("path")
@click.option("--split", "--split-ratio", metavar="A,B,C", help="Shares of train, val and test, such as 8,1,1.")
@click.option("--split-parts", multiple=True, metavar="NAME:REGEX", help="Shards of a part; may be repeated.")
@click.option("--split-file", metavar="FILE", help="A file in the format of split.yaml.")
@click.option("--exclude", multiple=True, metavar="REGEX", help="Leave out shards whose name it fits; may be repeated.")
@click.option("--shuffle", is_flag=True, help="Mix the shards before they are divided.")
@click.option("--seed", type=int, default=42, show_default=True, metavar="N", help="The seed for --shuffle.")
@click.option("--sample-type", metavar="TYPE", help="A type such as CaptioningSample, package.module:Class, or crude.")
@click.option("--field-map", multiple=True, metavar="FIELD=ACCESS", help="Where a field lies; repeated, or as JSON.")
@click.option(
    "--sample-loader",
    metavar="FILE.py:FUNCTION",
    help="In place of a field map, with --part-filter; the file lies in .nv-meta.",
)
@click.option(
    "--part-filter",
    multiple=True,
    metavar="PARTS",
    help="Parts that are read, for --sample-loader or crude samples; or FILE.py:FUNCTION.",
)
@click.option("--subflavors", metavar="JSON", help="What holds for all samples, as a JSON object.")
@click.option("--dataset-yaml", default="dataset.yaml", show_default=True, metavar="NAME", help="The dataset file.")
@click.option("--media", metavar="WHICH", help="Store media metadata: extension, header, or glob:*.jpg,*.png.")
@click.option("--update", is_flag=True, help="Index only shards that are new or changed; keep what was told.")
@click.option("--overwrite", is_flag=True, help="Prepare again; split and type stay unless they are given.")
@click.option("--index-only", is_flag=True, help="Make only the indices anew.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes.  [default: one for each core]")
@click.option("--progress/--no-progress", default=None, help="Show a bar.  [default: in a terminal]")
@click.option("--yes", "--non-interactive", is_flag=True, help="Ask nothing, even in a terminal.")
def prepare(path: str, progress: bool | None, yes: bool, **options: Any) -> None:
    """Make a dataset of a folder of tar shards, or index a JSON lines file.

    PATH is the folder; shards in folders below it belong to it. It writes an index beside each shard, and the folder
    .nv-meta: the shards and their counts, the split, the type of the samples, and an index for lookup by key. The
    format is that of Megatron-Energon. A crash at any moment leaves the old dataset whole.

    In a terminal an assistant shows the first samples and asks what the options do not say; everything has a preset
    answer. Elsewhere, and with --yes, nothing is asked: shards then go to train, and samples are crude, unless a split
    file or a dataset file lies in .nv-meta already: these are kept.

    \b
    Examples:
      energon-nodes prepare coco/
      energon-nodes prepare coco/ --split 8,1,1 --sample-type CaptioningSample \\
          --field-map image=jpg --field-map 'caption=txt,json[caption]' --yes
      energon-nodes prepare coco/ --split-parts train:train/ --split-parts val:val/ --yes
      energon-nodes prepare coco/ --update               shards were added or changed
      energon-nodes prepare texts.jsonl

    Exit status: 0 fine; 1 damaged data or lines, keys that come twice, stopped by the user; 2 for wrong usage.
    """
    choices = _choices(path, options)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        if asks and not path.endswith(".jsonl"):
            from energon_nodes.cli.assistant import ask

            ask(choices)
        prepared = _run(choices, progress)
    except DuplicateKeysError as error:
        _show(error.prepared, choices)
        raise
    except DatasetError:
        raise
    except (ValueError, TypeError) as error:
        raise click.UsageError(for_command(str(error))) from error
    _show(prepared, choices)
    if path.endswith(".jsonl") and prepared.warnings:
        # For a file of lines every warning is of damage: it has none of what a split or a type could be wrong about.
        what = "the lines named above cannot be read" if prepared.samples else f"{path} has no line to read"
        raise DatasetError(f"{what}; the index is written")


def _choices(path: str, options: dict[str, Any]) -> Choices:
    given = dict(options)
    given["split_parts"] = named_patterns(options["split_parts"])
    given["exclude"] = list(options["exclude"])
    given["field_map"] = read_field_map(options["field_map"])
    given["part_filter"] = read_part_filter(options["part_filter"])
    if options["subflavors"] is not None:
        given["subflavors"] = read_json(options["subflavors"])
    choices = Choices(path, **given)
    if sum(way is not None for way in (choices.split, choices.split_parts, choices.split_file)) > 1:
        raise click.UsageError("--split, --split-parts and --split-file are three ways to divide shards: give one")
    if choices.media is not None and (path.endswith(".jsonl") or choices.index_only):
        raise click.UsageError("--media goes with preparing tar shards; see prepare-media")
    return choices


def _check_values(choices: Choices) -> None:
    """Raise a usage error for a value of an option that cannot be right, whatever the data are."""
    if choices.split_file is not None and not paths.exists(choices.split_file):
        raise click.UsageError(f"--split-file {choices.split_file} does not exist")
    try:
        for access in (choices.field_map or {}).values():
            parse_access(access)
        if choices.sample_type is not None:
            sample_file(
                paths.folder(choices.path),
                choices.sample_type,
                field_map=choices.field_map,
                sample_loader=choices.sample_loader,
                part_filter=choices.part_filter,
                subflavors=choices.subflavors,
            )
    except (DatasetError, ImportError) as error:
        raise click.UsageError(for_command(str(error))) from error


def _run(choices: Choices, progress: bool | None) -> Prepared:
    if choices.path.endswith(".jsonl"):
        if not paths.exists(choices.path):
            raise DatasetError(f"{choices.path} does not exist; correct the path")
        given = {name: value for name, value in choices.keywords().items() if value}
        given.pop("dataset_yaml")
        if choices.seed == 42:
            given.pop("seed")
        return prepare_dataset(choices.path, **given, progress=progress)
    _check_values(choices)
    return prepare_dataset(choices.path, **choices.keywords(), progress=progress)


def _show(prepared: Prepared, choices: Choices) -> None:
    path = plain_text(prepared.path)
    size = readable_size(prepared.bytes)
    click.echo(f"{click.style(path, bold=True)}: {prepared.samples:,} samples, {len(prepared.shards):,} shards, {size}")
    rows = [
        [part, f"{prepared.samples_per_split[part]:,} samples", f"{shards:,} shards"]
        for part, shards in prepared.splits.items()
    ]
    for line in columns(rows, right=[1, 2]):
        click.echo(f"  {plain_text(line)}")
    shown = [f"{part} {count:,}" for part, count in list(prepared.parts.items())[:_SHOWN]]
    more = f", and {len(prepared.parts) - _SHOWN} more" if len(prepared.parts) > _SHOWN else ""
    click.echo(f"  samples with parts: {plain_text(', '.join(shown))}{more}")
    if choices.media is not None:
        from energon_nodes.recipes.summary import summarize  # brings nodes, and with them torch: two seconds

        click.echo(f"  media metadata: {summarize(prepared.path, parts=False).media:,} entries")
    for warning in prepared.warnings:
        click.echo(f"{click.style('warning', fg='yellow')}: {plain_text(for_command(warning))}", err=True)
    if META_FOLDER in "".join(prepared.written) and not prepared.duplicates:
        click.echo(f'Load it: energon_nodes.dataset("{path}", split="{next(iter(prepared.splits), "train")}")')
