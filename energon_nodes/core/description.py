"""What a node is before it runs: configuration fields, sources, clones, pickles, pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np
from torchdata.nodes import BaseNode

from energon_nodes.core import fields, graph
from energon_nodes.core._verbs import Verbs
from energon_nodes.core.checks import check_policy, plain_int
from energon_nodes.core.verbs import add_class_verb, import_all, keep_fields, refuse_shadowing

if TYPE_CHECKING:
    from energon_nodes.core.node import Node

__all__ = ["Description", "registered_nodes"]

T = TypeVar("T", covariant=True)

_registry: dict[str, type[Node[Any]]] = {}


def registered_nodes() -> dict[str, type[Node[Any]]]:
    """Return all node classes by name, those of the library and those defined elsewhere.

    Example:
        >>> import energon_nodes as en
        >>> registered_nodes()["Map"] is en.Map
        True
    """
    import_all()
    return dict(_registry)


@dataclass_transform(
    eq_default=False, field_specifiers=(fields.state, fields.buffer, fields.tuning, fields.shared, fields.scratch)
)
class Description(BaseNode[T], Verbs[T]):
    """Hold the configuration of a node; `Node` adds how it runs.

    A subclass becomes a dataclass whose init fields are its configuration, and is registered.
    `abstract=True` in the class statement leaves that out, for a base class of other nodes.
    """

    verb: ClassVar[str | None] = None
    written_as: ClassVar[Mapping[str, str]] = {}  # settings that users write by other names than those of the fields
    in_checkpoints: ClassVar[bool] = True  # False for nodes that watch only: they come and go between save and load
    _config: ClassVar[tuple[dataclasses.Field[Any], ...]] = ()
    _by_kind: ClassVar[dict[str, tuple[dataclasses.Field[Any], ...]]] = {}
    _sources: tuple[Node[Any], ...]

    def __init_subclass__(cls, verb: str | None = None, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        refuse_shadowing(cls)
        run = cls.__dict__.get("run")
        if run is not None and not isgeneratorfunction(run):
            raise TypeError(
                f"{cls.__name__}.run must be a generator function: it yields pairs of value and restore key"
            )
        dataclasses.dataclass(eq=False, repr=False)(cls)
        declared = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
        cls._config = tuple(field for field in declared if field.init)
        kinds = {fields.kind_of(field) for field in declared}
        cls._by_kind = {kind: tuple(f for f in declared if fields.kind_of(f) == kind) for kind in kinds}
        cls.verb = verb
        if verb is not None:
            add_class_verb(cls, verb)
        keep_fields(cls)
        _registry[cls.__name__] = cast("type[Node[Any]]", cls)

    def check(self) -> None:
        """Validate the configuration at construction; raise ValueError with rule, value and way out."""

    def sources_of(self) -> tuple[Node[Any], ...]:
        """Return the nodes that this node pulls from, in the order of its fields."""
        return self._sources

    def clone(self) -> Self:
        """Return an unstarted copy with the same configuration; immutable heavy parts are shared."""
        return self._rebuilt({f.name: _cloned(getattr(self, f.name)) for f in self._config}, self._heavy())

    def __reduce__(self) -> tuple[Any, ...]:
        config = {field.name: getattr(self, field.name) for field in self._config}
        return (_from_pickle, (type(self), config, self._heavy()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(graph.settings(cast('Node[Any]', self)))})"

    def explain(self) -> str:
        """Return the graph as a tree with its settings, sources below what they feed.

        Example:
            >>> import energon_nodes as en
            >>> print(en.items([1, 2]).limit(1).batch(2).explain())
            Batch(size=2)
            └─ Limit(n=1)
               └─ Items(2 elements)
        """
        return graph.explain(cast("Node[Any]", self))

    def diagram(self) -> str:
        """Return the graph as Mermaid text.

        Example:
            >>> import energon_nodes as en
            >>> print(en.items([1, 2]).limit(1).diagram())
            flowchart TD
                n0["Items(2 elements)"]
                n1["Limit(n=1)"]
                n0 --> n1
        """
        return graph.diagram(cast("Node[Any]", self))

    def __post_init__(self) -> None:
        self._init_torchdata()
        for field in self._config:
            value = getattr(self, field.name)
            if field.name in ("source", "sources"):
                _check_sources(type(self).__name__, value if field.name == "sources" else (value,))
            setattr(self, field.name, _plain(type(self).__name__, field.name, _cloned(value)))
        check_policy(type(self).__name__, getattr(self, "on_error", None))
        self._start_fresh()
        self._find_sources()
        self.check()

    @classmethod
    def _rebuilt(cls, config: dict[str, Any], heavy: dict[str, Any]) -> Self:
        node = cls.__new__(cls)
        node._init_torchdata()
        node.__dict__.update(config)
        node.__dict__.update(heavy)
        node._start_fresh()
        node._find_sources()
        return node

    def _init_torchdata(self) -> None:
        cast("Any", BaseNode).__init__(self)

    def _begin_torchdata(self) -> None:
        cast("Any", BaseNode).reset(self)

    def _heavy(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in self._by_kind.get("shared", ())}

    def _find_sources(self) -> None:
        items = [item for field in self._config for item in _items(getattr(self, field.name))]
        self._sources = tuple([item for item in items if _is_node(item)])

    def _start_fresh(self) -> None:
        """Set the attributes of a run to those of a node that has not begun."""
        raise NotImplementedError


def _is_node(value: object) -> bool:
    return isinstance(value, Description)


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(cast("list[Any]", value)) if isinstance(value, (tuple, list)) else (value,)


def _cloned(value: Any) -> Any:
    """Return a node's clone, or the tuple of clones of several; other values stay what they are."""
    if _is_node(value):
        return value.clone()
    items = _items(value)
    return tuple([_cloned(item) for item in items]) if any(map(_is_node, items)) else value


def _plain(node: str, name: str, value: Any) -> Any:
    """Return integers of numpy as plain ones: settings go into checkpoints, and seeds into draws."""
    if name == "seed" and value is not None:
        return plain_int(node, "seed", value)
    return int(cast("Any", value)) if isinstance(value, np.integer) else value


def _check_sources(name: str, sources: Any) -> None:
    for source in sources:
        if not _is_node(source):
            raise TypeError(
                f"{name} needs nodes to read from, got {type(source).__name__}: make a node of it with "
                "items(sequence) or wrap(iterable)"
            )


def _from_pickle(cls: type[Description[Any]], config: dict[str, Any], heavy: dict[str, Any]) -> Description[Any]:
    return cls._rebuilt(config, heavy)  # pyright: ignore[reportPrivateUsage]
