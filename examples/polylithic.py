"""Train on JSON lines that name pictures of a store: fetched ahead by a cache pool, packed online, resumed exactly.

What happens, in a folder that is removed at the end:

1. A polylithic dataset is made up. Documents stand in one file of JSON lines: a text, and the names and sizes of its
   pictures. The pictures are JPEGs of another, prepared dataset, in tar shards; some are named by several documents.
2. A cooking function puts lazy values in the place of the names, so a document in a buffer is small. Its length
   in tokens is known from the line alone: packs of 2,048 tokens are chosen before a picture was looked at.
3. While documents wait in the buffers, the pool fetches their pictures to the local disk, within a bound that all
   worker processes share. The pictures of a pack are decoded when it is due.
4. Two workers run it. After some batches the state of the loader is saved: it holds keys, no documents and no pictures.
   New loaders go on from the file, with one worker and with none, and each batch has to be the one of the first run.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

import energon_nodes as en

PICTURES, DOCUMENTS = 240, 400
CAPACITY = 2048  # tokens of a pack
PATCH = 16  # pixels
IMAGE, END = 256, 257  # tokens for a patch and for the end of a document; 0 to 255 are the bytes of text
BATCHES = 24
SAVE_AFTER = 8  # batches
CACHE_BYTES = 2_000_000  # less than all pictures take
WORDS = "a map of the river shows two towns and one long bridge near the old mill in snow".split()


def size_of(number: int) -> tuple[int, int]:
    """Return the width and height of a picture."""
    return PATCH * (3 + number % 7), PATCH * (3 + number % 5)


def make_picture(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make up a picture: noise, so that its file is of the size of a photograph's, and a number."""
    width, height = size_of(number)
    picture = Image.fromarray(rng.integers(0, 255, (height, width, 3), np.uint8))
    ImageDraw.Draw(picture).text((4, 4), str(number), fill="white")
    return {"__key__": f"picture{number:04d}", "jpg": picture}


def make_document(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make up a record: a text, and no to three pictures with their sizes."""
    pictures: list[int] = rng.integers(PICTURES, size=rng.integers(4)).tolist()
    return {
        "id": f"document{number:04d}",
        "text": " ".join(rng.choice(WORDS, size=rng.integers(10, 60)).tolist()),
        "pictures": [{"name": f"picture{picture:04d}.jpg", "size": size_of(picture)} for picture in pictures],
    }


def write_data(folder: Path) -> en.Prepared:
    """Write the lines, and the pictures as a prepared dataset."""
    documents = en.items(range(DOCUMENTS)).map(make_document, rng=True)
    (folder / "documents.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    return en.write(en.items(range(PICTURES)).map(make_picture, rng=True), folder / "pictures", max_samples=40)


def cook(sample: dict[str, Any], pictures: en.Store, cache: en.CachePool) -> dict[str, Any]:
    """Put lazy values in the place of names, and count tokens; nothing is read here."""
    record = sample["json"]
    patches = [width // PATCH * (height // PATCH) for width, height in (each["size"] for each in record["pictures"])]
    text = torch.tensor(list(record["text"].encode()))
    return {
        "__key__": record["id"],
        "tokens": torch.cat([torch.full((sum(patches),), IMAGE), text]),
        "pictures": [cache.lazy(pictures, each["name"]) for each in record["pictures"]],
    }


def count_tokens(sample: dict[str, Any]) -> int:
    """Count patches, bytes of text, and the end."""
    return len(sample["tokens"]) + 1


def to_patches(sample: dict[str, Any]) -> dict[str, Any]:
    """Read the pictures, and cut them into patches."""
    sample = en.resolve(sample)
    cut = [picture.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH) for picture in sample["pictures"]]
    patches = [each.permute(1, 2, 0, 3, 4).reshape(-1, 3, PATCH, PATCH) for each in cut]
    return {
        "key": sample["__key__"],
        "tokens": sample["tokens"],
        "patches": torch.cat(patches) if patches else torch.empty(0, 3, PATCH, PATCH, dtype=torch.uint8),
    }


def build(folder: Path, pool: en.CachePool) -> en.Node[en.PackedTokens]:
    """Describe the pipeline. No document and no picture is read before it is iterated."""
    pictures = en.store(folder / "pictures", decode=en.Decoder(image="torchrgb8"))
    return (
        en.jsonl(folder / "documents.jsonl", shuffle=True)
        .repeat()
        .cook(cook, aux={"pictures": pictures}, cache=pool)
        .shuffle(100)
        .pack_to(
            CAPACITY,
            length=count_tokens,
            buffer_size=100,
            encode=to_patches,
            combine=en.ConcatTokens(separator=END, pad_to=CAPACITY, pad={"tokens": END}),
        )
        .batch(2, collate=en.collate)
    )


def digest(batch: en.PackedTokens) -> str:
    """Return eight hexadecimal digits that any other token, pixel, bound or order would change."""
    content = hashlib.sha256(repr(batch.extra["key"]).encode())
    tensors = [batch.tokens, batch.cu_seqlens, batch.position_ids]
    for tensor in tensors + [patches for pack in batch.extra["patches"] for patches in pack]:
        content.update(tensor.numpy().tobytes())
    return content.hexdigest()[:8]


def show(batches: list[en.PackedTokens]) -> None:
    """Print what some batches hold."""
    print(f"\n {'tokens':<15} {'documents':>9} {'patches':>7} {'padding':>7}   {'first key':<13} digest")
    for batch in batches:
        documents = sum(map(len, batch.extra["key"]))
        patches = int((batch.tokens == IMAGE).sum())
        padding = batch.tokens.numel() - int(batch.lengths.sum())
        row = f" {tuple(batch.tokens.shape)!s:<15} {documents:>9} {patches:>7} {padding:>7}"
        print(f"{row}   {batch.extra['key'][0][0]:<13} {digest(batch)}")


def run(workers: int) -> bool:
    """Run the whole story and print it; return whether every batch after the resume was the same."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="polylithic-") as name, en.cache_pool(max_bytes=CACHE_BYTES) as pool:
        folder, checkpoint = Path(name), Path(name) / "data.pt"
        print("pictures  ", write_data(folder))
        print("pipeline  ", build(folder, pool).explain().replace("\n", "\n           "))

        # The `with` ends the workers, since the pipeline has no end.
        batches: list[en.PackedTokens] = []
        with build(folder, pool).loader(num_workers=workers, streams=4, seed=1) as loader:
            for batch in islice(loader, BATCHES):
                batches.append(batch)
                if len(batches) == SAVE_AFTER:
                    torch.save(loader.state_dict(), checkpoint)
        show(batches[:5])
        documents = sum(len(pack) for batch in batches for pack in batch.extra["key"])
        share = sum(int(batch.lengths.sum()) for batch in batches) / sum(batch.tokens.numel() for batch in batches)
        print(f"\npacked     {documents} documents in {2 * BATCHES} packs, {share:.1%} full, {workers} workers")
        report_cache(pool)
        print(f"saved      after batch {SAVE_AFTER}, {checkpoint.stat().st_size / 1e3:.1f} kB")

        expected = [digest(batch) for batch in batches[SAVE_AFTER:]]
        equal = True
        for other in (1, 0):
            # The streams are those of the checkpoint.
            with build(folder, pool).loader(num_workers=other, seed=1) as resumed:
                resumed.load_state_dict(torch.load(checkpoint, weights_only=True))
                same = [digest(batch) for batch in islice(resumed, len(expected))] == expected
            equal = equal and same
            verdict = "the same" if same else "NOT the same"
            print(f"resumed    with {other} worker{'s' * (other != 1)}: {len(expected)} batches, {verdict}")
    print(f"\n{'exact' if equal else 'NOT EXACT'}, {time.perf_counter() - began:.0f} s in all")
    return equal


def report_cache(pool: en.CachePool) -> None:
    """Print what the pool has done, over all processes."""
    counts = pool.counts()
    read = counts.hits + counts.direct
    print(
        f"cache      {counts.hits} of {read} pictures came from the pool, {counts.direct} from the store; "
        f"{counts.evicted} files evicted, {counts.bytes / 1e3:.0f} of at most {pool.max_bytes / 1e3:.0f} kB used"
    )


def main() -> int:
    """Run the whole story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="worker processes, 0, 1, 2 or 4 (default 2)"
    )
    return 0 if run(parser.parse_args().workers) else 1


if __name__ == "__main__":
    sys.exit(main())
