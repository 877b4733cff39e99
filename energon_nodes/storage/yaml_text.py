"""YAML as the files of datasets use it: a safe dialect in which few words have a meaning of their own."""

from __future__ import annotations

import re
from typing import Any, cast

import yaml  # pyright: ignore[reportMissingModuleSource]

__all__ = ["parse_yaml"]


def parse_yaml(text: str) -> Any:
    r"""Parse YAML.

    Datasets are shared with Megatron-Energon, which reads a reduced dialect. What it reads as text, whole numbers,
    numbers, truth values and nothing is that here too:

    | written | value |
    |---|---|
    | `yes`, `no`, `true`, `false`, in any case | bool |
    | `null`, `~`, nothing at all | None |
    | `010`, `1_000`, `-3` | 10, 1000, -3 |
    | `1.5`, `1e3` | float |
    | `on`, `off`, `0x10`, `.inf`, `2020-01-31`, `1:30` | text |
    | keys of mappings | text |

    Where it reads what nobody can have meant, or fails, this follows YAML: aliases and merge keys stand for what they
    name, the tags `!!str`, `!!int`, `!!float`, `!!bool` and `!!null` count, and an empty value is None. Other tags and
    a key that stands twice are errors.

    Example:
        >>> parse_yaml("a: on\n010: 010\nb: [yes, ~, 2020-01-31]")
        {'a': 'on', '010': 10, 'b': [True, None, '2020-01-31']}

    Args:
        text: The content of a file.

    Returns:
        Dicts, lists, and values.

    Raises:
        ValueError: The text is no YAML; the message has line and column.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - this class's own, in place of the inherited ones

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep)
        own = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE]
        twice = next((key for number, key in enumerate(own) if key in own[:number]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} stands twice", node.start_mark)
        self.flatten_mapping(node)
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
        construct = cast("Any", self).construct_object
        return {key.value: construct(value, deep=deep) for key, value in node.value}


_MERGE = "tag:yaml.org,2002:merge"
_FORMS = {
    "bool": (r"yes|no|true|false", "yYnNtTfF"),
    "null": (r"~|null|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+(?:_[0-9]+)*", "-+0123456789"),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:e[-+]?[0-9]+)?", "-+.0123456789"),
    "merge": (r"<<", "<"),
}


def _bool(loader: Any, node: Any) -> bool:
    word = str(loader.construct_scalar(node)).lower()
    if word not in ("yes", "true", "no", "false"):
        raise yaml.constructor.ConstructorError(None, None, f"{word!r} is no truth value", node.start_mark)
    return word in ("yes", "true")


def _number(kind: type[int] | type[float]) -> Any:
    def construct(loader: Any, node: Any) -> int | float:
        word = str(loader.construct_scalar(node))
        try:
            return kind(word.replace("_", ""))
        except ValueError:
            raise yaml.constructor.ConstructorError(None, None, f"{word!r} is no number", node.start_mark) from None

    return construct


for _name, (_form, _first) in _FORMS.items():
    cast("Any", _Loader).add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_form})$", re.IGNORECASE), list(_first)
    )
for _name, _construct in (("bool", _bool), ("int", _number(int)), ("float", _number(float))):
    cast("Any", _Loader).add_constructor(f"tag:yaml.org,2002:{_name}", _construct)
