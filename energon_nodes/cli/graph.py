"""`energon-nodes graph`: draw the nodes of a pipeline."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any, cast

import click

from energon_nodes.core.errors import EnergonNodesError
from energon_nodes.core.node import Node
from energon_nodes.core.spelling import did_you_mean
from energon_nodes.recipes.datasets import dataset
from energon_nodes.sources.jsonl import jsonl
from energon_nodes.sources.shards import shards
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import is_prepared

__all__ = ["graph"]


@click.command()
@click.argument("target")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead of a tree.")
@click.option("--split", metavar="NAME", help="The split part, where TARGET is a dataset.")
@click.option("--dataset-config", metavar="NAME", help="The dataset file in .nv-meta, where TARGET is a dataset.")
@click.option("--trust", is_flag=True, help="Run Python that lies beside the data, where TARGET is a dataset.")
def graph(target: str, mermaid: bool, split: str | None, dataset_config: str | None, trust: bool) -> None:
    """Draw the nodes of a pipeline, the last one first.

    TARGET is a pipeline in Python, written package.module:name or file.py:name; the name stands for a pipeline or for
    a function without arguments that returns one. It is imported, and so its code runs. Or TARGET is a prepared
    dataset, a folder of tars or a .jsonl file; then the nodes are those of en.dataset, en.shards or en.jsonl.

    \b
    Examples:
      energon-nodes graph my_project.data:pipeline
      energon-nodes graph train.py:make_pipeline --mermaid
      energon-nodes graph coco/ --split train

    Exit status: 0 fine, 1 when there is no such pipeline, 2 for wrong usage.
    """
    if _is_dataset(target):
        node = _of_dataset(target, split, dataset_config, trust)
    elif split is not None or dataset_config is not None or trust:
        raise click.UsageError(f"--split, --dataset-config and --trust are for datasets, and {target} is none")
    else:
        node = _of_python(target)
    click.echo(node.diagram() if mermaid else node.explain())


def _is_dataset(target: str) -> bool:
    return paths.is_url(target) or ":" not in target or os.path.exists(target)


def _of_dataset(path: str, split: str | None, dataset_config: str | None, trust: bool) -> Node[Any]:
    if not paths.exists(path):
        raise PipelineError(f"{path} does not exist; a pipeline in Python is written package.module:name")
    if path.endswith(".jsonl") or not is_prepared(path.rstrip("/")):
        if split is not None or dataset_config is not None:
            raise PipelineError(f"{path} was never prepared, so it has neither splits nor a dataset file")
        return jsonl(path) if path.endswith(".jsonl") else shards(path)
    return dataset(path, split=split, dataset_config=dataset_config, trust=trust)


def _of_python(target: str) -> Node[Any]:
    place, _, name = target.rpartition(":")
    module = _run_file(place) if place.endswith(".py") else _imported(place)
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            known = [known for known in dir(found) if known[:1] != "_"]
            raise PipelineError(f"{place} has no {step!r}{did_you_mean(step, known)}")
        found = getattr(found, step)
    if callable(found) and not isinstance(found, Node):
        found = _called(target, found)
    if not isinstance(found, Node):
        raise PipelineError(
            f"{target} is a {type(found).__name__}, not a pipeline: name a pipeline, or a function without arguments "
            "that returns one"
        )
    return cast("Node[Any]", found)


def _called(target: str, function: Any) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise PipelineError(
            f"{target} cannot be called without arguments ({error}): name a pipeline, or a function without arguments "
            "that returns one"
        ) from None
    except ValueError:  # of what is written in C nobody knows the arguments
        raise PipelineError(
            f"{target} is a {type(function).__name__} that is written in C: name a pipeline, or a function in Python "
            "that returns one"
        ) from None
    return function()


def _imported(name: str) -> ModuleType:
    folder = os.getcwd()  # as for `python -m`
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks something itself
        raise PipelineError(
            f"there is no module {name!r}: run from the folder of the project, install it, or write file.py:name"
        ) from error


def _run_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    if not os.path.exists(path) or spec is None or spec.loader is None:
        raise PipelineError(f"{path} does not exist")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module that defines them
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # as for `python file.py`
    spec.loader.exec_module(module)
    return module


class PipelineError(EnergonNodesError):
    """Report that what was named is no pipeline.

    Example:
        >>> issubclass(PipelineError, EnergonNodesError)
        True
    """
