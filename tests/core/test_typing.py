"""Type checkers infer the elements of a pipeline through every verb."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from energon_nodes.core import verbs

SNIPPETS = Path(__file__).with_name("verb_types.py")


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is in the extra `types`")
def test_pyright_infers_what_the_snippets_say() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(SNIPPETS)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=SNIPPETS.parents[2])
    report = json.loads(output.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    problems = [
        f"line {item['range']['start']['line'] + 1}: {item['message']}" for item in report["generalDiagnostics"]
    ]
    assert not problems, "\n".join(problems)


def test_every_verb_of_the_package_has_a_snippet() -> None:
    text = SNIPPETS.read_text()
    makers = verbs.class_verbs() | verbs.function_verbs()
    own = [verb for verb, maker in makers.items() if maker.__module__.startswith("energon_nodes.")]
    lacking = [verb for verb in own if not re.search(rf"assert_type\(.*\.{verb}\(", text)]
    lacking = [verb for verb in lacking if not verb.startswith("every_other")]
    assert not lacking
