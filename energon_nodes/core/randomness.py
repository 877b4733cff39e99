"""Random draws that depend on where an element stands, never on a global generator.

Every draw is a function of a key, so it is the same on any machine, in any process, for any
number of workers, and needs no state beyond a count. The bit source is Philox (Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011) through numpy, whose raw output is stable
between releases; bounded integers are derived here, since numpy's own distributions may change.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "Draws", "ElementRandom", "fold", "global_seed"]

BLOCK = 1024
"""Number of draws that `Draws.block` makes at once."""


def fold(*parts: object) -> int:
    """Fold plain values into a 128-bit key.

    Args:
        *parts: Ints, strings and nested tuples of them.

    Returns:
        An int in `[0, 2**128)`, the same in every process and on every Python hash seed.

    Example:
        >>> fold(0, "shuffle") == fold(0, "shuffle") != fold(1, "shuffle")
        True
    """
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=16).digest(), "little")


class Draws:
    """Give random access to a sequence of uniform 32-bit draws.

    Args:
        *parts: What the draws depend on, e.g. `(seed, identity, stream, epoch)`.

    Example:
        >>> draws = Draws(0, "example")
        >>> bool((draws.block(3) == Draws(0, "example").block(3)).all())
        True
        >>> 0 <= draws.below(5, count=7) < 5
        True
    """

    def __init__(self, *parts: object) -> None:
        self._key = fold(*parts)
        self._number = -1
        self._block: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._listed: list[int] = []
        self._listed_number = -1

    def block(self, number: int) -> NDArray[np.uint64]:
        """Return draws `number * BLOCK` to `(number + 1) * BLOCK - 1`.

        Returns:
            A uint64 array of shape `(BLOCK,)` with values below `2**32`.
        """
        if number != self._number:
            # One step of the counter gives four 64-bit words.
            source = np.random.Philox(key=self._key, counter=number * (BLOCK // 4))
            self._block = source.random_raw(BLOCK) >> np.uint64(32)
            self._number = number
        return self._block

    def below(self, bound: int, count: int) -> int:
        """Return draw number `count` as an int in `[0, bound)`, `bound` at most `2**32`."""
        return (self.word(count) * bound) >> 32

    def word(self, count: int) -> int:
        """Return draw number `count` as it is, an int below `2**32`."""
        if count // BLOCK != self._listed_number:
            self._listed = self.block(count // BLOCK).tolist()
            self._listed_number = count // BLOCK
        return self._listed[count % BLOCK]


class ElementRandom:
    """Make the random generator of one element: the same for the same seed, node and restore key.

    Setting the key of an existing generator costs a third of making one, so a generator is kept
    for each thread. It is valid until the next call of `at` in that thread.

    Args:
        *parts: What all elements have in common, e.g. `(seed, identity)`.

    Example:
        >>> source = ElementRandom(0, "augment")
        >>> source.at((0, 7)).random() == source.at((0, 7)).random()
        True
    """

    def __init__(self, *parts: object) -> None:
        self._prefix = blake2b(repr(parts).encode(), digest_size=16)
        self._local = threading.local()

    def at(self, key: object) -> np.random.Generator:
        """Return the generator for the element with this restore key.

        Returns:
            A `numpy.random.Generator` at the start of the element's own sequence.
        """
        try:
            generator, philox, state, words = self._local.kept
        except AttributeError:
            philox = np.random.Philox(key=0)
            generator = np.random.Generator(philox)
            state: Any = philox.state
            words = state["state"]["key"]
            self._local.kept = (generator, philox, state, words)
        digest = self._prefix.copy()
        digest.update(repr(key).encode())
        words[:] = np.frombuffer(digest.digest(), np.uint64)
        philox.state = state
        return generator

    def fresh(self, key: object) -> np.random.Generator:
        """Return a generator of its own for the element, with the draws of `at`; it stays valid."""
        digest = self._prefix.copy()
        digest.update(repr(key).encode())
        return np.random.Generator(np.random.Philox(key=np.frombuffer(digest.digest(), np.uint64)))

    def seed_at(self, key: object) -> int:
        """Return a 63-bit seed for the element with this restore key, for foreign generators."""
        digest = self._prefix.copy()
        digest.update(repr(key).encode())
        return int.from_bytes(digest.digest()[:8], "little") >> 1


@contextmanager
def global_seed(seed: int) -> Generator[None, None, None]:
    """Seed torch, numpy and `random` inside the block, and put their states back after it.

    For libraries that draw from global generators, such as torchvision's transforms. It costs
    about 0.2 ms. Several threads take turns, since the generators are those of the process.

    Args:
        seed: A non-negative int below `2**63`.

    Example:
        >>> with global_seed(3):
        ...     first = random.random()
        >>> with global_seed(3):
        ...     first == random.random()
        True
    """
    import torch  # the one place that needs it; the rest of the module works without

    with _global_generators:
        torch_state = torch.get_rng_state()
        numpy_state = np.random.get_state()
        python_state = random.getstate()
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        random.seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(torch_state)
            np.random.set_state(numpy_state)
            random.setstate(python_state)


_global_generators = threading.RLock()


def _unlock_after_fork() -> None:
    global _global_generators
    _global_generators = threading.RLock()  # another thread may have held it when this process was forked


os.register_at_fork(after_in_child=_unlock_after_fork)
