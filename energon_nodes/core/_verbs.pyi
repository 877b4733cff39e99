"""The signatures of the verbs: made by `python -m energon_nodes.core.verb_stub`, never edited."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np

from energon_nodes.combinators.blend import OnEnd
from energon_nodes.combinators.branch_order import Mixing
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.loading.dataset import PipelineDataset
from energon_nodes.loading.loader import Loader
from energon_nodes.loading.uneven import Uneven
from energon_nodes.samples.image_modes import ImageModeName
from energon_nodes.samples.images import Backend
from energon_nodes.samples.pixels import Filter

T = TypeVar("T", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")

class Verbs(Generic[T]):
    """Carry one method for each verb."""

    @overload
    def batch(
        self: Verbs[X],
        size: int,
        *,
        drop_last: bool = False,
        collate: None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[X]]:
        """Gather `size` neighbouring elements into a batch."""
    @overload
    def batch(
        self: Verbs[X],
        size: int,
        *,
        drop_last: bool = False,
        collate: Callable[[list[X]], Y],
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Gather `size` neighbouring elements into a batch."""

    def blend(
        self: Verbs[X],
        *sources: Node[X],
        weights: Sequence[float] | Literal["length"] | None = None,
        on_end: OnEnd = "drop",
        mixing: Mixing = "random",
        name: str | None = None,
        seed: int | None = None,
    ) -> Node[X]:
        """Mix several sources: each element comes from a source drawn at random by weight."""

    def concat(self: Verbs[X], *sources: Node[X]) -> Node[X]:
        """Deliver all elements of the first source, then those of the second, and so on."""

    def dataset(
        self: Verbs[X],
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        on_error: ErrorPolicy = "raise",
        tolerance: int = 100,
        on_restore_error: ErrorPolicy = "raise",
    ) -> PipelineDataset[X]:
        """Make a dataset for torchdata's `StatefulDataLoader` or torch's `DataLoader`."""

    def decode(
        self: Verbs[dict[str, Any]],
        *,
        image: ImageModeName | None = "pil",
        resize: tuple[int, int] | None = None,
        filter: Filter = "bicubic",
        scaled: bool = False,
        exif: bool = False,
        guess_content: bool = False,
        handlers: Mapping[str, Callable[[bytes], Any]] | Callable[[str, bytes], Any] | None = None,
        parts: Collection[str] | None = None,
        trust: bool = False,
        backend: Backend = "auto",
        inflate_limit: int = 1 << 30,
        on_error: ErrorPolicy | None = None,
    ) -> Node[dict[str, Any]]:
        """Decode the parts of samples by the ends of their names: images, text, JSON, arrays, and others."""

    def epochize(self: Verbs[X], n: int) -> Node[X]:
        """Cut the source into epochs of `n` elements; each goes on where the last one stopped."""

    def filter(self: Verbs[X], predicate: Callable[[X], Any], *, on_error: ErrorPolicy | None = None) -> Node[X]:
        """Keep the elements for which `predicate` is true."""

    @overload
    def flat_map(
        self: Verbs[X],
        fn: Callable[[X], Iterable[Y]],
        *,
        rng: Literal[False] = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element and deliver the elements of what it returns."""
    @overload
    def flat_map(
        self: Verbs[X],
        fn: Callable[[X, np.random.Generator], Iterable[Y]],
        *,
        rng: Literal[True],
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element and deliver the elements of what it returns."""

    def limit(self: Verbs[X], n: int) -> Node[X]:
        """Deliver at most `n` elements in each pass."""

    def loader(
        self: Verbs[X],
        *,
        num_workers: int = 0,
        streams: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "allow",
        prefetch_factor: int = 2,
        pin_memory: bool = False,
        persistent_workers: bool = True,
        mp_context: str | None = None,
        timeout: float = 0,
        on_error: ErrorPolicy = "raise",
        tolerance: int = 100,
        on_restore_error: ErrorPolicy = "raise",
    ) -> Loader[X]:
        """Make a loader that iterates over the pipeline, with or without worker processes."""

    @overload
    def map(
        self: Verbs[X],
        fn: Callable[[X], Y],
        *,
        rng: Literal[False, "global"] = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element."""
    @overload
    def map(
        self: Verbs[X],
        fn: Callable[[X, np.random.Generator], Y],
        *,
        rng: Literal[True],
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element."""

    def mix_batches(
        self: Verbs[X],
        *others: Node[X],
        size: int,
        weights: Sequence[float] | None = None,
        on_end: OnEnd = "drop",
        mixing: Mixing = "random",
        drop_last: bool = False,
        seed: int | None = None,
    ) -> Node[list[X]]:
        """Mix batches of several sources: all elements of a batch come from one source."""

    @overload
    def parallel_map(
        self: Verbs[X],
        fn: Callable[[X], Y],
        *,
        workers: int = 2,
        method: Literal["thread", "process"] = "thread",
        in_order: bool = True,
        ahead: int | None = None,
        mp_context: str | None = None,
        rng: Literal[False, "global"] = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element in a pool of threads or processes, ahead of the consumer."""
    @overload
    def parallel_map(
        self: Verbs[X],
        fn: Callable[[X, np.random.Generator], Y],
        *,
        workers: int = 2,
        method: Literal["thread", "process"] = "thread",
        in_order: bool = True,
        ahead: int | None = None,
        mp_context: str | None = None,
        rng: Literal[True],
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element in a pool of threads or processes, ahead of the consumer."""

    def prefetch(self: Verbs[X], n: int = 2) -> Node[X]:
        """Let a thread pull the source ahead of the consumer, up to `n` elements."""

    def repeat(self: Verbs[X], n: float | None = None) -> Node[X]:
        """Go through the source `n` times, or without end."""

    def shuffle(self: Verbs[X], size: int, *, seed: int | None = None) -> Node[X]:
        """Draw at random from a buffer of `size` elements."""

    def skip(self: Verbs[X], n: int) -> Node[X]:
        """Leave out the first `n` elements of each pass."""

    def tap(self: Verbs[X], fn: Callable[[X], Any]) -> Node[X]:
        """Call `fn` with every element that passes, and deliver the element itself."""

    def unbatch(self: Verbs[Iterable[X]]) -> Node[X]:
        """Deliver the members of every element: the inverse of `batch`."""

    def with_keys(self: Verbs[X]) -> Node[tuple[X, Key]]:
        """Deliver `(value, restore key)` as the elements."""

    @overload
    def zip(self: Verbs[A], source2: Node[B], /, *, strict: bool = False) -> Node[tuple[A, B]]:
        """Deliver tuples of one element from each source, until the shortest ends."""
    @overload
    def zip(self: Verbs[A], source2: Node[B], source3: Node[C], /, *, strict: bool = False) -> Node[tuple[A, B, C]]:
        """Deliver tuples of one element from each source, until the shortest ends."""
    @overload
    def zip(self: Verbs[Any], *sources: Node[Any], strict: bool = False) -> Node[tuple[Any, ...]]:
        """Deliver tuples of one element from each source, until the shortest ends."""
