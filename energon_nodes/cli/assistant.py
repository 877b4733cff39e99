"""The assistant of `prepare`: show the data, ask what is not said yet, with sensible answers preset."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, make_dataclass
from itertools import islice
from typing import Any, TypeVar, cast

import click

from energon_nodes.cli.fields import described_value
from energon_nodes.cli.guesses import guess_field, guess_split, guess_type, has_media
from energon_nodes.cli.peek import Glance, peek
from energon_nodes.cli.prepare_choices import Choices, named_patterns
from energon_nodes.cli.preview import sample_lines
from energon_nodes.cli.printing import columns, plain_text, readable_size
from energon_nodes.cli.showing import MOST_BYTES
from energon_nodes.cli.wording import for_command
from energon_nodes.core.errors import DatasetError, EnergonNodesError
from energon_nodes.core.spelling import did_you_mean
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.field_map import FieldMap, parse_access
from energon_nodes.samples.media import MediaFilter
from energon_nodes.samples.type_names import SAMPLE_TYPES, import_type
from energon_nodes.samples.typed import Typed
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import Found, find_shards
from energon_nodes.storage.metadata import META_FOLDER, is_prepared, split_file
from energon_nodes.storage.splits import parse_rule

__all__ = ["ask"]

T = TypeVar("T")

_LOOKED_AT = 3
_KEEP = "keep"
_NOT_OFFERED = ("Sample", "CrudeSample")  # the first is empty, the second is called crude


def ask(choices: Choices) -> None:
    """Ask for what the choices do not say yet, and fill it in.

    Args:
        choices: What the options say; gets the answers.

    Raises:
        Abort: The user does not want to go on.
        DatasetError: There is nothing to prepare.
    """
    found = find_shards(choices.path)
    again = is_prepared(choices.path)
    if again and not (choices.update or choices.overwrite or choices.index_only):
        _ask_again(choices)
    if not (choices.update or choices.index_only):
        glances = _show_data(found)
        samples = _decoded(glances)
        parts = list(dict.fromkeys(part.name for glance in glances for part in glance.parts))
        if not choices.has_split:
            _ask_split(choices, found.names, again or paths.exists(split_file(choices.path)))
        if choices.sample_type is None:
            named = paths.join(paths.folder(choices.path), f"{META_FOLDER}/{choices.dataset_yaml}")
            _ask_type(choices, parts, samples, again or paths.exists(named))
        elif not _is_crude(choices.sample_type) and choices.field_map is None and choices.sample_loader is None:
            _ask_fields(choices, _class_of(choices.sample_type), samples)
        if choices.media is None and has_media(parts):
            _say("\nMedia metadata are width, height and format of pictures, and the length of audio and video.")
            choices.media = _asked("Store them?", "no", _media)
    _show_choices(choices)
    if not click.confirm("\nGo on?", default=True):
        raise click.Abort


def _say(text: str) -> None:
    click.echo(text)


def _complain(text: str) -> None:
    click.secho(f"  {plain_text(text)}", fg="yellow")


def _ask_again(choices: Choices) -> None:
    _say(f"{click.style(plain_text(choices.path), bold=True)} is prepared already.")
    _say("  1  update: index only shards that are new or changed, keep the rest")
    _say("  2  overwrite: prepare all of it again")
    _say("  3  stop")
    answer = _asked("What shall be done?", "1", _one_of({"1": "update", "2": "overwrite", "3": "stop"}))
    if answer == "stop":
        raise click.Abort
    setattr(choices, answer, True)


def _media(text: str) -> str | None:
    answer = text.strip().lower()
    if answer in ("n", "no"):
        return None
    if answer in ("y", "yes"):
        return "extension"
    try:
        return str(MediaFilter.parse(text.strip()))
    except ValueError as error:
        raise ValueError(f"{text!r} is neither yes nor no, nor what --media takes: {for_command(str(error))}") from None


def _one_of(answers: dict[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = answers.get(text.strip().lower(), text.strip().lower())
        if found not in answers.values():
            raise ValueError(f"{text!r} is none of {', '.join([*answers, *answers.values()])}")
        return found

    return read


def _asked(question: str, preset: str | None, read: Callable[[str], T]) -> T:
    """Ask until the answer can be read; tell why it cannot."""
    while True:
        text: str = click.prompt(question, default=preset or "", show_default=bool(preset))
        try:
            return read(text)
        except (ValueError, EnergonNodesError, click.BadParameter) as error:
            _complain(for_command(error.message if isinstance(error, click.BadParameter) else str(error)))


def _show_data(found: Found) -> list[Glance]:
    """Show the shards and the first samples of the first one."""
    sizes = sum(paths.size(paths.join(found.root, name)) for name in found.names)
    _say(f"\n{len(found.names):,} shards, {readable_size(sizes)}: {plain_text(_some(found.names))}")
    _say(f"The first samples of {plain_text(found.names[0])}:\n")
    glances = list(islice(peek(paths.join(found.root, found.names[0])).samples, _LOOKED_AT))
    for glance in glances:
        for line in sample_lines(glance):
            _say(line)
    return [glance for glance in glances if glance.error is None]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, … {names[-1]}"


def _decoded(glances: Sequence[Glance]) -> list[dict[str, Any]]:
    """Return the samples as far as their parts can be decoded."""
    decoder = Decoder(image="torchrgb8")
    samples: list[dict[str, Any]] = []
    for glance in glances:
        sample: dict[str, Any] = {"__key__": glance.key, "__shard__": glance.shard}
        for part in glance.parts:
            data = glance.read(part, MOST_BYTES)
            try:
                sample[part.name] = decoder({part.name: data})[part.name]
            except EnergonNodesError:  # shown above; lint names all of them
                sample[part.name] = data
        samples.append(sample)
    return samples


def _ask_split(choices: Choices, names: Sequence[str], again: bool) -> None:
    _say("\nThe split divides the shards into train, val and test: three numbers such as 8,1,1; or patterns by name,")
    _say("such as train:train/ val:val/, which are regular expressions for the beginning of a shard's name; or a file.")
    preset = _KEEP if again else guess_split(names)

    def read(text: str) -> None:
        text = text.strip()
        if again and text == _KEEP:
            return
        if re.match(r"[^\W\d][\w-]*:", text):
            patterns = named_patterns(text.split())
            rule = parse_rule(patterns)
            choices.split_parts = patterns
        else:
            rule = parse_rule(text)
            is_file = text.endswith((".yaml", ".json"))
            choices.split, choices.split_file = (None, text) if is_file else (text, None)
        try:
            counts = rule.divide(list(names)).counts if rule is not None else {}
        except DatasetError:
            choices.split = choices.split_parts = choices.split_file = None
            raise
        _say("  " + ", ".join(f"{plain_text(part)}: {count:,} shards" for part, count in counts.items()))

    _asked("Split", preset, read)


def _ask_type(choices: Choices, parts: Sequence[str], samples: Sequence[dict[str, Any]], again: bool) -> None:
    _say("\nWhat are the samples?")
    offered = [name for name in SAMPLE_TYPES if name not in _NOT_OFFERED]
    rows = [["0", "crude", "dicts of parts, for functions of your own"]]
    for number, name in enumerate(offered, 1):
        rows.append([str(number), name, _fields_in_short(SAMPLE_TYPES[name])])
    for line in columns(rows, right=[0]):
        _say(f"  {line}")
    _say("Give a number, a name, or the path of a type of your own (package.module:Class).")
    numbers = {str(number): name for number, name in enumerate(["crude", *offered])}
    guessed = guess_type(parts, _keys_inside(samples))

    def read(text: str) -> tuple[str, type[Any] | None]:
        name = numbers.get(text.strip(), text.strip())
        return (name, None) if _is_crude(name) or (again and name == _KEEP) else (name, _class_of(name))

    name, kind = _asked("Sample type", _KEEP if again else guessed, read)
    if name == _KEEP:
        return
    choices.sample_type = name
    if kind is not None:
        _ask_fields(choices, kind, samples)


def _keys_inside(samples: Sequence[dict[str, Any]]) -> set[str]:
    """Return the keys of the parts that are mappings."""
    first: dict[str, Any] = samples[0] if samples else {}
    values = [cast("dict[str, Any]", value) for value in first.values() if isinstance(value, dict)]
    return {key for value in values for key in value}


def _is_crude(name: str) -> bool:
    return name.lower() in ("crude", "crudesample", "crudewebdataset")


def _class_of(name: str) -> type[Any]:
    if ":" in name:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as for `python -m`
        return import_type(name)
    if name not in SAMPLE_TYPES:
        raise ValueError(f"there is no sample type {name!r}{did_you_mean(name, SAMPLE_TYPES)}")
    return SAMPLE_TYPES[name]


def _own_fields(kind: type[Any]) -> list[str]:
    return [name for name in Typed(kind).open_names if name[:2] != "__"]


def _optional(kind: type[Any]) -> set[str]:
    return {
        field.name for field in fields(kind) if field.default is not MISSING or field.default_factory is not MISSING
    }


def _fields_in_short(kind: type[Any]) -> str:
    optional = _optional(kind)
    needed = [name for name in _own_fields(kind) if name not in optional]
    more = len(_own_fields(kind)) - len(needed)
    if len(needed) + more <= 3:
        return ", ".join(_own_fields(kind))
    return ", ".join(needed) + f", and {more} that may be missing"


def _ask_fields(choices: Choices, kind: type[Any], samples: Sequence[dict[str, Any]]) -> None:
    _say(f"\nWhere do the fields of {kind.__name__} lie? A part (jpg), a value inside (json[caption], json[boxes][0]),")
    _say("or alternatives with commas between (txt,json[caption]). Nothing for fields that may be missing.")
    optional = _optional(kind)
    mapped: dict[str, str] = {}
    for name in _own_fields(kind):
        refused: list[str] = []

        def read(text: str, name: str = name, refused: list[str] = refused) -> str:
            if not text and name in optional:
                return ""
            if not text:
                raise ValueError(f"{kind.__name__} needs the field {name!r}")
            if text not in refused or _looks_inside(text, samples):
                refused.append(text)
                _say(f"  {plain_text(_tried(kind, name, text, samples))}")
            return text

        may = " (may be missing)" if name in optional else ""
        access = _asked(f"{name}{may}", guess_field(name, samples), read)
        if access:
            mapped[name] = access
    choices.field_map = mapped


def _looks_inside(access: str, samples: Sequence[dict[str, Any]]) -> bool:
    """Tell whether an access looks into a part that a sample has."""
    return any(one.keys and one.part in sample for one in parse_access(access) for sample in samples)


def _tried(kind: type[Any], name: str, access: str, samples: Sequence[dict[str, Any]]) -> str:
    """Return what a field of the first samples would hold; raise a ValueError where none of them has it."""
    parse_access(access)
    alone: FieldMap[Any] = FieldMap(make_dataclass(kind.__name__, [name]), {name: access})
    problem = ""
    for sample in samples:
        try:
            return f"→ {described_value(getattr(alone(sample), name))}"
        except EnergonNodesError as error:
            problem = problem or str(error).partition(". Correct the field map")[0]
    if problem and _looks_inside(access, samples):  # prepare refuses it too
        raise ValueError(problem)
    if problem:
        raise ValueError(f"{problem}. The same answer again keeps it nevertheless")
    return "(not tried: no sample could be read)"


def _show_choices(choices: Choices) -> None:
    _say("\nThis will be done:")
    rows = [["dataset", choices.path]]
    if choices.update or choices.index_only:
        rows.append(["indices", "of what is new or changed" if choices.update else "all anew"])
    else:
        split = choices.split or choices.split_file or choices.split_parts
        rows.append(["split", "as it is" if split is None else str(split)])
        rows.append(["sample type", choices.sample_type or "as it is"])
        rows += [["", f"{name} ← {access}"] for name, access in (choices.field_map or {}).items()]
        rows.append(["media metadata", choices.media or "none"])
    rows.append(["written", f"{META_FOLDER}/ and a .tar.idx beside each shard"])
    for line in columns(rows):
        _say(f"  {plain_text(line)}")
    _say(f"\nThe same without questions:\n  {click.style(plain_text(choices.command()), fg='cyan')}")
