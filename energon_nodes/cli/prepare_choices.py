"""What `prepare` is to do: from options or from the assistant, and back to a command line."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import Any, cast

import click

__all__ = ["Choices", "named_patterns", "read_field_map", "read_part_filter"]


@dataclass
class Choices:
    """Hold the choices that `prepare` takes.

    Example:
        >>> Choices("coco", split="8,1,1", sample_type="TextSample", field_map={"text": "txt"}).command()
        'energon-nodes prepare coco --split 8,1,1 --sample-type TextSample --field-map text=txt --yes'

    Args:
        path: The folder or file.
        split: Three numbers as text.
        split_parts: Patterns by name of the part.
        split_file: The path of a split file.
        exclude: Regular expressions of shards that are left out.
        shuffle: Whether shards are mixed before they are divided.
        seed: The seed for this.
        sample_type: The type of the samples.
        field_map: The access for each field.
        sample_loader: `file.py:function` in `.nv-meta`.
        part_filter: `file.py:function`, or the names of parts.
        subflavors: What holds for all samples.
        dataset_yaml: The name of the dataset file.
        media: Which files media metadata are stored of, or None.
        update: Index only what changed.
        overwrite: Prepare again.
        index_only: Make only indices anew.
        workers: The number of processes.
    """

    path: str
    split: str | None = None
    split_parts: dict[str, list[str]] | None = None
    split_file: str | None = None
    exclude: list[str] = field(default_factory=list[str])
    shuffle: bool = False
    seed: int = 42
    sample_type: str | None = None
    field_map: dict[str, str] | None = None
    sample_loader: str | None = None
    part_filter: str | list[str] | None = None
    subflavors: dict[str, Any] | None = None
    dataset_yaml: str = "dataset.yaml"
    media: str | None = None
    update: bool = False
    overwrite: bool = False
    index_only: bool = False
    workers: int | None = None

    @property
    def has_split(self) -> bool:
        """Whether the choices say how shards are divided."""
        return self.split is not None or self.split_parts is not None or self.split_file is not None

    def keywords(self) -> dict[str, Any]:
        """Return the arguments for `energon_nodes.prepare`, without path and progress."""
        return {
            "split": self.split or self.split_parts or self.split_file,
            "exclude": self.exclude,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "sample_type": self.sample_type,
            "field_map": self.field_map,
            "sample_loader": self.sample_loader,
            "part_filter": self.part_filter,
            "subflavors": self.subflavors,
            "dataset_yaml": self.dataset_yaml,
            "media": self.media,
            "update": self.update,
            "overwrite": self.overwrite,
            "index_only": self.index_only,
            "workers": self.workers,
        }

    def command(self) -> str:
        """Return the command line that does the same without asking."""
        words = ["energon-nodes", "prepare", self.path]
        for option, value in (
            ("--split", self.split),
            ("--split-file", self.split_file),
            ("--sample-type", self.sample_type),
            ("--sample-loader", self.sample_loader),
            ("--media", self.media),
            ("--workers", self.workers),
        ):
            words += [option, str(value)] if value is not None else []
        for part, patterns in (self.split_parts or {}).items():
            words += [word for pattern in patterns for word in ("--split-parts", f"{part}:{pattern}")]
        words += [word for pattern in self.exclude for word in ("--exclude", pattern)]
        words += ["--shuffle", "--seed", str(self.seed)] if self.shuffle else []
        words += [
            word for name, access in (self.field_map or {}).items() for word in ("--field-map", f"{name}={access}")
        ]
        if self.part_filter:
            names = [self.part_filter] if isinstance(self.part_filter, str) else self.part_filter
            words += [word for name in names for word in ("--part-filter", name)]
        words += ["--subflavors", json.dumps(self.subflavors)] if self.subflavors else []
        words += ["--dataset-yaml", self.dataset_yaml] if self.dataset_yaml != "dataset.yaml" else []
        words += [
            f"--{name.replace('_', '-')}" for name in ("update", "overwrite", "index_only") if getattr(self, name)
        ]
        return shlex.join([*words, "--yes"])


def named_patterns(entries: tuple[str, ...] | list[str]) -> dict[str, list[str]] | None:
    """Read entries of the form `NAME:PATTERN`; a name that stands twice has both patterns.

    Example:
        >>> named_patterns(["train:a", "val:b", "train:c:d"])
        {'train': ['a', 'c:d'], 'val': ['b']}

    Args:
        entries: The entries.

    Returns:
        The patterns by name, or None for no entries.

    Raises:
        BadParameter: An entry has no colon.
    """
    found: dict[str, list[str]] = {}
    for entry in entries:
        name, colon, pattern = entry.partition(":")
        if not (name and colon and pattern):
            raise click.BadParameter(f"{entry!r} must be written NAME:PATTERN, as in train:train/.*")
        found.setdefault(name, []).append(pattern)
    return found or None


def read_field_map(entries: tuple[str, ...]) -> dict[str, str] | None:
    """Read entries of the form `FIELD=ACCESS`, or JSON objects.

    Example:
        >>> read_field_map(("image=jpg", '{"caption": "json[text]"}'))
        {'image': 'jpg', 'caption': 'json[text]'}

    Args:
        entries: The entries.

    Returns:
        The access by field, or None for no entries.

    Raises:
        BadParameter: An entry has another form.
    """
    found: dict[str, str] = {}
    for entry in entries:
        if entry.lstrip().startswith("{"):
            given = read_json(entry)
            wrong = [name for name, access in given.items() if not isinstance(access, str)]
            if wrong:
                raise click.BadParameter(f"the access of {wrong[0]!r} must be text, got {given[wrong[0]]!r}")
            found |= given
            continue
        name, equals, access = entry.partition("=")
        if not (name and equals and access):
            raise click.BadParameter(f"{entry!r} must be written FIELD=ACCESS, as in caption=json[text], or as JSON")
        found[name] = access
    return found or None


def read_part_filter(entries: tuple[str, ...]) -> str | list[str] | None:
    """Read names of parts, or one `file.py:function`.

    Example:
        >>> read_part_filter(("jpg,json", "txt")), read_part_filter(("filters.py:wanted",))
        (['jpg', 'json', 'txt'], 'filters.py:wanted')

    Args:
        entries: The entries.

    Returns:
        What `prepare` takes, or None for no entries.
    """
    if len(entries) == 1 and entries[0].partition(":")[0].endswith(".py"):
        return entries[0]
    return [name for entry in entries for name in entry.split(",")] or None


def read_json(text: str) -> dict[str, Any]:
    """Read a JSON object.

    Example:
        >>> read_json('{"a": 1}')
        {'a': 1}

    Args:
        text: The text.

    Returns:
        What it holds.

    Raises:
        BadParameter: It is no JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.BadParameter(f"{text!r} is no JSON object")
    return cast("dict[str, Any]", value)
