"""A dataset that is being prepared survives a kill at any moment, and can be prepared again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.storage.metadata import is_prepared
from tests.storage.tars import samples_of, write_tar

Contents = dict[str, list[tuple[str, str, bytes]]]
Run = Callable[..., int]
SPLITS = ("train", "val")


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Return a function that prepares in another process and returns its exit status, -9 if it was killed."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.recipes.prepare_and_die"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdin
        assert process.stdout

        def one(folder: Path, settings: dict[str, Any], **when: float) -> int:
            print(json.dumps({"root": str(folder), "settings": settings, **when}), file=process.stdin, flush=True)
            return int(process.stdout.readline())  # pyright: ignore[reportOptionalMemberAccess]

        yield one
        process.stdin.close()


def shard(root: Path, name: str, first: int, samples: int = 4) -> None:
    write_tar(root / name, samples_of(first, first + samples))


def contents(root: Path) -> Contents:
    """Return key, shard and text of the samples of each part of the split."""
    return {
        split: [(sample["__key__"], sample["__shard__"], sample["txt"]) for sample in en.shards(root, split=split)]
        for split in SPLITS
    }


def check_lookup(root: Path, expected: Contents) -> bool:
    """Look samples up; they must be right, or refused by name. Return whether they were found."""
    try:
        store = en.store(root)
        for samples in expected.values():
            for key, _, text in samples:
                assert store[f"{key}.txt"] == text
    except en.DatasetError as error:
        if "prepare the dataset again" in str(error) or "out of step" in str(error):
            return False
        raise
    return True


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if ".partial-" in path.name]


def expected_after(folder: Path, scratch: Path, settings: dict[str, Any]) -> Contents:
    """Return what a run that is not killed makes of a folder, in a copy of it."""
    shutil.copytree(folder, scratch)
    en.prepare(scratch, **settings)
    return contents(scratch)


def base(root: Path) -> None:
    for number in range(4):
        shard(root, f"{number}{number % 2}.tar", number * 100)


def unchanged(root: Path) -> dict[str, Any]:
    """Leave the shards as they are, and ask for another split."""
    return {"overwrite": True, "split": {"train": "[01]", "val": "[23]"}}


def more(root: Path) -> dict[str, Any]:
    """Add shards in front of, between and behind the others, so that all of them get other numbers."""
    for number, name in enumerate(("000.tar", "115.tar", "x/9.tar")):
        shard(root, name, 1000 + number * 100)
    return {"overwrite": True, "split": "1,1,0"}


def updated(root: Path) -> dict[str, Any]:
    """Add shards, and let the split that there is take them up."""
    more(root)
    return {"update": True}


@pytest.mark.parametrize(("scene", "step"), [(unchanged, 5), (more, 1), (updated, 3)])
def test_a_kill_before_any_change_of_a_file_leaves_a_whole_dataset(
    tmp_path: Path, run: Run, scene: Callable[[Path], dict[str, Any]], step: int
) -> None:
    start = tmp_path / "start"
    base(start)
    en.prepare(start, split="3,1,0")
    old = contents(start)
    settings = scene(start)
    new = expected_after(start, tmp_path / "whole", settings)
    assert old != new
    change, seen_old, seen_new, refused = 1, 0, 0, 0
    while True:
        folder = tmp_path / f"killed{change}"
        shutil.copytree(start, folder)
        status = run(folder, settings, change=change)
        found = contents(folder)
        assert found in (old, new), f"before change {change}"
        seen_old, seen_new = seen_old + (found == old), seen_new + (found == new)
        is_refused = not check_lookup(folder, old)
        refused += is_refused
        if status == 0:
            break
        assert status == -9
        if is_refused or change % 4 == 1:
            en.prepare(folder, **settings)
            assert (leftovers(folder), contents(folder)) == ([], new)
            assert check_lookup(folder, new)
        shutil.rmtree(folder)
        change += step
    assert change > 30
    assert seen_old > 20 / step
    assert seen_new >= 1
    assert refused <= 16 / step


def test_a_kill_of_the_first_run_leaves_a_folder_that_can_be_prepared(tmp_path: Path, run: Run) -> None:
    start = tmp_path / "start"
    base(start)
    new = expected_after(start, tmp_path / "whole", {"split": "1,1,0"})
    change = 1
    while True:
        folder = tmp_path / f"killed{change}"
        shutil.copytree(start, folder)
        status = run(folder, {"split": "1,1,0"}, change=change)
        if is_prepared(str(folder)):
            assert contents(folder) == new
        if status == 0:
            break
        en.prepare(folder, split="1,1,0", overwrite=is_prepared(str(folder)))
        assert (leftovers(folder), contents(folder)) == ([], new)
        assert check_lookup(folder, new)
        shutil.rmtree(folder)
        change += 3
    assert change > 20


def test_kills_at_random_moments_leave_a_whole_dataset(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "data"
    for number in range(12):
        shard(folder, f"{number:02d}.tar", number * 1000, samples=60)
    en.prepare(folder, split="8,1,0")
    settings = {"overwrite": True, "split": "1,1,0"}
    expected = [contents(folder), expected_after(folder, tmp_path / "whole", settings)]
    started = time.perf_counter()
    run(tmp_path / "whole", settings)
    whole = time.perf_counter() - started
    random, killed = Random(7), 0
    for _ in range(25):
        killed += run(folder, settings, seconds=random.uniform(0, 1.1 * whole)) == -9
        assert contents(folder) in expected
        check_lookup(folder, expected[0])
    assert killed > 5
    en.prepare(folder, **settings)  # pyright: ignore[reportArgumentType]
    assert (leftovers(folder), contents(folder)) == ([], expected[1])
    assert check_lookup(folder, expected[1])


def test_two_programs_do_not_prepare_the_same_folder_at_once(tmp_path: Path) -> None:
    base(tmp_path)
    code = (
        "import sys\n"
        "from energon_nodes.storage.placing import preparing\n"
        f"with preparing({str(tmp_path)!r}, ['']):\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(en.DatasetError, match="another program is preparing"):
            en.prepare(tmp_path)
        other.kill()
    assert en.prepare(tmp_path).samples == 16


def test_files_of_others_are_not_removed(tmp_path: Path) -> None:
    base(tmp_path)
    meta = tmp_path / ".nv-meta"
    meta.mkdir()
    kept = [
        tmp_path / ".partial-4.tar-x",
        tmp_path / "00.tar.idx.mine",
        meta / ".partial-keys.table-x",
        meta / "mine.yaml",
    ]
    gone = [tmp_path / ".partial-00.tar.idx-x", meta / ".partial-index.sqlite-x", meta / ".partial-split.yaml-x"]
    for path in kept + gone:
        path.write_text("x")
    en.prepare(tmp_path)
    assert [path.exists() for path in kept] == [True] * 4
    assert [path.exists() for path in gone] == [False] * 3
