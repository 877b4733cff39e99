"""The group of all commands: help, version, and what becomes of errors."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import IO, Any, NamedTuple

import click

from energon_nodes.cli.wording import for_command
from energon_nodes.core.errors import EnergonNodesError

__all__ = ["cli", "main"]


class _Command(NamedTuple):
    """Say where a command is defined, so that help needs none of them."""

    module: str
    help: str


_COMMANDS = {
    "prepare": _Command("prepare", "Make a dataset of a folder of tar shards or a JSON lines file."),
    "prepare-media": _Command("prepare_media", "Store width, height and duration of pictures, audio and video."),
    "info": _Command("info", "Show what is in a dataset: counts, sizes, splits, parts."),
    "lint": _Command("lint", "Check a dataset and list everything that is wrong with it."),
    "preview": _Command("preview", "Look at samples, in the terminal or as a page."),
    "graph": _Command("graph", "Draw the nodes of a pipeline."),
}

_HELP = """Prepare, inspect and check datasets for training.

\b
A dataset is a folder of tar shards, in which files with one key make a sample:
  000017.jpg and 000017.txt are the parts jpg and txt of the sample 000017.

\b
Typical calls, in this order:
  energon-nodes preview shards/            what is in these tars?
  energon-nodes lint shards/               is anything wrong with them?
  energon-nodes prepare shards/            make a dataset; it asks what it needs to know
  energon-nodes info shards/               counts, sizes, splits
  energon-nodes preview shards/ --html page.html
  energon-nodes graph shards/              which nodes would read it?

Paths may be URLs that fsspec knows (s3://, gs://, memory://, ...). `energon-nodes COMMAND --help` explains a command.

\b
Exit status: 0 fine; 1 problems found, or the command failed; 2 wrong usage.
"""


class _Failure(click.ClickException):
    """Show an error as text, with its notes, and without a traceback."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(for_command(described(error)))

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


def described(error: BaseException) -> str:
    """Return an error for people: its text, and its notes in lines below.

    Example:
        >>> described(FileNotFoundError(2, "No such file or directory", "a.tar"))
        'a.tar: No such file or directory'

    Args:
        error: The error.

    Returns:
        The text.
    """
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = str(error) or type(error).__name__
    return "\n".join([text, *(f"  {note}" for note in getattr(error, "__notes__", ()))])


class _Group(click.Group):
    """Import commands when they are asked for, and turn errors of the library into text."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"energon_nodes.cli.{_COMMANDS[cmd_name].module}")
        return getattr(module, _COMMANDS[cmd_name].module)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (EnergonNodesError, OSError, ImportError) as error:
            # A closed pipe (`... | head`) is for click.
            if ctx.params.get("debug") or getattr(error, "errno", None) == errno.EPIPE:
                raise
            raise _Failure(error) from error


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        try:
            version = metadata.version("energon_nodes")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        click.echo(f"energon-nodes {version}")
        ctx.exit()


@click.group(cls=_Group, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("-v", "--debug", is_flag=True, help="Show the traceback of errors.")
def cli(debug: bool) -> None:
    """Hold the options that stand before the command."""
    del debug  # read from the context by `_Group.invoke`


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"warning: {for_command(str(message))}", err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    Example:
        >>> try:
        ...     main(["no-such-command"])
        ... except SystemExit as stop:
        ...     stop.code
        2

    Args:
        arguments: What stands behind the name of the program; None takes the arguments of this process.
    """
    warnings.showwarning = _show_warning
    run: Callable[..., Any] = cli
    run(arguments, prog_name="energon-nodes")
