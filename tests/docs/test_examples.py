"""The programs in examples/ run as they are."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*command: str) -> str:
    """Run a Python program in a process of its own and return what it prints; warnings are errors there too."""
    result = subprocess.run(
        [sys.executable, "-W", "error", *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


def test_the_quickstart_finds_every_batch_after_the_resume_equal() -> None:
    output = run(str(EXAMPLES / "quickstart.py"))
    assert "\nequal: " in output
    assert "DIFFERS" not in output
    assert "missing" not in output


def test_the_quickstart_explains_itself() -> None:
    assert "resume" in run(str(EXAMPLES / "quickstart.py"), "--help")
