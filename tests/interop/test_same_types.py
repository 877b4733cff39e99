"""Typed samples are those of Megatron-Energon, for every flavour and every way that `dataset.yaml` has to make them."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import energon_nodes as en
from tests.interop import folders, megatron
from tests.interop.test_same_decoding import comparable

ENERGON = "megatron.energon"
FIELD_MAPS = {
    "CaptioningSample": {"image": "jpg,png", "caption": "json[caption],txt"},
    "ImageSample": {"image": "png"},
    "ImageClassificationSample": {"image": "png", "label": "cls", "label_name": "json[names][-1]"},
    "TextSample": {"text": "json[nothing],json[names][7],json[names][0]", "__key__": "json[id]"},
    "InterleavedSample": {"sequence": "json[names]"},
    "SimilarityInterleavedSample": {"images": "json[numbers]", "texts": "json[names]", "similarity_matrix": "npy"},
    "VQASample": {"image": "png", "context": "detail.txt", "answers": "json[names]", "answer_weights": "npy"},
    "MultiChoiceVQASample": {"image": "png", "context": "txt", "choices": "json[names]"},
    "VidQASample": {"video": "bin", "context": "txt"},
    "OCRSample": {"image": "png", "text": "txt", "words_boxes": "npy", "words_text": "json[names]"},
    "VQAOCRSample": {"image": "png", "context": "txt", "text": "detail.txt", "words_text": "json[names]"},
}
LOADER = (
    "def sample_loader(raw):\n"
    "    names = repr(sorted(raw))\n"
    "    return {'text': names + raw['txt'], '__key__': 'new' + raw['__key__']}\n"
    "def part_filter(part):\n"
    "    return part.endswith('txt')\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    for shard in range(2):
        members: list[folders.Member] = []
        for number in range(shard * 3, shard * 3 + 3):
            members += [(f"k{number}.{part}", payload) for part, payload in parts(number)]
        folders.write_tar(folder / f"{shard}.tar", members)
    return megatron.prepare(folder)


def parts(number: int) -> list[tuple[str, bytes]]:
    picture, array = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), 40 * number, np.uint8)).save(picture, "PNG")
    np.save(array, np.arange(4.0) + number)
    content: dict[str, Any] = {"id": f"id{number}", "names": [f"a{number}", "b"], "numbers": [number, 2.5, None]}
    if number % 2:
        content["caption"] = f"caption {number}"
    return [
        ("png", picture.getvalue()),
        ("txt", f"text {number}".encode()),
        ("detail.txt", b"detail"),
        ("cls", b"%d" % number),
        ("json", json.dumps(content).encode()),
        ("npy", array.getvalue()),
        ("bin", b"\0\1"),
    ]


def theirs(folder: Path, config: str) -> list[Any]:
    energon = importlib.import_module(ENERGON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = energon.get_val_dataset(
            folder,
            split_part="train",
            worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=None,
            dataset_config=config,
        )
        return list(energon.get_loader(dataset))


def assert_same(folder: Path, config: str, text: str) -> None:
    (folder / ".nv-meta" / config).write_text(text)
    assert_samples_are_same(folder, config)


def assert_samples_are_same(folder: Path, config: str) -> None:
    """Compare the six samples that both sides make as a dataset file says."""
    expected, got = theirs(folder, config), list(en.dataset(folder, split="train", dataset_config=config, trust=True))
    assert len(expected) == 6
    for other, mine in zip(expected, got, strict=True):
        assert type(mine).__name__ == type(other).__name__
        assert type(mine).__module__.startswith("energon_nodes.")
        assert [field.name for field in dataclasses.fields(mine)] == [field.name for field in dataclasses.fields(other)]
        for name in (field.name for field in dataclasses.fields(other)):
            if name not in ("__restore_key__", "__sources__"):
                assert comparable(getattr(mine, name)) == comparable(getattr(other, name)), name
        mine_of, other_of = mine.__sources__[0], other.__sources__[0]
        assert (mine_of.index, mine_of.shard_name, mine_of.file_names) == (
            other_of.index,
            other_of.shard_name,
            other_of.file_names,
        )


@pytest.mark.parametrize("name", FIELD_MAPS)
def test_a_field_map_gives_the_same_samples(folder: Path, name: str) -> None:
    module = ENERGON + ".flavors.vqa_and_ocr" if name == "VQAOCRSample" else ENERGON
    config = {
        "sample_type": {"__module__": module, "__class__": name},
        "field_map": FIELD_MAPS[name],
        "subflavors": {"from": "file", "n": 10},
    }
    assert_same(folder, f"map_{name}.yaml", json.dumps(config))


@pytest.mark.parametrize("part_filter", ["loader.py", "loader.py:part_filter", "[txt, detail.txt]"])
def test_a_sample_loader_gives_the_same_samples(folder: Path, part_filter: str) -> None:
    (folder / ".nv-meta" / "loader.py").write_text(LOADER)
    head = f"sample_type:\n  __module__: {ENERGON}\n  __class__: TextSample\nsample_loader: loader.py\n"
    name = f"loaded_{len(part_filter)}.yaml"
    assert_same(folder, name, head + f"part_filter: {part_filter}\nsubflavors:\n  a: on\n  b: 010\n  c: yes\n")


@pytest.mark.parametrize("name", ["Text", "Captioning"])
def test_the_older_classes_give_the_same_samples(folder: Path, name: str) -> None:
    config = {"__module__": ENERGON, "__class__": f"{name}Webdataset", "field_map": FIELD_MAPS[f"{name}Sample"]}
    assert_same(folder, f"old_{name}.yaml", json.dumps(config))
