"""`cook` makes samples by the first cooker that matches."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import energon_nodes as en
from energon_nodes.combinators.cooking import cooking
from tests.contract import functions as f


def named(name: str, sample: Any) -> tuple[str, Any]:
    return name, sample["__key__"]


def crude(key: str, subflavors: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    return {"__key__": key, "__subflavors__": subflavors, **parts}


# ---- the choice


SUBFLAVORS = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, "x", None]), max_size=3)
PARTS = st.sets(st.sampled_from(["jpg", "txt", "json"]))
COOKERS = st.lists(st.tuples(SUBFLAVORS, PARTS, st.booleans()), min_size=1, max_size=4)


def is_even(sample: Any) -> bool:
    return int(sample["__key__"]) % 2 == 0


@given(COOKERS, st.lists(st.tuples(SUBFLAVORS, PARTS), max_size=8))
def test_the_first_that_matches_cooks(cookers: list[Any], samples: list[Any]) -> None:
    made = [
        en.Cooker(partial(named, str(number)), flavors, has_parts=parts, where=is_even if even else None)
        for number, (flavors, parts, even) in enumerate(cookers)
    ]
    data = [crude(str(n), flavors, **dict.fromkeys(parts)) for n, (flavors, parts) in enumerate(samples)]
    expected = [
        (str(number), str(n))
        for n, (has, there) in enumerate(samples)
        for number in [
            next(
                (
                    number
                    for number, (flavors, parts, even) in enumerate(cookers)
                    if flavors.items() <= has.items() and parts <= there and not (even and n % 2)
                ),
                None,
            )
        ]
        if number is not None
    ]
    node = en.items(data).cook(*made, on_error="skip")
    assert list(node) == expected
    assert node.failed == len(samples) - len(expected)


def test_the_choice_among_datasets_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Asked(dict[str, Any]):
        def items(self) -> Any:
            asked.append(1)
            return super().items()

    cookers = [en.Cooker(partial(named, kind), Asked(kind=kind)) for kind in ("web", "book")]
    data = [crude(str(n), {"kind": ["web", "book"][n % 2]}) for n in range(100)]
    assert [name for name, _ in en.items(data).cook(*cookers)] == ["web", "book"] * 50
    assert len(asked) == 4  # two cookers, two datasets


def test_subflavors_without_a_hash_are_compared_too() -> None:
    cooker = en.Cooker(partial(named, "list"), {"sizes": [1, 2]})
    assert list(en.items([crude("a", {"sizes": [1, 2]})] * 2).cook(cooker)) == [("list", "a")] * 2


def test_typed_samples_are_cooked_by_their_subflavors() -> None:
    texts = en.items([en.TextSample(__key__="a", text="fine", __subflavors__={"kind": "web"})])
    cooked = texts.cook(
        en.Cooker(lambda sample: sample.text, {"kind": "book"}), en.Cooker(lambda sample: sample.__key__)
    )
    assert list(cooked) == ["a"]


def test_a_sample_without_a_cooker_is_an_error_that_tells_what_was_seen() -> None:
    node = en.items([crude("a", {"kind": "web"}, jpg=b"")]).cook(
        en.Cooker(f.double, {"kind": "book"}), en.Cooker(f.text, has_parts=["txt"], where=f.odd)
    )
    with pytest.raises(en.NoCookerError) as raised:
        next(node)
    assert str(raised.value).startswith(
        "no cooker matches a sample with the subflavors {'kind': 'web'} and the parts ['jpg']. The cookers are "
        "Cooker(double, has_subflavors={'kind': 'book'}); Cooker(text, has_parts=['txt'], where=odd). "
    )
    assert "sample 'a'" in " ".join(raised.value.__notes__)
    assert isinstance(raised.value, en.SampleError)


def test_an_error_of_a_condition_is_the_error_of_its_sample() -> None:
    def broken(sample: Any) -> bool:
        if sample["__key__"] == "b":
            raise en.SkipSample
        return sample["size"] > 0

    node = en.items([crude("a", size=1), crude("b"), crude("c"), crude("d", size=2)])
    cooked = node.cook(en.Cooker(partial(named, "x"), where=broken), on_error="skip")
    assert list(cooked) == [("x", "a"), ("x", "d")]
    assert (cooked.skipped, cooked.failed) == (1, 1)


# ---- what functions ask for


def test_functions_get_the_stores_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(b"a cat")
    (tmp_path / "2.txt").write_bytes(b"a dog")
    store = en.store(tmp_path, decode=True)

    def with_both(sample: Any, texts: en.Store, *, primary: en.Store) -> Any:
        return texts.get(".txt", sample), primary["2.txt"], len(sample["__sources__"])

    def with_none(sample: Any, scale: int = 3) -> int:
        return scale

    data = [crude("1"), crude("2")]
    cookers = en.Cooker(with_both, where=lambda sample: sample["__key__"] == "1"), with_none
    node = en.items(data).cook(*cookers, aux={"texts": store}, primary=store)
    assert list(node) == list(node) == [("a cat", "a dog", 1), 3]
    assert "__sources__" not in data[0]  # the store notes in a copy what was read
    assert list(pickle.loads(pickle.dumps(en.items(data).cook(keep_text, aux={"texts": store})))) == ["a cat", "a dog"]


def keep_text(sample: Any, texts: en.Store) -> Any:
    return texts.get(".txt", sample)


def test_a_typed_sample_that_a_store_notes_in_is_a_copy_too(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(b"a cat")
    texts = [en.TextSample(__key__="1", text="")]
    node = en.items(texts).cook(keep_text, aux={"texts": en.store(tmp_path)})
    assert list(node) == [b"a cat"]
    assert texts[0].__sources__ is None


def test_keywords_get_all_stores_and_what_is_marked() -> None:
    @en.cooker(need_primary=True, need_cache=True)
    def everything(sample: Any, **stores: Any) -> list[str]:
        return sorted(stores)

    def unmarked(sample: Any, **stores: Any) -> list[str]:
        return sorted(stores)

    offered: dict[str, Any] = {"aux": {"one": {}, "two": {}}, "primary": {}, "cache": object()}
    assert list(en.items([crude("a")]).cook(everything, **offered)) == [["cache", "one", "primary", "two"]]
    assert list(en.items([crude("a")]).cook(unmarked, **offered)) == [["one", "two"]]


def needs_images(sample: Any, images: Any) -> Any:
    return images


def needs_primary(sample: Any, primary: Any) -> Any:
    return primary


def needs_cache(sample: Any, *, cache: Any) -> Any:
    return cache


def needs_rng(sample: Any, rng: np.random.Generator) -> Any:
    return rng.random()


@en.cooker(need_cache=True)
def marked(sample: Any, **stores: Any) -> Any:
    return stores


NOT_OFFERED: list[tuple[Any, dict[str, Any], str]] = [
    (
        needs_images,
        {"aux": {"image": {}}},
        r"needs_images has a parameter 'images'.*aux=\{'images': store\}.*are image$",
    ),
    (needs_primary, {}, r"needs_primary has a parameter 'primary'.*primary=energon_nodes.store\(path\).*is nothing$"),
    (needs_cache, {"primary": {}}, r"needs_cache has a parameter 'cache'.*give cook\(..., cache=...\).*are primary$"),
    (needs_rng, {}, r"needs_rng has a parameter 'rng'.*give cook\(..., rng=True\)"),
    (marked, {}, r"marked is marked with need_cache=True"),
    (en.Cooker(partial(named, "x")), {"rng": True}, "no cooker has a parameter named rng"),
    (needs_images, {"aux": {"rng": {}}}, "cook needs names of parameters in aux, got 'rng'"),
    (needs_images, {"aux": {"my images": {}}}, "cook needs names of parameters in aux, got 'my images'"),
    (3, {}, "cook needs functions and Cookers, got 3"),
]


@pytest.mark.parametrize(("cooker", "settings", "message"), NOT_OFFERED)
def test_what_is_not_offered_is_an_error_when_the_pipeline_is_built(
    cooker: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        en.items([crude("a")]).cook(cooker, **settings)


def test_at_least_one_cooker_is_needed() -> None:
    with pytest.raises(TypeError, match="cook needs at least one cooking function or Cooker"):
        en.items([1]).cook()


def test_random_numbers_belong_to_the_element() -> None:
    def plain(sample: Any) -> str:
        return sample["__key__"]

    data = [crude(str(n), jpg=b"") if n % 2 else crude(str(n)) for n in range(6)]
    node = en.items(data).cook(en.Cooker(needs_rng, has_parts=["jpg"]), plain, rng=True)
    first, second = list(node), list(node)
    assert first[::2] == second[::2] == ["0", "2", "4"]
    assert len({*first[1::2], *second[1::2]}) == 6
    assert node.clone().restore((0, 3)) == first[3]
    globally = en.items(data[:2]).cook(lambda sample: np.random.rand(), rng="global")
    assert [value for value, key in globally.with_keys()] == [globally.clone().restore((0, n)) for n in (0, 1)]


# ---- generators and state


def sentences(sample: Any) -> Iterator[str]:
    yield from sample["txt"].split(".")


def test_a_generator_function_makes_any_number_of_samples() -> None:
    data = [crude("a", txt="one.two"), crude("b", jpg=b""), crude("c", txt="three")]
    node = en.items(data).cook(en.Cooker(sentences, has_parts=["txt"]), partial(named, "image"))
    assert list(node.with_keys()) == [
        ("one", (0, 0, 0)),
        ("two", (0, 0, 1)),
        (("image", "b"), (0, 1, 0)),
        ("three", (0, 2, 0)),
    ]


def test_functions_with_a_state_are_copied_for_each_stream_and_share_the_stores() -> None:
    store = {"a": 1}
    kitchen = cooking([f.Counter(), en.Cooker(f.Counter()), keep_text], aux={"texts": store})
    again = copy.deepcopy(kitchen)
    kitchen("x")
    assert again.state_dict() == {"0": {"count": 0}, "1": {"count": 0}}
    assert kitchen.state_dict() == {"0": {"count": 1}, "1": {"count": 0}}
    again.load_state_dict(kitchen.state_dict())
    assert again("y") == ("y", 2)
    assert again._offered["texts"] is store
    numbered = en.items(range(6)).cook(f.Counter())
    assert [next(numbered), next(numbered)] == [(0, 1), (1, 2)]
    resumed = numbered.clone()
    resumed.reset(numbered.state_dict())
    assert next(resumed) == (2, 3)


def test_the_graph_shows_the_cookers() -> None:
    assert repr(en.items([1]).cook(en.Cooker(f.text), f.double)) == "Map(fn=cook(text, double))"
    assert repr(en.items([1]).cook(sentences)) == "FlatMap(fn=cook(sentences))"


# ---- mistakes in aux


def with_pics(sample: Any, pics: Any = None) -> Any:
    return sample


def with_all(sample: Any, **stores: Any) -> Any:
    return stores


def test_a_store_that_no_function_asks_for_is_refused() -> None:
    data = en.items([crude("1")])
    with pytest.raises(TypeError, match=r"got 'pic' in aux.*did you mean 'pics'\?.*with_pics.*sample: 'pics'\. Name"):
        data.cook(with_pics, aux={"pic": {}})
    with pytest.raises(TypeError, match=r"'b' in aux, and no cooking function has a parameter of this name\. The"):
        data.cook(with_pics, aux={"pics": {}, "b": {}})
    assert list(data.cook(with_all, aux={"pic": 1})) == [{"pic": 1}]
    assert list(data.cook(with_pics, with_all, aux={"pics": 1, "b": 2})) == [crude("1")]


@pytest.mark.parametrize("aux", [5, ["texts"], "texts"])
def test_stores_are_given_by_name(aux: Any) -> None:
    with pytest.raises(TypeError, match=r"cook needs aux as a dict of names and stores.*got"):
        en.items([1]).cook(with_all, aux=aux)
    with pytest.raises(ValueError, match=r"names of parameters in aux, got 1"):
        en.items([1]).cook(with_all, aux={1: aux})  # pyright: ignore[reportArgumentType]


class Counting:
    """A cooking function with a state."""

    count = 0

    def __call__(self, sample: Any) -> int:
        self.count += 1
        return self.count

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_states_of_other_cookers_are_refused() -> None:
    data = en.items([crude("1"), crude("2")])
    one = data.cook(en.Cooker(Counting(), where=is_even), with_all)
    next(one)
    with pytest.raises(en.StateError, match=r"functions '0' \(counted from 0\).*with a state are '1'"):
        data.cook(with_all, Counting()).reset(one.state_dict())
