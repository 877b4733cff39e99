"""Folders of tars, as people have them; each function writes one kind."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

Member = tuple[str, bytes]


def write_tar(path: Path, members: Iterable[Member], form: int = tarfile.USTAR_FORMAT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as archive:
        for name, payload in members:
            add(archive, name, payload)


def add(archive: tarfile.TarFile, name: str, payload: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(payload)
    archive.addfile(member, io.BytesIO(payload))


def pairs(prefix: str, count: int) -> list[Member]:
    """Return the members of `count` samples of a txt and a json."""
    members: list[Member] = []
    for number in range(count):
        key = f"{prefix}{number:06d}"
        members += [(f"{key}.txt", f"text of {key}".encode()), (f"{key}.json", b'{"n": %d}' % number)]
    return members


def plain(folder: Path) -> None:
    """Write shards whose last is shorter; payloads are empty, full blocks, and one of 5 MB."""
    for shard in range(3):
        write_tar(folder / f"shard_{shard}.tar", pairs(f"{shard}_", 40 - 15 * shard))
    sizes = [0, 1, 511, 512, 513, 1024, 5_000_000, 7]
    write_tar(folder / "sizes.tar", [(f"s{k}.bin", bytes([k]) * size) for k, size in enumerate(sizes)])


def long_shards(folder: Path) -> None:
    """Write shards that hold more samples than one read takes."""
    for shard in range(2):
        write_tar(folder / f"{shard}.tar", pairs(f"{shard}/", 2_300))


def subfolders(folder: Path) -> None:
    """Write shards in folders whose order differs by components and by characters; hidden ones do not count."""
    for number, name in enumerate(["a/x", "a-b/x", "a/b/deep", "s10", "s9", "Z", ".hidden/no"]):
        write_tar(folder / f"{name}.tar", pairs(f"{number}_", 3 + number))


def ten(folder: Path) -> None:
    """Write ten shards of different lengths."""
    for number in range(10):
        write_tar(folder / f"part_{number:02d}.tar", pairs(f"{number}_", 2 + number))


def trains_and_vals(folder: Path) -> None:
    """Write shards that their folders put into parts of a split."""
    for name in ("train/0", "train/1", "val/0", "extra/0"):
        write_tar(folder / f"{name}.tar", pairs(name.replace("/", "_") + "_", 4))


def formats(folder: Path) -> None:
    """Write the same samples as USTAR, GNU and PAX, with names that only extensions of the header can hold."""
    long_names = [("l/" + "n" * 90 + f"/{k}" + "m" * 150, b"%d" % k) for k in range(3)]
    for number, form in enumerate([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
        members = [(f"{number}{name}.txt", payload) for name, payload in long_names]
        members += [(f"{number}_größe_日本_{k}.json", b"{}") for k in range(3)]
        write_tar(folder / f"{number}.tar", members + pairs(f"{number}_", 5), form)
    prefixed = [("p" * 60 + f"/{'q' * 80}{k}.txt", b"%d" % k) for k in range(4)]
    write_tar(folder / "2.tar", prefixed + pairs("2_", 3), tarfile.USTAR_FORMAT)
    fractions(folder / "3.tar")


def fractions(path: Path) -> None:
    """Write a PAX tar whose times have fractions, so every member has an extended header of its own."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, payload in pairs("3_", 6):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(payload), 1700000000.25
            archive.addfile(member, io.BytesIO(payload))


def names(folder: Path) -> None:
    """Write members whose names decide oddly: dots, capitals, hidden and meta files, folders, links."""
    with tarfile.open(folder / "names.tar", "w") as archive:
        for name in NAMES:
            add(archive, name, json.dumps(name).encode())  # `prepare` parses what is named json
        for name, kind in (("folder", tarfile.DIRTYPE), ("link.txt", tarfile.SYMTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a"
            archive.addfile(member)
        add(archive, "z.txt", b"last")


NAMES = [
    *("a.b/c.jpg.txt", "a.b/c.json", "m.a.b.c", "UP.TXT", "UP.Json", "t.", "dir/.hidden", "dir/.other.txt"),
    *("./x.txt", "./x.json", "__meta__/y.txt", "__z__", "__q__.txt", "d/__m__/y.txt", "noext", "a.b/noext2", ".hid"),
    *(".hid.txt", "235342 Track 2.0 (Clean Version).mp3", "a.LEFT.JPG", "a.RIGHT.JPG", "b.MP4", "..c.txt"),
]

KINDS: list[Callable[[Path], None]] = [plain, long_shards, subfolders, ten, trains_and_vals, formats, names]
