"""What `dataset.yaml` says: of which type the samples are, and how their fields are filled."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import did_you_mean, listed
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import META_FOLDER

__all__ = ["BesideData", "DatasetConfig", "Reference", "read_dataset_config"]

_SETTINGS = frozenset({"split_part", "split_config", "subset", "max_samples_per_sequence", "parallel_shard_iters"})
_ELSEWHERE = {
    "decoder": "say image=, handlers= and so on where the dataset is opened",
    "path": "open the dataset under that path",
    "training": "say shuffle= where the dataset is opened",
    "shuffle_over_epochs": "say shuffle= where the dataset is opened",
}
_KEYS = frozenset({"sample_type", "field_map", "sample_loader", "part_filter", "subflavors"}) | _SETTINGS
_PER_TYPE = "Webdataset"  # TextWebdataset is an older way to say TextSample


class Reference(NamedTuple):
    """Name a class of a module.

    Example:
        >>> str(Reference("megatron.energon", "TextSample"))
        'megatron.energon:TextSample'

    Args:
        module: The name of the module.
        name: The name of the class in it.
    """

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


class BesideData(NamedTuple):
    """Name a function of a Python file in the metadata folder.

    Example:
        >>> BesideData("/data/coco/.nv-meta/sample_loader.py", "sample_loader").name
        'sample_loader'

    Args:
        path: The file.
        name: The function in it.
    """

    path: str
    name: str


@dataclass(frozen=True)
class DatasetConfig:
    """Hold what a dataset file says, checked as far as that can be done without the types.

    Example:
        >>> DatasetConfig("dataset.yaml", crude=True).field_map is None
        True

    Args:
        place: The path of the file, for messages.
        crude: Whether the samples stay dicts of parts.
        sample_type: Their type otherwise.
        field_map: The access for each field; exclusive with `sample_loader`.
        sample_loader: Makes the fields of the decoded parts.
        part_filter: The names of the parts to read, or a function that tells of a name whether it is one; None for
            all, or for those that the field map needs.
        subflavors: What holds for all samples.
        settings: What else the file lays down: `split_part`, `split_config`, `subset`, `max_samples_per_sequence`,
            `parallel_shard_iters`.
        unused: Keys that have no effect in this library, with what to do instead.
    """

    place: str
    crude: bool = False
    sample_type: Reference | None = None
    field_map: dict[str, str] | None = None
    sample_loader: BesideData | None = None
    part_filter: tuple[str, ...] | BesideData | None = None
    subflavors: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    unused: dict[str, str] = field(default_factory=dict[str, str])


def read_dataset_config(root: str, config: str | None = None) -> DatasetConfig:
    r"""Read the file that says what the samples of a dataset are.

    Example:
        >>> from energon_nodes.storage.remote import filesystem
        >>> text = b"sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
        >>> filesystem("memory://")[0].pipe("/typed/.nv-meta/dataset.yaml", text)
        >>> config = read_dataset_config("memory://typed")
        >>> config.sample_type, config.field_map
        (Reference(module='megatron.energon', name='TextSample'), {'text': 'txt'})

    Args:
        root: The folder of the dataset.
        config: The file in `.nv-meta` to read, `dataset.yaml` by default.

    Returns:
        Its content.

    Raises:
        DatasetError: The file does not exist, or says what cannot be.
    """
    place = _inside(root, config or "dataset.yaml", "dataset_config", (".yaml", ".json"))
    content = _content(place)
    crude, sample_type = _factory(place, content)
    keys = {key: value for key, value in content.items() if key not in ("__module__", "__class__")}
    for key in keys:
        if key not in _KEYS and key not in _ELSEWHERE:
            raise DatasetError(f"{place} has the unknown key {key!r}{did_you_mean(key, sorted(_KEYS))}")
    for key in ("decoder", "path"):  # they would change the samples
        if key in keys:
            raise DatasetError(f"{place} has the key {key!r}, which is not read here: {_ELSEWHERE[key]}, and remove it")
    if "sample_type" in keys:
        if crude or sample_type is not None:
            raise DatasetError(f"{place} has both a __class__ and a sample_type; remove one of them")
        sample_type = _reference(place, "sample_type", keys["sample_type"])
    if not crude and sample_type is None:
        raise DatasetError(
            f"{place} says of which type the samples are in none of the known ways: write 'sample_type: "
            "{__module__: megatron.energon, __class__: TextSample}', or for crude samples '__module__: "
            "megatron.energon' and '__class__: CrudeWebdataset'"
        )
    field_map, sample_loader, part_filter = _filling(place, root, keys, crude)
    return DatasetConfig(
        place,
        crude,
        sample_type,
        field_map,
        sample_loader,
        part_filter,
        _mapping(place, "subflavors", keys.get("subflavors") or {}),
        {key: value for key, value in keys.items() if key in _SETTINGS},
        {key: _ELSEWHERE[key] for key in keys if key in _ELSEWHERE},
    )


def _content(place: str) -> dict[str, Any]:
    try:
        text = paths.read_text(place)
    except FileNotFoundError:
        raise DatasetError(
            f"{place} does not exist: it says of which type the samples are. Write it, name another file in "
            f"{META_FOLDER} with dataset_config=, or read the raw parts with energon_nodes.shards"
        ) from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place} is not UTF-8 text: {error}") from error
    from energon_nodes.storage.yaml_text import parse_yaml  # PyYAML costs 15 ms that most programs need not pay

    try:
        content: Any = json.loads(text) if place.endswith(".json") else parse_yaml(text)
    except ValueError as error:
        raise DatasetError(f"{place} cannot be parsed: {error}") from error
    return _mapping(place, "the file", content)


def _factory(place: str, content: dict[str, Any]) -> tuple[bool, Reference | None]:
    """Return whether the samples are crude, and their type where the class of the dataset says it."""
    if "__function__" in content:
        raise DatasetError(
            f"{place} lets the function {content['__function__']!r} make the dataset, which only Megatron-Energon can "
            "use: give the sample_type with a field_map or sample_loader, or use energon_nodes.shards(...).map(...)"
        )
    if "__class__" not in content:
        return False, None
    module, name = _reference(place, "the file", {key: content.get(key) for key in ("__module__", "__class__")})
    if module == "energon_nodes" or module.startswith("megatron.energon"):
        if name == "CrudeWebdataset":
            return True, None
        if name == "StandardWebdatasetFactory":
            return False, None
        if name.endswith(_PER_TYPE):
            return False, Reference(module, name.removesuffix(_PER_TYPE) + "Sample")
    raise DatasetError(
        f"{place} names the class {module}:{name} for the dataset, which is not known here: give the sample_type with "
        "a field_map or sample_loader, or '__class__: CrudeWebdataset'"
    )


def _filling(
    place: str, root: str, keys: dict[str, Any], crude: bool
) -> tuple[dict[str, str] | None, BesideData | None, tuple[str, ...] | BesideData | None]:
    """Return field map, sample loader and part filter, of which only certain ones go together."""
    has_map, has_loader, has_filter = (key in keys for key in ("field_map", "sample_loader", "part_filter"))
    if crude and (has_map or has_loader):
        raise DatasetError(
            f"{place} has a {'field_map' if has_map else 'sample_loader'} for crude samples, which have no fields; "
            "remove it, or give a sample_type in place of the __class__"
        )
    if not crude and has_map == has_loader:
        raise DatasetError(
            f"{place} needs either a field_map or a sample_loader, and has {'both' if has_map else 'neither'}"
        )
    if has_map and has_filter:
        raise DatasetError(f"{place} has a part_filter beside the field_map, which says itself what is read; remove it")
    if has_loader and not has_filter:
        raise DatasetError(
            f"{place} has a sample_loader and no part_filter: list the parts that it uses, as in 'part_filter: [jpg, "
            "json]'"
        )
    fields: dict[str, str] | None = None
    if has_map:
        fields = _mapping(place, "field_map", keys["field_map"])
        for name, access in fields.items():
            if not isinstance(access, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DatasetError(f"{place}: field_map has {name}: {access!r}, which is not text; put it in quotes")
    loader = _beside(place, root, "sample_loader", keys["sample_loader"]) if has_loader else None
    return fields, loader, _part_filter(place, root, keys["part_filter"]) if has_filter else None


def _part_filter(place: str, root: str, value: Any) -> tuple[str, ...] | BesideData:
    if not isinstance(value, list):
        return _beside(place, root, "part_filter", value)
    for name in cast("list[Any]", value):
        if not isinstance(name, str):
            raise DatasetError(f"{place}: part_filter lists {name!r}, which is not text; put it in quotes")
    return tuple(cast("list[str]", value))


def _beside(place: str, root: str, key: str, value: Any) -> BesideData:
    if not isinstance(value, str) or not value:
        more = " or a list of parts" if key == "part_filter" else ""
        raise DatasetError(f"{place}: {key} must be written file.py:function{more}, got {value!r}")
    file, _, name = value.partition(":")
    return BesideData(_inside(root, file, f"{place}: {key}", (".py",)), name or key)


def _reference(place: str, key: str, value: Any) -> Reference:
    given: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    module, name = given.get("__module__"), given.get("__class__")
    if not (isinstance(module, str) and isinstance(name, str)) or len(given) > 2:
        raise DatasetError(
            f"{place}: {key} must name a class, as in {{__module__: megatron.energon, __class__: TextSample}}, "
            f"got {value!r}"
        )
    return Reference(module, name)


def _mapping(place: str, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DatasetError(f"{place}: {what} must hold a mapping, got {value!r}")
    return cast("dict[str, Any]", value)


def _inside(root: str, name: str, what: str, endings: tuple[str, ...]) -> str:
    """Return the path of a file in the metadata folder, and of no file elsewhere."""
    if not name.endswith(endings):
        raise DatasetError(f"{what} must name a file that ends with {listed(endings)}, got {name!r}")
    if name.startswith("/") or "\\" in name or "://" in name or ".." in name.split("/"):
        raise DatasetError(f"{what} must name a file inside {META_FOLDER}, got {name!r}")
    return paths.join(root, f"{META_FOLDER}/{name}")
