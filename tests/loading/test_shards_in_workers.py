"""Shards read in workers: files that are open before the fork, ranks and workers, places in errors."""

from __future__ import annotations

import io
import tarfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from tests.loading.pipelines import round_trip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of three shards with 37 samples."""
    folder = tmp_path_factory.mktemp("shards")
    numbers = iter(range(37))
    for shard, count in enumerate((20, 1, 16)):
        with tarfile.open(folder / f"{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in islice(numbers, count):
                member = tarfile.TarInfo(f"{number:03}.txt")
                member.size = 3
                tar.addfile(member, io.BytesIO(f"{number:03}".encode()))
    return folder


def number_of(sample: dict[str, Any]) -> int:
    number = int(sample["txt"])
    if number == 30:
        raise ValueError("thirty is bad")
    return number


def text_of(sample: dict[str, Any]) -> int:
    return int(sample["txt"])


def pipeline(folder: Path) -> en.Node[int]:
    return en.shards(folder, shuffle=True, sequence_length=3).shuffle(4).map(text_of)


def test_workers_read_shards_that_the_parent_has_open_while_its_threads_read(folder: Path) -> None:
    threaded = pipeline(folder).parallel_map(str, workers=2).prefetch(2)
    reference = threaded.loader(streams=4)
    first, second = list(reference), list(reference)
    here = iter(threaded.loader(streams=4))
    assert next(here) == first[0]
    with threaded.loader(streams=4, num_workers=2) as loader:
        iterator = iter(loader)
        got = [next(iterator) for _ in range(5)]
        assert next(here) == first[1]  # both processes read from the same open files
        state = round_trip(loader.state_dict())
        assert got + list(iterator) == first
        assert list(loader) == second
    assert list(here) == first[2:]
    again = threaded.loader()
    again.load_state_dict(state)
    assert list(again) == first[5:]


def test_spawned_workers_open_the_shards_themselves(folder: Path) -> None:
    with pipeline(folder).loader(num_workers=1, streams=2, mp_context="spawn") as loader:
        assert list(loader) == list(pipeline(folder).loader(streams=2))


def test_three_shards_on_two_ranks_with_two_workers_each_give_every_sample_once(folder: Path) -> None:
    seen = []
    for rank in range(2):
        with pipeline(folder).loader(rank=rank, world_size=2, num_workers=2) as loader:
            seen += list(loader)
    assert sorted(seen) == list(range(37))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_worker_names_sample_shard_and_offset(folder: Path, workers: int) -> None:
    failing = en.shards(folder).map(number_of).batch(2)
    with failing.loader(num_workers=workers, streams=2) as loader, pytest.raises(ValueError, match="thirty") as caught:
        list(loader)
    notes = "\n".join(caught.value.__notes__)
    assert "at node Map(fn=number_of)" in notes
    assert "restore key (0, 30), sample '030'" in notes
    assert "2.tar" in notes
    assert "at byte" in notes


def test_a_shard_that_is_cut_is_an_error_in_a_worker_and_no_shorter_epoch(folder: Path, tmp_path: Path) -> None:
    for name in ("0.tar", "1.tar", "2.tar"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    source = en.shards(tmp_path)
    data = (tmp_path / "0.tar").read_bytes()
    (tmp_path / "0.tar").write_bytes(data[: len(data) // 2])
    with source.loader(num_workers=2) as loader, pytest.raises(en.ShardError, match=r"0\.tar"):
        list(loader)
