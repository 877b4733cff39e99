"""Run commands as a user does, and look at what they print."""

from pathlib import Path

from click.testing import CliRunner, Result

from energon_nodes.cli.main import cli


def run(*arguments: str | Path, status: int = 0, text: str | None = None) -> Result:
    """Run a command in this process and compare its exit status; `text` is what is typed."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result
