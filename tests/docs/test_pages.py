"""What README and docs show runs, and what they link to is there."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, run_page

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "api"  # written by the documentation build, which also checks the links into it
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED not in page.parents)]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_of_a_page_is_marked_as_what_it_is(page: Path) -> None:
    """A block without a language, or with a misspelt one, would never be run."""
    known = {"python", "bash", "text", "yaml", "mermaid", "toml"}
    unknown = [(block.line, block.info) for block in blocks(page) if block.info not in known and block.info[:1] != "{"]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_of_a_page_lead_to_files(page: Path) -> None:
    targets = [
        (page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))
    ]
    assert [target for target in targets if not target.exists() and GENERATED not in target.parents] == []


def test_a_failing_block_is_reported_with_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\n```\n\ntext\n\n```python\nraise KeyError(x)\n```\n")
    with pytest.raises(KeyError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 10


def test_a_wrong_output_in_a_block_of_prompts_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\n```\n\n```python\n>>> x + 1\n4\n```\n")
    with pytest.raises(AssertionError, match="Expected:"):
        run_page(page)


def test_a_block_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n")
    with pytest.raises(ValueError, match="line 1 is never closed"):
        run_page(page)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = [block.text.strip() for block in blocks(ROOT / "README.md") if block.info == "bash"]
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == commands[1]
