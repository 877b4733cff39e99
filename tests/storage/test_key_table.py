"""The table of keys: whatever a dictionary finds, and never what was there before."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, ShardError
from energon_nodes.storage.key_batches import locate_many
from energon_nodes.storage.key_building import KeyTableWriter, table_of
from energon_nodes.storage.key_lookup import encoded
from energon_nodes.storage.key_table import open_key_table, write_key_table
from tests.storage.tars import samples_of, write_tar

PARTS = ["txt", "json", "seg.png", "", "größe"]

samples = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.integers(0, 99999).map("{:08d}".format),
    st.dictionaries(st.sampled_from(PARTS), st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=4),
    max_size=60,
)


def table_with(keys: dict[str, dict[str, tuple[int, int]]]) -> Any:
    names = sorted({part for parts in keys.values() for part in parts})
    places = [place for parts in keys.values() for place in parts.values()]
    shard = (
        *(0, [encoded(key) for key in keys], np.arange(len(keys)) * 512, np.full(len(keys), 512)),
        *([len(parts) for parts in keys.values()], names),
        *([names.index(part) for parts in keys.values() for part in parts],),
        *([offset for offset, _ in places], [size for _, size in places]),
    )
    return table_of(["0.tar"], [shard])


@given(samples, st.lists(st.text(max_size=12)))
def test_the_table_finds_what_a_dictionary_finds(
    keys: dict[str, dict[str, tuple[int, int]]], others: list[str]
) -> None:
    table = table_with(keys)
    expected = {key: row for row, key in enumerate(keys)}
    asked = [*others, *reversed(keys), *others]
    asked = [key for key in asked if not any("\ud800" <= character <= "\udfff" for character in key)]
    assert [table.find(key) for key in asked] == [expected.get(key, -1) for key in asked]
    assert table.find_many(asked).tolist() == [expected.get(key, -1) for key in asked]
    assert list(table.keys()) == list(keys)
    assert [table.parts(row) for row in range(len(table))] == list(keys.values())
    pairs = [(key, part) for key in asked for part in [*PARTS, "none"]]
    places = [keys.get(key, {}).get(part) for key, part in pairs]
    wanted = [None if place is None else (0, *place) for place in places]
    assert [table.locate(*pair) for pair in pairs] == wanted
    assert [tuple(place) for place in locate_many(table, pairs).tolist()] == [place or (-1, -1, -1) for place in wanted]


@pytest.mark.parametrize("form", ["{:08d}", "img_{}", "{:x}", "COCO_val2014_{:012d}", "{0}/{0:b}", "{:032b}"])
def test_runs_of_slots_stay_short_for_keys_as_people_number_them(form: str) -> None:
    keys = [form.format(number).encode() for number in range(50_000)]
    table = table_of(["0.tar"], [(0, keys, np.arange(50_000), np.ones(50_000))])
    assert table.find_many([key.decode() for key in keys]).tolist() == list(range(50_000))
    taken = np.frombuffer(table.slots, "<u4") > 0
    ends = np.flatnonzero(np.diff(taken.astype(int), append=0) == -1)
    begins = np.flatnonzero(np.diff(taken.astype(int), prepend=0) == 1)
    assert (ends - begins).max() < 64


def test_keys_that_are_no_utf8_are_found_as_readers_spell_them() -> None:
    table = table_of(["0.tar"], [(0, [b"\xff\xfe", b"plain"], [0, 512], [512, 512])])
    assert table.find("\udcff\udcfe") == 0
    assert table.find_many(["plain", "\udcff\udcfe"]).tolist() == [1, 0]


def test_keys_in_several_places_are_told_and_the_first_is_found() -> None:
    with tempfile.TemporaryFile() as file:
        writer = KeyTableWriter(file)
        writer.add(0, [b"a", b"b"], [0, 1], [1, 1])
        writer.add(1, [b"c", b"a", b"b"], [0, 1, 2], [1, 1, 1])
        assert writer.finish("") == [(0, 3), (1, 4)]
    table = table_of(["0", "1"], [(0, [b"a", b"b"], [0, 1], [1, 1]), (1, [b"c", b"a", b"b"], [0, 1, 2], [1, 1, 1])])
    assert table.find("a") == table.find_many(["a"])[0] == 0
    assert table.repeated.tolist() == [0, 1, 3, 4]


def test_a_part_that_stands_twice_is_an_error_that_names_it() -> None:
    parts = ([3, 1], ["jpg", "txt"], [0, 1, 0, 0], [512, 1024, 2048, 4096], [1, 2, 3, 4])
    table = table_of(["0.tar"], [(0, [b"a", b"b"], [0, 3584], [3584, 1024], *parts)])
    assert table.locate("a", "txt") == (0, 1024, 2)
    assert table.locate("b", "jpg") == (0, 4096, 4)
    with pytest.raises(ShardError, match=r"the file a\.jpg stands twice in shard '0\.tar'"):
        table.locate("a", "jpg")
    with pytest.raises(ShardError, match="stands twice"):
        locate_many(table, [("b", "jpg"), ("a", "jpg")])


def test_memory_does_not_grow_with_the_dataset_while_a_table_is_written() -> None:
    chunk, chunks = 5_000, 40
    with tempfile.TemporaryFile() as file:
        tracemalloc.start()
        try:
            writer = KeyTableWriter(file)
            for number in range(chunks):
                keys = [b"%09d" % key for key in range(number * chunk, number * chunk + chunk)]
                offsets, zeros = np.arange(chunk) * 512, np.zeros(chunk, int)
                writer.add(number, keys, offsets, offsets, zeros + 1, ["txt"], zeros, offsets, offsets)
            writer.finish("")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 5e6 + 16 * chunk * chunks  # the chunk itself, and a few bytes for each key


# ---- beside a dataset ------------------------------------------------------------------------


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for number in range(3):
        write_tar(root / f"{number}.tar", samples_of(10 * number, 10 * (number + 1)))
    en.prepare(root)
    write_key_table(str(root))  # what `prepare` wrote finds the same; parts may stand in another order in it
    return root


def command(code: str) -> list[str]:
    """Return a command that runs code without the imports of the whole library, which take seconds."""
    package = Path(en.__file__).parent
    bare = "import sys, types; sys.modules['energon_nodes'] = package = types.ModuleType('energon_nodes')\n"
    there = f"package.__path__ = [{str(package)!r}]; from energon_nodes.storage.key_table import *\n"
    return [sys.executable, "-c", bare + there + code]


def inode(root: Path) -> int:
    return (root / ".nv-meta" / "keys.table").stat().st_ino


def test_a_table_written_by_prepare_is_used_also_in_a_copy_of_the_dataset(dataset: Path) -> None:
    before = inode(dataset)
    assert open_key_table(str(dataset)).find("000017") == 17
    assert inode(dataset) == before
    copied = dataset.parent / "copy"
    shutil.copytree(dataset, copied, copy_function=shutil.copyfile)  # with new times of change
    before = inode(copied)
    assert open_key_table(str(copied)).find("000017") == 17
    assert inode(copied) == before


def test_the_same_dataset_gives_the_same_table_in_a_process_and_the_pickle_is_small(dataset: Path) -> None:
    table = open_key_table(str(dataset))
    assert open_key_table(f"{dataset}/") is table
    assert pickle.loads(pickle.dumps(table)) is table
    assert len(pickle.dumps(table)) < 300


def test_a_table_is_made_where_there_is_none_and_where_it_is_not_whole(dataset: Path) -> None:
    place = dataset / ".nv-meta" / "keys.table"
    whole = place.read_bytes()
    for content in (None, b"", whole[: len(whole) // 2], b"\0" * 1000, whole[:-1]):
        place.unlink()
        if content is not None:
            place.write_bytes(content)
        assert open_key_table(str(dataset)).find("000029") == 29
        assert place.read_bytes() == whole


def test_a_table_of_the_dataset_as_it_was_is_never_used(dataset: Path) -> None:
    old = (dataset / ".nv-meta" / "keys.table").read_bytes()
    held = open_key_table(str(dataset))
    write_tar(dataset / "0.tar", samples_of(100, 105))
    en.prepare(dataset, overwrite=True)
    (dataset / ".nv-meta" / "keys.table").write_bytes(old)  # as a program leaves it that knows no such table
    table = open_key_table(str(dataset))
    assert (table.find("000005"), table.find("000104"), len(table)) == (-1, 4, 25)
    assert held.find("000005") == 5


def test_a_change_of_the_index_without_a_new_uuid_is_noticed(dataset: Path) -> None:
    open_key_table(str(dataset))
    with closing(sqlite3.connect(dataset / ".nv-meta" / "index.sqlite")) as database, database:
        database.execute("UPDATE samples SET sample_key = 'renamed' WHERE sample_key = '000003'")
    assert open_key_table(str(dataset)).find("renamed") == 3


def test_a_dataset_without_uuid_has_its_table_tied_to_the_index_alone(dataset: Path) -> None:
    (dataset / ".nv-meta" / "index.uuid").unlink()
    assert open_key_table(str(dataset)).find("000003") == 3
    before = inode(dataset)
    assert open_key_table(str(dataset)).find("000003") == 3
    assert inode(dataset) == before


def test_a_dataset_that_cannot_be_written_to_has_its_table_in_the_cache_folder(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_NODES_CACHE", str(tmp_path / "cache"))
    place = dataset / ".nv-meta" / "keys.table"
    place.unlink()
    place.mkdir()  # no file can take this place
    assert open_key_table(str(dataset)).find("000003") == 3
    [cached] = (tmp_path / "cache" / "keys").iterdir()
    before = cached.stat().st_ino
    code = f"print(open_key_table({str(dataset)!r}).find('000029'))"
    assert subprocess.run(command(code), capture_output=True, text=True).stdout == "29\n"
    assert cached.stat().st_ino == before
    cached.write_bytes(b"damaged")
    del before
    assert open_key_table(str(dataset)).find("000003") == 3


def test_without_any_place_to_write_to_the_table_has_no_name(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ENERGON_NODES_CACHE", str(tmp_path / "file"))
    place = dataset / ".nv-meta" / "keys.table"
    place.unlink()
    place.mkdir()
    assert open_key_table(str(dataset)).find("000003") == 3


def test_a_new_version_replaces_the_old_one_in_the_cache_folder(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_NODES_CACHE", str(tmp_path / "cache"))
    place = dataset / ".nv-meta" / "keys.table"
    for _ in range(2):
        place.unlink()
        place.mkdir()
        assert open_key_table(str(dataset)).find("000003") == 3
        place.rmdir()
        en.prepare(dataset, overwrite=True)
    assert len(list((tmp_path / "cache" / "keys").iterdir())) == 1


def test_a_remote_dataset_has_its_table_copied_or_made_in_the_cache_folder(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, with_table in enumerate((True, False)):
        monkeypatch.setenv("ENERGON_NODES_CACHE", str(tmp_path / f"cache{number}"))
        root = f"memory://key_table_{number}"
        for path in dataset.rglob("*"):
            if path.is_file() and (with_table or path.name != "keys.table"):
                MemoryFileSystem().pipe(f"{root[8:]}/{path.relative_to(dataset)}", path.read_bytes())
        table = open_key_table(root)
        assert (table.find("000003"), table.find("x"), table.shard_names) == (3, -1, ("0.tar", "1.tar", "2.tar"))
        [cached] = (tmp_path / f"cache{number}" / "keys").iterdir()
        assert cached.read_bytes() == (dataset / ".nv-meta" / "keys.table").read_bytes()


def test_without_an_index_the_error_says_what_to_do(dataset: Path) -> None:
    (dataset / ".nv-meta" / "index.sqlite").unlink()
    with pytest.raises(DatasetError, match=r"no \.nv-meta/index\.sqlite, which lookup by key needs: prepare"):
        open_key_table(str(dataset))
    with pytest.raises(DatasetError, match=r"no \.nv-meta/index\.sqlite"):
        write_key_table(str(dataset))


def test_an_index_that_does_not_fit_the_counts_is_refused(dataset: Path) -> None:
    with closing(sqlite3.connect(dataset / ".nv-meta" / "index.sqlite")) as database, database:
        database.execute("DELETE FROM samples WHERE sample_key = '000013'")
    with pytest.raises(DatasetError, match=r"9 samples of the shard '1\.tar', .* says 10: the files are out of step"):
        open_key_table(str(dataset))


def test_an_index_that_is_no_database_is_refused(dataset: Path) -> None:
    (dataset / ".nv-meta" / "index.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DatasetError, match=r"index\.sqlite cannot be read"):
        open_key_table(str(dataset))


def test_the_table_is_the_same_under_any_hash_seed(dataset: Path) -> None:
    place = dataset / ".nv-meta" / "keys.table"
    expected = place.read_bytes()
    code = f"write_key_table({str(dataset)!r})"
    for seed in ("1", "2"):
        subprocess.run(command(code), check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert place.read_bytes() == expected


def test_processes_that_make_the_table_at_once_do_no_harm(dataset: Path) -> None:
    place = dataset / ".nv-meta" / "keys.table"
    expected = place.read_bytes()
    place.unlink()
    code = f"sys.stdin.read(1); print(open_key_table({str(dataset)!r}).find('000021'))"
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command(code), stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    answers = [process.communicate("x")[0] for process in running]
    assert answers == ["21\n"] * 3
    assert place.read_bytes() == expected
    assert not [path for path in place.parent.iterdir() if path.name.startswith(".partial")]


def test_threads_and_forked_children_share_a_table(dataset: Path) -> None:
    table = open_key_table(str(dataset))
    keys = [f"{number:06d}" for number in range(30)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [table.locate(key, "txt") for key in keys], range(20)))
    assert all(places == found[0] for places in found)
    pid = os.fork()
    if pid == 0:
        os._exit(table.find("000017") + int(table.find_many(["000018"])[0] == 18))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 18
