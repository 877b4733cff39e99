import os
import random
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.storage import paths, remote
from energon_nodes.storage.fds import OpenFiles
from energon_nodes.storage.paths import Ranges

DATA = bytes(random.Random(0).randbytes(300_000))


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder on disk or in memory that holds `data.bin`."""
    if request.param == "local":
        (tmp_path / "data.bin").write_bytes(DATA)
        return str(tmp_path)
    MemoryFileSystem().pipe(f"{tmp_path}/data.bin", DATA)
    return f"memory:/{tmp_path}"


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)  # pyright: ignore[reportUnknownLambdaType]


def test_size_existence_and_content_are_the_same_everywhere(place: str):
    file = paths.join(place, "data.bin")
    assert paths.size(file) == len(DATA)
    assert (paths.exists(file), paths.exists(file + "x"), paths.is_dir(file), paths.is_dir(place)) == (
        True,
        False,
        False,
        True,
    )
    assert paths.read_bytes(file) == DATA
    assert paths.read_range(file, 1000, 1010) == DATA[1000:1010]
    assert paths.read_range(file, len(DATA) - 5, len(DATA) + 50) == DATA[-5:]
    assert paths.read_once(file, [5, len(DATA)], [9, len(DATA) + 8]) == [DATA[5:9], b""]


def test_a_missing_file_is_a_file_not_found_error_everywhere(place: str):
    for call in (paths.size, paths.read_bytes, lambda file: paths.read_range(file, 0, 1)):
        with pytest.raises(FileNotFoundError):
            call(paths.join(place, "missing"))


def test_gathered_ranges_stand_one_behind_the_other_with_zeros_behind_the_end(place: str):
    file = paths.join(place, "data.bin")
    starts, stops = [100, 0, 299_990, 400_000], [200, 50, 300_010, 400_004]
    expected = DATA[100:200] + DATA[:50] + DATA[-10:] + bytes(10) + bytes(4)
    assert paths.gather([Ranges(file, starts[:2], stops[:2]), Ranges(file, starts[2:], stops[2:])]) == expected
    assert paths.gather([Ranges(file, [299_990], [300_010])]) == DATA[-10:] + bytes(10)
    assert paths.gather([]) == b""


@given(st.lists(st.tuples(st.integers(0, 310_000), st.integers(0, 70_000)), max_size=12))
def test_merged_ranges_give_the_bytes_of_each(ranges: list[tuple[int, int]]):
    MemoryFileSystem().pipe("/ranges/data.bin", DATA)
    starts, stops = [start for start, _ in ranges], [start + size for start, size in ranges]
    read = paths.read_ranges([Ranges("memory://ranges/data.bin", starts, stops)])
    assert read == [DATA[start:stop] for start, stop in zip(starts, stops, strict=True)]


def test_close_remote_ranges_are_fetched_as_one(monkeypatch: pytest.MonkeyPatch):
    MemoryFileSystem().pipe("/close/data.bin", DATA)
    fetched: list[Any] = []
    original = paths.fetch
    monkeypatch.setattr(paths, "fetch", lambda plan: fetched.extend(plan) or original(plan))
    file = "memory://close/data.bin"
    paths.read_ranges([Ranges(file, [2000, 0, 200_000], [3000, 100, 200_100])])
    assert fetched == [(file, 0, 3000), (file, 200_000, 200_100)]


def test_folders_are_listed_folder_by_folder_without_hidden_ones(place: str, tmp_path: Path):
    names = ["a-b/x.tar", "a/x.tar", ".hidden/x.tar", "s10.tar", "s9.tar", "a/y.txt", "a/.b/z.tar"]
    for name in names:
        if paths.is_url(place):
            MemoryFileSystem().pipe(f"{tmp_path}/{name}", b"")
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).touch()
    assert paths.list_files(place, (".tar",)) == ["a/x.tar", "a-b/x.tar", "s10.tar", "s9.tar"]


def test_linked_folders_are_followed_and_circles_end(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x.tar").touch()
    os.symlink(tmp_path / "real", tmp_path / "link")
    os.symlink(tmp_path, tmp_path / "real/up")
    assert paths.list_files(str(tmp_path), (".tar",)) == ["link/x.tar", "real/x.tar"]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("s3://bucket/a/0.tar", "s3://bucket/a"),
        ("a/0.tar", "a"),
        ("/0.tar", "/"),
        ("0.tar", ""),
        ("memory://0.tar", "memory://"),
    ],
)
def test_a_file_is_in_its_folder(path: str, folder: str):
    assert paths.parent(path) == folder
    assert paths.join(folder, path.rpartition("/")[2]) == path
    assert paths.relative(path, folder) == path.rpartition("/")[2]


def test_a_changed_file_has_another_identity(place: str, tmp_path: Path):
    file = paths.join(place, "data.bin")
    before = paths.identity(file)
    assert paths.identity(file) == before
    if paths.is_url(place):
        MemoryFileSystem().pipe(f"{tmp_path}/data.bin", DATA[:-1])
    else:
        (tmp_path / "data.bin").write_bytes(DATA[:-1])
    assert paths.identity(file) != before


# ---- a store that fails ----------------------------------------------------------------------


class Flaky(MemoryFileSystem):
    """A store whose reads fail as often as told."""

    protocol = "flaky"
    store = {"/data.bin": fsspec.implementations.memory.MemoryFile(None, "/data.bin", DATA)}  # noqa: RUF012
    failures = 0
    short = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("flaky://", "memory://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        if Flaky.failures > 0:
            Flaky.failures -= 1
            raise ConnectionResetError("dropped")
        data = super().cat_file(path, start, end, **kwargs)
        if Flaky.short > 0:
            Flaky.short -= 1
            return data[: len(data) // 2]
        return data


fsspec.register_implementation("flaky", Flaky, clobber=True)


@pytest.mark.usefixtures("no_pauses")
def test_a_store_that_drops_the_connection_is_asked_again():
    Flaky.failures = remote.ATTEMPTS - 1
    assert paths.read_range("flaky://data.bin", 10, 20) == DATA[10:20]
    Flaky.failures = 2
    assert paths.read_bytes("flaky://data.bin") == DATA
    Flaky.failures = 3
    pieces = paths.read_ranges([Ranges("flaky://data.bin", [0, 100_000], [10, 100_010])])
    assert pieces == [DATA[:10], DATA[100_000:100_010]]


@pytest.mark.usefixtures("no_pauses")
def test_an_answer_that_breaks_off_is_not_taken_for_the_end_of_the_file():
    Flaky.short = 2
    assert paths.read_range("flaky://data.bin", 0, 1000) == DATA[:1000]


@pytest.mark.usefixtures("no_pauses")
def test_after_the_last_attempt_the_error_names_file_and_cause():
    Flaky.failures = 10**6
    with pytest.raises(OSError, match=r"could not read flaky://data.bin in 6 attempts: ConnectionResetError: dropped"):
        paths.read_range("flaky://data.bin", 0, 10)
    Flaky.failures = 0


def test_a_missing_remote_file_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", pauses.append)
    with pytest.raises(FileNotFoundError):
        paths.read_bytes("flaky://missing")
    assert pauses == []


# ---- descriptors -----------------------------------------------------------------------------


def test_no_more_files_stay_open_than_the_limit(tmp_path: Path):
    files = OpenFiles(limit=4)
    for number in range(20):
        (tmp_path / str(number)).write_bytes(str(number).encode())
    for _ in range(2):
        for number in range(20):
            with files.hold(str(tmp_path / str(number))) as fd:
                assert os.pread(fd, 9, 0) == str(number).encode()
            assert files.open_count() <= 4
    files.close_idle()
    assert files.open_count() == 0


def test_a_file_in_use_is_never_closed(tmp_path: Path):
    files = OpenFiles(limit=1)
    for number in range(3):
        (tmp_path / str(number)).write_bytes(str(number).encode())
    with files.hold(str(tmp_path / "0")) as first, files.hold(str(tmp_path / "1")) as second:
        files.close_idle()
        with files.hold(str(tmp_path / "2")) as third:
            assert [os.pread(fd, 1, 0) for fd in (first, second, third)] == [b"0", b"1", b"2"]
    assert files.open_count() == 1


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path):
    files = OpenFiles()
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with files.hold(str(path)) as fd:
        assert os.pread(fd, 3, 0) == b"old"
        (tmp_path / "b").write_bytes(b"new")
        os.replace(tmp_path / "b", path)
        with files.hold(str(path)) as again:
            assert os.pread(again, 3, 0) == b"new"
        assert os.pread(fd, 3, 0) == b"old"
    assert files.open_count() == 1


def test_threads_that_crowd_out_each_other_read_the_right_bytes(tmp_path: Path):
    files = OpenFiles(limit=2)
    for number in range(10):
        (tmp_path / str(number)).write_bytes(bytes([number]) * 1000)
    wrong: list[int] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(400):
            number = generator.randrange(10)
            with files.hold(str(tmp_path / str(number))) as fd:
                if os.pread(fd, 1000, 0) != bytes([number]) * 1000:
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert files.open_count() <= 2


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_with_threads_alive_reads_on_in_the_child(tmp_path: Path):
    files = OpenFiles(limit=3)
    for number in range(6):
        (tmp_path / str(number)).write_bytes(str(number).encode())
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.is_set():
            number = (number + 1) % 6
            with files.hold(str(tmp_path / str(number))) as fd:
                os.pread(fd, 1, 0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                ok = files.open_count() == 0
                for number in range(6):
                    with files.hold(str(tmp_path / str(number))) as fd:
                        ok = ok and os.pread(fd, 1, 0) == str(number).encode()
                os._exit(0 if ok else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()
