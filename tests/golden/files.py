"""What the golden files hold, how they are made, and how they are read.

    python -m tests.golden.files

writes them anew. Do that only with a reason: a changed state needs another `FORMAT` (the file of the old one stays, and
its test says whether old checkpoints still load), a changed order breaks what people have trained with. Both need an
entry in CHANGELOG.md, tagged `checkpoint` or `order`.
"""

from __future__ import annotations

import ast
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from energon_nodes.core.graph import FORMAT
from energon_nodes.core.randomness import Draws, ElementRandom
from energon_nodes.core.share import Order, Permutation
from energon_nodes.testing import on_stream
from energon_nodes.testing.runs import run_pass, run_passes
from tests.golden.pipelines import PIPELINES

FOLDER = Path(__file__).parent
TAKEN = 4


def states_file(version: int) -> Path:
    return FOLDER / f"states_{version}.txt"


ORDERS_FILE = FOLDER / "orders.txt"


def states() -> dict[str, Any]:
    """Return a state of each pipeline in the middle of its second pass, and what must follow."""
    found: dict[str, Any] = {}
    for name, build in PIPELINES.items():
        for stream, streams in ((0, 1), (1, 3)):
            node = on_stream(build, stream, streams, seed=5)()
            run_passes(node, 1, 30)
            node.reset(None)
            run_pass(node, TAKEN)
            state = node.state_dict()
            found[f"{name}, stream {stream} of {streams}"] = {"state": state, "follows": run_passes(node, 2, 30)}
    for name in ("a training pipeline", "shards, shuffled and batched"):
        loader = PIPELINES[name]().loader(streams=3, seed=5)
        list(islice(loader, 7))
        state = loader.state_dict()
        rest = PIPELINES[name]().loader(seed=5)
        rest.load_state_dict(state)
        found[f"{name}, loader"] = {"state": state, "follows": [list(rest), list(rest)]}
    return found


def orders() -> dict[str, Any]:
    """Return what the random parts deliver."""
    found: dict[str, Any] = {name: run_passes(build(), 2, 30) for name, build in PIPELINES.items()}
    found["loader of 4 streams"] = [list(PIPELINES["a training pipeline"]().loader(streams=4, seed=9))]
    found["permutation of 10"] = Permutation(10, key=3)(np.arange(10)).tolist()
    found["permutation of 10**12"] = Permutation(10**12, key=3)(np.arange(5)).tolist()
    found["order of 10 in sequences of 4"] = Order(10, 4, key=3).indices(0, 10).tolist()
    found["draws"] = Draws(1, "golden").block(2)[:5].tolist()
    found["element"] = ElementRandom(1, "golden").at((0, 7)).bit_generator.random_raw(5).tolist()
    return found


def read(path: Path) -> dict[str, Any]:
    return ast.literal_eval(path.read_text(encoding="utf-8"))


def write(path: Path, content: dict[str, Any]) -> None:
    lines = [f"{name!r}: {value!r}," for name, value in content.items()]
    path.write_text("\n".join(["{", *lines, "}\n"]), encoding="utf-8")


if __name__ == "__main__":
    write(states_file(FORMAT), states())
    write(ORDERS_FILE, orders())
