"""The signatures of the verbs: made by `python -m energon_nodes.core.verb_stub`, never edited."""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np

from energon_nodes.combinators.blend import OnEnd
from energon_nodes.combinators.branch_order import Mixing
from energon_nodes.combinators.calls import Rng
from energon_nodes.combinators.hangs import Hang
from energon_nodes.combinators.join import Nonmatch
from energon_nodes.combinators.packing_strategies import Strategy
from energon_nodes.core.node import Node
from energon_nodes.core.restore import Key
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.loading.dataset import PipelineDataset
from energon_nodes.loading.loader import Loader
from energon_nodes.loading.uneven import Uneven
from energon_nodes.samples.cookers import Cooker
from energon_nodes.samples.image_modes import ImageModeName
from energon_nodes.samples.images import Backend
from energon_nodes.samples.pixels import Filter
from energon_nodes.sources.subset import Bound

T = TypeVar("T", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")
Z = TypeVar("Z")

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

    @overload
    def cook(
        self: Verbs[Any],
        *cookers: Cooker[Iterator[Y]] | Callable[..., Iterator[Y]],
        aux: Mapping[str, Any] | None = None,
        primary: Any = None,
        cache: Any = None,
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Make samples of crude ones: each by the first cooker that matches it."""
    @overload
    def cook(
        self: Verbs[Any],
        *cookers: Cooker[Y] | Callable[..., Y],
        aux: Mapping[str, Any] | None = None,
        primary: Any = None,
        cache: Any = None,
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Make samples of crude ones: each by the first cooker that matches it."""

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

    def gc(self: Verbs[X], every: int) -> Node[X]:
        """Run `gc.collect()` once for every `every` elements, when the next one is asked for."""

    @overload
    def group_by(
        self: Verbs[X],
        criterion: Callable[[X], Any],
        batch_size: int | None = None,
        *,
        collate: None = None,
        leftovers: Literal["emit", "drop"] = "emit",
        max_open: int | None = 1000,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[X]]:
        """Gather elements for which `criterion` gives the same key into batches."""
    @overload
    def group_by(
        self: Verbs[X],
        criterion: Callable[[X], Any],
        batch_size: int | None = None,
        *,
        collate: Callable[[list[X]], Y],
        leftovers: Literal["emit", "drop"] = "emit",
        max_open: int | None = 1000,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Gather elements for which `criterion` gives the same key into batches."""

    def join(
        self: Verbs[Any],
        *sides: Node[Any],
        nonmatch: Nonmatch | Sequence[Nonmatch] = "error",
        joiner: Callable[..., Y] | None = None,
        ahead: int = 256,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Put together each sample with those of other datasets that have the same key."""

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

    def log(
        self: Verbs[X],
        every: int = 1000,
        *,
        label: str = "",
        to: str | logging.Logger | Callable[[str], Any] = "energon_nodes",
        level: int | str = ...,
    ) -> Node[X]:
        """Write a line for every `every` elements: how many, how many a second, how long they were waited for."""

    @overload
    def map(
        self: Verbs[X],
        fn: Callable[[X], Iterator[Y]],
        *,
        rng: Literal[False] = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element."""
    @overload
    def map(
        self: Verbs[X],
        fn: Callable[[X, np.random.Generator], Iterator[Y]],
        *,
        rng: Literal[True],
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Apply `fn` to every element."""
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
    def pack(
        self: Verbs[X],
        *,
        select: Callable[[list[X]], Iterable[Iterable[Any]]],
        combine: None = None,
        buffer_size: int,
        encode: None = None,
        unselected: Literal["keep", "drop"] = "keep",
        by: Literal["value", "position"] = "value",
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[X]]:
        """Gather elements into packs that `select` chooses from a buffer."""
    @overload
    def pack(
        self: Verbs[X],
        *,
        select: Callable[[list[X]], Iterable[Iterable[Any]]],
        combine: Callable[[list[Any]], Generator[Y]],
        buffer_size: int,
        encode: Callable[..., Any] | None = None,
        unselected: Literal["keep", "drop"] = "keep",
        by: Literal["value", "position"] = "value",
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Gather elements into packs that `select` chooses from a buffer."""
    @overload
    def pack(
        self: Verbs[X],
        *,
        select: Callable[[list[X]], Iterable[Iterable[Any]]],
        combine: Callable[[list[Any]], Y],
        buffer_size: int,
        encode: Callable[..., Any] | None = None,
        unselected: Literal["keep", "drop"] = "keep",
        by: Literal["value", "position"] = "value",
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Y]:
        """Gather elements into packs that `select` chooses from a buffer."""
    @overload
    def pack(
        self: Verbs[X],
        *,
        select: Callable[[list[X]], Iterable[Iterable[Any]]],
        combine: None = None,
        buffer_size: int,
        encode: Callable[..., Any],
        unselected: Literal["keep", "drop"] = "keep",
        by: Literal["value", "position"] = "value",
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[Any]]:
        """Gather elements into packs that `select` chooses from a buffer."""

    @overload
    def pack_to(
        self: Verbs[X],
        capacity: int,
        *,
        length: Callable[[X], int] | str,
        combine: None = None,
        buffer_size: int = 1000,
        strategy: Strategy = "best_fit",
        oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
        max_per_pack: int | None = None,
        encode: None = None,
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[X]]:
        """Gather elements into packs whose lengths add up to at most `capacity`."""
    @overload
    def pack_to(
        self: Verbs[X],
        capacity: int,
        *,
        length: Callable[[X], int] | str,
        combine: Callable[[list[Any]], Generator[Z]],
        buffer_size: int = 1000,
        strategy: Strategy = "best_fit",
        oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
        max_per_pack: int | None = None,
        encode: Callable[..., Any] | None = None,
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Z]:
        """Gather elements into packs whose lengths add up to at most `capacity`."""
    @overload
    def pack_to(
        self: Verbs[X],
        capacity: int,
        *,
        length: Callable[[X], int] | str,
        combine: Callable[[list[Any]], Z],
        buffer_size: int = 1000,
        strategy: Strategy = "best_fit",
        oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
        max_per_pack: int | None = None,
        encode: Callable[..., Any] | None = None,
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[Z]:
        """Gather elements into packs whose lengths add up to at most `capacity`."""
    @overload
    def pack_to(
        self: Verbs[X],
        capacity: int,
        *,
        length: Callable[[X], int] | str,
        combine: None = None,
        buffer_size: int = 1000,
        strategy: Strategy = "best_fit",
        oversize: Literal["error", "alone"] | Callable[[X], X] = "error",
        max_per_pack: int | None = None,
        encode: Callable[..., Any],
        rng: Rng = False,
        seed: int | None = None,
        pure: bool | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Node[list[Any]]:
        """Gather elements into packs whose lengths add up to at most `capacity`."""

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

    def resolve(self: Verbs[Any], *, on_error: ErrorPolicy | None = None) -> Node[Any]:
        """Replace the lazy values in samples by what they stand for."""

    def shuffle(self: Verbs[X], size: int, *, seed: int | None = None) -> Node[X]:
        """Draw at random from a buffer of `size` elements."""

    def skip(self: Verbs[X], n: int) -> Node[X]:
        """Leave out the first `n` elements of each pass."""

    def slice_window(self: Verbs[X], size: int, step: int = 1, *, drop_last: bool = True) -> Node[tuple[X, ...]]:
        """Deliver windows of `size` neighbouring elements, each `step` elements behind the one before."""

    def sort_window(
        self: Verbs[X],
        size: int,
        key: Callable[[X], Any],
        *,
        reverse: bool = False,
        on_error: ErrorPolicy | None = None,
    ) -> Node[X]:
        """Gather `size` elements, deliver them sorted by `key`, and go on with the next `size`."""

    def subset(self: Verbs[X], first: Bound, last: Bound) -> Node[X]:
        """Take a part of the data that a pipeline reads: a fold, a split for validation, a share to try things out."""

    def tag(self: Verbs[X], *, subflavors: Mapping[str, Any]) -> Node[X]:
        """Add subflavors to all samples: what holds for the dataset, and tells cookers which samples are theirs."""

    def tap(self: Verbs[X], fn: Callable[[X], Any]) -> Node[X]:
        """Call `fn` with every element that passes, and deliver the element itself."""

    def unbatch(self: Verbs[Iterable[X]]) -> Node[X]:
        """Deliver the members of every element: the inverse of `batch`."""

    def watchdog(
        self: Verbs[X],
        seconds: float,
        *,
        on_timeout: Literal["warn", "raise"] | Callable[[Hang], Any] = "warn",
    ) -> Node[X]:
        """Report when one element takes longer than `seconds`: which node it hangs in, and the stack of the thread."""

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
