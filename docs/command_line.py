"""Write the help texts and the list of lint codes into `docs/command-line.md`, from the package itself.

`python -m docs.command_line` rewrites the page; `tests/docs/test_commands.py` fails when it differs.
"""

import re
from pathlib import Path

from click.testing import CliRunner

from energon_nodes.cli.main import cli
from energon_nodes.recipes.problems import KINDS

PAGE = Path(__file__).parent / "command-line.md"
NOTE = "written by python -m docs.command_line"
MARKED = re.compile(rf"(<!-- ([\w -]+): begin, {NOTE} -->\n).*?(<!-- \2: end -->)", re.DOTALL)


def help_of(command: str) -> str:
    """Return the help text of a command, or of the group for "energon-nodes"."""
    arguments = [] if command == "energon-nodes" else [command]
    # A width of its own, so that the text does not depend on the terminal.
    result = CliRunner().invoke(cli, [*arguments, "--help"], prog_name="energon-nodes", terminal_width=100)
    return "\n".join(["```text", result.output.rstrip(), "```"])


def codes() -> str:
    """Return all codes of `lint` as a Markdown table."""
    rows = [f"| `{code}` | {kind.severity} | {kind.meaning} | {kind.remedy} |" for code, kind in KINDS.items()]
    return "\n".join(["| code | severity | what is wrong | remedy |", "|---|---|---|---|", *rows])


def rewritten(page: str) -> str:
    """Return the text of the page with what the package says today."""

    def today(found: re.Match[str]) -> str:
        name = found[2]
        return f"{found[1]}\n{codes() if name == 'codes' else help_of(name)}\n\n{found[3]}"

    return MARKED.sub(today, page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
