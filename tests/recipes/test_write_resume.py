"""A program that writes a dataset and dies at any moment: the next one makes the same of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, SampleError, StateError
from energon_nodes.recipes import write as write_module
from energon_nodes.recipes import write_run, write_state
from tests.recipes.test_write import contents, names, sample, samples


class Crash(BaseException):
    """Stand for the end of the process: nothing may catch it."""


def crash_at(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, call: int) -> None:
    """Let the process end in the `call`-th call of a function."""
    original, calls = getattr(module, name), iter(range(1, 10**6))

    def crashing(*arguments: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Crash
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, crashing)


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (write_state, "write_bytes", 1),  # the first state
        (write_run, "replacing", 1),
        (write_run, "replacing", 3),
        (write_state, "write_bytes", 2),  # the keys of the first shard, which is there
        (write_state, "write_bytes", 3),  # its state
        (write_state, "write_bytes", 7),  # the state of the last shard: the pipeline is at its end
        (write_state, "write_bytes", 8),  # that all is written
        (write_module, "prepare_dataset", 1),
        (write_state, "remove", 2),  # the state is half removed
    ],
)
def test_a_crash_at_any_step_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, call: int
):
    en.write(samples(9, shuffle=True).shuffle(4), tmp_path / "whole", max_samples=3)
    with monkeypatch.context() as patch:
        crash_at(patch, module, name, call)
        with pytest.raises(Crash):
            en.write(samples(9, shuffle=True).shuffle(4), tmp_path / "out", max_samples=3)
    prepared = en.write(samples(9, shuffle=True).shuffle(4), tmp_path / "out", max_samples=3)
    assert prepared.samples == 9
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert names(tmp_path / "out") == names(tmp_path / "whole")
    assert names(tmp_path / "out" / ".nv-meta") == names(tmp_path / "whole" / ".nv-meta")


def stop_after(monkeypatch: pytest.MonkeyPatch, folder: Path, shards: int, **options: Any) -> None:
    with monkeypatch.context() as patch:
        crash_at(patch, write_run, "replacing", shards + 1)
        with pytest.raises(Crash):
            en.write(samples(), folder, max_samples=3, **options)


def test_finished_shards_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "out"
    stop_after(monkeypatch, folder, 2)
    before = {name: (folder / name).stat().st_ino for name in names(folder) if name.endswith(".tar")}
    assert len(before) == 2
    en.write(samples(), folder, max_samples=3)
    assert before == {name: (folder / name).stat().st_ino for name in before}


def test_going_on_with_other_settings_or_another_pipeline_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "out"
    stop_after(monkeypatch, folder, 2)
    before = names(folder)
    with pytest.raises(DatasetError, match="begun with max_samples=3, and this call says max_samples=4"):
        en.write(samples(), folder, max_samples=4)
    with pytest.raises(DatasetError, match="begun with encode="):
        en.write(samples(), folder, max_samples=3, encode={"json": None})
    with pytest.raises(DatasetError, match="resume=True"):
        en.write(samples(), folder, max_samples=3, resume=False)
    with pytest.raises(StateError, match="elements=10 where this pipeline has elements=11"):
        en.write(samples(11), folder, max_samples=3)
    with pytest.raises(StateError, match="seed"):
        en.write(samples(), folder, max_samples=3, seed=1)
    assert names(folder) == before
    assert en.write(samples(), folder, max_samples=3).samples == 10


def test_a_shard_that_was_lost_or_put_there_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "out"
    stop_after(monkeypatch, folder, 2)
    (folder / "alien.tar").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"not empty: it has 'alien.tar'"):
        en.write(samples(), folder, max_samples=3)
    (folder / "alien.tar").unlink()
    (folder / "shard_000001.tar").write_bytes(b"x")
    with pytest.raises(DatasetError, match=r"shard_000001.tar.*has 1 bytes in place of 10240"):
        en.write(samples(), folder, max_samples=3)
    (folder / "shard_000001.tar").unlink()
    with pytest.raises(DatasetError, match=r"shard_000001.tar.*is gone"):
        en.write(samples(), folder, max_samples=3)


def test_keys_of_finished_shards_are_known_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stop_after(monkeypatch, tmp_path / "out", 2)

    def clashing(number: int) -> dict[str, Any]:
        return sample(1 if number == 8 else number)

    with pytest.raises(DatasetError, match=r"sample 8 has the key 'a/001', which a sample in .*shard_000000.tar has"):
        en.write(samples(make=clashing), tmp_path / "out", max_samples=3)


def test_a_failed_first_shard_binds_nobody_to_its_settings(tmp_path: Path):
    with pytest.raises(SampleError, match="no rule"):
        en.write(en.items([{"html": "x"}]), tmp_path / "out")
    assert en.write(en.items([{"html": "x"}]), tmp_path / "out", encode={"html": str.encode}).samples == 1


def test_two_programs_do_not_write_to_one_folder(tmp_path: Path):
    def again(number: int) -> dict[str, Any]:
        if number == 1:
            en.write(samples(), tmp_path / "out")
        return sample(number)

    with pytest.raises(DatasetError, match="another program is writing"):
        en.write(samples(make=again), tmp_path / "out")


PROGRAM = """
import sys
import energon_nodes as en

def make(number):
    print(number, flush=True)
    return {"__key__": f"{number:05d}", "txt": f"text {number} " * 20, "json": {"n": number}}

pipeline = en.items(range(200), shuffle=True).map(make).shuffle(20).map(lambda sample: sample)
en.write(pipeline, sys.argv[1], max_samples=17, split="1,1,1", streams=2, num_workers=int(sys.argv[2]))
print("done", flush=True)
"""


def run_until(folder: Path, workers: int, lines: int) -> bool:
    """Start the program, kill it after so many lines of its output, and return whether it came to its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if len(seen) == lines:
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.stdout.close()
    process.wait()
    return "done\n" in seen


@pytest.mark.parametrize("workers", [0, 2])
def test_a_program_killed_at_random_moments_writes_the_same_bytes(tmp_path: Path, workers: int):
    assert run_until(tmp_path / "whole", 0, 10**6)
    lines = iter([3, 70, 64])
    while not run_until(tmp_path / "out", workers, next(lines, 10**6)):
        pass
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert contents(tmp_path / "out", "*.idx") == contents(tmp_path / "whole", "*.idx")
    assert names(tmp_path / "out") == names(tmp_path / "whole")
    for name in (".info.json", "split.yaml", "dataset.yaml"):
        assert (tmp_path / "out/.nv-meta" / name).read_bytes() == (tmp_path / "whole/.nv-meta" / name).read_bytes()
    parts = [en.shards(tmp_path / "out", split=part) for part in ("train", "val", "test")]
    assert sorted(json.loads(each["json"])["n"] for part in parts for each in part) == list(range(200))


# ---- remote ----------------------------------------------------------------------------------


def test_a_url_gets_the_same_bytes_and_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = MemoryFileSystem()
    url = "memory://written-remotely/out"
    with monkeypatch.context() as patch:
        crash_at(patch, write_run, "replacing", 3)
        with pytest.raises(Crash):
            en.write(samples(), url, max_samples=3)
    prepared = en.write(samples(), url, max_samples=3)
    en.write(samples(), tmp_path / "out", max_samples=3)
    assert prepared.samples == 10
    for name, data in contents(tmp_path / "out").items():
        assert store.cat(f"/written-remotely/out/{name}") == data
    assert [each["txt"] for each in en.dataset(url)] == [f"text {number}" for number in range(10)]
    assert store.find("/written-remotely/out/.nv-meta/write") == []
    with pytest.raises(DatasetError, match="is not empty"):
        en.write(samples(), url, max_samples=3)
    store.rm("/written-remotely", recursive=True)
