"""`prepare`: make a dataset of a folder of tar shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from energon_nodes.core.checks import check_size
from energon_nodes.core.errors import DatasetError
from energon_nodes.recipes.prepare_found import Work
from energon_nodes.recipes.prepare_job import carry_out
from energon_nodes.recipes.prepare_media import prepare_media
from energon_nodes.recipes.prepare_plan import plan_indices, plan_shards
from energon_nodes.recipes.prepared import Prepared
from energon_nodes.samples.media import MediaFilter
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.metadata import META_FOLDER, is_prepared
from energon_nodes.storage.splits import parse_rule

__all__ = ["prepare"]

_RESERVED = ("split.yaml", "split.json", "prepared.json", "keys.table")


def prepare(
    path: PathLike,
    *,
    split: str | PathLike | Sequence[float] | Mapping[str, float | str | Sequence[str]] | None = None,
    exclude: str | Iterable[str] = (),
    shuffle: bool = False,
    seed: int = 42,
    sample_type: type[Any] | str | None = None,
    field_map: Mapping[str, str] | None = None,
    sample_loader: str | None = None,
    part_filter: str | Sequence[str] | None = None,
    subflavors: Mapping[str, Any] | None = None,
    dataset_yaml: str = "dataset.yaml",
    media: str | None = None,
    update: bool = False,
    overwrite: bool = False,
    index_only: bool = False,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Prepared:
    r"""Index a folder of tar shards, divide them into parts, and say of which type the samples are.

    It writes a `.tar.idx` beside each shard, and `.info.json`, `split.yaml`, `dataset.yaml`, `index.sqlite` and
    `index.uuid` in the folder `.nv-meta`: the format of Megatron-Energon, which reads them too. What only this
    library uses, for lookup by key and for `update`, lies beside them. A crash at any moment leaves the dataset
    that was there before, and the folder can be prepared again.

    Example:
        >>> import energon_nodes as en, io, tarfile, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> for shard in range(4):
        ...     with tarfile.open(f"{folder.name}/{shard}.tar", "w") as archive:
        ...         for key in (f"{shard}a", f"{shard}b"):
        ...             member = tarfile.TarInfo(f"{key}.txt")
        ...             member.size = 5
        ...             archive.addfile(member, io.BytesIO(b"a cat"))
        >>> prepared = en.prepare(folder.name, split="2,1,1", sample_type="TextSample", field_map={"text": "txt"})
        >>> prepared.samples, prepared.splits, prepared.parts
        (8, {'train': 2, 'val': 1, 'test': 1}, {'txt': 8})
        >>> [sample.text for sample in en.dataset(folder.name, split="val")]
        ['a cat', 'a cat']
        >>> folder.cleanup()

    Args:
        path: The folder or URL with the shards, in it or in folders below it. Or a `.jsonl` file: that gets an index,
            and the arguments about shards, parts and types do not apply.
        split: How shards are divided into parts: three numbers for train, val and test, as a sequence or as text such
            as `"8,1,1"`; a mapping of names to numbers; a mapping of names to patterns, which are regular expressions
            that must fit the beginning of a shard's name (braces in them are expanded first); or the path of a file
            in the format of `split.yaml`. None keeps the split that is there, one that was written by hand before
            the folder was prepared too, and else puts all shards into "train".
        exclude: Regular expressions: a shard is left out where one fits anywhere in its name.
        shuffle: Mix the shards before they are divided; they stay mixed in their part.
        seed: The seed for this. The mixed order is that of Megatron-Energon for the same seed.
        sample_type: What the samples are: a class, the name of one of this library, `package.module:Class`, or "crude"
            for dicts of parts. None keeps the dataset file that is there, and else says "crude".
        field_map: The access for each field of the type, as in `FieldMap`.
        sample_loader: `file.py:function` in place of a field map, a file that lies in `.nv-meta`.
        part_filter: The names of the parts that the sample loader uses, or `file.py:function`.
        subflavors: What holds for all samples: plain data.
        dataset_yaml: The name of the dataset file.
        media: Store what pictures, audio and video are like, for `Store.media`: "extension" of files that are named as
            media are, "header" of those that begin so too, "glob:*.jpg,*.png" of those that a pattern fits. None keeps
            what an earlier run has stored.
        update: Index only shards that are new or were changed since the last time, and keep what that was told. New
            shards go where the ratios or patterns of the split say. A shard counts as changed when its size or its
            time of change is another one.
        overwrite: Prepare a dataset that is prepared already. Split and dataset file stay as they are where `split`
            and `sample_type` are None. A split file that somebody wrote into a folder that was never prepared, and
            that does not fit its shards, is replaced.
        index_only: Make only indices anew, of the shards that `.info.json` lists.
        executor: Where shards are indexed: any `concurrent.futures.Executor`, such as the one of a Dask cluster or an
            MPI pool; the workers need this library and the shards under the same path. None takes processes of
            this machine, or none at all for a little data.
        workers: How many of these processes there may be; None for one per core. With an executor: how many workers
            that has.
        progress: Show a bar; None shows it in a terminal.

    Returns:
        What was found and written.

    Raises:
        DuplicateKeysError: Samples of different shards have the same key. Everything is written but what lookup by
            key needs.
        DatasetError: Shards are damaged or compressed, keys come back in a shard, or what was asked for does not fit
            the data. Nothing is written, and all that is wrong is named.
        ValueError: A setting is wrong.
        OSError: Files cannot be read or written.
    """
    root = paths.folder(path)
    if not root:
        raise ValueError("prepare needs the path of a folder or of a .jsonl file, got an empty one")
    if root.endswith(".jsonl"):
        given = {"split": split, "exclude": exclude, "shuffle": shuffle, "sample_type": sample_type}
        given |= {"field_map": field_map, "sample_loader": sample_loader, "part_filter": part_filter}
        given |= {
            "subflavors": subflavors,
            "media": media,
            "index_only": index_only,
            "executor": executor,
            "workers": workers,
        }
        return _prepare_lines(root, [name for name, value in given.items() if value], progress)
    rule = parse_rule(split)
    exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    sample = {
        "field_map": field_map,
        "sample_loader": sample_loader,
        "part_filter": part_filter,
        "subflavors": subflavors,
    }
    if workers is not None:
        check_size("prepare", "workers", workers, 1)
    if not dataset_yaml.endswith(".yaml") or "/" in dataset_yaml:
        raise ValueError(f"dataset_yaml must be the name of a .yaml file in {META_FOLDER}, got {dataset_yaml!r}")
    if dataset_yaml.startswith((".", "index.")) or dataset_yaml in _RESERVED:
        raise ValueError(
            f"dataset_yaml={dataset_yaml!r} is the name of another file of {META_FOLDER}: give the dataset file a "
            "name of its own, such as 'captions.yaml'"
        )
    if update and overwrite:
        raise ValueError("update keeps what did not change, and overwrite makes all of it anew: say one of them")
    work = Work(executor, workers, progress)
    if index_only:
        others = {
            "media": media,
            "split": rule,
            "exclude": exclude,
            "shuffle": shuffle,
            "sample_type": sample_type,
            **sample,
        }
        given = [name for name, value in {**others, "update": update}.items() if value]
        if given:
            raise ValueError(f"index_only leaves all but the indices as it is: leave out {', '.join(given)}")
        return carry_out(plan_indices(root), dataset_yaml, work)
    if is_prepared(root) and not (update or overwrite):
        raise DatasetError(
            f"{root} is prepared already: say update=True to index what changed, overwrite=True to prepare all of it "
            "again, or index_only=True to make its indices anew"
        )
    plan = plan_shards(root, rule, exclude, shuffle, seed, sample_type, sample, dataset_yaml, update, overwrite)
    plan.media = None if media is None else MediaFilter.parse(media)
    prepared = carry_out(plan, dataset_yaml, work)
    if media is None:
        return prepared
    found = prepare_media(root, media=media, workers=workers, executor=executor, progress=progress)
    return replace(prepared, warnings=(*prepared.warnings, *(f"no media metadata: {one}" for one in found.problems)))


def _prepare_lines(path: str, given: list[str], progress: bool | None) -> Prepared:
    if given:
        raise ValueError(
            f"a JSON Lines file has an index and nothing else beside it: leave out {', '.join(given)} (a filter, "
            "a split or a type is put on the pipeline, behind energon_nodes.jsonl)"
        )
    from energon_nodes.recipes.prepare_jsonl import prepare_jsonl  # shards need none of it

    return prepare_jsonl(path, progress=progress)
