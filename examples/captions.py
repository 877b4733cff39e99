"""Cook two datasets of pictures with texts, pack them into sequences of tokens, stop in the middle, and go on exactly.

What happens, in a folder that is removed at the end:

1. Two crude datasets are made up: drawings with two captions each (parts `jpg` and `json`), and pictures of words with
   the words (parts `png` and `txt`). Each says in its `dataset.yaml` what it is, as a subflavor.
2. A pipeline mixes the two without end, twice as many captions as words, and shuffles them. Each kind has a cooker of
   its own, which makes captioned images of it. They are packed into sequences of 1,024 tokens: bytes of text, and the
   patches of the image, of which a larger image has more. Pictures stay encoded until their pack is due.
3. Two worker processes run it. After some batches the state of the loader is saved. New loaders go on from the file,
   with one worker and with none, and each of their batches has to be the one that the first loader gave.
"""

import argparse
import hashlib
import io
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

import energon_nodes as en

SAMPLES = 300  # of each dataset
CAPACITY = 1024  # tokens of a pack
PATCH = 16  # pixels
IMAGE, END = 256, 257  # tokens for a patch and for the end of a document; 0 to 255 are the bytes of text
BATCHES = 30
SAVE_AFTER = 10  # batches

COLORS = ("red", "green", "blue", "yellow", "purple", "gray")
WORDS = ("north", "river", "paper", "seven", "garden", "window", "salt", "early")


def make_drawing(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make up a drawing of some disks, with a short and a long caption."""
    width, height = (int(side) for side in rng.integers(48, 160, size=2))
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    colors: list[str] = rng.choice(COLORS, size=rng.integers(1, 5)).tolist()
    for color in colors:
        x, y, radius = (int(rng.integers(bound)) for bound in (width, height, 30))
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    captions = [f"{len(colors)} disks", f"disks on white paper: {', '.join(colors)}"]
    return {"__key__": f"drawing{number:04d}", "jpg": picture, "json": {"captions": captions}}


def make_page(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make up a picture of some words, and the words."""
    text = " ".join(rng.choice(WORDS, size=rng.integers(2, 6)).tolist())
    picture = Image.new("L", (12 + 6 * len(text), 24), 255)
    ImageDraw.Draw(picture).text((6, 6), text, fill=0)
    return {"__key__": f"page{number:04d}", "png": picture, "txt": text}


def write_data(folder: Path) -> list[en.Prepared]:
    """Write both datasets; without a sample type they are crude."""
    drawings = en.items(range(SAMPLES)).map(make_drawing, rng=True)
    pages = en.items(range(SAMPLES)).map(make_page, rng=True)
    return [
        en.write(drawings, folder / "drawings", max_samples=50, subflavors={"task": "captions"}),
        en.write(pages, folder / "pages", max_samples=50, subflavors={"task": "ocr"}),
    ]


def cook_drawing(sample: dict[str, Any], rng: np.random.Generator) -> en.CaptioningSample:
    """Choose one of the captions: the same one after a resume, perhaps another one in the next pass."""
    captions = sample["json"]["captions"]
    caption = f"Describe: {captions[rng.integers(len(captions))]}"
    return en.CaptioningSample(**en.basic_sample_keys(sample), image=sample["jpg"], caption=caption)


def cook_page(sample: dict[str, Any]) -> en.CaptioningSample:
    """Ask for the text."""
    return en.CaptioningSample(**en.basic_sample_keys(sample), image=sample["png"], caption=f"Read: {sample['txt']}")


def grid(image: bytes) -> tuple[int, int]:
    """Return how many rows and columns of patches an encoded image has; only its header is read."""
    width, height = Image.open(io.BytesIO(image)).size
    return -(-height // PATCH), -(-width // PATCH)


def count_tokens(sample: Any) -> int:
    """Count patches, bytes of text, and the end."""
    rows, columns = grid(sample.image)
    return rows * columns + len(sample.caption.encode()) + 1


def to_tokens(sample: Any) -> dict[str, Any]:
    """Decode the image, cut it into patches, and make tokens and labels; patches have no label."""
    rows, columns = grid(sample.image)
    with Image.open(io.BytesIO(sample.image)) as picture:
        whole = picture.convert("RGB").resize((columns * PATCH, rows * PATCH))
    pixels = torch.from_numpy(np.array(whole)).reshape(rows, PATCH, columns, PATCH, 3)
    text = torch.tensor(list(sample.caption.encode()))
    patches = rows * columns
    return {
        "key": sample.__key__,
        "task": sample.__subflavors__["task"],
        "tokens": torch.cat([torch.full((patches,), IMAGE), text]),
        "labels": torch.cat([torch.full((patches,), -100), text]),
        "patches": pixels.transpose(1, 2).reshape(patches, PATCH, PATCH, 3),
    }


def build(folder: Path) -> en.Node[en.PackedTokens]:
    """Describe the pipeline. Nothing is read before it is iterated."""
    # Texts and JSON are decoded by the datasets, images stay bytes: a large shuffle buffer is cheap.
    drawings = en.dataset(folder / "drawings", shuffle=True, image=None)
    pages = en.dataset(folder / "pages", shuffle=True, image=None)
    return (
        en.blend(drawings, pages, weights=[2, 1], on_end="repeat")
        .shuffle(200)
        .cook(
            en.Cooker(cook_drawing, has_subflavors={"task": "captions"}),
            en.Cooker(cook_page, has_subflavors={"task": "ocr"}),
            rng=True,
        )
        .pack_to(
            CAPACITY,
            length=count_tokens,
            buffer_size=200,
            encode=to_tokens,
            combine=en.ConcatTokens(separator=END, pad_to=CAPACITY, pad={"tokens": END}),
        )
        .batch(2, collate=en.collate)
    )


def digest(batch: en.PackedTokens) -> str:
    """Return eight hexadecimal digits that any other token, label, pixel, bound or order would change."""
    content = hashlib.sha256(repr(batch.extra["key"]).encode())
    tensors = [batch.tokens, batch.fields["labels"], batch.cu_seqlens, batch.position_ids]
    for tensor in tensors + [patches for pack in batch.extra["patches"] for patches in pack]:
        content.update(tensor.numpy().tobytes())
    return content.hexdigest()[:8]


def show(batches: list[en.PackedTokens]) -> None:
    """Print what some batches hold."""
    print(f"\n {'tokens':<15} {'documents':>9} {'patches':>7} {'padding':>7}   {'first key':<12} digest")
    for batch in batches:
        documents = sum(map(len, batch.extra["key"]))
        patches = int((batch.tokens == IMAGE).sum())
        row = (
            f" {tuple(batch.tokens.shape)!s:<15} {documents:>9} {patches:>7} {batch.tokens.numel() - filled(batch):>7}"
        )
        print(f"{row}   {batch.extra['key'][0][0]:<12} {digest(batch)}")


def filled(batch: en.PackedTokens) -> int:
    """Return how many tokens of a batch belong to documents."""
    return int(batch.lengths.sum())


def run(workers: int) -> bool:
    """Run the whole story and print it; return whether every batch after the resume was the same."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="captions-") as name:
        folder, checkpoint = Path(name), Path(name) / "data.pt"
        print("data      ", "\n           ".join(map(str, write_data(folder))))
        print("pipeline  ", build(folder).explain().replace("\n", "\n           "))

        # The order hangs on the streams alone, not on the number of workers. The `with` ends the workers, since the
        # pipeline has no end.
        batches: list[en.PackedTokens] = []
        with build(folder).loader(num_workers=workers, streams=4, seed=1) as loader:
            for batch in islice(loader, BATCHES):
                batches.append(batch)
                if len(batches) == SAVE_AFTER:
                    torch.save(loader.state_dict(), checkpoint)
        show(batches[:5])
        tasks = Counter(task for batch in batches for pack in batch.extra["task"] for task in pack)
        share = sum(map(filled, batches)) / sum(batch.tokens.numel() for batch in batches)
        print(f"\npacked     {dict(tasks)} in {2 * BATCHES} packs, {share:.1%} full, {workers} workers")
        print(f"saved      after batch {SAVE_AFTER}, {checkpoint.stat().st_size / 1e3:.1f} kB")

        expected = [digest(batch) for batch in batches[SAVE_AFTER:]]
        equal = True
        for other in (1, 0):
            # The streams are those of the checkpoint.
            with build(folder).loader(num_workers=other, seed=1) as resumed:
                resumed.load_state_dict(torch.load(checkpoint, weights_only=True))
                same = [digest(batch) for batch in islice(resumed, len(expected))] == expected
            equal = equal and same
            verdict = "the same" if same else "NOT the same"
            print(f"resumed    with {other} worker{'s' * (other != 1)}: {len(expected)} batches, {verdict}")
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
