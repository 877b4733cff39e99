"""Field maps: the whole access syntax, the checks when one is made, and what a sample that does not fit says."""

import dataclasses
import pickle
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, SampleError
from energon_nodes.samples.field_map import Access, parse_access
from energon_nodes.samples.typed import SampleLoader

VALUE = {"words": ["one", "two", None], "n": None, "1": "string key", "deep": {"er": [[0, 1], [2]]}, "a.b": 5, " k ": 6}
SAMPLE = {"__key__": "a", "__shard__": "0.tar", "__sources__": ("s",), "json": VALUE, "list": [1], "txt": "text"}


def text_of(access, sample=SAMPLE):
    return en.FieldMap(en.TextSample, {"text": access})(sample).text


@pytest.mark.parametrize(
    ("access", "value"),
    [
        ("txt", "text"),
        ("json", VALUE),
        ("json[words]", ["one", "two", None]),
        ("json[words][0]", "one"),
        ("json[words][-2]", "two"),
        ("json[words][2]", None),
        ("json[n]", None),
        ("json[1]", "string key"),
        ("json[deep][er][1][0]", 2),
        ("json[a.b]", 5),
        ("json[ k ]", 6),
        ("nothing,txt", "text"),
        ("json[nothing],json[words][9],json[words][x],txt[0],json[words][0]", "one"),
        ("txt,json[n]", "text"),
        ("json[n],txt", None),
        ("json[n][more],txt", "text"),
        ("__key__", "a"),
    ],
)
def test_an_access_finds_its_value(access, value):
    # Expected as found with Megatron-Energon on the same value.
    assert text_of(access) == value


def test_a_string_has_nothing_inside():
    with pytest.raises(SampleError, match=r"txt is a str, which has no \[0\]"):
        text_of("txt[0]")


def test_tuples_and_arrays_are_indexed_as_lists_are():
    assert text_of("x[1][-1]", {"x": (1, np.array([[1, 2], [3, 4]]))}).tolist() == [3, 4]


@pytest.mark.parametrize("name", ["a.b-c_d", "detail.json", "0 (Clean Version).mp3", " Intro.mp3", "ä", "", "a[0].txt"])
def test_any_name_of_a_part_can_be_mapped(name):
    assert text_of(name, {name: "found"}) == "found"
    assert en.FieldMap(en.TextSample, {"text": name}).parts == (name,)


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("json[a", "brackets unevenly"),
        ("json]a", "brackets unevenly"),
        ("json[a,b]", "brackets unevenly"),
        ("json[]", "empty key"),
        ("a,,b", "empty alternative"),
        (",", "empty alternative"),
    ],
)
def test_malformed_access_is_refused_when_the_map_is_made(access, message):
    with pytest.raises(DatasetError, match=message):
        parse_access(access)


@given(
    st.lists(
        st.tuples(st.text("abz.-_ 0", min_size=1), st.lists(st.text("ab 1-.", min_size=1), max_size=3)), min_size=1
    )
)
def test_what_is_written_out_is_read_back(alternatives):
    accesses = tuple(Access(part, tuple(keys)) for part, keys in alternatives)
    assert parse_access(",".join(map(str, accesses))) == accesses


# ---- the sample ---------------------------------------------------------------------------------


def test_name_origin_and_subflavors_come_along():
    sample = en.FieldMap(en.TextSample, {"text": "txt"}, {"language": "en"})(SAMPLE)
    assert sample == en.TextSample(
        __key__="a", __sources__=("s",), __subflavors__={"language": "en"}, text="text", __restore_key__=()
    )


def test_samples_do_not_share_their_subflavors():
    to_text = en.FieldMap(en.TextSample, {"text": "txt"}, {"language": "en"})
    to_text(SAMPLE).__subflavors__["language"] = "de"
    assert to_text(SAMPLE).__subflavors__ == {"language": "en"}


def test_the_name_can_be_mapped():
    assert en.FieldMap(en.TextSample, {"text": "txt", "__key__": "json[words][0]"})(SAMPLE).__key__ == "one"


def test_a_dataclass_without_the_common_fields_is_filled_as_it_is():
    @dataclasses.dataclass
    class Plain:
        words: list[str]
        more: int = 3

    assert en.FieldMap(Plain, {"words": "json[words]"})(SAMPLE) == Plain(["one", "two", None])


def test_a_field_map_can_be_pickled():
    to_text = pickle.loads(pickle.dumps(en.FieldMap(en.TextSample, {"text": "txt,json[words][0]"}, {"x": 1})))
    assert to_text(SAMPLE).text == "text"
    assert to_text.parts == ("txt", "json")


def test_only_the_parts_in_the_map_are_needed():
    to_caption = en.FieldMap(en.CaptioningSample, {"image": "png,jpg", "caption": "json[a],txt", "__key__": "__key__"})
    assert to_caption.parts == ("png", "jpg", "json", "txt")
    assert [part for part in ["jpg", "JPG", "json", "json.gz", "__key__"] if to_caption.needs(part)] == ["jpg", "json"]


# ---- what is refused when the map is made -------------------------------------------------------


def test_a_required_field_that_nothing_fills_is_an_error_at_once():
    with pytest.raises(DatasetError) as caught:
        en.FieldMap(en.VQASample, {"image": "jpg"})
    assert str(caught.value) == (
        "VQASample needs the field 'context', which nothing fills: map it to a part, as in 'context: txt' or "
        "'context: json[context]'"
    )


def test_fields_with_defaults_may_be_left_out():
    sample = en.FieldMap(en.MultiChoiceVQASample, {"image": "json", "context": "txt"})(SAMPLE)
    assert (sample.choices, sample.correct_choice_idx) == (None, 0)


def test_an_unknown_field_is_answered_with_the_nearest():
    with pytest.raises(DatasetError, match=r"CaptioningSample has no field 'captions'; did you mean 'caption'\?"):
        en.FieldMap(en.CaptioningSample, {"image": "jpg", "captions": "txt"})


@pytest.mark.parametrize("name", ["__restore_key__", "__subflavors__", "__sources__"])
def test_fields_of_the_library_cannot_be_mapped(name):
    with pytest.raises(DatasetError, match=f"TextSample.{name} is filled by the library"):
        en.FieldMap(en.TextSample, {"text": "txt", name: "json"})


def test_access_that_is_not_text_says_how_to_write_it():
    with pytest.raises(DatasetError, match="'text' must be text, got 1; put it in quotes"):
        en.FieldMap(en.TextSample, {"text": 1})


def test_a_field_map_that_is_no_mapping_is_refused():
    with pytest.raises(DatasetError, match=r"a field map is a mapping such as {'text': 'txt'}, got 'text=txt'"):
        en.FieldMap(en.TextSample, "text=txt")


@pytest.mark.parametrize("kind", [dict, namedtuple("Pair", "a b"), "TextSample", en.TextSample(__key__="a", text="t")])
def test_what_is_no_dataclass_is_no_sample_type(kind):
    with pytest.raises(DatasetError, match="a sample type must be a dataclass"):
        en.FieldMap(kind, {})


# ---- what a sample that does not fit says -------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        ("jpg", "it has no part 'jpg' (its parts: 'json', 'list', 'txt')"),
        ("TXT", "it has no part 'TXT'; did you mean 'txt'? (its parts: 'json', 'list', 'txt')"),
        ("json[word]", "json has no key 'word'; did you mean 'words'? (its keys: "),
        ("json[words][3]", "json[words] has 3 elements, so there is no [3]"),
        ("json[words][first]", "json[words] is a list, so [first] must be a whole number"),
        ("json[n][x]", "json[n] is a NoneType, which has no [x]"),
        (
            "jpg,list[1]",
            "it has no part 'jpg' (its parts: 'json', 'list', 'txt'); list has 1 elements, so there is no [1]",
        ),
    ],
)
def test_a_sample_that_lacks_a_value_is_named_with_part_key_and_shard(access, reason):
    with pytest.raises(SampleError) as caught:
        text_of(access)
    message = str(caught.value)
    assert message.startswith("field 'text' of TextSample cannot be filled from sample 'a' of shard '0.tar': " + reason)
    assert message.endswith("or pass over such samples with on_error='skip'")


def test_a_pipeline_passes_over_samples_that_do_not_fit_when_told_to():
    samples = [{"__key__": "a", "txt": "one"}, {"__key__": "b", "jpg": b""}, {"__key__": "c", "txt": "three"}]
    pipeline = en.items(samples).map(en.FieldMap(en.TextSample, {"text": "txt"}), on_error="skip")
    assert [sample.text for sample in pipeline] == ["one", "three"]


# ---- the sample loader ---------------------------------------------------------------------------


def test_a_sample_loader_gets_the_sample_and_sets_fields_and_name_but_not_the_origin():
    seen = []

    def load(raw):
        seen.append(raw)
        return {"text": raw["txt"], "__key__": "new", "__sources__": "forged", "__subflavors__": {"forged": 1}}

    sample = SampleLoader(en.TextSample, load, {"language": "en"})(SAMPLE)
    assert seen == [{**SAMPLE, "__restore_key__": ()}]
    assert sample == en.TextSample(
        __key__="new", text="text", __sources__=("s",), __subflavors__={"language": "en"}, __restore_key__=()
    )


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "must return a dict of fields, got None for sample 'a' of shard '0.tar'"),
        ({}, "sample 'a' of shard '0.tar' does not fit: TextSample needs the field 'text'"),
        ({"text": "t", "label": 1}, "does not fit: TextSample has no field 'label'"),
    ],
)
def test_what_a_sample_loader_returns_is_checked(result, message):
    with pytest.raises(SampleError, match=message):
        SampleLoader(en.TextSample, lambda raw: result)(SAMPLE)
