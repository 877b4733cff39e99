"""`join` puts samples of the same key together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import energon_nodes as en
from tests.recipes.prepared import prepare
from tests.storage.tars import write_tar


def samples(keys: str, part: str) -> list[dict[str, Any]]:
    return [{"__key__": key, part: f"{part} of {key}"} for key in keys]


def parts(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sample.items() if name[:2] != "__"}


IMAGES = en.items(samples("abcd", "jpg"))
TEXTS = en.items(samples("dcba", "txt"))


def test_the_first_side_gives_the_order_and_the_restore_key() -> None:
    node = IMAGES.join(TEXTS)
    assert [(sample["__key__"], key) for sample, key in node.with_keys()] == [
        (letter, (0, number)) for number, letter in enumerate("abcd")
    ]
    assert node.restore((0, 2)) == {"__key__": "c", "jpg": "jpg of c", "txt": "txt of c"}


def test_any_number_of_sides_go_together() -> None:
    scores = en.items(samples("badc", "score"))
    assert [parts(sample) for sample in IMAGES.join(TEXTS, scores)] == [
        {"jpg": f"jpg of {key}", "txt": f"txt of {key}", "score": f"score of {key}"} for key in "abcd"
    ]


@pytest.mark.parametrize("ahead", [1, 2, 3, 100])
def test_what_has_no_match_is_an_error_left_out_or_none(ahead: int) -> None:
    few = en.items(samples("bd", "txt"))
    assert [sample["__key__"] for sample in IMAGES.join(few, nonmatch="skip", ahead=ahead)] == ["b", "d"]
    seen = list(
        IMAGES.join(
            few, nonmatch="none", joiner=lambda image, text: (image["__key__"], text and text["txt"]), ahead=ahead
        )
    )
    assert seen == [("a", None), ("b", "txt of b"), ("c", None), ("d", "txt of d")]
    node = IMAGES.join(few, ahead=ahead)
    for key in "abcd":
        if key in "bd":
            assert next(node)["__key__"] == key
            continue
        with pytest.raises(en.SampleError, match=f"no sample with the key '{key}' in side 1 of the join") as caught:
            next(node)
        assert "restore key" in " ".join(caught.value.__notes__)


def test_samples_without_a_match_are_counted() -> None:
    loader = IMAGES.join(en.items(samples("bd", "txt")), nonmatch="skip").loader()
    list(loader)
    (counts,) = loader.counts().values()
    assert counts == {"skipped": 2, "failed": 0}


def test_every_side_has_its_own_rule() -> None:
    scores = en.items(samples("abc", "score"))
    few = en.items(samples("bcd", "txt"))
    sides = {"image": IMAGES, "text": few, "score": scores}

    def joiner(image: Any, text: Any, score: Any) -> tuple[str, bool, bool]:
        return image["__key__"], text is not None, score is not None

    node = en.joined(sides, nonmatch={"text": "skip", "score": "none"}, joiner=joiner)
    assert list(node) == [("b", True, True), ("c", True, True), ("d", True, False)]
    node = en.joined(list(sides.values()), nonmatch=["none", "skip"], joiner=joiner)
    assert list(node) == [("a", False, True), ("b", True, True), ("c", True, True)]


@dataclass(kw_only=True, slots=True)
class Rated(en.TextSample):
    stars: int


@dataclass(kw_only=True, slots=True)
class ByName(en.Sample):
    text: str
    stars: int

    @classmethod
    def from_joined(cls, *, text: en.TextSample, rating: dict[str, Any]) -> ByName:
        return cls.derive_from(text, text=text.text, stars=rating["stars"])


def test_a_type_says_how_it_is_made() -> None:
    texts = en.items([en.TextSample(__key__=key, text=key * 2) for key in "ab"])
    ratings = en.items([{"__key__": key, "stars": number} for number, key in enumerate("ba")])
    rated = list(texts.join(ratings, joiner=Rated))
    assert [(sample.__key__, sample.text, sample.stars) for sample in rated] == [("a", "aa", 1), ("b", "bb", 0)]
    named = list(en.joined({"text": texts, "rating": ratings}, joiner=ByName))
    assert [(sample.text, sample.stars) for sample in named] == [("aa", 1), ("bb", 0)]


def test_the_sides_may_be_mapped_and_decoded(tmp_path: Path) -> None:
    left = write_tar(tmp_path / "left.tar", [(f"{n:02d}.txt", b"%d" % n) for n in range(30)])
    right = write_tar(tmp_path / "right.tar", [(f"{n:02d}.json", b"[%d]" % n) for n in reversed(range(30))])
    node = en.shards(left).decode().join(en.shards(right).decode().map(lambda sample: sample | {"more": 1}))
    assert [(sample["txt"], sample["json"], sample["more"]) for sample in node] == [(str(n), [n], 1) for n in range(30)]


def test_a_side_reads_the_parts_and_the_split_it_was_told(tmp_path: Path) -> None:
    shards = {
        f"{shard}.tar": {f"{shard}{n}": {"txt": b"%d" % n, "cls": b"0"} for n in range(3)} for shard in ("x", "y")
    }
    prepare(tmp_path / "data", shards, "__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    (tmp_path / "data" / ".nv-meta" / "split.yaml").write_text(
        "split_parts: {train: [x.tar], val: [y.tar]}\nexclude: [x.tar/x1]"
    )
    en.prepare(tmp_path / "data", index_only=True)
    keys = en.items(samples("", "n") + [{"__key__": f"{shard}{n}"} for shard in "yx" for n in range(3)])
    for split, want in (("train", ["x0", "x2"]), ("val", ["y0", "y1", "y2"])):
        side = en.shards(tmp_path / "data", split=split, parts=["txt"])
        found = list(keys.join(side, nonmatch="skip"))
        assert [sample["__key__"] for sample in found] == want
        assert all(set(parts(sample)) == {"txt"} for sample in found)
    half = en.shards(tmp_path / "data", split="val", subset=(1, "end"))
    assert [sample["__key__"] for sample in keys.join(half, nonmatch="skip")] == ["y1", "y2"]


def test_the_origins_of_all_sides_are_kept(tmp_path: Path) -> None:
    left = write_tar(tmp_path / "left.tar", [("a.txt", b"a")])
    right = write_tar(tmp_path / "right.tar", [("a.cls", b"1")])
    (sample,) = en.shards(left).join(en.shards(right))
    assert [source.file_names for source in sample["__sources__"]] == [("a.txt",), ("a.cls",)]
    assert sample["__shard__"] == "left.tar"


def test_a_damaged_sample_of_a_side_fails_alone(tmp_path: Path) -> None:
    left = write_tar(tmp_path / "left.tar", [(f"{n}.txt", b"%d" % n) for n in range(6)])
    right = write_tar(tmp_path / "right.tar", [(f"{n}.json", b"[1]" if n != 3 else b"[") for n in range(6)])
    node = en.shards(left).join(en.shards(right).decode(), on_error="skip")
    assert [sample["__key__"] for sample in node] == ["0", "1", "2", "4", "5"]
    node = en.shards(left).join(en.shards(right).decode())
    seen = [next(node)["__key__"] for _ in range(3)]
    with pytest.raises(en.DecodeError):
        next(node)
    assert [*seen, *(sample["__key__"] for sample in node)] == ["0", "1", "2", "4", "5"]


def test_random_draws_of_a_side_follow_the_pass_of_the_first() -> None:
    def drawn(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
        return sample | {"drawn": float(rng.random())}

    node = IMAGES.join(TEXTS.map(drawn, rng=True))
    first, second = list(node), list(node)
    assert [sample["drawn"] for sample in first] != [sample["drawn"] for sample in second]
    assert node.restore((1, 2)) == second[2]


def test_parts_of_the_same_name_are_refused() -> None:
    with pytest.raises(en.SampleError, match="side 1 of the join has the part 'jpg', which a side before it has too"):
        next(IMAGES.join(IMAGES))


def test_what_cannot_be_joined_is_refused_when_the_pipeline_is_built() -> None:
    with pytest.raises(TypeError, match=r"samples behind Filter\(.*\) cannot be looked up by their keys"):
        IMAGES.join(TEXTS.filter(bool))
    with pytest.raises(TypeError, match="samples behind Batch"):
        IMAGES.join(TEXTS.batch(2).map(list))
    with pytest.raises(ValueError, match="at least two sides"):
        IMAGES.join()
    with pytest.raises(ValueError, match='nonmatch="error", "skip" or "none", got \'drop\''):
        IMAGES.join(TEXTS, nonmatch="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nonmatch for each of 1 sides that are looked up, got"):
        IMAGES.join(TEXTS, nonmatch=["skip", "skip"])
    with pytest.raises(ValueError, match="nonmatch for \\['image'\\], which are not sides that are looked up"):
        en.joined({"image": IMAGES, "text": TEXTS}, nonmatch={"image": "skip"}, joiner=dict)
    with pytest.raises(ValueError, match="needs a joiner where the sides have names"):
        en.joined({"image": IMAGES, "text": TEXTS})
    with pytest.raises(en.SampleError, match="the elements 0 and 2 both have the key 'a'"):
        next(IMAGES.join(en.items(samples("aba", "txt"))))
    with pytest.raises(en.SampleError, match="needs samples with a __key__, and the first side gave a int"):
        next(en.items([1]).join(TEXTS))


def test_what_goes_wrong_on_a_side_says_on_which() -> None:
    def broken(sample: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        next(en.joined({"image": IMAGES, "text": TEXTS.map(broken)}, joiner=lambda image, text: image))
    assert any("in the side 'text' of the join" in note for note in caught.value.__notes__)
    with pytest.raises(en.SampleError, match="both have the key 'a'") as caught_duplicate:
        next(IMAGES.join(en.items(samples("aba", "txt"))))
    assert any("looked up samples in side 1" in note for note in caught_duplicate.value.__notes__)


def test_an_error_policy_on_a_side_is_refused() -> None:
    with pytest.raises(ValueError, match="is on a side that join looks up, where its on_error is not asked"):
        IMAGES.join(TEXTS.map(dict, on_error="skip"))
    with pytest.raises(ValueError, match="or one for each side, got None"):
        IMAGES.join(TEXTS, nonmatch=None)  # type: ignore[arg-type]


def test_lengths_are_those_of_the_first_side() -> None:
    assert len(IMAGES.join(TEXTS)) == 4
    with pytest.raises(TypeError, match=r"length .* is not known"):
        len(IMAGES.join(TEXTS, nonmatch="skip"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 30), unique=True),
    st.lists(st.integers(0, 30), unique=True),
    st.sampled_from(["skip", "none"]),
    st.integers(1, 9),
)
def test_a_join_gives_what_a_dictionary_gives(left: list[int], right: list[int], mode: Any, ahead: int) -> None:
    sides = [en.items([{"__key__": str(n), name: n} for n in numbers]) for name, numbers in (("a", left), ("b", right))]
    node = sides[0].join(sides[1], nonmatch=mode, joiner=lambda a, b: (a["a"], b and b["b"]), ahead=ahead)
    want = [(n, n if n in right else None) for n in left if mode == "none" or n in right]
    assert [(a, b["b"] if isinstance(b, dict) else b) for a, b in node] == want
