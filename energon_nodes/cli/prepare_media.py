"""`energon-nodes prepare-media`: store width, height and duration of pictures, audio and video."""

from __future__ import annotations

import click

from energon_nodes.cli.printing import plain_text
from energon_nodes.cli.wording import for_command
from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.prepare_media import prepare_media as store_media

__all__ = ["prepare_media"]


@click.command()
@click.argument("path")
@click.option(
    "--media",
    default="extension",
    show_default=True,
    metavar="WHICH",
    help="Which files: by extension, by header (their first bytes), or glob:*.jpg,thumbs/*.",
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes.  [default: one for each core]")
@click.option("--progress/--no-progress", default=None, help="Show a bar.  [default: in a terminal]")
def prepare_media(path: str, media: str, workers: int | None, progress: bool | None) -> None:
    """Store width, height and format of pictures, and the length of audio and video, for lookup by name.

    PATH is a prepared dataset, or a plain folder of files; that gets a .nv-meta/index.sqlite with nothing else in it.
    Entries are read back with energon_nodes.store(PATH).media(NAME). Audio and video need the extra `av`.

    \b
    Examples:
      energon-nodes prepare-media coco/
      energon-nodes prepare-media photos/ --media 'glob:*.jpg,*.png'

    Exit status: 0 fine; 1 no such file, or the index cannot be written; 2 for wrong usage.
    """
    try:
        found = store_media(path, media=media, workers=workers, progress=progress)
    except DatasetError:
        raise
    except (ValueError, TypeError) as error:
        raise click.UsageError(for_command(str(error))) from error
    click.echo(plain_text(str(found)))
    for problem in found.problems:
        click.echo(f"{click.style('warning', fg='yellow')}: {plain_text(problem)}", err=True)
