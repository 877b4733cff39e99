"""The types of samples: their fields, how one is made of another, and which class a name means."""

import dataclasses
import pickle
import subprocess
import sys
import types as modules

import pytest
import torch

import energon_nodes as en
from energon_nodes.core.encoders import decode_value, encode_value
from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.samples.type_names import SAMPLE_TYPES, resolve_type

COMMON = {"__key__": ..., "__restore_key__": (), "__subflavors__": None, "__sources__": None}

# Field by field from the table of sample types in the format; ... marks a field that has to be given.
FIELDS = {
    "CaptioningSample": {"image": ..., "caption": ...},
    "ImageSample": {"image": ...},
    "ImageClassificationSample": {"image": ..., "label": None, "label_name": None},
    "TextSample": {"text": ...},
    "InterleavedSample": {"sequence": ...},
    "SimilarityInterleavedSample": {
        "images": ...,
        "texts": ...,
        "audio": None,
        "video": None,
        "similarity_matrix": None,
        "matched_text_indices": None,
    },
    "VQASample": {"image": ..., "context": ..., "answers": None, "answer_weights": None},
    "MultiChoiceVQASample": {"image": ..., "context": ..., "choices": None, "correct_choice_idx": 0},
    "VidQASample": {"video": ..., "context": ..., "answers": None, "answer_weights": None},
    "OCRSample": {
        "image": ...,
        "text": ...,
        "block_boxes": None,
        "block_classes": None,
        "block_text": None,
        "lines_boxes": None,
        "lines_text": None,
        "words_boxes": None,
        "words_text": None,
        "chars_boxes": None,
        "chars_text": None,
    },
    "VQAOCRSample": {
        "image": ...,
        "context": ...,
        "text": ...,
        "answers": None,
        "answer_weights": None,
        "words_boxes": None,
        "words_text": None,
    },
}


@dataclasses.dataclass(kw_only=True, slots=True)
class Page(en.TextSample):
    image: torch.Tensor | None = None


def given(cls):
    """Return the init fields of a dataclass with their defaults, ... for none."""
    return {
        field.name: ... if field.default is dataclasses.MISSING else field.default for field in dataclasses.fields(cls)
    }


@pytest.mark.parametrize("name", FIELDS)
def test_a_type_has_the_fields_and_defaults_of_the_format(name):
    assert given(getattr(en, name)) == COMMON | FIELDS[name]


@pytest.mark.parametrize("name", FIELDS)
def test_a_sample_is_made_by_keyword_takes_no_other_attribute_and_can_be_pickled(name):
    cls = getattr(en, name)
    needed = [field for field, default in FIELDS[name].items() if default is ...]
    sample = cls(__key__="k", **dict.fromkeys(needed, "x"))
    with pytest.raises(TypeError):
        cls("k", *needed)
    with pytest.raises(AttributeError):
        sample.other = 1
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert decode_value(encode_value(sample)) == sample


def test_every_field_is_described_in_the_docstring():
    for name, fields in FIELDS.items():
        missing = [field for field in fields if f"        {field}: " not in getattr(en, name).__doc__]
        assert missing == [], name


def test_deriving_takes_name_and_origin_and_nothing_else():
    base = en.CaptioningSample(
        __key__="a", __restore_key__=(1, 2), __subflavors__={"x": 1}, __sources__=("s",), image="i", caption="c"
    )
    assert en.TextSample.derive_from(base, text="t") == en.TextSample(
        __key__="a", __restore_key__=(1, 2), __subflavors__={"x": 1}, __sources__=("s",), text="t"
    )
    assert en.TextSample.derive_from(base, text="t", __key__="b").__key__ == "b"


def test_deriving_from_a_crude_sample_leaves_its_parts_behind():
    crude = en.CrudeSample({"__key__": "a", "__shard__": "0.tar", "__sources__": ("s",), "txt": "t"})
    assert en.TextSample.derive_from(crude, text="T") == en.TextSample(__key__="a", __sources__=("s",), text="T")


def test_deriving_from_what_is_no_sample_is_refused():
    with pytest.raises(TypeError, match="a sample is a dataclass or a mapping, got 3"):
        en.TextSample.derive_from(3, text="t")


def test_extending_takes_all_fields_and_replaces_those_given():
    base = en.TextSample(__key__="a", text="t")
    assert Page.extend(base, image="i") == Page(__key__="a", text="t", image="i")
    assert Page.extend(base, text="u").text == "u"
    with pytest.raises(TypeError, match="image"):
        en.TextSample.extend(Page(__key__="a", text="t"))


def test_joining_prefers_later_fields_and_the_name_of_the_first():
    first = en.TextSample(__key__="a", __subflavors__={"from": 1}, __sources__=("one",), text="old")
    second = {"__key__": "b", "__subflavors__": {"from": 2}, "__sources__": ("two",), "__shard__": "x", "text": "new"}
    third = Page(__key__="c", __sources__=("three",), text="newest", image="i")
    assert Page.from_joined(first, second, None, third) == Page(
        __key__="a", __subflavors__={"from": 1}, __sources__=("one", "two", "three"), text="newest", image="i"
    )


def test_joining_a_field_that_the_type_does_not_have_names_it():
    with pytest.raises(TypeError, match="'image' of a Page, which TextSample does not have: add the field, or define"):
        en.TextSample.from_joined(en.TextSample(__key__="a", text="t"), Page(__key__="a", text="t"))


@pytest.mark.parametrize(("samples", "named"), [((), {}), ((None,), {}), ((), {"left": 1})])
def test_joining_by_name_or_without_a_primary_sample_is_left_to_the_type(samples, named):
    with pytest.raises(TypeError, match="define from_joined"):
        en.TextSample.from_joined(*samples, **named)


def test_a_crude_sample_is_a_dict_that_stays_crude_when_copied_pickled_and_saved():
    crude = en.CrudeSample(a=1, b=b"x")
    for other in (crude.copy(), pickle.loads(pickle.dumps(crude)), decode_value(encode_value(crude))):
        assert other == {"a": 1, "b": b"x"}
        assert type(other) is en.CrudeSample
        assert other is not crude


# ---- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FIELDS, "Sample", "CrudeSample"])
@pytest.mark.parametrize(
    "module", ["megatron.energon", "megatron.energon.flavors.captioning", "energon_nodes", "gone.long.ago"]
)
def test_names_of_megatron_energon_and_old_paths_mean_our_types(module, name):
    assert resolve_type(module, name) is getattr(en, name)


def test_resolving_names_needs_no_megatron_and_imports_none():
    code = (
        "import sys, energon_nodes as en; from energon_nodes.samples.type_names import resolve_type; "
        "assert resolve_type('megatron.energon', 'VQASample') is en.VQASample; "
        "assert not [name for name in sys.modules if name.startswith('megatron')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(DatasetError, match=r"no sample type 'CaptionSample' .*did you mean 'CaptioningSample'"):
        resolve_type("megatron.energon", "CaptionSample", trust=True)


def test_a_type_in_a_module_that_is_not_imported_needs_trust(tmp_path, monkeypatch):
    (tmp_path / "types_of_a_user.py").write_text(
        "import energon_nodes as en, dataclasses\n"
        "@dataclasses.dataclass(kw_only=True)\nclass Mine(en.Sample):\n    x: int\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TrustError, match=r"import types_of_a_user in the program before, or .*trust=True"):
        resolve_type("types_of_a_user", "Mine")
    assert "types_of_a_user" not in sys.modules
    found = resolve_type("types_of_a_user", "Mine", trust=True)
    assert found(__key__="a", x=1).x == 1
    assert resolve_type("types_of_a_user", "Mine") is found  # imported by now
    assert en.import_type("types_of_a_user:Mine") is found
    del sys.modules["types_of_a_user"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_at_all:X", "cannot be imported .*install it"),
        ("energon_nodes:CaptionSample", "did you mean 'CaptioningSample'"),
        ("energon_nodes", "package.module:Class"),
        ("os:system", "must be a dataclass"),
        ("decimal:Decimal", "must be a dataclass"),
    ],
)
def test_a_path_that_leads_to_no_sample_type_is_a_named_error(path, message):
    with pytest.raises(DatasetError, match=message):
        en.import_type(path)


def test_a_function_of_an_imported_module_is_never_called_as_a_type():
    called = []
    module = sys.modules["a_module_with_functions"] = modules.ModuleType("a_module_with_functions")
    module.Mine = called.append
    with pytest.raises(DatasetError, match="must be a dataclass"):
        resolve_type("a_module_with_functions", "Mine")
    assert called == []
    del sys.modules["a_module_with_functions"]


def test_the_table_of_names_cannot_be_changed():
    with pytest.raises(TypeError):
        SAMPLE_TYPES["TextSample"] = str
