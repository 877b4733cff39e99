"""A key that was written before is found, whichever shard it lies in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes import write_keys
from energon_nodes.recipes.write_keys import KeyBook
from energon_nodes.storage.tar_writer import TarWriter


def write(folder: Path, shards: list[list[str]]) -> KeyBook:
    """Write shards of keys, and return the book that knows them."""
    book = KeyBook(lambda shard: str(folder / f"{shard}.tar"))
    number = 0
    for shard, keys in enumerate(shards):
        with open(folder / f"{shard}.tar", "wb") as file:
            writer = TarWriter(file)
            for key in keys:
                book.add(key, number)
                writer.add(f"{key}.txt", b"")
                number += 1
            writer.end()
        book.finish(book.check(), shard)
    return book


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 60).map(str), max_size=9), max_size=9))
def test_the_first_key_that_repeats_is_refused_and_no_other(tmp_path_factory: pytest.TempPathFactory, shards):
    keys = [key for shard in shards for key in shard]
    folder = tmp_path_factory.mktemp("keys")
    if len(set(keys)) == len(keys):
        write(folder, shards)
    else:
        with pytest.raises(DatasetError, match=r"same key|which a sample in"):
            write(folder, shards)


def test_equal_hashes_of_different_keys_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_keys, "_hashes", lambda keys: write_keys.np.zeros(len(keys), "<u8"))
    book = write(tmp_path, [["a", "b"], ["c"], ["d"]])
    book.add("e", 4)
    book.check()
    book.add("b", 5)
    with pytest.raises(DatasetError, match=r"sample 5 has the key 'b', which a sample in .*0.tar has too"):
        book.check()


def test_many_keys_are_looked_up_before_their_shard_is_finished(tmp_path: Path):
    book = write(tmp_path, [["a"]])
    book.add("a", 1)
    for number in range(2, 1000):
        book.add(f"k{number}", number)
    with pytest.raises(DatasetError, match=r"0.tar has too"):
        book.add("k1000", 1000)
