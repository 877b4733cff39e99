"""The frame of the command line: help, version, errors, exit statuses."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from energon_nodes.cli.main import cli
from tests.cli.running import run
from tests.storage.tars import samples_of, write_tar

COMMANDS = ("prepare", "prepare-media", "info", "lint", "preview", "graph")


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "energon_nodes.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_help_lists_all_commands_and_teaches_typical_calls():
    output = run("--help").output
    for command in COMMANDS:
        assert f"\n  {command} " in output
    assert "Exit status: 0 fine; 1 problems found" in output
    assert run("-h").output == output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples_and_exit_statuses(command: str):
    output = run(command, "--help").output
    assert f"energon-nodes {command} " in output
    assert "Examples:" in output
    assert "Exit status: 0" in output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text(command: str):
    found = cli.get_command(cli.make_context("energon-nodes", ["x"], resilient_parsing=True), command)
    assert found is not None
    options = [parameter for parameter in found.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_group_help_imports_no_command_and_no_template():
    code = (
        "import sys, energon_nodes; before = set(sys.modules)\n"
        "from energon_nodes.cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print('LOADED', *(name for name in set(sys.modules) - before if '.' in name or name == 'jinja2'))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = result.stdout.partition("LOADED")[2].split()
    assert [
        name for name in loaded if name.startswith(("energon_nodes.recipes", "energon_nodes.storage", "jinja2"))
    ] == []


def test_the_program_runs_as_a_module_and_says_its_version():
    result = program("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("energon-nodes ")


def test_errors_of_the_library_are_text_with_status_1(tmp_path: Path):
    result = program("info", tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: no shards (*.tar) in the folder {tmp_path}")
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback(tmp_path: Path):
    result = program("--debug", "info", tmp_path)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "DatasetError: no shards" in result.stderr


@pytest.mark.parametrize("arguments", [("no-such-command",), ("info",), ("lint", "--no-such-option", "x")])
def test_wrong_usage_has_status_2(arguments: tuple[str, ...]):
    assert "Usage:" in run(*arguments, status=2).output


@pytest.mark.parametrize("command", ["info", "lint", "preview", "prepare", "prepare-media", "graph"])
def test_paths_that_do_not_exist_are_errors_with_status_1(tmp_path: Path, command: str):
    output = run(command, tmp_path / "nothing", status=1).output
    assert output.startswith("error: ")
    assert str(tmp_path / "nothing") in output


@pytest.mark.parametrize("command", ["info", "lint", "preview", "prepare"])
def test_an_empty_folder_is_an_error_with_status_1(tmp_path: Path, command: str):
    assert "no shards (*.tar) in the folder" in run(command, tmp_path, status=1).output


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 300))
    command = f"{sys.executable} -m energon_nodes.cli preview {tmp_path} --count 300 | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(tmp_path)
    assert "Traceback" not in result.stderr
