"""`cook`: make samples of crude ones by the functions that are meant for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from energon_nodes.combinators.calls import Rng
from energon_nodes.combinators.cooking import cooking
from energon_nodes.combinators.flat_map import FlatMap
from energon_nodes.combinators.map import Map
from energon_nodes.core.node import Node, add_verb
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.samples.cookers import Cooker

__all__ = ["cook"]

Y = TypeVar("Y")


@overload
def cook(
    source: Node[Any],
    *cookers: Cooker[Iterator[Y]] | Callable[..., Iterator[Y]],
    aux: Mapping[str, Any] | None = None,
    primary: Any = None,
    cache: Any = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@overload
def cook(
    source: Node[Any],
    *cookers: Cooker[Y] | Callable[..., Y],
    aux: Mapping[str, Any] | None = None,
    primary: Any = None,
    cache: Any = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Y]: ...
@add_verb
def cook(
    source: Node[Any],
    *cookers: Cooker[Any] | Callable[..., Any],
    aux: Mapping[str, Any] | None = None,
    primary: Any = None,
    cache: Any = None,
    rng: Rng = False,
    seed: int | None = None,
    pure: bool | None = None,
    on_error: ErrorPolicy | None = None,
) -> Node[Any]:
    """Make samples of crude ones: each by the first cooker that matches it.

    Subflavors are the same for all samples of a dataset, so which cookers they leave is found once for each
    dataset; `has_parts` and `where` are asked for each sample. The restore key passes through. If one of the functions
    is a generator function, a sample may become any number of samples, and keys have a number added.

    A function is called with the sample, and by keyword with what it has parameters for: a store in `aux` by its
    name there, `primary`, `cache`, and `rng`. One that gets a store or the cache has a shallow copy of the sample, so
    that `store.get(name, sample)` can note in it what was read.

    Example:
        >>> import energon_nodes as en
        >>> def caption(sample, texts):
        ...     return en.TextSample(**en.basic_sample_keys(sample), text=texts[sample["name"]])
        >>> def skip(sample):
        ...     raise en.SkipSample
        >>> crude = en.items([{"__key__": "1", "name": "a.txt"}, {"__key__": "2", "url": "x"}])
        >>> cooked = crude.cook(en.Cooker(caption, has_parts=["name"]), skip, aux={"texts": {"a.txt": "a cat"}})
        >>> [(sample.__key__, sample.text) for sample in cooked]
        [('1', 'a cat')]

    Args:
        source: A node of crude samples: dicts of parts, or typed samples.
        *cookers: Functions, or `Cooker` objects for functions with conditions, in the order in which they are asked.
        aux: Auxiliary stores by name, such as `{"images": energon_nodes.store(path)}`: anything that functions use.
        primary: A store over the dataset that the samples come from.
        cache: A cache pool.
        rng: As for `map`: True passes a generator to the functions that have a parameter `rng`; "global" seeds the
            global generators around the call.
        seed: A seed for this node; None takes the one of the loader.
        pure: As for `map`.
        on_error: What happens to a sample that fails or has no cooker (`NoCookerError`): "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of what the functions return, or yield.

    Raises:
        TypeError: There is no cooker, a function asks for something that is not offered, or none asks for a store in
            `aux`; the message names function, parameter and what there is.
        ValueError: A setting cannot work.
    """
    kitchen = cooking(cookers, aux=aux, primary=primary, cache=cache, rng=rng)
    if kitchen.gives_many:
        return FlatMap(source, kitchen, rng=rng, seed=seed, pure=pure, on_error=on_error)  # type: ignore[call-overload]
    return Map(source, kitchen, rng=rng, seed=seed, pure=pure, on_error=on_error)  # type: ignore[call-overload]
