"""`graph`: the nodes of pipelines in Python, and of datasets."""

import sys
from pathlib import Path

import pytest

import energon_nodes as en
from tests.cli.running import run
from tests.storage.tars import samples_of, write_tar

CODE = """
import energon_nodes as en

pipeline = en.items(range(10)).shuffle(4).batch(2)
number = 7

class Data:
    train = pipeline.limit(3)

def make():
    return en.blend(en.items(range(3)), en.items(range(4))).map(str)

def fails():
    import module_that_is_not_there
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_graph_pipelines.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "my_graph_pipelines", raising=False)
    return tmp_path / "my_graph_pipelines.py"


def test_a_pipeline_of_a_module_is_drawn_as_a_tree(code: Path):
    assert run("graph", "my_graph_pipelines:pipeline").output.splitlines() == [
        "Batch(size=2)",
        "└─ Shuffle(size=4)",
        "   └─ Items(10 elements)",
    ]
    assert run("graph", "my_graph_pipelines:Data.train").output.startswith("Limit(n=3)")


def test_a_function_of_a_file_makes_the_pipeline(code: Path):
    output = run("graph", f"{code}:make").output
    assert output.startswith("Map(fn=str)\n└─ Blend(")
    assert "├─ Items(3 elements)" in output


def test_mermaid_is_printed_on_request(code: Path):
    output = run("graph", "my_graph_pipelines:pipeline", "--mermaid").output
    assert output.startswith("flowchart TD\n")
    assert "n1 --> n2" in output


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("my_graph_pipelines:pipelin", "did you mean 'pipeline'?"),
        ("my_graph_pipelines:number", "is a int, not a pipeline"),
        ("json:dumps", "json:dumps cannot be called without arguments"),
        ("math:gcd", "math:gcd is a int, not a pipeline"),
        ("my_graph_pipelines:fails", "module_that_is_not_there"),
        ("no_such_module_here:x", "there is no module 'no_such_module_here'"),
        ("nothing.py:x", "nothing.py does not exist"),
    ],
)
def test_what_is_no_pipeline_is_explained(code: Path, target: str, text: str):
    assert text in run("graph", target, status=1).output


def test_settings_of_datasets_do_not_go_with_python(code: Path):
    run("graph", "my_graph_pipelines:pipeline", "--split", "val", status=2)


def test_a_dataset_shows_the_pipeline_that_reads_it(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 4))
    write_tar(tmp_path / "1.tar", samples_of(4, 6))
    en.prepare(tmp_path, split="1,1,0", sample_type="TextSample", field_map={"text": "txt"})
    lines = run("graph", tmp_path, "--split", "val").output.splitlines()
    assert lines[0].startswith("Map(fn=FieldMap(TextSample, {'text': 'txt'}))")
    assert [line.strip("─└ ").partition("(")[0] for line in lines] == ["Map", "Map", "Shards"]
    output = run("graph", tmp_path / "0.tar").output
    assert output.startswith("Shards(")
    run("graph", tmp_path / "0.tar", "--split", "x", status=1)
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    assert run("graph", tmp_path / "a.jsonl").output.startswith("Jsonl(")
    assert "no split part 'x'" in run("graph", tmp_path, "--split", "x", status=1).output
