"""`prepare_media` stores what media are like, in a dataset and in a folder, and `Store.media` reads it back."""

from __future__ import annotations

import os
import pickle
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, FatalSampleError, NotInStoreError
from energon_nodes.recipes import prepare_media as module
from energon_nodes.storage.key_table import open_key_table
from tests.samples.media_files import movie, picture
from tests.storage.tars import write_tar

SOUND = movie("wav", audio="pcm_s16le", rate=8000, layout="mono", seconds=0.5)
SOUND_FIELDS = {"audio_duration": 0.5, "audio_channels": 1, "audio_sample_rate": 8000, "audio_num_samples": 4000}


def files(first: int, last: int) -> list[tuple[str, bytes]]:
    members: list[tuple[str, bytes]] = []
    for number in range(first, last):
        members += [(f"{number:03d}.jpg", picture("JPEG", size=(10 + number, 9))), (f"{number:03d}.txt", b"a caption")]
    return members


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    write_tar(root / "a/0.tar", files(0, 10))
    write_tar(root / "1.tar", [*files(10, 15), ("x/sound.left.wav", SOUND)])
    en.prepare(root)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name, data in [*files(0, 5), ("deep/er/s.WAV", SOUND), (".hidden/no.jpg", picture())]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def rows(root: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(root / ".nv-meta" / "index.sqlite")) as database:
        return database.execute(query).fetchall()


def test_a_dataset_gets_rows_beside_those_that_it_has(dataset: Path) -> None:
    before = rows(dataset, "SELECT * FROM sample_parts")
    uuid = (dataset / ".nv-meta" / "index.uuid").read_text()
    result = en.prepare_media(dataset)
    assert (result.files, result.images, result.av, result.unreadable) == (16, 15, 1, 0)
    assert str(result) == f"{dataset}: metadata of 15 pictures and 1 audio or video files"
    assert rows(dataset, "SELECT * FROM sample_parts") == before
    assert (dataset / ".nv-meta" / "index.uuid").read_text() == uuid
    assert rows(dataset, "SELECT * FROM media_metadata WHERE entry_key LIKE '003%'") == [
        ("003.jpg", "image", '{"width":13,"height":9,"format":"JPEG","mode":"RGB"}')
    ]
    assert rows(dataset, "SELECT filter_id, strategy, patterns FROM media_filters") == [(1, "EXTENSION", "")]
    store = en.store(dataset)
    assert store.media("012.jpg") == {"width": 22, "height": 9, "format": "JPEG", "mode": "RGB"}
    assert store.media("x/sound.left.wav") == SOUND_FIELDS
    assert pickle.loads(pickle.dumps(store)).media("000.jpg")["width"] == 10


def test_the_table_of_keys_stays_in_use(dataset: Path) -> None:
    open_key_table(str(dataset))
    en.prepare_media(dataset)
    place = dataset / ".nv-meta" / "keys.table"
    before = place.stat().st_ino
    assert en.store(dataset)["004.txt"] == b"a caption"
    assert place.stat().st_ino == before


def test_a_folder_gets_a_database_with_media_alone(folder: Path) -> None:
    result = en.prepare_media(folder)
    assert (result.files, result.images, result.av) == (6, 5, 1)
    assert {name for (name,) in rows(folder, "SELECT name FROM sqlite_master WHERE type = 'table'")} == {
        *("media_metadata", "media_filters", "sqlite_sequence"),
    }
    assert os.listdir(folder / ".nv-meta") == ["index.sqlite"]
    store = en.store(folder)
    assert store.media("deep/er/s.WAV") == SOUND_FIELDS
    assert store["deep/er/s.WAV"] == SOUND


def test_runs_add_to_each_other_and_files_that_are_gone_lose_their_rows(folder: Path) -> None:
    en.prepare_media(folder, media="glob:00[0-2].jpg")
    en.prepare_media(folder, media="glob:*.WAV")
    assert len(rows(folder, "SELECT * FROM media_metadata")) == 4
    assert rows(folder, "SELECT strategy, patterns FROM media_filters ORDER BY 1, 2") == [
        *(("GLOB", "*.WAV"), ("GLOB", "00[0-2].jpg")),
    ]
    (folder / "000.jpg").unlink()
    (folder / "001.jpg").write_bytes(picture("PNG"))
    en.prepare_media(folder)
    store = en.store(folder)
    assert store.media("001.jpg")["format"] == "PNG"
    assert sorted(name for (name,) in rows(folder, "SELECT entry_key FROM media_metadata")) == [
        *("001.jpg", "002.jpg", "003.jpg", "004.jpg", "deep/er/s.WAV"),
    ]


def test_unreadable_media_are_counted_and_named(dataset: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_tar(dataset / "2.tar", [("bad.png", b"no picture"), *((f"b{number:02d}.gif", b"") for number in range(30))])
    en.prepare(dataset, overwrite=True)
    caplog.clear()
    result = en.prepare_media(dataset)
    assert (result.files, result.images, result.unreadable, len(result.problems)) == (47, 15, 31, 20)
    assert result.problems[0].startswith("bad.png: the header of the picture cannot be read (UnidentifiedImageError")
    assert str(result).endswith("; 31 could not be read")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == f"no media metadata: {result.problems[0]}"
    assert messages[-1] == f"11 more files of {dataset} cannot be read"
    with pytest.raises(NotInStoreError, match=r"there are no media metadata of 'bad\.png'"):
        en.store(dataset).media("bad.png")


def test_what_was_not_stored_says_how_to_store_it(dataset: Path, folder: Path) -> None:
    for root in (dataset, folder):
        for _ in range(2):
            store = en.store(root)
            with pytest.raises(
                NotInStoreError, match=r"no media metadata of '003\.txt' .* energon_nodes\.prepare_media\("
            ):
                store.media("003.txt")
            with pytest.raises(NotInStoreError, match=r"no file '999\.jpg'"):
                store.media("999.jpg")
            en.prepare_media(root)


def test_nothing_to_look_at_is_an_error_and_writes_nothing(dataset: Path, folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"media='glob:\*\.mp4'; its parts are named 'jpg', 'txt', 'left\.wav'"):
        en.prepare_media(dataset, media="glob:*.mp4")
    with pytest.raises(DatasetError, match=r"media='glob:\*\.mp4'; its files are '000\.jpg', "):
        en.prepare_media(folder, media="glob:*.mp4")
    assert not (folder / ".nv-meta").exists()
    with pytest.raises(DatasetError, match="neither a prepared dataset nor a folder"):
        en.prepare_media(folder / "none")
    with pytest.raises(ValueError, match="media must be"):
        en.prepare_media(folder, media="jpg")
    with pytest.raises(ValueError, match="workers"):
        en.prepare_media(folder, workers=0)
    (dataset / ".nv-meta" / "index.sqlite").unlink()
    with pytest.raises(DatasetError, match=r"has no \.nv-meta/index\.sqlite, which names its files"):
        en.prepare_media(dataset)


def test_remote_datasets_and_folders_are_prepared_alike(dataset: Path, folder: Path) -> None:
    for root in (dataset, folder):
        url = f"memory://prepare_media_{root.name}"
        for path in root.rglob("*"):
            if path.is_file():
                MemoryFileSystem().pipe(f"{url[8:]}/{path.relative_to(root)}", path.read_bytes())
        assert en.prepare_media(url).images == en.prepare_media(root).images
        assert en.store(url).media("003.jpg") == en.store(root).media("003.jpg")


@pytest.mark.parametrize("kind", ["processes of the library", "threads", "a pool of processes"])
def test_other_processes_find_the_same(dataset: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 3)
    if kind == "threads":
        with ThreadPoolExecutor(2) as pool:
            result = en.prepare_media(dataset, executor=pool)
    elif kind == "a pool of processes":
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            result = en.prepare_media(dataset, executor=pool, progress=True)
    else:
        result = en.prepare_media(dataset, workers=2)
    assert (result.files, result.images, result.av) == (16, 15, 1)
    assert len(rows(dataset, "SELECT * FROM media_metadata")) == 16


def test_an_abort_leaves_the_index_that_was_there(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (dataset / ".nv-meta" / "index.sqlite").read_bytes()
    monkeypatch.setattr(module, "_TOGETHER", 3)

    def failing(*args: Any) -> Any:
        found = module.media_rows(*args)
        if "1.tar" in args[0]:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "media_task", lambda task, media: (0, failing(*task[0], media)))
        with pytest.raises(KeyboardInterrupt):
            en.prepare_media(dataset)
    assert (dataset / ".nv-meta" / "index.sqlite").read_bytes() == before
    assert not [name for name in os.listdir(dataset / ".nv-meta") if name.startswith(".partial")]
    assert en.prepare_media(dataset).images == 15


def test_audio_without_its_package_is_an_error_that_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(
        FatalSampleError, match=r"install energon_nodes\[av\], or leave such files out, as with media='glob"
    ):
        en.prepare_media(folder)
    assert en.prepare_media(folder, media="glob:*.jpg").images == 5


def test_media_are_looked_up_from_threads_and_forked_children(dataset: Path) -> None:
    en.prepare_media(dataset)
    store = en.store(dataset)
    names = [f"{number:03d}.jpg" for number in range(15)] * 20
    with ThreadPoolExecutor(4) as pool:
        assert [each["width"] for each in pool.map(store.media, names)] == list(range(10, 25)) * 20
    pid = os.fork()
    if pid == 0:
        os._exit(store.media("007.jpg")["width"])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17


def test_prepare_stores_media_on_the_way(dataset: Path) -> None:
    en.prepare(dataset, overwrite=True, media="glob:*.jpg")
    assert en.store(dataset).media("003.jpg")["width"] == 13
    assert rows(dataset, "SELECT strategy, patterns FROM media_filters") == [("GLOB", "*.jpg")]
