"""`energon-nodes preview`: look at samples, in the terminal or as a page."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from energon_nodes.cli.fields import FieldsView, view_of
from energon_nodes.cli.peek import Glance, Look, peek
from energon_nodes.cli.preview_page import PageSample, page
from energon_nodes.cli.printing import columns, plain_text, readable_size
from energon_nodes.cli.showing import MOST_BYTES, ShownPart, show_part
from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.writing import write_bytes

__all__ = ["preview", "sample_lines"]

_IN_TERMINAL, _ON_PAGE = 5, 100
_LINE, _TEXT = 100, 4000
_THUMBNAIL = 384


@click.command()
@click.argument("path")
@click.option("--count", type=click.IntRange(1), metavar="N", help="How many samples.  [default: 5; 100 with --html]")
@click.option("--start", type=click.IntRange(0), metavar="N", default=0, help="How many samples to pass over.")
@click.option("--key", "keys", multiple=True, help="Show the sample with this key; may be repeated.")
@click.option("--split", metavar="NAME", help="The split part.  [default: train]")
@click.option("--html", metavar="FILE", help="Write a page to look at in a browser, in place of the terminal.")
@click.option("--trust", is_flag=True, help="Run the sample loader that lies beside the data.")
@click.option("--dataset-config", metavar="NAME", help="The dataset file in .nv-meta.  [default: dataset.yaml]")
@click.option("--split-config", metavar="NAME", help="The split file in .nv-meta.  [default: split.yaml]")
def preview(
    path: str,
    count: int | None,
    start: int,
    keys: tuple[str, ...],
    split: str | None,
    html: str | None,
    trust: bool,
    dataset_config: str | None,
    split_config: str | None,
) -> None:
    """Look at samples: their keys, parts and content, and the fields that the dataset file makes of them.

    PATH is a prepared dataset, a folder of tars, a tar, or a .jsonl file. In the terminal everything is shortened. The
    page of --html is one file that asks the network for nothing: small pictures, text and JSON, a filter box, pages
    to turn. Whatever the data hold is shown and never run.

    \b
    Examples:
      energon-nodes preview shards/
      energon-nodes preview coco/ --split val --start 1000 --count 2
      energon-nodes preview coco/ --key 000017
      energon-nodes preview coco/ --html page.html --count 500

    Exit status: 0 fine, 1 when there is no dataset or no such sample, 2 for wrong usage.
    """
    if keys and (start or count is not None):
        raise click.UsageError("--key names the samples, so --start and --count do not go with it")
    count = count or (_IN_TERMINAL if html is None else _ON_PAGE)
    if html is not None:
        _check_place(html)
    look = peek(path, start=start, count=count, keys=keys, split=split, split_config=split_config)
    view = view_of(look.root, dataset_config, trust)
    if html is None:
        _show(look, view, start)
        return
    samples = [_for_page(glance, view) for glance in look.samples]
    if not samples and start:
        raise _behind(look, start)
    write_bytes(html, page(look, view.note, samples).encode("utf-8", "backslashreplace"))
    click.echo(f"{len(samples)} samples in {html}")


def _show(look: Look, view: FieldsView, start: int) -> None:
    click.secho(plain_text(look.root), bold=True, nl=False)
    click.echo(f"  split {look.split!r}, {look.total:,} samples" if look.total is not None else "")
    click.echo(plain_text(view.note))
    shown = 0
    for glance in look.samples:
        shown += 1
        click.echo()
        for line in sample_lines(glance, view):
            click.echo(line)
    if not shown and start:
        raise _behind(look, start)
    if not shown:
        click.echo("there are no samples")


def _behind(look: Look, start: int) -> DatasetError:
    total = "" if look.total is None else f"; there are {look.total:,}"
    return DatasetError(f"there is no sample behind the first {start:,} of {look.root}{total}")


def _check_place(html: str) -> None:
    """Raise if a page cannot be written there, before anything is read for it."""
    folder = paths.parent(html) or "."
    if paths.is_url(html):
        return
    if os.path.isdir(html):
        raise click.UsageError(
            f"--html {html} is a folder: name a file in it, such as {os.path.join(html, 'page.html')}"
        )
    if not os.path.isdir(folder):
        raise click.UsageError(f"--html {html}: the folder {folder} does not exist")


def sample_lines(glance: Glance, view: FieldsView | None = None) -> Iterator[str]:
    """Give the lines that show a sample in a terminal.

    Args:
        glance: The sample.
        view: What makes typed samples, if their fields are to be shown.

    Yields:
        Lines without line ends, in which nothing acts on the terminal.
    """
    number = "" if glance.index is None else f"{glance.index}  "
    place = f"{glance.shard} at byte {glance.offset:,}"
    yield f"{number}{click.style(plain_text(glance.key), bold=True)}  {click.style(plain_text(place), dim=True)}"
    if glance.error is not None:
        yield f"   {click.style(plain_text(glance.error), fg='red')}"
        return
    parts = [show_part(part.name, glance.read(part, MOST_BYTES), part.size, _LINE) for part in glance.parts]
    rows = [[part.name or "(empty)", readable_size(part.size), part.kind] for part in parts]
    for part, line in zip(parts, columns([[plain_text(cell) for cell in row] for row in rows], [1]), strict=True):
        yield f"   {line}  {_content(part)}".rstrip()
    fields = {} if view is None else view.fields_of(glance)
    if isinstance(fields, str):
        yield f"   {click.style(plain_text(fields), fg='red')}"
    elif fields:
        lines = columns([[name, value] for name, value in fields.items()])
        yield from (f"   → {plain_text(line)}" for line in lines)


def _content(part: ShownPart) -> str:
    if part.error is not None:
        return click.style(plain_text(part.error), fg="red")
    return plain_text("  ".join(piece for piece in (part.detail, part.text) if piece))


def _for_page(glance: Glance, view: FieldsView) -> PageSample:
    parts = [show_part(part.name, glance.read(part, MOST_BYTES), part.size, _TEXT, _THUMBNAIL) for part in glance.parts]
    fields = view.fields_of(glance)
    if isinstance(fields, str):
        return PageSample(glance, parts, {}, fields)
    return PageSample(glance, parts, fields, glance.error)
