"""Whether restore keys name elements: unique, plain, and enough to make an element again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from energon_nodes.testing.report import compare, require
from energon_nodes.testing.resuming import check_resume
from energon_nodes.testing.runs import Make, dump, fresh, load, on_stream, resumed, run_pass, run_passes

__all__ = ["check_keys", "check_restore"]


def check_keys(
    make: Make, *, most: int = 64, streams: Sequence[int] = (1, 3), ordered: bool = True, unique: bool = True
) -> None:
    """Check that restore keys are plain, unique in a pass over all streams, and the same after a resume.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        streams: The numbers of streams that are tried.
        ordered: Whether the order is promised.
        unique: Whether a pass has every key once; False for pipelines that deliver an element twice on purpose
            (`fixed_epoch=True` behind `repeat`).

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_keys(lambda: en.items(range(9)).repeat(2).batch(2))
    """
    check = "check_keys"
    plain = run_passes(fresh(make), 2, most)
    keyed = run_passes(fresh(make).with_keys(), 2, most)
    for number in range(2):
        values = [value for value, _ in keyed[number]]
        compare(check, f"pass {number + 1} with its keys", fresh(make), plain[number], values, ordered=ordered)
    for several in streams:
        came: list[dict[Any, str]] = [{}, {}]
        for stream in range(several):
            node = on_stream(lambda: fresh(make).with_keys(), stream, several)()
            for number, pairs in enumerate(run_passes(node, 2, most)):
                for position, (_, key) in enumerate(pairs):
                    require(_is_key(key), check, "a key is a tuple of ints, strings and such tuples", node, got=key)
                    here = f"element {position} of pass {number + 1} in stream {stream} of {several}"
                    before = came[number].setdefault(key, here)
                    require(before == here or not unique, check, f"key {key} belongs to {before} and to {here}", node)
    check_resume(lambda: fresh(make).with_keys(), most=most, cuts=12, ordered=ordered)


def _is_key(key: Any, inner: bool = False) -> bool:
    if type(key) is tuple:
        return all(_is_key(part, True) for part in cast("tuple[Any, ...]", key))
    return inner and type(key) in (int, str)


def check_restore(make: Make, *, most: int = 64, streams: Sequence[int] = (1, 3)) -> None:
    """Check that `restore` and `restore_many` make any element again from its key.

    The keys go through a file into a new pipeline; they are asked for one by one, together in another
    order and twice, from several threads, and of a running pipeline, which must not notice. Pipelines that are
    not `restorable()` pass the check.

    Args:
        make: Builds the pipeline.
        most: The most elements of a pass that are looked at.
        streams: The numbers of streams that are tried.

    Raises:
        ContractError: If the contract is broken.

    Example:
        >>> import energon_nodes as en
        >>> check_restore(lambda: en.items(range(9)).map(lambda x: x * x).batch(2))
    """
    check = "check_restore"
    if not fresh(make).restorable():
        return
    for several in streams:
        for stream in range(several):
            keyed = on_stream(lambda: fresh(make).with_keys(), stream, several)()
            pairs: list[Any] = [pair for elements in run_passes(keyed, 2, most) for pair in elements]
            pairs = pairs[-2 * most // several :]  # the ends of both passes
            keys = load(dump([key for _, key in pairs]))
            values = [value for value, _ in pairs]
            node = fresh(make)
            where = f"of stream {stream} of {several}, in a new pipeline"
            compare(check, f"restore(key) for each key {where}", node, values, [node.restore(key) for key in keys])
            order = [number * 7 % len(keys) for number in range(2 * len(keys))] if keys else []
            got = node.restore_many([keys[number] for number in order])
            compare(check, f"restore_many(keys), unsorted, some twice, {where}", node, [values[n] for n in order], got)
            compare(check, "restore_many of no keys", node, [], node.restore_many([]))
            compare(check, f"the run after restoring {where}", node, run_pass(fresh(make), most), run_pass(node, most))
            if several == 1:
                _check_beside_a_run(make, most, keys, values)


def _check_beside_a_run(make: Make, most: int, keys: list[Any], values: list[Any]) -> None:
    check = "check_restore"
    expected = run_pass(fresh(make), most)
    node = fresh(make)
    got: list[Any] = []
    with ThreadPoolExecutor(4) as pool:
        for number in range(most):
            single = [pool.submit(node.restore, key) for key in keys] if number in (0, 2, len(expected) - 1) else []
            several = [pool.submit(node.restore_many, keys[part::4]) for part in range(4)]
            more = run_pass(node, 1)
            if single:
                results = [each.result() for each in single]
                compare(check, "restore(key) from several threads beside a running pipeline", node, values, results)
            for part, each in enumerate(several):
                what = "restore_many(keys) from several threads beside a running pipeline"
                compare(check, what, node, values[part::4], each.result())
            got += more
            if number % 8 == 1:
                rest = run_pass(resumed(make, node.state_dict()), most - len(got))
                what = f"the rest after a resume at element {len(got)} of a run beside which elements were restored"
                compare(check, what, node, expected[len(got) :], rest)
            if not more:
                break
    compare(check, "the run while elements were restored", node, expected, got)
