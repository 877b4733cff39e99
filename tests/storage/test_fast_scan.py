"""The quick walk finds exactly what the walk header by header finds, whatever stands in the file."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from energon_nodes.storage import scan, window
from energon_nodes.storage.tar import next_member
from tests.storage.exact_scan import exact_scan, quick_scan
from tests.storage.tars import samples_of, write_tar

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
KINDS = {
    "link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "folder": tarfile.DIRTYPE,
    "contiguous": tarfile.CONTTYPE,
    "old": tarfile.AREGTYPE,
}
folders = st.sampled_from(["", "./", "a/", "a.b/", "ä/ö/", "__meta__/", "x/__meta__/", "f" * 90 + "/", "n/" * 70])
stems = st.sampled_from(["", "0", "00", "1", "ü", "a b", "__q__", "k" * 60, "k" * 99, "k" * 120, "q" * 300])
endings = st.sampled_from(["", ".", ".txt", ".jpg", ".a.b.c", ".TXT", ".tar", "." + "p" * 110])
names = st.builds(lambda folder, stem, ending: folder + stem + ending or "x", folders, stems, endings)
sizes = st.sampled_from([0, 1, 300, 511, 512, 513, 2000, 9000])
kinds = st.sampled_from(["file"] * 12 + sorted(KINDS) + ["sparse", "nested"])
times = st.sampled_from([0, 0, 1.5, 1700000000.1234567, 10**12])
entries = st.tuples(names, sizes, kinds, times)


def write(path: Path, format: str, members: list[tuple[str, int, str, float]], repeat: int) -> Path:
    """Write a tar with an entry of any kind for each of `members`, all of them several times under other names."""
    with tarfile.open(path, "w", format=FORMATS[format]) as archive:
        for turn in range(repeat):
            for name, size, kind, time in members:
                info = tarfile.TarInfo(name if turn == 0 else f"{turn:03d}{name}")
                info.mtime = time if format == "pax" else min(int(time), 8**11 - 1)
                info.type = KINDS.get(kind, tarfile.REGTYPE)
                if kind in ("link", "hard link"):
                    info.linkname = "target" * (1 + size % 40)
                    size = 0
                data = nested(size) if kind == "nested" else bytes(range(256)) * (size // 256 + 1)
                info.size = 0 if kind in ("link", "hard link", "folder") else len(data) if kind == "nested" else size
                if kind == "sparse" and format == "pax":
                    info.pax_headers = {"GNU.sparse.size": "7", "GNU.sparse.name": "hole.txt"}
                try:
                    archive.addfile(info, io.BytesIO(data[: info.size]))
                except ValueError:  # a name that this format cannot hold
                    continue
    return path


def nested(size: int) -> bytes:
    """Return a file that is a tar itself, so that it has blocks that look like headers."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(2 + size % 7):
            archive.addfile(tarfile.TarInfo(f"inner{number}.txt"))
    return file.getvalue()


@pytest.fixture(params=["whole megabytes", "small pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as always, or in pieces that end in the middle of everything."""
    if request.param == "small pieces":
        monkeypatch.setattr(window, "_LARGEST", 16 * 1024)
        monkeypatch.setattr(window, "_SMALLEST", 512)


same = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@same
@given(format=st.sampled_from(sorted(FORMATS)), members=st.lists(entries, max_size=12), repeat=st.integers(1, 12))
@example(format="ustar", members=[], repeat=1)
def test_the_quick_scan_finds_what_the_exact_one_finds(
    tmp_path: Path, pieces: None, format: str, members: list[tuple[str, int, str, float]], repeat: int
) -> None:
    path = write(tmp_path / "0.tar", format, members, repeat)
    assert quick_scan(path) == exact_scan(path)


@same
@given(
    format=st.sampled_from(sorted(FORMATS)),
    members=st.lists(entries, min_size=1, max_size=6),
    repeat=st.integers(1, 12),
    cut=st.floats(0, 1),
)
def test_of_a_shard_that_was_cut_it_finds_the_same(
    tmp_path: Path, pieces: None, format: str, members: list[tuple[str, int, str, float]], repeat: int, cut: float
) -> None:
    path = write(tmp_path / "0.tar", format, members, repeat)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    assert quick_scan(path) == exact_scan(path)


@same
@given(
    format=st.sampled_from(sorted(FORMATS)),
    members=st.lists(entries, min_size=1, max_size=6),
    repeat=st.integers(1, 12),
    damages=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 511), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_of_a_damaged_shard_it_finds_the_same(
    tmp_path: Path,
    pieces: None,
    format: str,
    members: list[tuple[str, int, str, float]],
    repeat: int,
    damages: list[tuple[float, int, int]],
) -> None:
    path = write(tmp_path / "0.tar", format, members, repeat)
    data = bytearray(path.read_bytes())
    for place, byte, change in damages:
        data[min(int(len(data) * place) // 512 * 512 + byte, len(data) - 1)] ^= change
    path.write_bytes(data)
    assert quick_scan(path) == exact_scan(path)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_regular_shards_are_read_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    members = samples_of(0, 3000) + [(f"{'n' * 120}{number}.txt", b"x") for number in range(300)]
    time = 1.25 if format == "pax" else 1
    path = write_tar(tmp_path / "0.tar", members[:6000] if format == "ustar" else members, FORMATS[format], mtime=time)
    one_by_one: list[int] = []

    def counted(read: object, offset: int) -> object:
        one_by_one.append(offset)
        return next_member(read, offset)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("energon_nodes.storage.walk.next_member", counted)
    found = quick_scan(path)
    assert found == exact_scan(path)
    assert len(one_by_one) <= 2


def test_shards_of_an_old_writer_are_read_too(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "0.tar", samples_of(0, 500))
    data = bytearray(path.read_bytes())
    for start in scan.scan_shard(str(path)).offsets.tolist()[:-1]:
        for at in (start, start + 512 + (len(data) and _padded(data, start))):
            data[at + 257 : at + 265] = bytes(8)  # no magic: a V7 archive
            data[at + 148 : at + 156] = b" " * 8
            data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    path.write_bytes(data)
    assert quick_scan(path) == exact_scan(path)
    assert len(quick_scan(path).keys) == 500


def _padded(data: bytearray, start: int) -> int:
    return (int(data[start + 124 : start + 135], 8) + 511) & -512


def test_large_files_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar(tmp_path / "0.tar", [(f"{number}.bin", bytes(300_000)) for number in range(60)])
    read: list[int] = []
    original = scan.paths.read_range

    def counted(name: str, start: int, stop: int) -> bytes:
        read.append(stop - start)
        return original(name, start, stop)

    monkeypatch.setattr(scan.paths, "read_range", counted)
    assert quick_scan(path) == exact_scan(path)
    assert sum(read) < 2_000_000
