"""The programs in examples/ run as they are."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import energon_nodes as en

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


@pytest.mark.parametrize(
    ("example", "packed", "resumed"),
    [
        ("interleaved.py", "320 documents in ", "packs, the same"),
        ("captions.py", " in 60 packs", "batches, the same"),
        ("polylithic.py", " pictures came from the pool", "batches, the same"),
    ],
)
def test_an_example_goes_on_exactly_with_any_number_of_workers(example: str, packed: str, resumed: str) -> None:
    output = run(str(EXAMPLES / example))
    assert packed in output
    assert output.count(resumed) == 2  # with one worker and with none
    assert "\nexact, " in output


@pytest.mark.parametrize("example", ["interleaved.py", "captions.py"])
def test_an_example_would_notice_another_pixel(example: str, tmp_path: Path) -> None:
    """What is compared after the resume is a digest; one that left something out would compare nothing."""
    program = runpy.run_path(str(EXAMPLES / example), run_name="example")
    program["write_data"](tmp_path / "data")
    pack = next(program["build"](tmp_path / "data"))
    before = program["digest"](pack)
    patches = pack["patches"] if isinstance(pack, dict) else pack.extra["patches"][0][0]
    patches[0, 0, 0, 0] ^= 1
    assert program["digest"](pack) != before


def test_the_polylithic_example_would_notice_another_pixel(tmp_path: Path) -> None:
    program = runpy.run_path(str(EXAMPLES / "polylithic.py"), run_name="example")
    program["write_data"](tmp_path)
    with en.cache_pool() as pool:
        batch = next(program["build"](tmp_path, pool))
    before = program["digest"](batch)
    next(patches for patches in batch.extra["patches"][0] if len(patches))[0, 0, 0, 0] ^= 1
    assert program["digest"](batch) != before


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_explains_itself(example: str) -> None:
    program = ast.parse((EXAMPLES / example).read_text(encoding="utf-8"))
    assert (ast.get_docstring(program) or "nothing").splitlines()[0] in run(str(EXAMPLES / example), "--help")
