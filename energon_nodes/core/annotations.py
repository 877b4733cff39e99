"""What the names in the annotations of a source file stand for, and the imports that make them known elsewhere."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

__all__ = ["Names", "SourceFile"]

_Origin: TypeAlias = tuple[str, str | None]  # module and name in it, or the module itself


class SourceFile:
    """Know what stands at the top of a module's source text.

    Args:
        module: The name of a module that can be imported.

    Example:
        >>> SourceFile("energon_nodes.combinators.limit").imports["Iterator"]
        ('collections.abc', 'Iterator')
    """

    def __init__(self, module: str) -> None:
        self.module = module
        path = inspect.getsourcefile(sys.modules.get(module) or importlib.import_module(module))
        self._tree = ast.parse(Path(cast("str", path)).read_text(encoding="utf-8"))
        self.imports: dict[str, _Origin] = {}
        self.variables: dict[str, str] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        for statement in self._top():
            self._learn(statement)

    def _top(self) -> Iterator[ast.stmt]:
        for statement in self._tree.body:
            yield from statement.body if isinstance(statement, ast.If) else [statement]  # if TYPE_CHECKING

    def _learn(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import(names=names):
                self.imports.update({name.asname or name.name: (name.name, None) for name in names})
            case ast.ImportFrom(module=str(module), names=names):
                self.imports.update({name.asname or name.name: (module, name.name) for name in names})
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name(id="TypeVar")) as made):
                # Variance matters to classes; the variables of methods have none.
                made.keywords = [item for item in made.keywords if item.arg not in ("covariant", "contravariant")]
                self.variables[target] = ast.unparse(statement)
            case ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target)):
                self.imports[target] = (self.module, target)
            case ast.ClassDef(name=name):
                self.classes[name] = statement
                self.imports[name] = (self.module, name)
            case ast.FunctionDef(name=name):
                self.functions.setdefault(name, []).append(statement)
            case _:
                pass


class Names:
    """Collect what annotations from several source files need in another file: imports and type variables.

    Example:
        >>> names = Names()
        >>> names.add(ast.parse("Iterator[X]"), SourceFile("energon_nodes.combinators.limit"))
        >>> names.import_block(), names.type_variables()
        ('from collections.abc import Iterator', ["X = TypeVar('X')"])
    """

    def __init__(self) -> None:
        self._imports: dict[str, _Origin] = {}
        self._variables: dict[str, str] = {}

    def need(self, module: str, *names: str) -> None:
        """Import names from a module."""
        for name in names:
            self._keep(self._imports, name, (module, name), module)

    def add(self, annotation: ast.AST, file: SourceFile) -> None:
        """Make the names in an annotation known.

        Raises:
            ValueError: If a name is not defined at the top of its file, or differently in two files.
        """
        for name in sorted({node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}):
            if name in file.variables:
                self._keep(self._variables, name, file.variables[name], file.module)
            elif name in file.imports:
                self._keep(self._imports, name, file.imports[name], file.module)
            elif not hasattr(builtins, name):
                raise ValueError(
                    f"an annotation in {file.module} uses {name}: define or import it at the top of the file"
                )

    def import_block(self) -> str:
        """Return the imports, sorted as ruff sorts them."""
        lines: dict[int, list[str]] = {}
        members: dict[str, list[str]] = {}
        for name, (module, original) in self._imports.items():
            if original is None:
                line = f"import {module}" + (f" as {name}" if name != module else "")
                lines.setdefault(_section(module), []).append(line)
            else:
                members.setdefault(module, []).append(original + (f" as {name}" if name != original else ""))
        for section in lines.values():
            section.sort()
        for module in sorted(members):
            line = f"from {module} import {', '.join(sorted(members[module], key=_rank))}"
            lines.setdefault(_section(module), []).append(line)
        return "\n\n".join("\n".join(lines[section]) for section in sorted(lines))

    def type_variables(self) -> list[str]:
        """Return the definitions of the type variables."""
        return [self._variables[name] for name in sorted(self._variables)]

    def _keep(self, table: dict[str, Any], name: str, meaning: _Origin | str, module: str) -> None:
        if table.setdefault(name, meaning) != meaning:
            raise ValueError(f"{name} means {table[name]}, and in {module} {meaning}: give one of them another name")


def _section(module: str) -> int:
    root = module.partition(".")[0]
    return 0 if root in sys.stdlib_module_names else 2 if root == __name__.partition(".")[0] else 1


def _rank(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name
