"""Values that stand for files of a store."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.storage.provenance import Source

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    picture: Any
    size: int


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"text {name}")
    return tmp_path


@pytest.fixture
def texts(folder: Path) -> en.Store:
    return en.store(folder, decode=True)


def test_a_lazy_value_reads_the_file_each_time_it_is_asked(texts: en.Store, folder: Path) -> None:
    lazy = texts.lazy("a.txt")
    assert lazy.get() == "text a"
    (folder / "a.txt").write_text("another")
    assert lazy.get() == "another"


def test_making_one_reads_nothing_and_a_missing_file_shows_when_it_is_read(texts: en.Store) -> None:
    lazy = texts.lazy("d.txt")
    with pytest.raises(en.NotInStoreError, match=r"no file 'd\.txt'"):
        lazy.get()


def test_get_notes_the_source_in_the_sample(texts: en.Store, folder: Path) -> None:
    sample: dict[str, Any] = {"__key__": "1"}
    typed = en.TextSample(__key__="1", text="")
    assert texts.lazy("a.txt").get(sample) == texts.lazy("a.txt").get(typed) == "text a"
    source = Source(str(folder), "a.txt", str(folder), ("a.txt",))
    assert sample["__sources__"] == typed.__sources__ == (source,)
    with pytest.raises(TypeError, match="notes the source in a dict or a Sample, got a list"):
        texts.lazy("a.txt").get([])


def test_two_are_equal_if_store_and_name_are(texts: en.Store, folder: Path) -> None:
    same = en.store(folder, decode=True)
    assert texts.lazy("a.txt") == same.lazy("a.txt")
    assert len({texts.lazy("a.txt"), same.lazy("a.txt"), texts.lazy("b.txt")}) == 2
    assert texts.lazy("a.txt") != en.store(folder).lazy("a.txt")
    assert texts.lazy("a.txt") != "a.txt"


def test_a_pickle_leads_to_the_store_of_the_process_if_it_has_one(texts: en.Store) -> None:
    lazy = texts.lazy("a.txt")
    again = pickle.loads(pickle.dumps(lazy))
    assert again == lazy
    assert again.store is texts
    assert copy.deepcopy({"x": lazy})["x"] is lazy


def test_resolve_replaces_lazy_values_at_any_depth_and_changes_nothing(texts: en.Store) -> None:
    a, b = texts.lazy("a.txt"), texts.lazy("b.txt")
    value = {"list": [a, 1], "tuple": (b, (a,)), "named": Pair(a, 2), "record": Frozen(b, 3), "plain": [1, 2]}
    done = en.resolve(value)
    assert done == {
        "list": ["text a", 1],
        "tuple": ("text b", ("text a",)),
        "named": Pair("text a", 2),
        "record": Frozen("text b", 3),
        "plain": [1, 2],
    }
    assert value["list"] == [a, 1]
    assert done["plain"] is value["plain"]


def test_resolve_returns_a_value_without_lazy_ones_itself() -> None:
    value = {"a": [1, Frozen(2, 3)]}
    assert en.resolve(value) is value


def test_resolve_notes_each_source_in_the_sample_around_it(texts: en.Store) -> None:
    inner = en.TextSample(__key__="in", text=texts.lazy("a.txt"))  # type: ignore[arg-type]
    outer = en.CrudeSample({"__key__": "out", "inner": inner, "own": [texts.lazy("b.txt")]})
    done = en.resolve(outer)
    assert type(done) is en.CrudeSample
    assert [source.index for source in done["__sources__"]] == ["b.txt"]
    assert [source.index for source in done["inner"].__sources__] == ["a.txt"]
    assert inner.__sources__ is None


def test_resolve_reads_the_files_of_one_store_together(texts: en.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    read_many = texts.entries.read_many
    monkeypatch.setattr(texts.entries, "read_many", lambda names: asked.append(list(names)) or read_many(names))
    assert en.resolve([texts.lazy("b.txt"), texts.lazy("a.txt"), texts.lazy("b.txt")]) == ["text b", "text a", "text b"]
    assert asked == [["b.txt", "a.txt", "b.txt"]]


def test_resolve_as_a_verb_skips_samples_whose_files_are_missing(texts: en.Store) -> None:
    names = en.items(["a.txt", "x.txt", "c.txt"])
    assert list(names.map(texts.lazy).resolve(on_error="skip")) == ["text a", "text c"]


def test_a_checkpoint_of_a_buffer_behind_lazy_values_holds_keys_and_reads_what_is_delivered(folder: Path) -> None:
    reads: list[str] = []
    texts = en.store(folder, decode=en.Decoder(handlers={"txt": lambda data: reads.append(data.decode()) or data}))

    def load(name: str) -> dict[str, Any]:
        return {"text": texts.lazy(name), "length": 3}

    pipeline = en.items(["a.txt", "b.txt", "c.txt"] * 300, shuffle=True).map(load)
    packed = pipeline.shuffle(50).pack_to(9, length=lambda sample: sample["length"], buffer_size=600, encode=en.resolve)
    next(packed)
    state = packed.state_dict()
    rest = [next(packed) for _ in range(5)]
    assert len(pickle.dumps(state)) < 8000
    reads.clear()
    packed.reset(state)
    assert next(packed) == rest[0]
    assert len(reads) == 3
    assert [next(packed) for _ in range(4)] == rest[1:]


def lazily(name: str) -> Any:
    return _stores[0].lazy(name)


_stores: list[en.Store] = []


def test_an_impure_function_has_its_lazy_values_saved_by_store_and_name(texts: en.Store) -> None:
    _stores[:] = [texts]
    pipeline = en.items(["a.txt", "b.txt", "c.txt"]).map(lazily, pure=False).shuffle(3).resolve()
    first = next(pipeline)
    state = pickle.loads(pickle.dumps(pipeline.state_dict()))
    rest = list(pipeline)
    assert sorted([first, *rest]) == ["text a", "text b", "text c"]
    pipeline.reset(state)
    assert list(pipeline) == rest


def test_a_checkpoint_cannot_lead_to_a_store_that_the_process_does_not_have(texts: en.Store, folder: Path) -> None:
    encoded = encode_value(texts.lazy("a.txt"))
    assert decode_value(encoded) == texts.lazy("a.txt")
    encoded["value"][1] = "/etc"
    with pytest.raises(en.StateError, match=r"'a.txt' of the store /etc .* make it with energon_nodes.store before"):
        decode_value(encoded)


def test_a_checkpoint_finds_its_store_again_with_other_settings_of_the_decoder(folder: Path) -> None:
    store = en.store(folder, decode=en.Decoder(image="pil"))
    encoded = encode_value(store.lazy("a.txt"))
    del store
    other = en.store(folder, decode=en.Decoder(image="torchrgb8"))
    assert decode_value(encoded).store is other
    raw = encode_value(en.store(folder).lazy("a.txt"))
    with pytest.raises(en.StateError, match="decode=None"):
        decode_value(raw)
