"""Pipelines for the tests of loaders; in a module, so that spawned workers can import their functions."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import energon_nodes as en


def round_trip(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as it comes back from a file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def augment(value: int, rng: np.random.Generator) -> tuple[int, int]:
    return value, int(rng.integers(1_000_000))


def no_multiple_of_three(value: int) -> bool:
    return value % 3 != 0


def mixed(size: int = 57) -> en.Node[Any]:
    """Return a pipeline with buffers and random draws, whose streams end at different times."""
    shuffled = en.items(range(size), shuffle=True).filter(no_multiple_of_three).shuffle(5)
    return shuffled.map(augment, rng=True).batch(2)


def endless(size: int = 57, epoch: int = 9) -> en.Node[Any]:
    """Return a pipeline that goes on in its source from epoch to epoch."""
    return en.items(range(size), shuffle=True).repeat().shuffle(5).map(augment, rng=True).batch(2).epochize(epoch)


def pid_of(value: Any) -> tuple[Any, int]:
    return value, os.getpid()


class WithArguments(Exception):
    """An exception that pickles and does not come back."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Unsendable:
    def __reduce__(self) -> Any:
        raise RuntimeError("this object stays at home")


class Unreadable:
    def __reduce__(self) -> Any:
        return (_refuse, ())


def _refuse() -> Any:
    raise RuntimeError("this object does not come back")


def value_error_at_7(value: int) -> int:
    if value == 7:
        raise ValueError("seven is bad")
    return value


def local_error_at_7(value: int) -> int:
    class Local(Exception):
        pass

    if value == 7:
        raise Local("seven is local")
    return value


def arguments_error_at_7(value: int) -> int:
    if value == 7:
        raise WithArguments(3, 4)
    return value


def fatal_at_7(value: int) -> int:
    if value == 7:
        raise en.FatalSampleError("the tokenizer is missing")
    return value


def skip_7(value: int) -> int:
    if value == 7:
        raise en.SkipSample
    return value


def always_fails(value: int) -> int:
    raise ValueError(f"{value} is bad")


def unsendable_at_7(value: int) -> Any:
    return Unsendable() if value == 7 else value


def unreadable_at_7(value: int) -> Any:
    return Unreadable() if value == 7 else value


def sample(value: int) -> dict[str, Any]:
    return {"__key__": f"sample{value}", "value": value}


def value_of_sample(found: dict[str, Any]) -> int:
    return value_error_at_7(found["value"])


def as_tensors(values: list[int]) -> dict[str, torch.Tensor]:
    return {"x": torch.tensor(values)}


def add(value: int) -> int:
    return value + 1


def globally_random(value: int) -> tuple[int, float, float, float]:
    import random

    return value, random.random(), float(np.random.rand()), float(torch.rand(()))


def counted(loader: Any, count: int) -> tuple[list[Any], Iterator[Any]]:
    """Return the next outputs of a loader, and the iterator that goes on."""
    iterator = iter(loader)
    return [next(iterator) for _ in range(count)], iterator


def loader_in_a_pass(method: str) -> Any:
    loader = mixed(4000).loader(num_workers=2, mp_context=method)
    return loader, counted(loader, 1)


def loader_between_passes(method: str) -> Any:
    loader = mixed(20).loader(num_workers=2, mp_context=method)
    return loader, list(loader)


def loader_without_an_output(method: str) -> Any:
    """Start workers that look for an output for ever; return when they do."""
    read, write = os.pipe()

    def never(value: int) -> bool:
        if value < 2:  # the first element of each worker's stream
            os.write(write, b"x")
        return False

    loader = en.items(range(100_000)).filter(never).repeat().loader(num_workers=2, mp_context=method)
    threading.Thread(target=list, args=(loader,), daemon=True).start()
    for _ in range(2):
        os.read(read, 1)
    return loader
