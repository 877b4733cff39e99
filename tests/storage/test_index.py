from pathlib import Path

import numpy as np
import pytest

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import index
from energon_nodes.storage.index import IndexFiles, index_path


def write_index(path: Path, count: int, size: int = 1024, first: int = 0) -> list[int]:
    offsets = [first, *range(size, size * (count + 1), size)]
    np.array(offsets, "<u8").tofile(path)
    return offsets


@pytest.mark.parametrize(
    ("shard", "name"),
    [
        ("x.tar", "x.tar.idx"),
        ("x.y.tar", "x.y.tar.idx"),
        ("x.tgz", "x.tar.idx"),
        ("a.b/x", "a.b/x.tar.idx"),
        (".tar", ".tar.tar.idx"),
    ],
)
def test_an_index_is_named_after_its_shard(shard: str, name: str):
    assert index_path(shard) == name


@pytest.mark.parametrize("count", [1, 10, 20_000])
def test_any_entries_of_small_and_large_files_are_read(tmp_path: Path, count: int):
    offsets = np.array(write_index(tmp_path / "0.tar.idx", count, first=512))
    files = IndexFiles([str(tmp_path / "0.tar.idx")], [count])
    offsets[0] = 0  # readers of the format begin at 0 whatever the file says
    generator = np.random.default_rng(0)
    wanted = [np.arange(count), np.array([0]), np.array([count - 1])]
    wanted += [np.sort(generator.integers(0, count, size)) for size in (1, 3, 50)]
    for numbers in wanted:
        begins, ends = files.entries(0, numbers)
        assert begins.tolist() == offsets[numbers].tolist()
        assert ends.tolist() == offsets[numbers + 1].tolist()


def test_no_index_file_is_touched_before_it_is_needed(tmp_path: Path):
    files = IndexFiles([str(tmp_path / "missing.tar.idx")], [5])
    with pytest.raises(DatasetError, match=r"missing.tar.idx does not exist; prepare the dataset again"):
        files.entries(0, np.array([0]))


@pytest.mark.parametrize(
    ("entries", "message"), [(5, "has 5 entries, fewer than the 11"), (15, "has more than the 11 entries")]
)
def test_an_index_of_another_length_is_named(tmp_path: Path, entries: int, message: str):
    write_index(tmp_path / "0.tar.idx", entries - 1)
    with pytest.raises(DatasetError, match=message):
        IndexFiles([str(tmp_path / "0.tar.idx")], [10]).entries(0, np.arange(10))


@pytest.mark.parametrize("entries", [9_000, 11_000])
def test_a_long_index_of_another_length_is_named_where_it_is_read(tmp_path: Path, entries: int):
    write_index(tmp_path / "0.tar.idx", entries - 1)
    files = IndexFiles([str(tmp_path / "0.tar.idx")], [10_000])
    files.entries(0, np.array([5]))
    with pytest.raises(DatasetError, match=r"fewer|more than"):
        files.entries(0, np.array([9_999]))


def test_an_index_that_does_not_ascend_is_named(tmp_path: Path):
    np.array([0, 2048, 1024], "<u8").tofile(tmp_path / "0.tar.idx")
    with pytest.raises(DatasetError, match="does not ascend"):
        IndexFiles([str(tmp_path / "0.tar.idx")], [2]).entries(0, np.arange(2))


def test_what_is_kept_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "_KEPT", 100)
    for number in range(50):
        write_index(tmp_path / f"{number}.tar.idx", 9)
    files = IndexFiles([str(tmp_path / f"{number}.tar.idx") for number in range(50)], [9] * 50)
    for number in [*range(50), *range(50)]:
        assert files.entries(number, np.arange(9))[0].tolist() == list(range(0, 9 * 1024, 1024))
        assert sum(map(len, files._kept.values())) <= 100
