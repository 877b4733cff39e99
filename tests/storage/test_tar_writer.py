"""What is written to a tar is read from it: names, sizes and bytes, by us and by Python's tarfile."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.storage.tar import next_member, split_name
from energon_nodes.storage.tar_writer import TarWriter, member_header, member_name

OUT_OF_PLACE = [("a.b/", "c"), ("/a", "b"), ("a/../b", "c"), ("a", "__b")]
names = st.text("ab/.üß日_ ", min_size=1, max_size=150).filter(lambda name: name.strip("/") and name[-1] != "/")


def read_header(name: str, size: int) -> tuple[str, int]:
    """Return name and size as Python's tarfile reads them, after a look that our reader sees the same."""
    header = member_header(name, size)
    mine = next_member(lambda offset, length: header[offset : offset + length], 0)
    assert (mine.kind, mine.name, mine.size, mine.payload) == ("file", name, size, len(header))
    with tarfile.open(fileobj=io.BytesIO(header + bytes(1024))) as archive:
        member = archive.next()
    assert member is not None
    assert (member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode) == (0, 0, 0, "", "", 0o644)
    return member.name, member.size


@given(names.map(lambda name: f"x{name}"), st.integers(0, 2**40))
def test_every_name_and_size_comes_back(name: str, size: int):
    assert read_header(name, size) == (name, size)


@pytest.mark.parametrize("length", [1, 99, 100, 101, 154, 155, 156, 255, 256, 257, 300, 511, 512, 513, 5000])
@pytest.mark.parametrize("form", ["{}", "{}/b", "a/{}", "{}/b/c.txt"])
def test_names_at_the_limits_of_the_fields_come_back(length: int, form: str):
    name = form.format("n" * length)
    assert read_header(name, 3) == (name, 3)


@pytest.mark.parametrize("size", [0, 8**11 - 1, 8**11, 2**60])
def test_sizes_at_the_limit_of_the_field_come_back(size: int):
    assert read_header("a.bin", size) == ("a.bin", size)


@given(st.text("ab/._ü\0", max_size=12), st.text("ab/._ü\0", max_size=6))
def test_a_name_that_is_allowed_gives_key_and_part_back(key: str, part: str):
    try:
        name = member_name(key, part)
    except ValueError:
        return
    assert split_name(name) == (key, part)
    assert read_header(name, 0) == (name, 0)


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("a", "jpg"),
        ("a.b/c", "jpg.txt"),
        ("d/", "hidden"),
        ("t", ""),
        ("__q__", "txt"),
        ("a b", "LEFT.JPG"),
        ("./x", "t"),
    ],
)
def test_names_that_the_format_can_hold_are_allowed(key: str, part: str):
    assert member_name(key, part) == f"{key}.{part}"


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("a.b", "jpg"),
        ("", "jpg"),
        ("__a__/b", "jpg"),
        ("a", "b/c"),
        ("a.b/", "c"),
        ("/a", "b"),
        ("a/../b", "c"),
        ("a", "__b"),
    ],
)
def test_names_that_would_come_back_otherwise_are_refused(key: str, part: str):
    with pytest.raises(ValueError, match=r"the file '|the part '"):
        member_name(key, part)


@given(st.lists(st.tuples(st.sampled_from(["a", "b" * 150]), st.binary(max_size=1100)), max_size=6))
def test_an_archive_is_whole_for_tarfile(files: list[tuple[str, bytes]]):
    file = io.BytesIO()
    writer = TarWriter(file)
    for name, data in files:
        writer.add(name, data)
    writer.end()
    assert writer.size == len(file.getvalue())
    assert writer.size % 10_240 == 0
    with tarfile.open(fileobj=io.BytesIO(file.getvalue())) as archive:
        members = archive.getmembers()
        found = [(member.name, archive.extractfile(member).read()) for member in members]
    assert found == files
