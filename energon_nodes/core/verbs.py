"""How verbs come to stand on every node: written once, on a class or as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from energon_nodes.core._verbs import Verbs

if TYPE_CHECKING:
    from energon_nodes.core.description import Description

__all__ = [
    "RESERVED",
    "add_class_verb",
    "add_lazy_nodes",
    "add_lazy_verb",
    "add_verb",
    "class_verbs",
    "function_verbs",
    "import_all",
    "keep_fields",
    "refuse_shadowing",
    "reserve",
]

F = TypeVar("F", bound=Callable[..., Any])

RESERVED = frozenset({"epoch", "skipped", "failed", "fixed", "identity", "context", "verb"})
"""Attributes that every node has; no field may take their names."""

_classes: dict[str, type[Any]] = {}
_functions: dict[str, Callable[..., Any]] = {}
_lazy: dict[str, str] = {}
_modules: list[str] = []
_owners: dict[str, str] = {}  # the class or function of each verb
_reserved: dict[str, str] = dict.fromkeys(RESERVED, "Node")
_fields: dict[str, str] = {}  # a field would hide the verb on the nodes that have it


def class_verbs() -> dict[str, type[Any]]:
    """Return the node classes that were registered with `verb=`, by verb; those that were not used yet are imported."""
    import_all()
    return dict(_classes)


def function_verbs() -> dict[str, Callable[..., Any]]:
    """Return the functions that became verbs, by name; those that were not used yet are imported."""
    import_all()
    return dict(_functions)


def import_all() -> None:
    """Import every module that was named as one of verbs or nodes and has not been needed yet."""
    for module in {**dict.fromkeys(_lazy.values()), **dict.fromkeys(_modules)}:
        import_module(module)


def add_class_verb(cls: type[Description[Any]], verb: str) -> None:
    """Add a method that builds a node of this class on another node.

    Raises:
        TypeError: If the name is taken, or the class has no field to build on.
    """
    owner = f"{cls.__module__}.{cls.__qualname__}"
    _refuse_taken(verb, owner)
    first = cls._config[0].name if cls._config else None  # pyright: ignore[reportPrivateUsage]
    if first not in ("source", "sources"):
        raise TypeError(
            f"the verb {verb!r} needs a node whose first field is `source` or `sources`; {cls.__name__} has none"
        )
    several = first == "sources"
    build = cast("Callable[..., Any]", cls)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return build((self, *args), **kwargs) if several else build(self, *args, **kwargs)

    method.__name__ = verb
    method.__qualname__ = f"Verbs.{verb}"
    method.__doc__ = cls.__doc__
    method.__dict__["__signature__"] = _signature(cls, several)
    _attach(verb, method, owner)
    _classes[verb] = cls


def add_verb(function: F) -> F:
    """Make a function of a node a method of all nodes, under its own name.

    For verbs that are compositions of others, and for what stands above nodes, such as loaders.

    Args:
        function: Its first parameter is the node.

    Returns:
        The function, so that it can be used as a decorator.

    Raises:
        TypeError: If every node has a method of that name already.

    Example:
        >>> import energon_nodes as en
        >>> @add_verb
        ... def every_other(source):
        ...     return source.batch(2).map(lambda pair: pair[0])
        >>> list(en.items(range(5)).every_other())
        [0, 2, 4]
    """
    owner = f"{function.__module__}.{function.__qualname__}"
    _refuse_taken(function.__name__, owner)
    _attach(function.__name__, function, owner)
    _functions[function.__name__] = function
    return function


def add_lazy_verb(verb: str, module: str, maker: str | None = None) -> None:
    """Make a verb of what a module defines, and import the module at the first use.

    Args:
        verb: The name of the verb.
        module: The module; it makes the verb itself, by `verb=` on a node or by `add_verb`.
        maker: The name of the node or the function there; None where it is that of the verb.
    """
    owner = f"{module}.{maker or verb}"
    _refuse_taken(verb, owner)
    _attach(verb, _Later(verb, module), owner)
    _lazy[verb] = module


class _Later:
    """Stand for a verb until somebody looks at it: then its module is imported, and puts the verb in this place."""

    def __init__(self, verb: str, module: str) -> None:
        self._verb, self._module = verb, module

    def __get__(self, node: Any, kind: Any = None) -> Any:
        import_module(self._module)
        return Verbs.__dict__[self._verb].__get__(node, kind)

    def __call__(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(node)(*args, **kwargs)


def add_lazy_nodes(module: str) -> None:
    """Name a module that defines nodes without a verb, so that `registered_nodes` knows them before their first use."""
    _modules.append(module)


def refuse_shadowing(cls: type[Any]) -> None:
    """Refuse fields named like a verb or a method: the method would become the field's default."""
    for name in inspect.get_annotations(cls):
        if name in RESERVED:
            raise TypeError(
                f"a node's field may not be named {name!r}, which every node has; rename {cls.__name__}.{name}"
            )
        for base in cls.__mro__[1:]:
            taken = base.__dict__.get(name)
            if callable(taken) or isinstance(taken, (property, classmethod, staticmethod)):
                raise TypeError(
                    f"a node's field may not be named like a verb or a method of Node: {cls.__name__}.{name} "
                    f"would get {base.__name__}.{name} as its default; choose another name"
                )


def keep_fields(cls: type[Any]) -> None:
    """Keep the names of a node's fields from becoming verbs."""
    _fields.update(dict.fromkeys(inspect.get_annotations(cls), f"a field of {cls.__name__}"))


def reserve(cls: type[Any]) -> None:
    """Keep the names of the base class of all nodes from becoming verbs: its own method would hide the verb."""
    _reserved.update(dict.fromkeys(dir(cls), cls.__name__))


def _attach(verb: str, method: Callable[..., Any], owner: str) -> None:
    setattr(Verbs, verb, method)
    _owners[verb] = owner
    _classes.pop(verb, None)
    _functions.pop(verb, None)


def _refuse_taken(verb: str, owner: str) -> None:
    """Refuse a name that nodes have already; defining the same verb again (a module reloaded) is no clash."""
    by = _owners.get(verb) or _reserved.get(verb) or _fields.get(verb)
    if by is not None and by != owner:
        raise TypeError(f"the verb {verb!r} of {owner} exists already, from {by}; choose another name")


def _signature(cls: type[Any], several: bool) -> inspect.Signature:
    """Return the signature of the verb, for `help` and editors: that of the class with the first field replaced."""
    built = inspect.signature(cls)
    rest = list(built.parameters.values())[1:]
    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    if several:
        own.append(inspect.Parameter("sources", inspect.Parameter.VAR_POSITIONAL))
        rest = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in rest]
    return built.replace(parameters=[*own, *rest])
