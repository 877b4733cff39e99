"""Train on photographs in tar shards, save in the middle of a pass, resume in new processes, and compare every batch.

What happens, in a folder that is removed at the end:

1. Two photographs are cut into pieces. Each piece becomes a JPEG with a caption and a label, in tar shards.
2. A pipeline reads, shuffles, decodes, augments and batches them in worker processes; a small network learns from which
   of the photographs a piece comes. In the middle of the second pass the data loader and the model are saved.
3. Two new processes resume from that file, one with as many workers as before, one with another number. Every later
   batch, and every later loss, has to be the same.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import energon_nodes as en

PIECES = 512
PIECE = 112  # pixels of a piece, before the random crop
CROP = 96
BATCH = 32
PASSES = 3
SAVE_AT = (1, 6)  # the second pass, after its sixth batch

Step = dict[str, Any]


def write_shards(folder: Path) -> None:
    """Cut the sample photographs of scikit-learn into pieces, and write them as `jpg`, `txt` and `cls`."""
    import webdataset
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    names = ["a palace in China", "a flower"]
    rng = np.random.default_rng(0)
    with webdataset.ShardWriter(str(folder / "pieces-%03d.tar"), maxcount=60, verbose=0) as writer:
        for number in range(PIECES):
            label = number % 2
            height, width, _ = photographs[label].shape
            top, left = int(rng.integers(height - PIECE)), int(rng.integers(width - PIECE))
            piece = Image.fromarray(photographs[label][top : top + PIECE, left : left + PIECE])
            caption = f"{names[label]}, {PIECE} pixels from row {top}, column {left}"
            writer.write({"__key__": f"piece{number:04d}", "jpg": piece, "txt": caption, "cls": label})


def augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Crop at random, mirror half of the pieces, and vary the brightness."""
    top, left = rng.integers(PIECE - CROP + 1, size=2)
    image = sample["jpg"][:, top : top + CROP, left : left + CROP].float() / 255
    if rng.random() < 0.5:
        image = image.flip(-1)
    return {**sample, "jpg": image * rng.uniform(0.7, 1.3)}


def stack(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Make one batch of a list of samples."""
    return {
        "keys": [sample["__key__"] for sample in samples],
        "images": torch.stack([sample["jpg"] for sample in samples]),
        "labels": torch.tensor([sample["cls"] for sample in samples]),
    }


def build(folder: Path) -> en.Node[dict[str, Any]]:
    """Describe the pipeline. Nothing is read before it is iterated."""
    return (
        en.shards(folder, shuffle=True, sequence_length=10)
        .shuffle(100)  # the pieces are still JPEG bytes here, so the buffer is small
        .decode(image="torchrgb8")
        .map(augment, rng=True)
        .batch(BATCH, collate=stack)
    )


def build_model() -> nn.Module:
    """Make a network of some 6,000 parameters."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 2),
    )  # fmt: skip


def digest(batch: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that any other pixel, label or order would change."""
    content = hashlib.sha256(" ".join(batch["keys"]).encode())
    content.update(batch["images"].numpy().tobytes())
    content.update(batch["labels"].numpy().tobytes())
    return content.hexdigest()[:8]


def train(folder: Path, checkpoint: Path, workers: int, resume: bool) -> list[Step]:
    """Train to the end and return what each step saw: from the start, saving on the way, or from the checkpoint."""
    torch.set_num_threads(1)
    # Four streams, whatever the number of workers: the order hangs on the streams only.
    loader = build(folder).loader(num_workers=workers, streams=4, seed=1)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first_pass = step = 0
    if resume:
        saved = torch.load(checkpoint, weights_only=True)
        loader.load_state_dict(saved["data"])
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first_pass, step = SAVE_AT

    steps: list[Step] = []
    for number in range(first_pass, PASSES):
        for batch in loader:
            step += 1
            loss = nn.functional.cross_entropy(model(batch["images"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            first = batch["keys"][0]
            steps.append(
                {"pass": number + 1, "step": step, "first": first, "loss": loss.item(), "batch": digest(batch)}
            )
            if (number, step) == SAVE_AT and not resume:
                state = {"data": loader.state_dict(), "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, checkpoint)
        step = 0
    return steps


def train_in_new_process(folder: Path, checkpoint: Path, workers: int) -> list[Step]:
    """Run this file again, which knows of the first run only what is in the checkpoint."""
    command = [sys.executable, __file__, "--resume", str(checkpoint), "--data", str(folder), "--workers", str(workers)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def show(first: list[Step], resumed: dict[int, list[Step]]) -> bool:
    """Print the steps of the first run beside those of the resumed ones; return whether all are equal."""
    saved_at = next(i for i, step in enumerate(first) if (step["pass"] - 1, step["step"]) == SAVE_AT) + 1
    print("\nbatch: the beginning of a SHA-256 of keys, pixels and labels; all steps are compared, not all shown")
    heads = [f"resumed, {workers} worker{'s' * (workers != 1)}" for workers in resumed]
    print(f"\n {'pass':>4} {'step':>4}   {'first key':<9}   {'loss':>6}   {'batch':<8}   " + "   ".join(heads))
    for i, step in enumerate(first):
        row = f" {step['pass']:>4} {step['step']:>4}   {step['first']:<9}   {step['loss']:6.3f}   {step['batch']}   "
        for head, steps in zip(heads, resumed.values(), strict=True):
            later = steps[i - saved_at] if 0 <= i - saved_at < len(steps) else None
            cell = f"{later['batch'] if later else 'missing '} {'same' if later == step else 'DIFFERS'}"
            row += f"{cell if i >= saved_at else '':<{len(head) + 3}}"
        if step["pass"] == SAVE_AT[0] + 1 or step["step"] % 5 == 1:  # of the other passes, some rows are enough
            print(row.rstrip())
        if i + 1 == saved_at:
            print(f" {'saved':-^78}")
    return all(steps == first[saved_at:] for steps in resumed.values())


def run(workers: int) -> bool:
    """Run the whole story and print it; return whether everything was equal."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="quickstart-") as name:
        folder, checkpoint = Path(name) / "shards", Path(name) / "checkpoint.pt"
        folder.mkdir()
        write_shards(folder)
        sizes = [shard.stat().st_size for shard in folder.iterdir()]
        print(f"data      {PIECES} pieces of 2 photographs in {len(sizes)} shards, {sum(sizes) / 1e6:.1f} MB")
        print("pipeline  " + build(folder).explain().replace("\n", "\n          "))
        first = train(folder, checkpoint, workers, resume=False)
        print(f"training  {len(first)} steps in {PASSES} passes, {workers} workers")
        where = f"in pass {SAVE_AT[0] + 1} after step {SAVE_AT[1]}"
        print(f"saved     {where}, {checkpoint.stat().st_size / 1e3:.0f} kB together with the model")
        other = 1 if workers != 1 else 2
        resumed = {count: train_in_new_process(folder, checkpoint, count) for count in (workers, other)}
        equal = show(first, resumed)
    later = sum(len(steps) for steps in resumed.values())
    verdict = "equal" if equal else "NOT EQUAL"
    print(f"\n{verdict}: {later} batches and losses after the resume, {time.perf_counter() - began:.0f} s in all")
    return equal


def main() -> int:
    """Run the whole story, or, with --resume, the part of a new process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="worker processes, 0, 1, 2 or 4 (default 2)"
    )
    parser.add_argument("--resume", type=Path, metavar="FILE", help="resume from this checkpoint; print steps as JSON")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with --resume: the shards it was saved on")
    options = parser.parse_args()
    if not options.resume:
        return 0 if run(options.workers) else 1
    if options.data is None:
        parser.error("--resume needs --data, the folder of the shards that the checkpoint was saved on")
    print(json.dumps(train(options.data, options.resume, options.workers, resume=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
