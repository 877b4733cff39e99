"""Pack documents of texts and images into sequences of tokens, stop in the middle, and go on exactly.

What happens, in a folder that is removed at the end:

1. Documents are made up: a JSON part with pieces of text and names of images, and no to four images as parts of the
   same sample. They are written to tar shards, and the folder is prepared as a dataset.
2. A pipeline shuffles the documents, counts their tokens (a byte of text is one, a patch of an image is one), packs
   them into sequences of at most 1,024 tokens, and decodes the images of a pack when it is due.
3. Two worker processes run it. After some packs the state of the loader is saved. New loaders go on from the file, with
   one worker and with none, and each of their packs has to be the one that the first loader gave.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

import energon_nodes as en

DOCUMENTS = 400
CAPACITY = 1024  # tokens of a pack
SIDE = 64  # pixels that every image is resized to
PATCH = 16
PATCHES = (SIDE // PATCH) ** 2  # tokens of an image
IMAGE = 256  # the token that stands for a patch; 0 to 255 are the bytes of text
SAVE_AFTER = 20  # packs

COLORS = ("red", "green", "blue", "yellow", "purple", "gray")
SHAPES = ("circle", "square", "triangle")


def draw(color: str, shape: str, width: int, height: int) -> Image.Image:
    """Draw one shape on a white ground."""
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    box = (width // 4, height // 4, width * 3 // 4, height * 3 // 4)
    if shape == "circle":
        pen.ellipse(box, fill=color)
    elif shape == "square":
        pen.rectangle(box, fill=color)
    else:
        pen.polygon([(width // 2, box[1]), (box[0], box[3]), (box[2], box[3])], fill=color)
    return picture


def make_document(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make up a document: `{"sequence": ["text", {"image": "0.png"}, ...]}`, and the images that it names."""
    sequence: list[Any] = [f"Page {number}. "]
    images: dict[str, Image.Image] = {}
    for place in range(int(rng.integers(5))):
        color, shape = str(rng.choice(COLORS)), str(rng.choice(SHAPES))
        width, height = (int(side) for side in rng.integers(40, 120, size=2))
        images[f"{place}.png"] = draw(color, shape, width, height)
        sequence += [f"This is a {color} {shape}: ", {"image": f"{place}.png"}, ". "]
    sequence.append("And so it went on. " * int(rng.integers(1, 20)))
    return {"__key__": f"page{number:04d}", "json": {"sequence": sequence}, **images}


def write_data(folder: Path) -> en.Prepared:
    """Write shards of documents, and make a dataset of them: four shards in five are for training."""
    documents = en.items(range(DOCUMENTS)).map(make_document, rng=True)
    en.write(documents, folder, max_samples=40, prepare=False)
    return en.prepare(folder, split={"train": 0.8, "val": 0.2})


def count_tokens(parts: dict[str, Any]) -> int:
    """Count the tokens of a document from its JSON alone."""
    return sum(PATCHES if isinstance(piece, dict) else len(piece.encode()) for piece in parts["json"]["sequence"])


decode_images = en.Decoder(image="torchrgb8", resize=(SIDE, SIDE))


def to_tokens(parts: dict[str, Any]) -> dict[str, Any]:
    """Decode the images of a document, and make tokens and patches in the order of its pieces."""
    parts = decode_images(parts)
    tokens: list[int] = []
    patches = [torch.zeros(0, 3, PATCH, PATCH, dtype=torch.uint8)]  # of documents without an image
    for piece in parts["json"]["sequence"]:
        if isinstance(piece, str):
            tokens += piece.encode()
        else:
            rows = parts[piece["image"]].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
            patches.append(rows.permute(1, 2, 0, 3, 4).reshape(PATCHES, 3, PATCH, PATCH))
            tokens += [IMAGE] * PATCHES
    return {"key": parts["__key__"], "tokens": torch.tensor(tokens), "patches": torch.cat(patches)}


def combine(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Join documents to one sequence, and the patches of all their images to one tensor."""
    pack = en.concat_tokens(documents).as_dict()
    return {**pack, "patches": torch.cat(pack["patches"])}


def build(folder: Path) -> en.Node[dict[str, Any]]:
    """Describe the pipeline. Nothing is read before it is iterated."""
    return (
        en.shards(folder, split="train", shuffle=True)
        .shuffle(50)
        .decode(parts=["json"])  # enough to count tokens; the images stay PNG bytes while they wait
        .pack_to(CAPACITY, length=count_tokens, buffer_size=50, encode=to_tokens, combine=combine)
    )


def digest(pack: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that any other token, bound, pixel or order would change."""
    content = hashlib.sha256(" ".join(pack["key"]).encode())
    for name in ("tokens", "cu_seqlens", "position_ids", "patches"):
        content.update(pack[name].numpy().tobytes())
    return content.hexdigest()[:8]


def show(packs: Iterable[dict[str, Any]]) -> None:
    """Print what some packs hold."""
    print(f"\n {'tokens':>6} {'documents':>9} {'patches':>7}   {'begins with':<34} digest")
    for pack in packs:
        begin = bytes(pack["tokens"][:32][pack["tokens"][:32] < IMAGE].tolist()).decode()
        row = f" {len(pack['tokens']):>6} {len(pack['lengths']):>9} {len(pack['patches']):>7}"
        print(f"{row}   {begin:<34} {digest(pack)}")


def run(workers: int) -> bool:
    """Run the whole story and print it; return whether every pack after the resume was the same."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="interleaved-") as name:
        folder, checkpoint = Path(name) / "documents", Path(name) / "data.pt"
        print("data      ", write_data(folder))
        print("pipeline  ", build(folder).explain().replace("\n", "\n           "))

        # The order hangs on the streams alone, not on the number of workers.
        loader = build(folder).loader(num_workers=workers, streams=4, seed=1)
        packs: list[dict[str, Any]] = []
        for pack in loader:
            packs.append(pack)
            if len(packs) == SAVE_AFTER:
                torch.save(loader.state_dict(), checkpoint)
        show(packs[:5])
        documents = sum(len(pack["key"]) for pack in packs)
        filled = sum(len(pack["tokens"]) for pack in packs) / (CAPACITY * len(packs))
        print(f"\npacked     {documents} documents in {len(packs)} packs, {filled:.1%} full, {workers} workers")
        print(f"saved      after pack {SAVE_AFTER}, {checkpoint.stat().st_size / 1e3:.1f} kB")

        expected = [digest(pack) for pack in packs[SAVE_AFTER:]]
        equal = True
        for other in (1, 0):
            resumed = build(folder).loader(num_workers=other, seed=1)  # the streams are those of the checkpoint
            resumed.load_state_dict(torch.load(checkpoint, weights_only=True))
            same = [digest(pack) for pack in resumed] == expected
            equal = equal and same
            verdict = "the same" if same else "NOT the same"
            print(f"resumed    with {other} worker{'s' * (other != 1)}: {len(expected)} packs, {verdict}")
    print(f"\n{'exact' if equal else 'NOT EXACT'}, {time.perf_counter() - began:.0f} s in all")
    return equal


def main() -> int:
    """Run the whole story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="worker processes, 0, 1, 2 or 4 (default 2)"
    )
    return 0 if run(parser.parse_args().workers) else 1


if __name__ == "__main__":
    sys.exit(main())
