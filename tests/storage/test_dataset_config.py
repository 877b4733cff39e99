"""The dataset file: its dialect of YAML, and every combination of keys that cannot be."""

import json
import math

import pytest

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage.dataset_config import BesideData, Reference, read_dataset_config
from energon_nodes.storage.yaml_text import parse_yaml

TYPE = "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / ".nv-meta").mkdir()

    def write_and_read(text, name="dataset.yaml"):
        (tmp_path / ".nv-meta" / name).write_text(text)
        return read_dataset_config(str(tmp_path), name)

    return write_and_read


# ---- the dialect ------------------------------------------------------------------------------------

# As Megatron-Energon's parser reads them; found by running it on each word.
SCALARS = {
    "yes": True,
    "No": False,
    "TRUE": True,
    "false": False,
    "on": "on",
    "off": "off",
    "y": "y",
    "null": None,
    "NULL": None,
    "~": None,
    "none": "none",
    "010": 10,
    "08": 8,
    "1_000": 1000,
    "_1": "_1",
    "-3": -3,
    "+3": 3,
    "0x10": "0x10",
    "0o17": "0o17",
    "1e3": 1000.0,
    "1.": 1.0,
    ".5": 0.5,
    "-1.5": -1.5,
    "5.0e+3": 5000.0,
    ".inf": ".inf",
    ".nan": ".nan",
    "inf": "inf",
    "2020-01-31": "2020-01-31",
    "1:30": "1:30",
    "1.2.3": "1.2.3",
    "'5'": "5",
    '"yes"': "yes",
}


@pytest.mark.parametrize("written", SCALARS)
def test_a_word_means_what_it_means_to_megatron_energon(written):
    value = parse_yaml(f"a: {written}")["a"]
    assert value == SCALARS[written]
    assert type(value) is type(SCALARS[written])


def test_keys_are_always_text():
    assert parse_yaml("yes: 1\n010: 2\n~: 3\n1.5: 4\n") == {"yes": 1, "010": 2, "~": 3, "1.5": 4}


def test_aliases_merge_keys_and_standard_tags_mean_what_yaml_says():
    text = "a: &x {q: 1}\nb: *x\nc:\n  <<: *x\n  r: 2\nd: !!str 5\ne: !!float 3\nf:\n"
    expected = {"a": {"q": 1}, "b": {"q": 1}, "c": {"q": 1, "r": 2}, "d": "5", "e": 3.0, "f": None}
    assert parse_yaml(text) == expected
    assert math.isclose(parse_yaml("!!float 3"), 3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key 'a' stands twice"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: !mine 1", "could not determine a constructor"),
        ("[a", "line 1"),
        ("? [a]\n: 1", "a key must be text"),
        ("a: !!int x", "'x' is no number"),
        ("a: !!bool maybe", "'maybe' is no truth value"),
    ],
)
def test_text_that_cannot_be_meant_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)


# ---- the keys ----------------------------------------------------------------------------------------


def test_a_field_map_is_read(read):
    config = read(TYPE + "field_map:\n  text: json[words][-1],txt\nsubflavors: {a: on}\n")
    assert config.sample_type == Reference("megatron.energon", "TextSample")
    assert config.field_map == {"text": "json[words][-1],txt"}
    assert (config.crude, config.sample_loader, config.part_filter) == (False, None, None)
    assert config.subflavors == {"a": "on"}


def test_functions_have_default_names(read, tmp_path):
    config = read(TYPE + "sample_loader: mine.py\npart_filter: sub/other.py\n")
    assert config.sample_loader == BesideData(f"{tmp_path}/.nv-meta/mine.py", "sample_loader")
    assert config.part_filter == BesideData(f"{tmp_path}/.nv-meta/sub/other.py", "part_filter")
    config = read(TYPE + "sample_loader: mine.py:load\npart_filter: [jpg, '1']\n")
    assert config.sample_loader.name == "load"
    assert config.part_filter == ("jpg", "1")


def test_json_is_read_too(read):
    text = json.dumps(
        {"sample_type": {"__module__": "megatron.energon", "__class__": "TextSample"}, "field_map": {"text": "txt"}}
    )
    assert read(text, "other.json").field_map == {"text": "txt"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold a mapping"),
        ("- a", "must hold a mapping"),
        ("a: [", "cannot be parsed"),
        ("field_map: {text: txt}", "of which type the samples are in none of the known ways: write 'sample_type"),
        (TYPE, "needs either a field_map or a sample_loader, and has neither"),
        (TYPE + "field_map: {text: txt}\nsample_loader: a.py\n", "and has both"),
        (TYPE + "sample_loader: a.py\n", "no part_filter: list the parts that it uses"),
        (TYPE + "field_map: {text: txt}\npart_filter: [txt]\n", "part_filter beside the field_map, .* remove it"),
        (TYPE + "feild_map: {text: txt}\n", "unknown key 'feild_map'; did you mean 'field_map'"),
        (TYPE + "field_map: {text: 1}\n", "text: 1, which is not text; put it in quotes"),
        (TYPE + "field_map: txt\n", "field_map must hold a mapping, got 'txt'"),
        (TYPE + "sample_loader: a.py\npart_filter: [1]\n", "part_filter lists 1, which is not text"),
        (TYPE + "sample_loader: a.py\npart_filter: true\n", "must be written file.py:function or a list of parts"),
        (TYPE + "sample_loader: 3\npart_filter: [a]\n", "sample_loader must be written file.py:function, got 3"),
        (TYPE + "sample_loader: a.txt\npart_filter: [a]\n", "must name a file that ends with '.py'"),
        (TYPE + "field_map: {text: txt}\nsubflavors: x\n", "subflavors must hold a mapping"),
        (TYPE + "field_map: {text: txt}\ndecoder: x\n", "key 'decoder', which is not read here: say image="),
        (CRUDE + "field_map: {text: txt}\n", "field_map for crude samples, which have no fields; remove it"),
        (CRUDE + "sample_loader: a.py\n", "sample_loader for crude samples"),
        (CRUDE + TYPE, "has both a __class__ and a sample_type"),
        ("__module__: mine\n__class__: Factory\n", "names the class mine:Factory for the dataset, which is not known"),
        ("__module__: mine\n__function__: make\n", "lets the function 'make' make the dataset"),
        ("__class__: CrudeWebdataset\n", "must name a class, as in"),
        (
            "sample_type: TextSample\nfield_map: {text: txt}\n",
            "sample_type must name a class, as in .* got 'TextSample'",
        ),
        ("sample_type: {__module__: a, __class__: B, c: 1}\nfield_map: {}\n", "sample_type must name a class"),
    ],
)
def test_a_file_that_cannot_be_is_an_error_that_names_it(read, tmp_path, text, message):
    with pytest.raises(DatasetError, match=message) as caught:
        read(text)
    assert str(tmp_path / ".nv-meta" / "dataset.yaml") in str(caught.value)


@pytest.mark.parametrize("name", ["../x.yaml", "/etc/x.yaml", "a/../../x.yaml", "s3://bucket/x.yaml", "..\\x.yaml"])
def test_files_outside_the_metadata_folder_are_out_of_reach(read, tmp_path, name):
    with pytest.raises(DatasetError, match=r"must name a file inside \.nv-meta"):
        read_dataset_config(str(tmp_path), name)
    with pytest.raises(DatasetError, match=r"must name a file inside \.nv-meta"):
        read(TYPE + f"sample_loader: {name.replace('yaml', 'py').partition(':')[0] + '/../x.py'}\npart_filter: [a]\n")


@pytest.mark.parametrize("name", ["dataset.txt", "dataset", ".yaml/x"])
def test_a_dataset_file_has_the_ending_of_yaml_or_json(tmp_path, name):
    with pytest.raises(DatasetError, match=r"ends with '\.yaml', '\.json'"):
        read_dataset_config(str(tmp_path), name)


def test_a_file_that_is_not_there_says_what_it_is_for(tmp_path):
    with pytest.raises(DatasetError, match="does not exist: it says of which type the samples are"):
        read_dataset_config(str(tmp_path))


def test_settings_of_the_reading_are_kept_apart(read):
    config = read(CRUDE + "split_part: val\nmax_samples_per_sequence: 10\ntraining: yes\n")
    assert config.settings == {"split_part": "val", "max_samples_per_sequence": 10}
    assert list(config.unused) == ["training"]
