"""A folder of cached files that processes share: its bounds, its pins, and what dead processes leave."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.storage.cache_folder import CacheFolder
from energon_nodes.storage.cache_places import chosen_root

NAMES = [f"{number:032x}" for number in range(8)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def files_of(root: str) -> dict[int, int]:
    """Return the sizes of all files below a cache folder by their inodes, but for its own records."""
    found = [path for path in Path(root).rglob("*") if path.is_file() and path.name not in ("lock", "ledger")]
    return {path.stat().st_ino: path.stat().st_size for path in found}


def in_another_process(code: str, *arguments: str) -> None:
    """Run code that may die; it has `CacheFolder`, `NAMES` and `root`."""
    head = "import os, signal, sys\nfrom energon_nodes.storage.cache_folder import CacheFolder\n"
    head += f"NAMES = {NAMES!r}\nroot = sys.argv[1]\n"
    subprocess.run([sys.executable, "-c", head + code, *arguments], check=False, timeout=60)


def test_what_was_put_is_read_by_all_who_share_the_folder(root: str) -> None:
    one, other = CacheFolder(root, 100, 10), CacheFolder(root, 100, 10)
    assert one.put(NAMES[0], b"a cat", pin=False)
    assert other.read(NAMES[0]) == b"a cat"
    assert other.read(NAMES[1]) is None
    one.close()
    assert other.read(NAMES[0]) == b"a cat"
    other.close()
    assert not os.path.exists(root)


def test_the_file_used_longest_ago_goes_first(root: str) -> None:
    folder = CacheFolder(root, 100, 3)
    for number, name in enumerate(NAMES[:3]):
        assert folder.put(name, b"12345", pin=False)
        os.utime(f"{root}/{name}", (number, number))
    assert folder.read(NAMES[0])
    assert folder.put(NAMES[3], b"12345", pin=False)
    assert [folder.read(name) is not None for name in NAMES[:4]] == [True, False, True, True]
    folder.close()


def test_a_pinned_file_stays_whoever_pinned_it(root: str) -> None:
    one, other = CacheFolder(root, 10, 10), CacheFolder(root, 10, 10)
    assert one.put(NAMES[0], b"12345", pin=False)
    assert other.pin(NAMES[0])
    assert one.put(NAMES[1], b"12345", pin=True)
    assert not one.put(NAMES[2], b"12345", pin=False)
    assert not other.put(NAMES[2], b"12345", pin=False)
    one.unpin(NAMES[1])
    assert one.put(NAMES[2], b"12345", pin=False)
    assert [one.read(name) for name in NAMES[:3]] == [b"12345", None, b"12345"]
    one.close()
    other.close()


def test_a_file_larger_than_the_bound_finds_no_room_and_evicts_nothing(root: str) -> None:
    folder = CacheFolder(root, 10, 10)
    assert folder.put(NAMES[0], b"12345", pin=False)
    assert not folder.put(NAMES[1], b"12345678901", pin=False)
    assert folder.read(NAMES[0]) == b"12345"
    folder.close()


def test_a_file_of_one_process_alone_is_found_by_nobody_else_and_goes_with_its_pin(root: str) -> None:
    one, other = CacheFolder(root, 10, 10), CacheFolder(root, 10, 10)
    assert one.put(NAMES[0], b"12345", pin=True, shared=False)
    assert (one.read(NAMES[0]), other.read(NAMES[0])) == (b"12345", None)
    assert one.ledger.read().bytes == 5
    one.unpin(NAMES[0])
    assert other.ledger.read().bytes == 0
    assert files_of(root) == {}
    one.close()
    other.close()


def test_files_of_others_are_left_alone(root: str) -> None:
    os.makedirs(f"{root}/use-mine")
    foreign = [Path(root, "notes.txt"), Path(root, "0123.jpg"), Path(root, "use-mine", NAMES[0])]
    for path in foreign:
        path.write_text("mine")
    folder = CacheFolder(root, 10, 2)
    for name in NAMES:
        folder.put(name, b"12", pin=False)
    folder.close()
    assert sorted(path for path in Path(root).rglob("*") if path.is_file()) == sorted(foreign)


def test_what_a_killed_process_left_is_removed_by_the_next_one(root: str) -> None:
    dies = "folder = CacheFolder(root, 100, 10)\n[folder.put(name, b'12345', pin=True) for name in NAMES[:3]]\n"
    in_another_process(dies + "os.kill(os.getpid(), signal.SIGKILL)", root)
    assert len(files_of(root)) == 3
    folder = CacheFolder(root, 100, 10)
    assert files_of(root) == {}
    assert folder.ledger.read().bytes == 0
    folder.close()
    assert not os.path.exists(root)


def test_the_pins_of_a_killed_process_hold_nothing_while_others_go_on(root: str) -> None:
    folder = CacheFolder(root, 12, 10)
    dies = "folder = CacheFolder(root, 12, 10)\n"
    dies += "folder.put(NAMES[0], b'12345', pin=True)\nfolder.put(NAMES[1], b'12345', pin=True, shared=False)\n"
    in_another_process(dies + "os._exit(1)", root)
    assert folder.ledger.read().bytes == 10
    assert folder.put(NAMES[2], b"12345", pin=False)
    assert len(files_of(root)) <= 2
    assert folder.ledger.read().bytes == sum(files_of(root).values())
    folder.close()
    assert not os.path.exists(root)


def test_a_forked_child_that_ends_removes_nothing_of_its_parent(root: str) -> None:
    folder = CacheFolder(root, 100, 10)
    assert folder.put(NAMES[0], b"12345", pin=True)
    child = os.fork()
    if not child:
        folder.abandon()
        own = CacheFolder(root, 100, 10)
        ok = own.read(NAMES[0]) == b"12345"
        own.close()
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert folder.read(NAMES[0]) == b"12345"
    folder.close()
    assert not os.path.exists(root)


def test_a_write_that_fails_leaves_nothing(root: str) -> None:
    folder = CacheFolder(root, 10_000_000, 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            folder.put(NAMES[0], bytes(2000), pin=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert folder.ledger.read().bytes == 0
    assert files_of(root) == {}
    folder.close()


def test_a_folder_that_is_a_link_to_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "precious")
    with pytest.raises(PermissionError, match="choose another folder"):
        CacheFolder(str(tmp_path / "cache"), 10, 10)
    assert list((tmp_path / "precious").iterdir()) == []


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_temporary_folders_of_dead_processes_are_removed_and_those_of_living_ones_stay(temporary: Path) -> None:
    dead, living = chosen_root(None), chosen_root(None)
    in_another_process("CacheFolder(root, 9, 9).put(NAMES[0], b'1', pin=True)\nos._exit(0)", dead)
    folder = CacheFolder(living, 9, 9)
    assert sorted(os.listdir(temporary)) == sorted(map(os.path.basename, [dead, living]))
    chosen_root(None)
    assert os.listdir(temporary) == [os.path.basename(living)]
    folder.close()


Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put pinned", "pin", "unpin", "read", "leave"]),
        st.integers(0, 1),
        st.integers(0, len(NAMES) - 1),
        st.integers(0, 6),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 20), st.integers(1, 5))
def test_bounds_and_pins_hold_after_any_steps_of_two_users(steps: list[Step], most: int, files: int) -> None:
    with tempfile.TemporaryDirectory() as parent:
        root = f"{parent}/cache"
        users = [CacheFolder(root, most, files) for _ in range(2)]
        pinned: list[set[str]] = [set(), set()]
        content: dict[str, bytes] = {}
        for action, who, number, size in steps:
            user, name = users[who], NAMES[number]
            data = content.setdefault(name, bytes([number]) * size)
            if action == "put":
                user.put(name, data, pin=False)
            elif action == "put pinned" and name not in pinned[who]:
                pinned[who] |= {name} if user.put(name, data, pin=True) else set()
            elif action == "pin" and name not in pinned[who]:
                pinned[who] |= {name} if user.pin(name) else set()
            elif action == "unpin" and name in pinned[who]:
                user.unpin(name)
                pinned[who].remove(name)
            elif action == "read":
                assert user.read(name) in (None, data)
            elif action == "leave":
                user.close()
                users[who], pinned[who] = CacheFolder(root, most, files), set()
            there, counts = files_of(root), user.ledger.read() if action != "leave" else users[who].ledger.read()
            assert (sum(there.values()), len(there)) == (counts.bytes, counts.files)
            assert counts.bytes <= most
            assert counts.files <= files
            for user_, names in zip(users, pinned, strict=True):
                assert all(user_.read(name) == content[name] for name in names)
        for user in users:
            user.close()
        assert os.listdir(parent) == []
