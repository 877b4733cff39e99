"""Whether a pipeline is saved and resumed through loaders: torchdata's, ours, and StatefulDataLoader."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from torchdata.nodes import Loader as TorchdataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from energon_nodes.loading.dataset import dataset as make_dataset
from energon_nodes.loading.loader import Loader
from energon_nodes.loading.loader import loader as make_loader
from energon_nodes.testing.report import compare
from energon_nodes.testing.runs import Make, dump, fresh, load, run_passes, spread
from energon_nodes.testing.streams import cut_off, interleave

__all__ = ["check_loader", "check_stateful_dataloader", "check_torchdata_loader"]


def check_torchdata_loader(make: Make, *, most: int = 64, cuts: int = 10, ordered: bool = True) -> None:
    """Check passes and resumes through `torchdata.nodes.Loader`.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        cuts: The most cut points that are tried.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_torchdata_loader(lambda: en.items(range(9)).shuffle(4).batch(2))
    """
    expected = [(elements, len(elements) < most) for elements in run_passes(fresh(make), 3, most)]
    _check_passes("check_torchdata_loader", "", make, lambda: TorchdataLoader(fresh(make)), expected, cuts, ordered)


def check_loader(
    make: Make,
    *,
    most: int = 64,
    cuts: int = 8,
    streams: Sequence[int] = (1, 3),
    num_workers: Sequence[int] = (0,),
    ordered: bool = True,
    **settings: Any,
) -> None:
    """Check passes and resumes through `pipeline.loader`, and that two live loaders do not disturb each other.

    Args:
        make: Builds the pipeline.
        most: The most elements of a stream in a pass that are looked at.
        cuts: The most cut points that are tried.
        streams: The numbers of streams that are tried.
        num_workers: The numbers of workers that are tried with the numbers of streams they divide.
        ordered: Whether the order is promised.
        **settings: More of what `loader` takes, such as `mp_context`.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_loader(lambda: en.items(range(9)).shuffle(4).batch(2))
    """
    check = "check_loader"
    for several in streams:
        expected = _expected(make, several, most)
        for workers in num_workers:
            if several % max(1, workers):
                continue

            def build(several: int = several, workers: int = workers) -> Loader[Any]:
                return make_loader(fresh(make), streams=several, num_workers=workers, **settings)

            where = f"streams={several}, num_workers={workers}: "
            _check_passes(check, where, make, build, expected, cuts, ordered)
            elements, ends = expected[0]
            first, second = build(), build()
            pairs = list(zip(*(_until_end(each, elements, ends) for each in (first, second)), strict=True))
            for side, loader in enumerate((first, second)):
                got = [pair[side] for pair in pairs]
                compare(check, f"{where}two loaders side by side", fresh(make), elements, got, ordered=ordered)
                _close(loader)


def check_stateful_dataloader(
    make: Make, *, most: int = 64, cuts: int = 6, num_workers: Sequence[int] = (0, 2), ordered: bool = True
) -> None:
    """Check passes and resumes through torchdata's `StatefulDataLoader` over `pipeline.dataset()`.

    Args:
        make: Builds the pipeline.
        most: The most elements of a stream in a pass that are looked at; endless pipelines are cut off there, and
            with them the pass, so that only the first one is looked at.
        cuts: The most cut points that are tried.
        num_workers: The numbers of workers that are tried.
        ordered: Whether the order is promised.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_stateful_dataloader(lambda: en.items(range(9)).batch(2), num_workers=[0])
    """
    check = "check_stateful_dataloader"
    for workers in num_workers:
        several = max(1, workers)
        expected = _expected(make, several, most)
        if not all(ends for _, ends in expected):
            expected = expected[:1]

        def build(workers: int = workers) -> StatefulDataLoader[Any]:
            return StatefulDataLoader(make_dataset(fresh(make)), None, num_workers=workers, collate_fn=_as_it_is)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            where = f"num_workers={workers}: "
            # Several workers cannot know of each other that none has an element left.
            _check_passes(check, where, make, build, expected, cuts, ordered, after_last=workers == 0)


def _expected(make: Make, streams: int, most: int) -> list[tuple[list[Any], bool]]:
    passes = interleave(make, streams, passes=3, most=most)
    return [([value for _, value in elements], not cut_off(elements, streams, most)) for elements in passes]


def _check_passes(
    check: str,
    where: str,
    make: Make,
    build: Callable[[], Any],
    expected: list[tuple[list[Any], bool]],
    cuts: int,
    ordered: bool,
    *,
    after_last: bool = True,
) -> None:
    """Run a loader for some passes, save at cut points of the first two, and resume in new ones.

    `expected` has the elements of each pass and whether the pass ends with them. A resume at the end of a
    pass gives the next pass; so does one after the last element, before the end was seen, if `after_last`.
    """
    node = fresh(make)
    running = build()
    saved: list[tuple[int, int, Any]] = [(0, 0, dump(running.state_dict()))]
    seen: list[list[Any]] = []
    for number, (elements, ends) in enumerate(expected):
        points = set(spread(len(elements) + 1, cuts)) if number < 2 else set[int]()
        got: list[Any] = []
        for value in _until_end(running, elements, ends):
            got.append(value)
            if len(got) in points and (after_last or len(got) < len(elements)):
                saved.append((number, len(got), dump(running.state_dict())))
        if ends and number < 2:
            saved.append((number, len(got), dump(running.state_dict())))
        compare(check, f"{where}pass {number + 1}", node, elements, got, ordered=ordered)
        seen.append(got)
    _close(running)
    for number, taken, state in saved:
        again = build()
        again.load_state_dict(load(state))
        what = f"{where}a resume at element {taken} of pass {number + 1}"
        elements, ends = expected[number]
        if taken < len(elements):
            got = seen[number][:taken] + list(_until_end(again, elements[taken:], ends))
            compare(check, f"{what}: the elements before and after it", node, elements, got, ordered=ordered)
        elif not ends:
            continue
        if number + 1 < len(expected):
            elements, ends = expected[number + 1]
            compare(
                check,
                f"{what}: the pass after it",
                node,
                elements,
                list(_until_end(again, elements, ends)),
                ordered=ordered,
            )
        _close(again)


def _until_end(loader: Iterable[Any], elements: list[Any], ends: bool) -> Iterable[Any]:
    """Iterate over a pass, to its end or as far as its elements are known."""
    return loader if ends else islice(loader, len(elements))


def _as_it_is(value: Any) -> Any:
    return value  # torch's default makes lists of tuples and tensors of arrays


def _close(loader: Any) -> None:
    if isinstance(loader, Loader):
        loader.close()
