"""The typed stream of a prepared dataset: what `dataset.yaml` says is what comes."""

import json
import sys

import pytest
import torch

import energon_nodes as en
from energon_nodes.core.errors import DatasetError, SampleError, TrustError
from tests.recipes.prepared import png, prepare

TYPE = "sample_type:\n  __module__: megatron.energon\n  __class__: {}\n"
TEXTS = TYPE.format("TextSample") + "field_map:\n  text: txt\n"
LOADED = TYPE.format("TextSample") + "sample_loader: sample_loader.py\npart_filter: [json]\n"
LOADER = "def sample_loader(raw):\n    return {'text': raw['json']['words'][0], '__key__': 'new/' + raw['__key__']}\n"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {from: file, n: 010}\n"


def shards(count=6, per_shard=3):
    """Return samples with a txt, a json and a damaged picture that no text dataset may look at."""
    samples = {
        f"{number:03d}": {
            "txt": f"text {number}".encode(),
            "json": json.dumps({"words": [f"word {number}"]}).encode(),
            "jpg": b"no picture",
        }
        for number in range(count)
    }
    keys = list(samples)
    return {
        f"shard_{first // per_shard}.tar": {key: samples[key] for key in keys[first : first + per_shard]}
        for first in range(0, count, per_shard)
    }


@pytest.fixture
def texts(tmp_path):
    return prepare(tmp_path / "texts", shards(), TEXTS)


def test_a_field_map_gives_typed_samples_in_the_order_of_the_split(texts):
    samples = list(en.dataset(texts, split="train"))
    assert [type(sample) for sample in samples] == [en.TextSample] * 6
    assert [(sample.__key__, sample.text) for sample in samples] == [(f"{n:03d}", f"text {n}") for n in range(6)]
    assert samples[4].__subflavors__ == {}


def test_only_the_parts_that_the_fields_need_are_read_and_decoded(texts):
    source = next(en.dataset(texts)).__sources__[0]
    assert source.file_names == ("000.txt",)
    assert (source.shard_name, source.index, source.dataset_path) == ("shard_0.tar", 0, str(texts))


def test_the_split_and_the_subset_are_chosen(texts):
    assert [sample.text for sample in en.dataset(texts, split="val")] == ["text 3", "text 4", "text 5"]
    assert [sample.text for sample in en.dataset(texts, subset=(1, 3))] == ["text 1", "text 2"]
    assert len(en.dataset(texts)) == 6


def test_images_are_tensors_of_channels_height_and_width(tmp_path):
    root = prepare(
        tmp_path / "x",
        {"0.tar": {"a": {"png": png((255, 0, 51)), "txt": b"red"}}},
        TYPE.format("CaptioningSample") + "field_map: {image: 'jpg,png', caption: txt}\n",
    )
    sample = next(en.dataset(root))
    assert (sample.caption, sample.image.dtype, sample.image.shape) == ("red", torch.float32, (3, 2, 4))
    assert torch.allclose(sample.image[:, 1, 3], torch.tensor([1.0, 0.0, 0.2]))
    assert next(en.dataset(root, image="torchrgb8", resize=(8, 8))).image.shape == (3, 8, 8)
    assert next(en.dataset(root, image=None)).image == png((255, 0, 51))


def test_another_dataset_file_and_another_split_file_can_be_named(texts):
    meta = texts / ".nv-meta"
    (meta / "first_word.yaml").write_text(TYPE.format("TextSample") + "field_map: {text: 'json[words][-1]'}\n")
    (meta / "tiny.yaml").write_text("split_parts: {train: [shard_1.tar]}\n")
    samples = list(en.dataset(texts, dataset_config="first_word.yaml", split_config="tiny.yaml"))
    assert [sample.text for sample in samples] == ["word 3", "word 4", "word 5"]


def test_a_crude_dataset_gives_crude_samples_with_decoded_parts(tmp_path):
    samples = {"0.tar": {"a": {"txt": b"t", "json": b"[1]"}, "b": {"bin": b"x"}}}
    first, second = en.dataset(prepare(tmp_path / "x", samples, CRUDE), subflavors={"from": "call"})
    assert type(first) is en.CrudeSample
    assert {name: first[name] for name in ("__key__", "__shard__", "txt", "json", "__subflavors__")} == {
        "__key__": "a",
        "__shard__": "0.tar",
        "txt": "t",
        "json": [1],
        "__subflavors__": {"from": "call", "n": 10},
    }
    assert second["bin"] == b"x"
    assert en.TextSample.derive_from(first, text=first["txt"]).__key__ == "a"


def test_a_crude_dataset_may_list_its_parts(tmp_path):
    root = prepare(tmp_path / "x", {"0.tar": {"a": {"txt": b"t", "jpg": b"damaged"}}}, CRUDE + "part_filter: [txt]\n")
    assert [name for name in next(en.dataset(root)) if name[:2] != "__"] == ["txt"]


@pytest.mark.parametrize(
    "head",
    [
        "{__module__: megatron.energon, __class__: TextWebdataset, field_map: {text: txt}}",
        "{__module__: megatron.energon.flavors.text, __class__: TextWebdataset, field_map: {text: txt}}",
        "{sample_type: {__module__: megatron.energon.flavors.text, __class__: TextSample}, field_map: {text: txt}}",
        "{sample_type: {__module__: energon_nodes, __class__: TextSample}, field_map: {text: 'nothing,txt'}}",
    ],
)
def test_older_and_other_ways_to_name_the_type_mean_the_same(tmp_path, head):
    samples = list(en.dataset(prepare(tmp_path / "x", shards(), head)))
    assert [sample.text for sample in samples] == [f"text {n}" for n in range(6)]


# ---- Python beside the data --------------------------------------------------------------------------


def test_a_sample_loader_runs_only_with_trust(tmp_path):
    marker = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n" + LOADER
    root = prepare(tmp_path / "x", shards(), LOADED, sample_loader_py=code)
    with pytest.raises(TrustError) as caught:
        en.dataset(root)
    message = str(caught.value)
    assert "sample_loader.py" in message
    assert "dataset.yaml" in message
    assert message.endswith("read it, and allow it to run with trust=True")
    assert not marker.exists()
    samples = list(en.dataset(root, trust=True))
    assert marker.exists()
    assert [(sample.__key__, sample.text) for sample in samples][:2] == [("new/000", "word 0"), ("new/001", "word 1")]
    assert samples[0].__sources__[0].file_names == ("000.json",)


def test_the_file_runs_once_in_a_process_and_anew_when_it_was_changed(tmp_path):
    log = tmp_path / "log"
    code = (
        f"with open({str(log)!r}, 'a') as log:\n    log.write('x')\n"
        + LOADER
        + "def part_filter(part):\n    return part == 'json'\n"
    )
    config = TYPE.format("TextSample") + "sample_loader: sample_loader.py\npart_filter: sample_loader.py\n"
    root = prepare(tmp_path / "x", shards(), config, sample_loader_py=code)
    for _ in range(2):
        assert next(en.dataset(root, trust=True)).text == "word 0"
    assert log.read_text() == "x"
    (root / ".nv-meta" / "sample_loader.py").write_text(code.replace("[0]", "[0].upper()"))
    assert next(en.dataset(root, trust=True)).text == "WORD 0"
    assert log.read_text() == "xx"


def test_functions_have_names_of_their_own_where_the_file_says_so(tmp_path):
    code = (
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    value: str\n"
        "def load(raw):\n    assert set(raw) == {'__key__', '__shard__', '__sources__', '__restore_key__', 'txt'}\n"
        "    return {'text': Box(raw['txt']).value}\n"
        "def wanted(part):\n    return part.endswith('xt')\n"
    )
    config = TYPE.format("TextSample") + "sample_loader: code/mine.py:load\npart_filter: code/mine.py:wanted\n"
    root = prepare(tmp_path / "x", shards(), config)
    (root / ".nv-meta" / "code").mkdir()
    (root / ".nv-meta" / "code" / "mine.py").write_text(code)
    assert next(en.dataset(root, trust=True)).text == "text 0"


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_run_the_file_themselves(tmp_path, context):
    root = prepare(tmp_path / "x", shards(), LOADED, sample_loader_py=LOADER)
    loader = en.dataset(root, trust=True).loader(num_workers=1, streams=2, mp_context=context)
    assert sorted(sample.text for sample in loader) == [f"word {number}" for number in range(6)]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def sample_loder(raw): pass", r"needs the function 'sample_loader', .*did you mean 'sample_loder'\?"),
        ("import no_such_package_here", "sample_loader.py beside the data failed: ModuleNotFoundError"),
        ("def (", "failed: SyntaxError"),
    ],
)
def test_a_file_that_does_not_work_is_a_named_error(tmp_path, code, message):
    root = prepare(tmp_path / "x", shards(), LOADED, sample_loader_py=code)
    with pytest.raises(DatasetError, match=message):
        en.dataset(root, trust=True)


def test_a_sample_that_the_loader_fails_on_is_subject_to_the_policy(tmp_path):
    code = "def sample_loader(raw):\n    return {'text': raw['txt']} if raw['__key__'] != '001' else {}\n"
    config = LOADED.replace("[json]", "[txt]")
    root = prepare(tmp_path / "x", shards(), config, sample_loader_py=code)
    assert [sample.text for sample in en.dataset(root, trust=True, on_error="skip")][:2] == ["text 0", "text 2"]
    with pytest.raises(SampleError, match=r"sample '001' of shard 'shard_0.tar' does not fit: TextSample needs"):
        list(en.dataset(root, trust=True))


def test_a_type_of_the_user_is_found_once_its_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "types_for_a_dataset.py").write_text(
        "import energon_nodes as en, dataclasses\n"
        "@dataclasses.dataclass(kw_only=True)\nclass Words(en.Sample):\n    words: list\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = "sample_type: {__module__: types_for_a_dataset, __class__: Words}\nfield_map: {words: 'json[words]'}\n"
    root = prepare(tmp_path / "x", shards(), config)
    with pytest.raises(TrustError, match=r"dataset.yaml: the sample type types_for_a_dataset:Words .*trust=True"):
        en.dataset(root)
    words = en.import_type("types_for_a_dataset:Words")
    assert next(en.dataset(root)) == words(
        __key__="000", words=["word 0"], __subflavors__={}, __sources__=next(en.dataset(root)).__sources__
    )
    del sys.modules["types_for_a_dataset"]


# ---- what is wrong is said when the pipeline is built ------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TYPE.format("VQASample") + "field_map: {image: jpg}\n", "needs the field 'context', which nothing fills"),
        (TYPE.format("TextSample") + "field_map: {txt: txt, text: txt}\n", "no field 'txt'; did you mean 'text'"),
        (TYPE.format("TextSample") + "field_map: {text: 'json[words'}\n", "opens and closes brackets unevenly"),
        (TYPE.format("TexSample") + "field_map: {text: txt}\n", "did you mean 'TextSample'"),
    ],
)  # fmt: skip
def test_a_dataset_file_that_cannot_work_is_refused_and_named(tmp_path, config, message):
    root = prepare(tmp_path / "x", shards(), config)
    with pytest.raises(DatasetError, match=message) as caught:
        en.dataset(root)
    assert str(root / ".nv-meta" / "dataset.yaml") in str(caught.value)


def test_what_was_never_prepared_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(DatasetError, match=r"is not a prepared dataset.*prepare it with .*, or read its shards with"):
        en.dataset(tmp_path)


def test_a_dataset_without_a_dataset_file_points_to_the_raw_parts(texts):
    (texts / ".nv-meta" / "dataset.yaml").unlink()
    with pytest.raises(DatasetError, match=r"dataset_config=, or read the raw parts with energon_nodes\.shards"):
        en.dataset(texts)


def test_settings_in_the_file_hold_and_contradictions_are_refused(texts):
    path = texts / ".nv-meta" / "dataset.yaml"
    path.write_text(TEXTS + "split_part: val\nsubset: {range: [1, 3]}\nmax_samples_per_sequence: 2\n")
    assert [sample.text for sample in en.dataset(texts)] == ["text 4", "text 5"]
    assert [sample.text for sample in en.dataset(texts, split="val", subset=(1, 3))] == ["text 4", "text 5"]
    assert "sequence_length=2" in en.dataset(texts, shuffle=True).explain()
    assert "sequence_length=1)" in en.dataset(texts, shuffle=True, sequence_length=1).explain().replace(", subset", ")")
    with pytest.raises(DatasetError, match="lays down split_part: 'val', so split='train' cannot be had: leave out"):
        en.dataset(texts, split="train")
    with pytest.raises(DatasetError, match="lays down subset"):
        en.dataset(texts, subset=(0, 1))


def test_settings_that_belong_to_the_call_are_warned_about(texts):
    (texts / ".nv-meta" / "dataset.yaml").write_text(TEXTS + "training: true\n")
    with pytest.warns(UserWarning, match="'training', which has no effect here: say shuffle="):
        en.dataset(texts)


# ---- as part of a pipeline ----------------------------------------------------------------------------


def test_it_is_the_chain_of_shards_decode_and_map(texts):
    tree = en.dataset(texts, shuffle=True).explain()
    assert [line.strip("└─ ").partition("(")[0] for line in tree.splitlines()] == ["Map", "Map", "Shards"]


def test_it_resumes_in_the_middle_of_a_shuffled_pass(texts):
    pipeline = en.dataset(texts, shuffle=True, sequence_length=1).shuffle(3).batch(2, collate=en.collate)
    first = next(pipeline).text
    state = pipeline.state_dict()
    rest = [batch.text for batch in pipeline]
    pipeline.reset(state)
    assert [batch.text for batch in pipeline] == rest
    assert sorted(sum(rest, first)) == [f"text {number}" for number in range(6)]


def test_it_reads_through_fsspec(tmp_path):
    import fsspec

    root = prepare(tmp_path / "remote", shards(), TEXTS)
    memory = fsspec.filesystem("memory")
    for path in root.rglob("*"):
        if path.is_file():
            memory.pipe(f"/typed_dataset/{path.relative_to(root)}", path.read_bytes())
    assert [sample.text for sample in en.dataset("memory://typed_dataset", split="val")] == [
        "text 3",
        "text 4",
        "text 5",
    ]
