"""Read the Python blocks of a Markdown page and run them, in order, as one script."""

import doctest
import linecache
import re
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands after the fence, its text, and the line of the page its text begins on."""

    info: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    start = 0
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence and opening is None:
            opening, start = fence, number + 1
        elif fence and opening and not fence["info"].strip():
            text = textwrap.dedent("\n".join(lines[start:number])) + "\n"
            found.append(Block(opening["info"].strip(), text, start + 1))
            opening = None
    if opening is not None:
        raise ValueError(f"{page}: the block that opens on line {start} is never closed")
    return found


def run_page(page: Path) -> int:
    """Run the `python` blocks of a page in one namespace and return how many there were.

    A block that starts with `>>>` is a doctest: what it prints is compared. Any other block is executed. Line
    numbers in tracebacks are those of the page.
    """
    code = [block for block in blocks(page) if block.info == "python"]
    # A module of its own, known by name: functions defined on the page can be pickled for worker processes.
    module = types.ModuleType("page_" + re.sub(r"\W", "_", page.stem))
    module.__file__ = str(page)
    linecache.checkcache(str(page))
    sys.modules[module.__name__] = module
    try:
        for block in code:
            if block.text.lstrip().startswith(">>>"):
                run_doctest(block, page, vars(module))
            else:
                exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]
    return len(code)


def run_doctest(block: Block, page: Path, namespace: dict[str, object]) -> None:
    """Run one block of prompts and outputs; raise `AssertionError` with the report if an output differs."""
    test = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line - 1)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    result = runner.run(test, out=report.append, clear_globs=False)
    namespace.update(test.globs)  # the test ran on a copy; later blocks see its names
    if result.failed:
        raise AssertionError("".join(report))
