"""Write the signatures of the verbs for editors and type checkers: `python -m energon_nodes.core.verb_stub`.

The verbs are written once, on the node classes. This reads their source text: fields, typed
`__init__` overloads, and functions that `add_verb` has registered. `--check` writes nothing and
fails if `_verbs.pyi` differs from what would be written.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from energon_nodes.core import verbs
from energon_nodes.core.annotations import Names, SourceFile

__all__ = ["STUB", "main", "stub_text"]

STUB = Path(__file__).with_name("_verbs.pyi")
"""The file that is written."""

_PACKAGE = verbs.__name__.partition(".")[0]
_WIDTH = 120
_HEAD = '''\
"""The signatures of the verbs: made by `python -m energon_nodes.core.verb_stub`, never edited."""
'''

_file = cache(SourceFile)


def main(arguments: list[str]) -> None:
    """Write the stub, or with `--check` exit with a message if the one on disk is stale.

    Raises:
        SystemExit: If the stub is stale, or the arguments are not understood.
    """
    if arguments not in ([], ["--check"]):
        raise SystemExit(f"verb_stub takes no argument or --check, got {' '.join(arguments)}")
    text = stub_text()
    if not arguments:
        STUB.write_text(text, encoding="utf-8")
    elif not STUB.exists() or STUB.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{STUB.name} is stale: run python -m {_PACKAGE}.core.verb_stub")


def stub_text() -> str:
    """Return the stub of all verbs that the package itself defines.

    Example:
        >>> "def limit(self: Verbs[X], n: int) -> Node[X]:" in stub_text()
        True
    """
    importlib.import_module(_PACKAGE)  # defines the verbs
    names = Names()
    names.need("typing", "Generic", "TypeVar")
    methods: dict[str, str] = {}
    for verb, cls in verbs.class_verbs().items():
        if _is_own(cls):
            methods[verb] = _method(verb, _class_signatures(cls, names), cls, names)
    for verb, function in verbs.function_verbs().items():
        if _is_own(function):
            methods[verb] = _method(verb, _function_signatures(function, names), function, names)
    variables = ["T = TypeVar('T', covariant=True)", *names.type_variables()]
    head = [_HEAD, names.import_block(), "", *variables, "", "class Verbs(Generic[T]):"]
    body = ['    """Carry one method for each verb."""', "", *(methods[verb] for verb in sorted(methods))]
    return "\n".join([*[line.replace("'", '"') for line in head], *body])


def _is_own(maker: Any) -> bool:
    """Return whether a class or function stands at the top of a module of the package (a doctest's does not)."""
    module = sys.modules.get(maker.__module__)
    return maker.__module__.startswith(f"{_PACKAGE}.") and getattr(module, maker.__name__, None) is maker


def _class_signatures(cls: type[Any], names: Names) -> list[str]:
    """Return the signatures of a verb: those of the typed `__init__` overloads, else that of the fields."""
    file = _file(cls.__module__)
    definition = file.classes[cls.__name__]
    result = _node_base(definition)
    made = [item for item in ast.walk(definition) if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    overloads = [item for item in made if _is_overload(item)]
    if not overloads:
        return [_signature(_field_arguments(cls), result, file, names)]
    signatures: list[str] = []
    for item in overloads:
        arguments = copy.deepcopy(item.args)
        del arguments.args[0]  # self
        signatures.append(_signature(arguments, _result_of(item, definition, result), file, names))
    return signatures


def _function_signatures(function: Callable[..., Any], names: Names) -> list[str]:
    file = _file(function.__module__)
    definitions = file.functions[function.__name__]
    overloads = [item for item in definitions if _is_overload(item)]
    return [_signature(item.args, cast("ast.expr", item.returns), file, names) for item in overloads or definitions]


def _is_overload(function: ast.FunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "overload" for item in function.decorator_list)


def _node_base(definition: ast.ClassDef) -> ast.Subscript:
    for base in definition.bases:
        if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name) and base.value.id == "Node":
            return base
    raise ValueError(f"{definition.name} has a verb, so it needs Node[...] among its bases")


def _result_of(overload: ast.FunctionDef, definition: ast.ClassDef, result: ast.Subscript) -> ast.expr:
    """Return the result of an overload: `self: Batch[list[X]]` says what stands for the class's own variable."""
    own = overload.args.args[0].annotation
    if not isinstance(own, ast.Subscript):
        return result
    if not isinstance(result.slice, ast.Name) or isinstance(own.slice, ast.Tuple):
        raise ValueError(f"{definition.name}: an overload with a type for self needs a class Node[Y] of one variable")
    return ast.Subscript(result.value, own.slice)


def _field_arguments(cls: type[Any]) -> ast.arguments:
    """Return the configuration fields of a class as arguments."""
    arguments = ast.arguments([], [], None, [], [], None, [])
    for field in cls._config:
        owner = next(base for base in cls.__mro__ if field.name in inspect.get_annotations(base))
        lines = [
            item for item in _file(owner.__module__).classes[owner.__name__].body if isinstance(item, ast.AnnAssign)
        ]
        line = next(item for item in lines if ast.unparse(item.target) == field.name)
        default = line.value
        if isinstance(default, ast.Call):  # tuning(default=None), tuning()
            given = [*default.args, *(item.value for item in default.keywords if item.arg == "default")]
            default = given[0] if given else None
        argument = ast.arg(field.name, line.annotation)
        if field.kw_only:
            arguments.kwonlyargs.append(argument)
            arguments.kw_defaults.append(default)
        else:
            arguments.args.append(argument)
            arguments.defaults += [default] if default is not None else []
    return arguments


def _signature(arguments: ast.arguments, result: ast.expr, file: SourceFile, names: Names) -> str:
    """Return the arguments, one in a line, and the result; the first argument is the source or the sources."""
    if arguments.posonlyargs or arguments.kwarg:
        raise ValueError(f"a verb in {file.module} has positional-only arguments or **keywords: name its arguments")
    source, *others = arguments.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    shown = _self(source)
    shown += [_argument(item, default) for item, default in zip(others, defaults[1:], strict=True)]
    if arguments.vararg:
        shown.append(f"*{_argument(arguments.vararg, None)}")
    if arguments.kwonlyargs and not any(item.startswith("*") for item in shown):
        shown.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    shown += [_argument(item, default) for item, default in named]
    for item in [*arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs]:
        names.add(cast("ast.expr", item.annotation), file)
    names.add(result, file)
    return "\n".join([*shown, f") -> {ast.unparse(result)}"])


def _self(source: ast.arg) -> list[str]:
    """Return the arguments for a field `source: Node[X]`, or `sources:` a tuple of any or of a fixed length."""
    annotation = cast("ast.Subscript", source.annotation)
    if source.arg != "sources":
        return [f"self: {_as_verbs(annotation)}"]
    first, *rest = cast("ast.Tuple", annotation.slice).elts
    if isinstance(rest[0], ast.Constant):  # the ellipsis
        return [f"self: {_as_verbs(first)}", f"*sources: {ast.unparse(first)}"]
    return [f"self: {_as_verbs(first)}", *(f"source{n}: {ast.unparse(node)}" for n, node in enumerate(rest, 2)), "/"]


def _as_verbs(node: ast.expr) -> str:
    return "Verbs" + (ast.unparse(node).removeprefix("Node") if isinstance(node, ast.Subscript) else "[Any]")


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = f"{argument.arg}: {_quoted(cast('ast.expr', argument.annotation))}"
    if default is None:
        return text
    is_plain = not any(isinstance(item, (ast.Name, ast.Call, ast.Lambda)) for item in ast.walk(default))
    return f"{text} = {_quoted(default) if is_plain else '...'}"


def _quoted(expression: ast.expr) -> str:
    """Return source text with the quotes that ruff prefers."""
    text = ast.unparse(expression)
    return text if '"' in text else text.replace("'", '"')


def _method(verb: str, signatures: list[str], maker: Any, names: Names) -> str:
    """Return the text of a method, formatted as ruff does it."""
    doc = (inspect.getdoc(maker) or "").partition("\n")[0]
    if len(signatures) > 1:
        names.need("typing", "overload")
    text = ""
    for signature in signatures:
        *arguments, end = signature.split("\n")
        line = f"    def {verb}({', '.join(arguments)}{end}:"
        if len(line) > _WIDTH:
            line = "\n".join([f"    def {verb}(", *(f"        {item}," for item in arguments), f"    {end}:"])
            line = line.replace("*,,", "*,").replace("/,,", "/,")
        text += "    @overload\n" * (len(signatures) > 1) + f'{line}\n        """{doc}"""\n'
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
