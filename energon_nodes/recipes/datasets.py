"""`dataset`: the samples of a prepared dataset as its `dataset.yaml` describes them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from energon_nodes.combinators.decode import decode
from energon_nodes.combinators.map import Map
from energon_nodes.core.errors import DatasetError, TrustError
from energon_nodes.core.node import Node
from energon_nodes.core.share import ErrorPolicy
from energon_nodes.samples.field_map import FieldMap
from energon_nodes.samples.image_modes import ImageModeName
from energon_nodes.samples.images import Backend
from energon_nodes.samples.pixels import Filter
from energon_nodes.samples.sample import CrudeSample
from energon_nodes.samples.type_names import resolve_type
from energon_nodes.samples.typed import SampleLoader
from energon_nodes.sources.jsonl import jsonl
from energon_nodes.sources.shards import shards
from energon_nodes.sources.subset import Bound
from energon_nodes.storage import paths
from energon_nodes.storage.dataset_config import BesideData, DatasetConfig, read_dataset_config
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.metadata import info_file
from energon_nodes.storage.user_code import UserFunction, trusted_function

__all__ = ["dataset", "sample_maker"]

T = TypeVar("T")


def dataset(
    path: PathLike,
    *,
    split: str | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    trust: bool = False,
    subflavors: Mapping[str, Any] | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    sequence_length: int | None = None,
    parallel_sequences: int | None = None,
    shuffle_epochs: int = 1,
    subset: tuple[Bound, Bound] | None = None,
    fixed_epoch: bool = False,
    image: ImageModeName | None = "torchrgb",
    resize: tuple[int, int] | None = None,
    filter: Filter = "bicubic",
    scaled: bool = False,
    exif: bool = False,
    guess_content: bool = False,
    handlers: Mapping[str, Callable[[bytes], Any]] | Callable[[str, bytes], Any] | None = None,
    backend: Backend = "auto",
    on_error: ErrorPolicy | None = None,
) -> Node[Any]:
    r"""Deliver the samples of a prepared dataset, decoded and of the type that its `dataset.yaml` names.

    It is `shards(...).decode(...).map(...)`: only the parts that the type needs are read, and the field map or the
    sample loader of the dataset makes the samples. To shuffle encoded samples in a buffer, or to decode in threads,
    write that chain with a `FieldMap`.

    A `.jsonl` file needs no dataset file: its records are crude samples with the object under `json`, as in `jsonl`.

    Example:
        >>> import energon_nodes as en, io, pathlib, tarfile, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name)
        >>> with tarfile.open(path / "0.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        ...     member = tarfile.TarInfo("a.txt")
        ...     member.size = 5
        ...     archive.addfile(member, io.BytesIO(b"a cat"))
        >>> _ = (path / "0.tar.idx").write_bytes(bytes(8) + (1024).to_bytes(8, "little"))
        >>> (path / ".nv-meta").mkdir()
        >>> _ = (path / ".nv-meta" / ".info.json").write_text('{"shard_counts": {"0.tar": 1}}')
        >>> _ = (path / ".nv-meta" / "split.yaml").write_text("split_parts: {train: [0.tar]}")
        >>> _ = (path / ".nv-meta" / "dataset.yaml").write_text(
        ...     "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
        ... )
        >>> sample = next(en.dataset(folder.name, split="train"))
        >>> type(sample).__name__, sample.text
        ('TextSample', 'a cat')
        >>> folder.cleanup()

    Args:
        path: The folder or URL of the dataset, or a JSON Lines file whose name ends with `.jsonl`.
        split: The split part; by default the one that the dataset file lays down, or "train".
        dataset_config: The file in `.nv-meta` that says what the samples are; by default `dataset.yaml`.
        split_config: The split file in `.nv-meta`; by default `split.yaml`, or `split.json`.
        trust: Run Python that lies beside the data, import modules that the dataset names, and load pickled parts.
        subflavors: What holds for all samples, over what the dataset file says.
        shuffle: Whether each pass has another random order.
        seed: A seed for the order; None takes the one of the loader.
        sequence_length: How many neighbours stay together under `shuffle`; None: as the dataset file says, else as
            for `shards`.
        parallel_sequences: How many sequences are read side by side; None: as the dataset file says, or 1.
        shuffle_epochs: How many epochs are shuffled together, as in `shards`.
        subset: Two bounds that cut the samples of the split, as in `shards`.
        fixed_epoch: Whether every pass repeats the same order, for validation.
        image: The kind of image, as in `decode`: "torchrgb" is float32 in 0..1, 3 x height x width, as
            Megatron-Energon gives; "torchrgb8" takes a quarter of the memory.
        resize: Height and width to resize images to while decoding, or None.
        filter: The filter of the resize.
        scaled: Decode large JPEGs at a smaller scale, towards the size to resize to.
        exif: Turn images upright as their EXIF orientation says.
        guess_content: Look at the first bytes of each part, whatever its name says.
        handlers: Decoders that come before the built-in ones, as in `decode`.
        backend: What decodes colour JPEGs: "auto", "pillow" or "simplejpeg".
        on_error: What happens to a sample that cannot be read, decoded or mapped: "raise", "skip" or
            `callable(error, key)`; None takes the loader's.

    Returns:
        A node of samples of the dataset's type, or of `CrudeSample` dicts with decoded parts for crude datasets.

    Raises:
        DatasetError: The metadata are wrong, or the field map does not fill what the type needs.
        TrustError: The dataset needs code that comes with it, and `trust` is False.
        ValueError: A setting is out of its range.
    """
    root = paths.folder(path)
    if root.endswith(".jsonl"):
        _refuse_for_lines(
            root,
            split=split,
            dataset_config=dataset_config,
            split_config=split_config,
            image=image if image != "torchrgb" else None,
            resize=resize,
            scaled=scaled,
            exif=exif,
            guess_content=guess_content,
            handlers=handlers,
        )
        lines = jsonl(
            os.fspath(path),
            shuffle=shuffle,
            seed=seed,
            sequence_length=sequence_length,
            parallel_sequences=parallel_sequences or 1,
            shuffle_epochs=shuffle_epochs,
            subset=subset,
            fixed_epoch=fixed_epoch,
            on_error=on_error,
        )
        return Map(lines, ToCrude(subflavors), on_error=on_error)
    info_file(root)
    config = read_dataset_config(root, dataset_config)
    for key, remedy in config.unused.items():
        warnings.warn(f"{config.place} has the key {key!r}, which has no effect here: {remedy}", stacklevel=2)
    laid_down = config.settings
    make, parts = sample_maker(config, trust, {**config.subflavors, **(subflavors or {})})
    source = shards(
        os.fspath(path),
        split=_agreed(config, "split_part", "split", split),
        split_config=_agreed(config, "split_config", "split_config", split_config),
        subset=_agreed(config, "subset", "subset", subset, _subset),
        shuffle=shuffle,
        seed=seed,
        sequence_length=sequence_length or laid_down.get("max_samples_per_sequence"),
        parallel_sequences=parallel_sequences or laid_down.get("parallel_shard_iters") or 1,
        shuffle_epochs=shuffle_epochs,
        parts=parts,
        fixed_epoch=fixed_epoch,
        on_error=on_error,
    )
    decoded = decode(
        source,
        image=image,
        resize=resize,
        filter=filter,
        scaled=scaled,
        exif=exif,
        guess_content=guess_content,
        handlers=handlers,
        trust=trust,
        backend=backend,
        on_error=on_error,
    )
    return Map(decoded, make, on_error=on_error)


class ToCrude:
    """Make a crude sample of a dict of decoded parts.

    Args:
        subflavors: What holds for all samples; None where nothing was said.

    Example:
        >>> ToCrude({"language": "en"})({"__key__": "a", "txt": "fine"})["__subflavors__"]
        {'language': 'en'}
    """

    def __init__(self, subflavors: Mapping[str, Any] | None) -> None:
        self._subflavors = None if subflavors is None else dict(subflavors)

    def __repr__(self) -> str:
        return "CrudeSample"

    def __call__(self, sample: dict[str, Any]) -> CrudeSample:
        """Return the crude sample."""
        subflavors = None if self._subflavors is None else self._subflavors.copy()
        return CrudeSample({"__restore_key__": (), **sample, "__subflavors__": subflavors})


def _refuse_for_lines(root: str, **settings: Any) -> None:
    given = [f"{name}={value!r}" for name, value in settings.items() if value not in (None, False)]
    if given:
        raise DatasetError(
            f"{root} is a JSON Lines file, which has no splits, no dataset file and nothing to decode: leave out "
            f"{', '.join(given)}; subset= takes a part of the records"
        )


def sample_maker(
    config: DatasetConfig, trust: bool, subflavors: Mapping[str, Any]
) -> tuple[Callable[[dict[str, Any]], Any], tuple[str, ...] | UserFunction | None]:
    """Return what makes the samples that a dataset file describes, and which parts it needs.

    Example:
        >>> make, parts = sample_maker(DatasetConfig("dataset.yaml", crude=True), False, {"language": "en"})
        >>> make({"__key__": "a", "txt": "fine"})["__subflavors__"], parts
        ({'language': 'en'}, None)

    Args:
        config: What the dataset file says.
        trust: Whether Python that lies beside the data may run.
        subflavors: What holds for all samples.

    Returns:
        A function from a dict of decoded parts to a sample, and the names of the parts or a function that tells
        whether a part is needed; None for all.

    Raises:
        DatasetError: The file says what cannot be.
        TrustError: The samples need code that comes with the data, and `trust` is False.
    """
    parts = config.part_filter
    chosen = _function(parts, config, trust, "part_filter") if isinstance(parts, BesideData) else parts
    if config.sample_type is None:
        return ToCrude(subflavors), chosen
    try:
        sample_type = resolve_type(*config.sample_type, trust=trust)
        if config.field_map is not None:
            mapped = FieldMap(sample_type, config.field_map, subflavors)
            return mapped, mapped.parts
        load = _function(cast("BesideData", config.sample_loader), config, trust, "sample_loader")
        return SampleLoader(sample_type, load, subflavors), chosen
    except TrustError as error:
        raise TrustError(f"{config.place}: {error}") from None
    except DatasetError as error:
        raise DatasetError(f"{config.place}: {error}") from error.__cause__


def _function(beside: BesideData, config: DatasetConfig, trust: bool, key: str) -> UserFunction:
    return trusted_function(beside.path, beside.name, trust=trust, reason=f"the {key} of {config.place}")


def _agreed(
    config: DatasetConfig, key: str, argument: str, given: T | None, read: Callable[[str, Any], T] | None = None
) -> T | None:
    """Return what argument and dataset file say, and refuse two different answers."""
    if key not in config.settings:
        return given
    laid_down = config.settings[key]
    if read is not None:
        laid_down = read(config.place, laid_down)
    if given is not None and given != laid_down:
        raise DatasetError(
            f"{config.place} lays down {key}: {laid_down!r}, so {argument}={given!r} cannot be had: leave out "
            f"{argument}, or remove {key} from the file"
        )
    return laid_down


def _subset(place: str, value: Any) -> tuple[Bound, Bound]:
    bounds = cast("dict[str, Any]", value).get("range") if isinstance(value, dict) else None
    if not isinstance(bounds, list) or len(cast("list[Any]", bounds)) != 2:
        raise DatasetError(
            f"{place}: subset must be written {{range: [0%, 50%]}} or {{range: [0, 100]}}, got {value!r}"
        )
    return cast("tuple[Bound, Bound]", tuple(cast("list[Any]", bounds)))
