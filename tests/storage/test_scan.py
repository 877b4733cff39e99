import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from energon_nodes.storage.scan import scan_shard
from tests.storage.tars import offsets_by_tarfile, read_by_tarfile, samples_of, write_tar


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_offsets_are_those_that_tarfile_sees(tmp_path: Path, format: int):
    long = [("l" * 150 + ".txt", b"x" * 600), ("l" * 150 + ".cls", b"")] if format != tarfile.USTAR_FORMAT else []
    path = write_tar(tmp_path / "0.tar", samples_of(0, 30) + long + samples_of(30, 60), format)
    assert scan_shard(str(path)).offsets.tolist() == offsets_by_tarfile(path)
    assert scan_shard(str(path)).problems == {}


def test_members_that_belong_to_no_sample_are_passed_over(tmp_path: Path):
    members = [
        ("readme", b"x"),
        ("__meta__/a.txt", b"y"),
        ("a.txt", b"1"),
        (".hidden", b"z"),
        ("a.cls", b"2"),
        ("b.txt", b"3"),
    ]
    path = write_tar(tmp_path / "0.tar", members)
    assert scan_shard(str(path)).offsets.tolist() == offsets_by_tarfile(path) == [2048, 5120, 6144]


def test_large_members_are_skipped_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_tar(tmp_path / "0.tar", [(f"{number}.bin", bytes(900_000)) for number in range(20)])
    from energon_nodes.storage import paths

    read: list[int] = []
    original = paths.read_range

    def counted(name: str, start: int, stop: int) -> bytes:
        read.append(stop - start)
        return original(name, start, stop)

    monkeypatch.setattr(paths, "read_range", counted)
    assert len(scan_shard(str(path))) == 20
    assert sum(read) < 2_000_000


def test_an_empty_shard_has_no_samples_and_no_problem(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [])
    index = scan_shard(str(path))
    assert (len(index), index.problems) == (0, {})


def test_a_file_of_no_bytes_is_a_problem(tmp_path: Path):
    path = tmp_path / "0.tar"
    path.write_bytes(b"")
    assert "the file is empty (0 bytes)" in scan_shard(str(path)).problems[0][1]


def test_a_cut_inside_a_payload_leaves_the_samples_before_it(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    path.write_bytes(path.read_bytes()[: offsets[6] + 512 + 10])
    index = scan_shard(str(path))
    assert index.offsets[:7].tolist() == offsets[:7]
    assert index.problems == {
        6: (
            offsets[6] + 512,
            f"the file ends at byte {offsets[6] + 522}, inside '000006.txt' of {len(b'text 6 ') * 7} bytes",
        )
    }


def test_a_cut_inside_the_second_part_takes_the_whole_sample_away(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    path.write_bytes(path.read_bytes()[: offsets[7] - 512])
    index = scan_shard(str(path))
    assert (len(index), list(index.problems)) == (7, [6])
    assert index.offsets[:7].tolist() == offsets[:7]


def test_a_cut_inside_a_header_leaves_the_samples_before_it(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    path.write_bytes(path.read_bytes()[: offsets[6] + 100])
    index = scan_shard(str(path))
    assert (len(index), list(index.problems)) == (7, [6])
    assert index.problems[6] == (offsets[6], f"the file ends at byte {offsets[6] + 100}, inside a header")


def test_a_cut_between_two_parts_takes_the_half_sample_away(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    path.write_bytes(path.read_bytes()[: offsets[7] - 1024])  # 000006.cls is gone
    index = scan_shard(str(path))
    assert (len(index), list(index.problems)) == (7, [6])


def test_a_missing_end_mark_is_a_problem_behind_the_last_sample(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    path.write_bytes(path.read_bytes()[: offsets[-1]])
    index = scan_shard(str(path))
    assert index.offsets.tolist() == [*offsets, offsets[-1]]
    assert index.problems[10] == (
        offsets[-1],
        "the file ends here, without the end-of-archive mark (two blocks of zeros)",
    )


def test_damage_in_the_middle_ends_the_shard_there(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 10))
    offsets = offsets_by_tarfile(path)
    data = bytearray(path.read_bytes())
    data[offsets[4] + 3] ^= 0x40
    path.write_bytes(data)
    index = scan_shard(str(path))
    assert (len(index), list(index.problems)) == (5, [4])
    assert index.offsets[4] == offsets[4]
    assert "checksum" in index.problems[4][1]


def test_interleaved_members_are_problems_with_a_remedy(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [("0.a", b"1"), ("1.a", b"2"), ("0.b", b"3"), ("1.b", b"4"), ("2.a", b"5")])
    index = scan_shard(str(path))
    assert (len(index), list(index.problems)) == (5, [0, 1, 2, 3])
    assert "'0' stands in 2 places" in index.problems[0][1]
    assert "sorted by key" in index.problems[0][1]


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tgz", "x.tar"])
def test_compressed_shards_are_found_by_content_whatever_their_name(tmp_path: Path, name: str):
    plain = write_tar(tmp_path / "plain.tar", samples_of(0, 3))
    (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    index = scan_shard(str(tmp_path / name))
    assert list(index.problems) == [0]
    assert "compressed (gzip)" in index.problems[0][1]
    assert "gzip -d" in index.problems[0][1]


def test_remote_shards_are_scanned_in_the_same_way(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 50))
    MemoryFileSystem().pipe("/scan/0.tar", path.read_bytes())
    assert np.array_equal(scan_shard("memory://scan/0.tar").offsets, scan_shard(str(path)).offsets)


def test_tars_without_a_sentinel_block_of_their_own_are_read_by_tarfile_in_the_same_way(tmp_path: Path):
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("folder/"))
        info = tarfile.TarInfo("folder/a.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    assert len(scan_shard(str(path))) == len(read_by_tarfile(path)) == 1
