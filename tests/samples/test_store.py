"""Stores: the same files by name from every kind of place, and nothing from outside it."""

from __future__ import annotations

import json
import os
import pickle
import random
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, DecodeError, NotInStoreError, ShardError
from energon_nodes.storage.fds import FILES as FILES_OF_READERS
from energon_nodes.storage.handles import HANDLES
from energon_nodes.storage.provenance import Source
from tests.storage.tars import samples_of, write_tar

FILES = {"000007.txt": b"text 7 " * 8, "000007.cls": b"7", "000015.cls": b"5", "größe/a.b.json": b'{"n": 1}'}


def as_dataset(root: Path) -> str:
    write_tar(root / "a/0.tar", samples_of(0, 12))
    write_tar(root / "1.tar", [*samples_of(12, 20), ("größe/a.b.json", b'{"n": 1}')], tarfile.PAX_FORMAT)
    en.prepare(root)
    return str(root)


def as_folder(root: Path) -> str:
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return str(root)


def remote(local: str, name: str) -> str:
    for path in Path(local).rglob("*"):
        if path.is_file():
            MemoryFileSystem().pipe(f"/{name}/{path.relative_to(local)}", path.read_bytes())
    return f"memory://{name}"


@pytest.fixture(params=["dataset", "folder", "remote dataset", "remote folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> en.Store:
    path = (as_dataset if "dataset" in request.param else as_folder)(tmp_path / "data")
    if "remote" in request.param:
        path = remote(path, f"test_store_{request.param.replace(' ', '_')}")
    return en.store(path)


def test_files_are_read_by_name(store: en.Store) -> None:
    assert {name: store[name] for name in FILES} == FILES
    assert all(name in store for name in FILES)
    assert [name in store for name in ("000007.jpg", "x", "", "..", "000007", ".txt")] == [False] * 6


def test_many_files_come_in_the_order_of_the_names(store: en.Store) -> None:
    names = [random.Random(3).choice(list(FILES)) for _ in range(50)]
    assert store.get_many(names) == [FILES[name] for name in names]
    assert store.get_many([]) == []


def test_names_can_be_listed_and_counted(store: en.Store) -> None:
    names = list(store)
    assert len(names) == len(store) == len(set(names))
    assert set(FILES) <= set(names)
    assert dict(zip(names, store.get_many(names), strict=True)) == {name: store[name] for name in names}


def test_a_missing_name_is_a_key_error_that_helps(store: en.Store) -> None:
    for call in (lambda name: store[name], lambda name: store.get_many([*FILES, name])):
        with pytest.raises(NotInStoreError, match=r"no file '000007\.tx' in .*did you mean '(000007\.)?txt") as raised:
            call("000007.tx")
        assert isinstance(raised.value, KeyError)
    with pytest.raises(KeyError):
        store.media("000007.tx")


def test_a_copy_by_pickle_reads_the_same_and_is_small(store: en.Store) -> None:
    data = pickle.dumps(store)
    assert len(data) < 500
    assert pickle.loads(data)["000007.cls"] == b"7"


def test_threads_and_forked_children_read_side_by_side(store: en.Store) -> None:
    names = list(FILES) * 30
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(store.__getitem__, names)) == [FILES[name] for name in names]
    if "memory://" not in store.path:  # that file system lives in one process
        pid = os.fork()
        if pid == 0:
            os._exit(7 if store["000007.cls"] == b"7" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_the_decoder_decides_by_the_name(store: en.Store) -> None:
    decoding = en.store(store.path, decode=True)
    assert [decoding[name] for name in FILES] == [FILES["000007.txt"].decode(), 7, 5, {"n": 1}]
    assert decoding.get_many(list(FILES)) == [decoding[name] for name in FILES]
    own = en.store(store.path, decode=en.Decoder(handlers={"cls": lambda data: f"class {int(data)}"}))
    assert pickle.loads(pickle.dumps(decoding))["000007.cls"] == 7
    assert own["000015.cls"] == "class 5"


def test_get_adds_a_source_to_the_sample(store: en.Store) -> None:
    shard = "1.tar" if len(store) > len(FILES) else store.path  # the folders have nothing else
    sample: dict[str, Any] = {"__key__": "000015"}
    assert store.get(".cls", sample) == b"5"
    assert sample["__sources__"] == (Source(store.path, "000015.cls", shard, ("000015.cls",)),)
    typed = en.TextSample(__key__="x", text="t", __sources__=sample["__sources__"])
    assert store.get("größe/a.b.json", typed) == FILES["größe/a.b.json"]
    assert typed.__sources__ is not None
    assert [source.index for source in typed.__sources__] == ["000015.cls", "größe/a.b.json"]


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    return as_dataset(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return as_folder(tmp_path / "data")


def test_get_keeps_the_sources_of_a_sample_that_was_read(dataset: str) -> None:
    sample = next(en.shards(dataset))
    before = tuple(sample["__sources__"])
    en.store(dataset).get(".txt", sample)
    assert sample["__sources__"][:-1] == before
    assert sample["__sources__"][-1].file_names == (f"{sample['__key__']}.txt",)


def test_get_refuses_what_has_no_sources(dataset: str) -> None:
    store = en.store(dataset)
    with pytest.raises(TypeError, match="a dict or a Sample, got a tuple"):
        store.get("000007.txt", ("a", 1))
    with pytest.raises(TypeError, match=r"the name '\.txt' goes behind the key of the sample, whose __key__ is None"):
        store.get(".txt", {})
    untouched: dict[str, Any] = {"__key__": "nobody"}
    with pytest.raises(NotInStoreError):
        store.get(".txt", untouched)
    assert untouched == {"__key__": "nobody"}


def test_a_store_that_is_empty_is_true(tmp_path: Path) -> None:
    assert en.store(tmp_path)
    assert len(en.store(tmp_path)) == 0


def test_works_in_a_pipeline_and_its_workers(dataset: str) -> None:
    texts = en.store(dataset, decode=True)

    def look_up(number: int) -> int:
        return texts[f"{number:06d}.cls"]

    assert list(en.items(range(20)).map(look_up)) == [number % 10 for number in range(20)]
    policy = en.items([1, 99, 2]).map(look_up, on_error="skip")
    assert list(policy) == [1, 2]


# ---- a prepared dataset ----------------------------------------------------------------------


def test_an_unknown_key_is_answered_with_the_nearest_keys(dataset: str) -> None:
    store = en.store(dataset)
    for name, hint in {
        "7.txt": r"no sample has the key '7'; did you mean '000007'\?",
        "./000007.txt": r"did you mean '000007'\?",
        "some/folder/000007.txt": r"did you mean '000007'\?",
        "00000x.txt": r"no sample has the key '00000x'; did you mean '0000\d\d'\?",
        "quite another name.txt": r"its keys are such as '0000\d\d', ",
        "000007": r"names are KEY\.PART, and sample '000007' has the parts 'txt', 'cls'",
        "000007.jpg": r"sample '000007' has the parts 'txt', 'cls'$",
        "000007.TXT": r"has the parts 'txt', 'cls'; did you mean 'txt'\?",
    }.items():
        with pytest.raises(NotInStoreError, match=hint):
            store[name]
    with pytest.raises(
        NotInStoreError, match=r"no file 'a\.b' in the dataset .* \(and 1 more of the names asked for\)"
    ):
        store.get_many(["000007.txt", "a.b", "c.d"])


def test_a_shard_that_was_cut_is_an_error_that_names_it(dataset: str) -> None:
    os.truncate(f"{dataset}/1.tar", 1024)
    store = en.store(dataset)
    assert store["000012.txt"]
    for read in (lambda: store["000015.cls"], lambda: store.get_many(["000015.cls", "000007.cls"])):
        with pytest.raises(ShardError, match=r"the shard .*1\.tar ends inside '000015\.cls': it was cut or replaced"):
            read()
    os.unlink(f"{dataset}/a/0.tar")
    with pytest.raises(
        ShardError, match=r"the shard .*a/0\.tar cannot be read, with '000007\.cls' in it: .*No such file"
    ):
        store["000007.cls"]


def test_a_dataset_that_is_prepared_again_is_read_as_it_is_now(dataset: str) -> None:
    first = en.store(dataset)
    assert first["000007.cls"] == b"7"
    write_tar(Path(dataset, "new.tar"), [("front.txt", b"x" * 5000), *samples_of(0, 12)])
    os.replace(f"{dataset}/new.tar", f"{dataset}/a/0.tar")
    en.prepare(dataset, overwrite=True)
    second = en.store(dataset)
    assert second["front.txt"] == b"x" * 5000
    assert second["000007.cls"] == b"7"


def test_no_more_files_stay_open_than_the_limit(tmp_path: Path) -> None:
    for number in range(HANDLES.limit + 20):
        write_tar(tmp_path / f"{number:03d}.tar", [(f"{number}.txt", b"%d" % number)])
    en.prepare(tmp_path)
    FILES_OF_READERS.close_idle()
    store = en.store(tmp_path)
    for number in range(HANDLES.limit + 20):
        assert store[f"{number}.txt"] == b"%d" % number
    assert len(HANDLES.opened) <= HANDLES.limit
    opened = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert sum(name.startswith(str(tmp_path)) and name.endswith(".tar") for name in opened) <= HANDLES.limit


def test_files_that_are_closed_for_others_are_not_closed_under_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        write_tar(tmp_path / f"{number:03d}.tar", [(f"{number}.txt", b"%d" % number * 1000)])
    en.prepare(tmp_path)
    store = en.store(tmp_path)
    monkeypatch.setattr(HANDLES, "limit", 2)

    def read(seed: int) -> bool:
        names = random.Random(seed).choices(range(30), k=500)
        return all(store[f"{number}.txt"] == b"%d" % number * 1000 for number in names)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))
    assert len(HANDLES.opened) <= 2


def test_a_dataset_with_a_key_in_two_shards_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", samples_of(0, 3))
    write_tar(tmp_path / "1.tar", samples_of(2, 5))
    with pytest.raises(en.DuplicateKeysError):
        en.prepare(tmp_path)
    with pytest.raises(DatasetError, match=r"no \.nv-meta/index\.sqlite, which lookup by key needs.* several places"):
        en.store(tmp_path)


def test_broken_content_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [("a.json", b"{"), ("b.pkl", pickle.dumps(1))])
    en.prepare(tmp_path)
    store = en.store(tmp_path, decode=True)
    with pytest.raises(DecodeError, match="part 'json' of sample 'a'"):
        store["a.json"]
    with pytest.raises(en.TrustError):
        store["b.pkl"]
    assert en.store(tmp_path, decode=True, trust=True)["b.pkl"] == 1
    with pytest.raises(ValueError, match="trust=True only with decode=True"):
        en.store(tmp_path, trust=True)


# ---- a folder --------------------------------------------------------------------------------


def test_names_cannot_reach_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data-2").mkdir()
    (tmp_path / "data-2/x.txt").write_bytes(b"neighbour")
    (tmp_path / "data/real.txt").write_bytes(b"inside")
    (tmp_path / "data/link.txt").symlink_to("real.txt")
    (tmp_path / "data/sub/up.txt").symlink_to("../real.txt")
    (tmp_path / "data/out.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "data/out").symlink_to(tmp_path)
    (tmp_path / "data/beside").symlink_to(tmp_path / "data-2")
    (tmp_path / "data/loop").symlink_to("loop")
    store = en.store(tmp_path / "data")
    assert store["link.txt"] == store["sub/up.txt"] == b"inside"
    names = ["../secret.txt", "sub/../../secret.txt", str(tmp_path / "secret.txt"), "/etc/hostname"]
    for name in [*names, "out.txt", "out/secret.txt", "beside/x.txt"]:
        assert name not in store
        for read in (store.__getitem__, lambda each: store.get_many(["real.txt", each])):
            with pytest.raises(NotInStoreError, match=r"leads out of the store"):
                read(name)
    for name in ("loop", "sub", "", "sub/", "real.txt/x"):
        assert name not in store
        with pytest.raises((NotInStoreError, OSError)):
            store[name]


def test_a_store_may_itself_be_behind_a_link(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert en.store(tmp_path / "link")["000007.cls"] == b"7"


def test_a_folder_of_tars_that_were_never_prepared_says_so(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", samples_of(0, 3))
    with pytest.raises(NotInStoreError, match=r"the folder holds tars such as '0\.tar', which were never prepared"):
        en.store(tmp_path)["000001.txt"]


def test_the_plain_files_of_a_prepared_dataset_are_reached_by_their_scheme(dataset: str) -> None:
    plain = en.store(f"filesystem://{dataset}")
    assert plain["1.tar"] == Path(dataset, "1.tar").read_bytes()
    assert json.loads(plain[".nv-meta/.info.json"])["shard_counts"]
    remote(dataset, "store_scheme")
    assert en.store("filesystem+memory://store_scheme")["1.tar"] == plain["1.tar"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, message in {
        "file": "is a file; a store is a folder",
        "nothing": "does not exist",
        "a.jsonl": "a.jsonl",
    }.items():
        with pytest.raises(DatasetError, match=message):
            en.store(tmp_path / path)
    with pytest.raises(DatasetError, match="needs a path"):
        en.store("")


class Failing(MemoryFileSystem):
    """A store that drops the connection twice before each answer."""

    protocol = "failing"
    cachable = False
    tries = 0

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        Failing.tries += 1
        if Failing.tries % 3:
            raise ConnectionError("reset by peer")
        return MemoryFileSystem().cat_file(path.removeprefix("failing:/"), *args, **kwargs)

    def isdir(self, path: str) -> bool:
        return True


def test_reads_of_a_remote_folder_are_tried_again(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    from energon_nodes.storage import remote as module

    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)
    fsspec.register_implementation("failing", Failing, clobber=True)
    remote(folder, "store_failing")
    store = en.store("filesystem+failing://store_failing")
    Failing.tries = 0
    assert store["000007.cls"] == b"7"
    assert Failing.tries == 3


# ---- JSON Lines ------------------------------------------------------------------------------


def test_records_of_json_lines_are_read_by_number(tmp_path: Path) -> None:
    lines = [json.dumps({"n": number, "text": "ä" * number}) for number in range(30)]
    (tmp_path / "a.jsonl").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    store = en.store(tmp_path / "a.jsonl", decode=True)
    assert store["17.json"] == store["17"] == {"n": 17, "text": "ä" * 17}
    assert [each["n"] for each in store.get_many(["29.json", "0", "3.json", "0"])] == [29, 0, 3, 0]
    assert en.store(tmp_path / "a.jsonl")["4.json"] == lines[4].encode()
    assert (len(store), list(store)[:2], "30.json" in store, "-1" in store, "01" in store) == (
        *(30, ["0.json", "1.json"]),
        *(False, False, False),
    )
    with pytest.raises(
        NotInStoreError, match=r"no record '30\.json' in .*a\.jsonl: its records are 0\.json to 29\.json"
    ):
        store["30.json"]
    sample: dict[str, Any] = {"__key__": "5"}
    assert store.get(".json", sample)["n"] == 5
    assert sample["__sources__"] == (Source(str(tmp_path / "a.jsonl"), "5.json", "a.jsonl", ("5.json",)),)
    assert pickle.loads(pickle.dumps(store))["2"]["n"] == 2


# ---- names that are none


@pytest.mark.parametrize("make", [as_dataset, as_folder])
def test_a_name_is_text(make: Any, tmp_path: Path) -> None:
    store = en.store(make(tmp_path))
    sample: dict[str, Any] = {"__key__": "a"}
    for name in (None, 5, b"a.txt"):
        for ask in (store.__getitem__, store.media, store.lazy, lambda name: store.get(name, sample)):
            with pytest.raises(TypeError, match=r"names of files in the store .* are texts such as 'a\.txt', got"):
                ask(name)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"names of files in the store .*, got"):
            store.get_many(["000007.txt", name])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"get_many needs a list of names, got '000007\.txt'"):
        store.get_many("000007.txt")


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_folder_is_no_file(is_remote: bool, tmp_path: Path) -> None:
    path = as_folder(tmp_path)
    store = en.store(remote(path, "a_folder_is_no_file") if is_remote else path)
    for name in ("größe", "größe/"):
        with pytest.raises(
            NotInStoreError, match=r"it is a folder; ask for one of its files, such as 'größe/a\.b\.json'"
        ):
            store[name]
    with pytest.raises(NotInStoreError, match="is empty: give the name of a file"):
        store[""]
    with pytest.raises(NotInStoreError, match="holds a zero byte, which no name of a file can"):
        store["a\0b"]


def test_the_nearest_name_is_suggested(tmp_path: Path) -> None:
    for number in [*range(1, 60), *range(90, 99)]:
        (tmp_path / f"pet{number:02}.jpg").touch()
        (tmp_path / f"pet{number:02}.txt").touch()
    store = en.store(tmp_path)
    for name, meant in [("pet00.jpg", "pet01.jpg"), ("pet00.txt", "pet01.txt")]:
        with pytest.raises(NotInStoreError, match=rf"did you mean '{meant}'\?"):
            store[name]


def test_the_nearest_name_is_found_among_very_many(tmp_path: Path) -> None:
    for number in [*range(1, 1500), *range(1501, 3000)]:
        (tmp_path / f"{number:06}.jpg").touch()
    with pytest.raises(NotInStoreError, match=r"did you mean '001501\.jpg'\?"):
        en.store(tmp_path)["001500.jpg"]
