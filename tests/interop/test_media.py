"""Files by name and media metadata: what one side stored, the other reads to the same."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from tests.interop import folders, megatron  # first: it skips where the real one is not there

from megatron.energon.cache.file_store import JsonlFileStore, SystemFileStore, WebdatasetFileStore  # isort: skip
from megatron.energon.epathlib import EPath  # isort: skip

try:
    from tests.samples.media_files import movie
except ImportError:  # PyAV is an extra on both sides
    movie = None
from tests.recipes.prepared import png

PARTS = {"a": {"png": png((1, 2, 3)), "txt": b"one"}, "x/b": {"seg.png": png((4, 5, 6), (9, 8)), "json": b"{}"}}


def media_files() -> dict[str, bytes]:
    files = {f"{key}.{part}": data for key, parts in PARTS.items() for part, data in parts.items()}
    if movie is not None:
        files["film.mp4"] = movie("mp4", video="mpeg4", audio="aac", seconds=1.2)
        files["film.mkv"] = movie("matroska", video="mpeg4", audio="aac", rate=48000, layout="mono", seconds=1.2)
        files["sound.wav"] = movie("wav", audio="pcm_s16le", rate=16000, layout="mono", seconds=0.5)
        files["sound.flac"] = movie("flac", audio="flac")
        files["sound.mp3"] = movie("mp3", audio="libmp3lame")
    return files


def write_dataset(root: Path) -> Path:
    folders.write_tar(root / "0.tar", sorted(media_files().items()))
    folders.plain(root)
    return root


def write_folder(root: Path) -> Path:
    for name, data in media_files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def by_energon(folder: Path, media: str = "extension") -> Path:
    command = [Path(sys.executable).with_name("energon"), "prepare-media", "--no-progress", "--num-workers", "1"]
    done = subprocess.run(
        [*command, f"--media-metadata-by-{media}", folder], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Compare exactly, but for what padded codecs decode to: there we store what the header says."""
    if found == expected or list(found) != list(expected):
        return found == expected
    rate = expected.get("audio_sample_rate", 1)
    loose = {"audio_num_samples": 2 * 1024, "audio_duration": 2 * 1024 / rate, "video_duration": 0.002}
    return all(abs(found[name] - value) <= loose.get(name, 0) for name, value in expected.items())


def energon_metadata(store: Any, name: str) -> dict[str, Any]:
    found = dataclasses.asdict(store.get_media_metadata(name))
    return {field: value for field, value in found.items() if value is not None}


# By header their command hangs on a folder whose files it cannot tell, so that case is left out.
@pytest.mark.parametrize(("prepared", "media"), [(True, "extension"), (True, "header"), (False, "extension")])
def test_both_store_the_same_and_read_what_the_other_stored(tmp_path: Path, prepared: bool, media: str) -> None:
    write = write_dataset if prepared else write_folder
    theirs, ours = write(tmp_path / "theirs"), write(tmp_path / "ours")
    if prepared:
        megatron.prepare(theirs)
        en.prepare(ours)
    by_energon(theirs, media)
    result = en.prepare_media(ours, media=media)
    names = [name for name in media_files() if not name.endswith(("txt", "json"))]
    assert result.images + result.av == len(names)
    assert result.unreadable == 0
    stores = {root: en.store(root) for root in (theirs, ours)}
    kind = WebdatasetFileStore if prepared else SystemFileStore
    energon = {root: kind(EPath(root)) for root in (theirs, ours)}
    for name in names:
        expected = stores[theirs].media(name)
        assert expected == energon_metadata(energon[theirs], name)
        assert same(stores[ours].media(name), expected), (name, stores[ours].media(name), expected)
        assert energon_metadata(energon[ours], name) == stores[ours].media(name)


def test_the_rows_of_pictures_are_equal_to_the_letter(tmp_path: Path) -> None:
    theirs, ours = (folders_of_pictures(tmp_path / name) for name in ("theirs", "ours"))
    by_energon(theirs)
    en.prepare_media(ours)
    assert table(ours, "media_metadata") == table(theirs, "media_metadata")
    assert [row[:3] for row in table(ours, "media_filters")] == [row[:3] for row in table(theirs, "media_filters")]


def test_each_adds_to_what_the_other_stored(tmp_path: Path) -> None:
    root = folders_of_pictures(tmp_path / "both")
    en.prepare_media(root, media="glob:a.*")
    by_energon(root)
    en.prepare_media(root)
    assert [row[1:3] for row in table(root, "media_filters")] == [("GLOB", "a.*"), ("EXTENSION", "")]
    assert en.store(root).media("x/b.seg.png")["width"] == 9


def folders_of_pictures(root: Path) -> Path:
    for key, parts in PARTS.items():
        for part, data in parts.items():
            (root / f"{key}.{part}").parent.mkdir(parents=True, exist_ok=True)
            (root / f"{key}.{part}").write_bytes(data)
    return root


def table(root: Path, name: str) -> list[tuple[Any, ...]]:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(root / ".nv-meta" / "index.sqlite")) as database:
        return database.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()


# ---- files by name ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write", [folders.plain, folders.subfolders, folders.formats, folders.names], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("preparer", [megatron.prepare, en.prepare], ids=["by energon", "by us"])
def test_both_read_the_same_bytes_by_name(tmp_path: Path, write: Any, preparer: Any) -> None:
    write(tmp_path)
    preparer(tmp_path)
    ours, theirs = en.store(tmp_path), WebdatasetFileStore(EPath(tmp_path))
    names = list(ours)
    assert len(names) == len(ours) > 0
    for name, data in zip(names, ours.get_many(names), strict=True):
        assert data == ours[name]
        assert theirs[name][0] == data


def test_both_read_the_same_records_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"n": number}) + "\n\n" for number in range(5)))
    en.prepare(tmp_path / "a.jsonl")
    ours, theirs = en.store(tmp_path / "a.jsonl", decode=True), JsonlFileStore(EPath(tmp_path / "a.jsonl"))
    for name in ours:
        assert ours[name] == json.loads(theirs[name][0])
