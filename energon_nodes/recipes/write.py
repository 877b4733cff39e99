"""`write`: any pipeline to a dataset of tar shards, with all metadata, resumable after a crash."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from energon_nodes.combinators.map import Map
from energon_nodes.core.checks import check_size, plain_int
from energon_nodes.core.errors import DatasetError
from energon_nodes.core.node import Node
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.loading.loader import loader as make_loader
from energon_nodes.recipes.prepare import prepare as prepare_dataset
from energon_nodes.recipes.prepare_types import sample_file
from energon_nodes.recipes.prepared import DuplicateKeysError, Prepared
from energon_nodes.recipes.write_run import WriteRun
from energon_nodes.recipes.write_state import WriteFolder, WriteState
from energon_nodes.samples.to_parts import Encode, ToParts
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.splits import FromFile, parse_rule, read_lists
from energon_nodes.storage.writing import make_folder

__all__ = ["write"]


def write(
    pipeline: Node[Any],
    folder: PathLike,
    *,
    max_samples: int | None = 10_000,
    max_bytes: int | None = 1 << 30,
    name: str = "shard_%06d.tar",
    encode: Mapping[str, Encode] | None = None,
    key: Callable[[Any], str] | None = None,
    quality: int = 95,
    split: str | PathLike | Sequence[float] | Mapping[str, float | str | Sequence[str]] | None = None,
    sample_type: type[Any] | str | None = None,
    field_map: Mapping[str, str] | None = None,
    subflavors: Mapping[str, Any] | None = None,
    prepare: bool = True,
    resume: bool = True,
    progress: bool | None = None,
    num_workers: int = 0,
    streams: int | None = None,
    seed: int = 0,
    prefetch_factor: int = 2,
    mp_context: str | None = None,
    on_error: ErrorPolicy = "raise",
    tolerance: int = 100,
) -> Prepared:
    r"""Write one pass of a pipeline to tar shards, and prepare them as a dataset.

    Elements are dicts of parts, or dataclasses such as `CaptioningSample`. The name of a part decides how its value
    becomes bytes, see `encode_part`: text for `txt`, what JSON holds for `json`, arrays for `npy`, pictures for
    `jpg` and `png`; bytes are written as they are. `__key__` names a sample; samples without one are numbered. The
    other fields that the library adds (`__sources__` and so on) are not written.

    The same pipeline gives the same bytes under any number of workers: there is no time and no user in a shard. A
    shard appears under its name when it is whole. After a crash, the same call goes on behind the last finished shard,
    and what comes out is the same to the byte; for that the pipeline has to be one that resumes, as for a loader.

    Example:
        >>> import energon_nodes as en, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> captions = en.items(["a cat", "a dog", "a bird"]).map(lambda text: {"txt": text, "json": {"n": len(text)}})
        >>> prepared = en.write(captions, f"{folder.name}/pets", max_samples=2)
        >>> prepared.shards
        {'shard_000000.tar': 2, 'shard_000001.tar': 1}
        >>> sample = next(en.dataset(f"{folder.name}/pets"))
        >>> sample["__key__"], sample["txt"], sample["json"]
        ('000000000', 'a cat', {'n': 5})
        >>> folder.cleanup()

    Args:
        pipeline: What is written: one pass of it.
        folder: Where to: a folder of its own, which is made; local or a URL.
        max_samples: A shard ends with the sample that makes it so many; None is no limit.
        max_bytes: A shard ends with the sample that makes it so many bytes or more; None is no limit.
        name: The names of the shards, with the number in the place of `%06d`.
        encode: How fields are written, by the name of the field: `"txt"` is another name for the part; a function
            makes its bytes of the value; `("txt", function)` is both; None leaves the field out. Other fields of
            dicts are written under their own names. Fields of dataclasses that are None are left out.
        key: Makes the key of a sample, in place of its `__key__`. The last piece of a key, behind the last slash,
            must have no dot: the format has the names of parts begin there.
        quality: The quality of JPEG and WebP images, from 1 to 100.
        split: How the shards are divided into parts, as in `prepare`; None puts all into "train".
        sample_type: What the samples of the dataset are, as in `prepare`; None says crude.
        field_map: The access for each field of the type.
        subflavors: What holds for all samples of the dataset.
        prepare: Whether metadata are written; without them there are only shards.
        resume: Whether to go on with what an earlier call has left in the folder; otherwise that is refused.
        progress: Show a bar; None shows it in a terminal.
        num_workers: How many worker processes run the pipeline and encode.
        streams: The number of streams, as for a loader: with the pipeline and the seed it decides the order, and so
            the bytes. It is a multiple of `num_workers`; None is 1, which gives the order of the pipeline itself.
        seed: The seed of the pipeline.
        prefetch_factor: How many samples each worker makes ahead.
        mp_context: How workers are started, as for a loader.
        on_error: What happens to elements that fail, or cannot be encoded: "raise", "skip" or `callable(error, key)`.
        tolerance: How many elements in a row may be skipped for errors at one node.

    Returns:
        What `prepare` found. With `prepare=False`: the same without splits.

    Raises:
        DatasetError: The folder holds something else, or a dataset that was begun with other settings; two samples
            have the same key; the pipeline gives no sample; or type and field map do not go together.
        SampleError: A sample cannot be written: it names the sample, the part and the reason.
        ValueError: A setting is out of its range, the pipeline has no end, or `streams` is to be given.
    """
    _check(pipeline, max_samples, max_bytes, name, num_workers, streams)
    if not prepare:
        meant = {"split": split, "sample_type": sample_type, "field_map": field_map, "subflavors": subflavors}
        given = [setting for setting, value in meant.items() if value is not None]
        if given:
            raise ValueError(f"prepare=False writes no metadata, where {', '.join(given)} would go: leave it out")
    root = paths.folder(folder)
    if prepare:  # a mistake in these must not show only when all is written
        rule = parse_rule(split)
        if isinstance(rule, FromFile):
            read_lists(rule.path)
        sample_file(root, "crude" if sample_type is None else sample_type, field_map=field_map, subflavors=subflavors)
    to_parts = ToParts(encode, key, quality)
    loader = make_loader(
        Map(pipeline, to_parts),
        num_workers=num_workers,
        streams=1 if streams is None else streams,
        seed=seed,
        rank=0,
        world_size=1,
        prefetch_factor=prefetch_factor,
        mp_context=mp_context,
        on_error=on_error,
        tolerance=tolerance,
    )
    settings: dict[str, Any] = {
        "max_samples": max_samples,
        "max_bytes": max_bytes,
        "name": name,
        "encode": to_parts.described(),
        "key": key is not None,
        "quality": quality,
    }
    place = WriteFolder(root)
    is_new = not paths.is_url(root) and not os.path.exists(root)
    make_folder(root)
    with loader, place.held():
        try:
            state = _begin(place, settings, name, resume)
        except DatasetError:
            place.drop_empty()
            raise
        if not state.done:
            WriteRun(place, state, loader, _length(pipeline), progress).run()
        if not state.shards:
            place.clear()
            if is_new:
                os.rmdir(root)
            raise DatasetError(f"the pipeline gives no sample, so nothing was written to {root}: {pipeline!r}")
        prepared = _found(root, state)
        if prepare:
            try:
                prepared = prepare_dataset(
                    root,
                    split=split,
                    sample_type=sample_type,
                    field_map=field_map,
                    subflavors=subflavors,
                    overwrite=True,
                    progress=progress,
                )
            except DuplicateKeysError:
                raise
            except DatasetError as error:
                text = str(error).replace("nothing was written", "no metadata were written")
                raise DatasetError(
                    f"{text}. The {len(state.shards):,} shards are written: call write again with the mistake "
                    "corrected, and it goes on from them"
                ) from error
            shards = tuple(shard for shard, _, _ in state.shards)
            prepared = dataclasses.replace(prepared, written=(*shards, *prepared.written))
        place.clear()
    return prepared


def _check(
    pipeline: Node[Any],
    max_samples: int | None,
    max_bytes: int | None,
    name: str,
    num_workers: Any,
    streams: int | None,
) -> None:
    if not isinstance(pipeline, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"write needs a pipeline, got a {type(pipeline).__name__}: make one with items(...) or wrap(...)"
        )
    if _length(pipeline) == float("inf"):
        raise ValueError(f"{pipeline!r} has no end, and write writes all of it: put limit(n) behind it")
    for setting, value in (("max_samples", max_samples), ("max_bytes", max_bytes)):
        if value is not None:
            check_size("write", setting, value, 1)
    try:
        names = {name % 0, name % 1}
    except (TypeError, ValueError):
        names = set[str]()
    if len(names) != 2 or not name.endswith(".tar") or "/" in name or name.startswith("."):
        raise ValueError(f'write needs name as a pattern with one number such as "shard_%06d.tar", got {name!r}')
    workers = plain_int("write", "num_workers", num_workers)
    if streams is None and workers > 1:
        raise ValueError(
            f"write needs streams= with num_workers={workers}: the order of the samples, and so the bytes of the "
            f"shards, depend on it and not on the workers; streams={workers} suits {workers} workers"
        )


def _length(pipeline: Node[Any]) -> float | None:
    """Return how many elements a pass has: `math.inf` without end, None where that is not known."""
    return pipeline.length(0, 1)


def _begin(place: WriteFolder, settings: dict[str, Any], name: str, resume: bool) -> WriteState:
    state = place.read()
    if state is None or not state.shards:  # nothing of an earlier run is worth keeping
        place.refuse_others(frozenset([name % 0]) if state else frozenset(), meta=False)
        state = WriteState(settings)
        place.save(state)
        return state
    if not resume:
        raise DatasetError(
            f"{place.root} holds a dataset that was not written to its end: say resume=True to go on with it, or "
            "empty the folder"
        )
    place.check(state, settings)
    # A crash between the renaming of a shard and the saving of the state leaves one shard more; it is written again.
    shards = [shard for shard, _, _ in state.shards] + [name % len(state.shards)]
    indices = [f"{shard}.idx" for shard in shards] if state.done else []
    place.refuse_others(frozenset([*shards, *indices]), meta=state.done)
    return state


def _found(root: str, state: WriteState) -> Prepared:
    return Prepared(
        path=root,
        samples=state.samples,
        shards={shard: samples for shard, samples, _ in state.shards},
        splits={},
        samples_per_split={},
        parts=dict(state.parts),
        bytes=sum(size for _, _, size in state.shards),
        written=tuple(shard for shard, _, _ in state.shards),
    )
