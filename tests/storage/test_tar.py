import io
import os
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.storage.tar import Member, TarError, compression_of, next_member, split_name
from tests.storage.tars import split_by_pattern, write_tar


def members(data: bytes) -> list[Member]:
    found: list[Member] = []
    at = 0
    while True:
        member = next_member(lambda offset, size: data[offset : offset + size], at)
        if member.kind == "end":
            return found
        found.append(member)
        at = member.stop


def content(data: bytes, member: Member) -> bytes:
    return data[member.payload : member.payload + member.size]


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("a.b/c.jpg.txt", ("a.b/c", "jpg.txt")),
        ("./x.txt", ("./x", "txt")),
        ("m.a.b.c", ("m", "a.b.c")),
        ("UP.TXT", ("UP", "TXT")),
        ("t.", ("t", "")),
        ("dir/.hidden", ("dir/", "hidden")),
        ("noext", None),
        ("a.b/noext2", None),
        (".hid", None),
        (".hid.txt", None),
        ("a.b/.hid", None),
        ("__meta__/y.txt", None),
        ("__z__", None),
        ("__q__.txt", ("__q__", "txt")),
        ("dir/__m__/y.txt", ("dir/__m__/y", "txt")),
        ("235342 Track 2.0 (Clean Version).mp3", ("235342 Track 2", "0 (Clean Version).mp3")),
        ("a.LEFT.JPG", ("a", "LEFT.JPG")),
    ],
)
def test_a_key_ends_at_the_first_dot_of_the_base_name(name: str, pair: tuple[str, str] | None):
    assert split_name(name) == pair


@given(st.text("ab./_", max_size=9))
def test_names_are_split_as_the_pattern_of_the_format_says(name: str):
    assert split_name(name) == split_by_pattern(name)


@given(st.text("ab./_", max_size=9))
def test_key_dot_part_is_the_name_again(name: str):
    pair = split_name(name)
    assert pair is None or f"{pair[0]}.{pair[1]}" == name


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_all_formats_give_the_same_members(tmp_path: Path, format: int):
    names = ["a.txt", "deep/" * 15 + "b.jpg", "d" * 60 + "/" + "c" * 90 + ".txt"]
    data = write_tar(tmp_path / "0.tar", [(name, name.encode()) for name in names], format).read_bytes()
    assert [(member.name, content(data, member)) for member in members(data)] == [(n, n.encode()) for n in names]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_longer_than_a_header_and_in_other_scripts_are_read(tmp_path: Path, format: int):
    names = ["x" * 400 + ".txt", "Grüße/日本.jpg", "ende.cls"]
    data = write_tar(tmp_path / "0.tar", [(name, b"x") for name in names], format).read_bytes()
    assert [member.name for member in members(data)] == names


def test_the_start_of_a_member_is_that_of_its_long_name_header(tmp_path: Path):
    data = write_tar(tmp_path / "0.tar", [("a.txt", b"1"), ("b" * 200 + ".txt", b"2")], tarfile.GNU_FORMAT).read_bytes()
    first, second = members(data)
    assert (second.start, first.stop) == (1024, 1024)
    assert second.payload == 1024 + 3 * 512


def test_links_folders_and_devices_are_no_files_and_have_no_data(tmp_path: Path):
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo("x.txt")
            info.type, info.linkname = kind, "y.txt"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("z.txt"))
    assert [member.kind for member in members(path.read_bytes())] == ["other"] * 5 + ["file"]


def header(name: bytes = b"a.txt", size: bytes = b"00000000003\0", kind: bytes = b"0", **patches: bytes) -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[100:124] = b"0000644\0000000000\0000000000\0"[:24]
    block[124:136] = size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = b"ustar\00000"
    for place, value in patches.items():
        block[int(place[1:]) : int(place[1:]) + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)


def test_sizes_in_base_256_are_read():
    size = b"\x80" + (5).to_bytes(11, "big")
    assert members(header(size=size) + b"hello".ljust(512, b"\0") + END)[0].size == 5


def test_a_negative_size_is_refused():
    with pytest.raises(TarError, match="negative"):
        members(header(size=b"\xff" * 12) + END)


def test_sizes_padded_with_spaces_are_read():
    assert members(header(size=b"         3 \0") + b"abc".ljust(512, b"\0") + END)[0].size == 3


def test_old_archives_without_magic_are_read():
    data = (
        header(p257=bytes(8))
        + b"abc".ljust(512, b"\0")
        + header(name=b"folder/", size=b"00000000000\0", kind=b"\0")
        + END
    )
    assert [(member.name, member.kind) for member in members(data)] == [("a.txt", "file"), ("folder/", "other")]


def test_the_prefix_field_counts_in_ustar_and_not_in_gnu_archives():
    data = header(p345=b"some/folder") + b"abc".ljust(512, b"\0") + END
    assert members(data)[0].name == "some/folder/a.txt"
    data = header(p257=b"ustar  \0", p345=b"14000000000") + b"abc".ljust(512, b"\0") + END
    assert members(data)[0].name == "a.txt"


def test_a_pax_record_of_path_and_size_beats_the_header():
    records = b""
    for record in (b"path=long/name.txt", b"size=5"):
        length = len(record) + 4
        records += b"%d %s\n" % (length, record)
    extended = header(b"PaxHeader", b"%011o\0" % len(records), b"x") + records.ljust(512, b"\0")
    data = extended + header(size=b"00000000000\0") + b"hello".ljust(512, b"\0") + END
    (member,) = members(data)
    assert (member.name, content(data, member), member.start) == ("long/name.txt", b"hello", 0)


@pytest.mark.parametrize("place", [0, 130, 150, 257, 400])
def test_a_damaged_header_is_never_taken_for_one(place: int):
    block = bytearray(header())
    block[place] ^= 0x02
    with pytest.raises(TarError, match="not a tar header"):
        members(bytes(block) + END)


def test_a_block_with_a_right_sum_and_a_wrong_magic_is_no_header():
    with pytest.raises(TarError, match="magic"):
        members(header(p257=b"xstar\00000") + END)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header()[:300], "inside a header"),
        (header(b"././@LongLink", b"00000001000\0", b"L") + b"x" * 100, "inside a long-name header"),
        (
            header(b"././@LongLink", b"00000000003\0", b"L") + b"abc".ljust(512, b"\0") + END,
            "between a long-name header",
        ),
        (header(b"././@LongLink", b"77777777777\0", b"L"), "longer than any name"),
        (b"", "the file is empty"),
        (header(b"p", b"%011o\0" % 11, b"x") + b"5x path=a\n\n".ljust(512, b"\0") + header(), "PAX header is damaged"),
        (header(b"p", b"%011o\0" % 13, b"g") + b"13 path=a.tx\n".ljust(512, b"\0") + header(), "global header"),
    ],
)
def test_what_is_cut_or_damaged_says_so(data: bytes, reason: str):
    with pytest.raises(TarError, match=reason):
        members(data)


def test_global_headers_without_names_are_passed_over():
    data = header(b"p", b"%011o\0" % 14, b"g") + b"14 comment=ab\n".ljust(512, b"\0") + header() + bytes(512) + END
    assert members(data)[0].name == "a.txt"


def test_sparse_members_are_told_apart(tmp_path: Path):
    old = header(kind=b"S", p257=b"ustar  \0") + b"abc".ljust(512, b"\0")
    chained = header(kind=b"S", p257=b"ustar  \0", p482=b"\x01") + bytes(512) + b"abc".ljust(512, b"\0")
    records = b"22 GNU.sparse.major=1\n"
    new = header(b"p", b"%011o\0" % len(records), b"x") + records.ljust(512, b"\0") + header() + bytes(512)
    kinds = [member.kind for member in members(old + chained + new + header() + bytes(512) + END)]
    assert kinds == ["sparse", "sparse", "sparse", "file"]


def test_a_real_sparse_file_of_gnu_tar_keeps_the_chain(tmp_path: Path):
    import shutil
    import subprocess

    if shutil.which("tar") is None:
        pytest.skip("no tar command")
    with open(tmp_path / "s.bin", "wb") as file:
        for hole in range(12):
            file.seek(hole * 100_000)
            file.write(os.urandom(4096))
    (tmp_path / "t.txt").write_text("after")
    command = ["tar", "--sparse", "--format=gnu", "-cf", "0.tar", "s.bin", "t.txt"]
    subprocess.run(command, cwd=tmp_path, check=True)
    data = (tmp_path / "0.tar").read_bytes()
    found = members(data)
    assert [member.name for member in found] == ["s.bin", "t.txt"]
    assert content(data, found[-1]) == b"after"


def test_checksums_of_signed_bytes_are_accepted():
    block = bytearray(header(name="ü.txt".encode("latin-1")))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(struct.unpack("512b", block))
    assert members(bytes(block) + bytes(512) + END)[0].kind == "file"


def test_compressions_are_known_by_their_first_bytes():
    import bz2
    import gzip
    import lzma

    packed = [gzip.compress(b"x"), bz2.compress(b"x"), lzma.compress(b"x"), b"\x28\xb5\x2f\xfd----"]
    assert [compression_of(data) for data in packed] == ["gzip", "bzip2", "xz", "zstd"]
    assert compression_of(io.BytesIO(header()).read(8)) is None
