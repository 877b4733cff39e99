"""What every node does: definition, clones, passes, going on after errors, policies."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
import pytest
import torch

import energon_nodes as en
from energon_nodes.core.restore import Key


class Halves(en.Node[int]):
    """A node outside of the package, with configuration, state and a shared part."""

    source: en.Node[int]
    by: int = 2
    taken: int = en.state(int)
    notes: list[int] = en.state(list)
    empty: bytes = en.state(bytes)
    table: list[int] = en.shared()

    def check(self) -> None:
        if self.by < 1:
            raise ValueError(f"halves needs by >= 1, got by={self.by}")
        self.table = list(range(1000))

    def run(self) -> Iterator[tuple[int, Key]]:
        for value, key in self.source.pairs():
            self.taken += 1
            self.notes = [*self.notes[-2:], value]
            yield value // self.by, key


class Base(en.Node[int], abstract=True):
    """A base class of nodes is no node itself."""

    def run(self) -> Iterator[tuple[int, Key]]:
        yield from ()


# ---- definition ------------------------------------------------------------------------------


def test_a_node_is_a_dataclass_that_shows_what_differs_from_the_defaults() -> None:
    assert repr(Halves(en.items(range(9)))) == "Halves()"
    assert repr(Halves(en.items(range(9)), by=3)) == "Halves(by=3)"


@pytest.mark.parametrize("name", ["map", "batch", "loader", "reset", "state_dict", "clone", "explain", "context"])
def test_a_field_named_like_a_verb_or_a_method_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"field may not be named.*Wrong\.{name}|field may not be named '{name}'"):
        type("Wrong", (en.Node,), {"__annotations__": {"source": en.Node, name: int}, "__module__": __name__})


@pytest.mark.parametrize("name", ["epoch", "skipped", "failed", "fixed", "identity", "verb"])
def test_a_field_named_like_an_attribute_of_every_node_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"may not be named '{name}', which every node has"):
        type("Wrong", (en.Node,), {"__annotations__": {name: int}, "__module__": __name__})


def test_a_run_that_is_no_generator_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.run must be a generator function"):

        class Wrong(en.Node[int]):
            source: en.Node[int]

            def run(self) -> Iterator[tuple[int, Key]]:
                return iter([(1, (0,))])


def test_a_refused_class_is_not_registered() -> None:
    with pytest.raises(TypeError):

        class Refused(en.Node[int], verb="batch"):
            source: en.Node[int]

    assert "Refused" not in en.registered_nodes()
    assert list(en.items([1, 2, 3]).batch(2)) == [[1, 2], [3]]


@pytest.mark.parametrize("verb", ["batch", "unbatch", "reset", "state_dict", "explain", "epoch", "weights"])
def test_a_verb_that_exists_already_is_refused(verb: str) -> None:
    with pytest.raises(TypeError, match=f"the verb '{verb}' of .*Wrong exists already"):

        class Wrong(en.Node[int], verb=verb):
            source: en.Node[int]


def test_a_verb_needs_a_source_to_stand_behind() -> None:
    with pytest.raises(TypeError, match="the verb 'count_up' needs a node whose first field is `source` or `sources`"):

        class Wrong(en.Node[int], verb="count_up"):
            n: int


def test_a_function_that_is_named_like_a_method_is_refused_as_a_verb() -> None:
    def explain(source: en.Node[Any]) -> str:
        return ""

    with pytest.raises(TypeError, match=r"the verb 'explain' of .* exists already, from Node"):
        en.add_verb(explain)


def test_an_abstract_base_is_no_node() -> None:
    assert "Base" not in en.registered_nodes()
    assert "Halves" in en.registered_nodes()


def test_what_is_no_node_is_refused_as_a_source() -> None:
    for build in (lambda: Halves([1, 2]), lambda: en.concat([1], [2]), lambda: en.items([1]).zip([2])):  # type: ignore[arg-type,list-item]
        with pytest.raises(TypeError, match=r"needs nodes to read from, got list: make a node of it with\s+items"):
            build()


@pytest.mark.parametrize("policy", ["skp", 3, ("raise",)])
def test_a_misspelt_policy_is_refused_at_construction(policy: Any) -> None:
    with pytest.raises(ValueError, match="Map needs on_error"):
        en.items([1]).map(str, on_error=policy)


def test_a_verb_has_the_signature_of_its_class() -> None:
    import inspect

    assert list(inspect.signature(en.items([1]).batch).parameters) == ["size", "drop_last", "collate", "on_error"]
    assert str(inspect.signature(en.items([1]).concat)).startswith("(*sources")


# ---- clones ----------------------------------------------------------------------------------


def test_building_on_a_node_leaves_it_as_it_is() -> None:
    source = en.items(range(6)).map(str)
    left, right = source.batch(2), source.batch(3)
    assert next(left) == ["0", "1"]
    assert next(right) == ["0", "1", "2"]
    assert next(source) == "0"


def test_one_node_may_stand_in_two_branches() -> None:
    source = en.items(range(3))
    both = en.concat(source, source.map(lambda x: -x))
    assert list(both) == [0, 1, 2, 0, -1, -2]
    assert list(en.zip(source, source)) == [(0, 0), (1, 1), (2, 2)]


def test_clones_are_fresh_and_share_the_heavy_parts() -> None:
    node = Halves(en.items(range(9)))
    next(node)
    for other in (node.clone(), copy.copy(node.clone()), copy.deepcopy(node)):
        assert other.table is node.table
        assert other.taken == 0
        assert list(other) == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert next(node) == 0
    assert node.taken == 2


def test_a_pickle_is_the_description_without_the_run() -> None:
    node = Halves(en.items(range(6)).shuffle(3).batch(2).unbatch(), by=1)
    expected = list(node.clone())
    next(node)
    assert list(pickle.loads(pickle.dumps(node))) == expected


def test_a_dropped_pipeline_is_freed() -> None:
    node = en.items(range(10)).map(str).shuffle(4).batch(2)
    next(node)
    seen = weakref.ref(node)
    del node
    gc.collect()
    assert seen() is None


# ---- passes and lengths ----------------------------------------------------------------------


def test_a_second_for_is_the_next_pass() -> None:
    node = en.items(range(8), shuffle=True)
    first, second = list(node), list(node)
    assert sorted(first) == sorted(second) == list(range(8))
    assert first != second
    assert list(en.items(range(8), shuffle=True, fixed_epoch=True)) == first


def test_a_for_that_was_left_goes_on() -> None:
    node = en.items(range(4))
    for value in node:
        if value == 1:
            break
    assert list(node) == [2, 3]


def test_next_at_the_end_stays_at_the_end() -> None:
    node = en.items([1]).map(str)
    assert next(node) == "1"
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(node)


def test_reset_without_state_starts_a_pass_only_if_something_was_taken() -> None:
    node = en.items(range(8), shuffle=True)
    first = list(node.clone())
    node.reset()
    node.reset()
    assert next(node) == first[0]
    node.reset()
    assert list(node) != first


def test_lengths_are_those_of_a_pass() -> None:
    assert len(Halves(en.items(range(9)))) == 9
    with pytest.raises(TypeError, match=r"the length of Filter\(.*is not known"):
        len(en.items(range(9)).filter(bool))
    with pytest.raises(TypeError, match=r"has no end, so it has no length: put limit\(n\) or epochize\(n\) behind it"):
        len(en.items(range(9)).repeat())
    assert en.items(range(9)).repeat().length(0, 1) == inf
    assert en.items([])  # a node without elements is still true


# ---- state -----------------------------------------------------------------------------------


def test_the_state_of_any_node_passes_torch_load_with_weights_only() -> None:
    node = Halves(en.items(range(20)).shuffle(5).batch(2).unbatch())
    taken = [next(node) for _ in range(7)]
    file = io.BytesIO()
    torch.save(node.state_dict(), file)
    rest = list(node)
    file.seek(0)
    again = Halves(en.items(range(20)).shuffle(5).batch(2).unbatch())
    again.reset(torch.load(file, weights_only=True))
    assert list(again) == rest
    assert len(taken) + len(rest) == 20


class Wrong(en.Node[int]):
    source: en.Node[int]
    found: Any = en.state(list)

    def run(self) -> Iterator[tuple[int, Key]]:
        for value, key in self.source.pairs():
            self.found = [torch.tensor(value)]
            yield value, key


def test_a_state_field_that_is_not_plain_is_a_named_error() -> None:
    node = Wrong(en.items([1]))
    node.state_dict()
    next(node)
    with pytest.raises(TypeError, match=r"found of Wrong\(.*\) holds a Tensor: keep it in a buffer"):
        node.state_dict()


# ---- going on after errors -------------------------------------------------------------------


def broken_at_five(value: int) -> int:
    if value == 5:
        raise ValueError("five")
    return value


def take_all(node: Any) -> tuple[list[Any], int]:
    taken: list[Any] = []
    errors = 0
    while True:
        try:
            taken.extend(node)
        except ValueError:
            errors += 1
        else:
            return taken, errors


def test_the_call_after_an_error_goes_on_behind_the_failed_element() -> None:
    node = en.items(range(12)).map(broken_at_five).batch(2).map(list).shuffle(3).unbatch()
    without = en.items([n for n in range(12) if n != 5]).batch(2).map(list).shuffle(3).unbatch()
    assert take_all(node) == (list(without), 1)


def test_an_error_names_node_key_and_sample() -> None:
    def fail(sample: dict[str, Any]) -> None:
        raise ValueError("bad")

    sample = {"__key__": "cat", "jpg": b""}
    with pytest.raises(ValueError, match="bad") as caught:
        next(en.items([sample]).map(fail).map(str).batch(2))
    place, where = caught.value.__notes__
    assert place.startswith("at node Map(fn=test_an_error_names_node_key_and_sample.fail)")
    assert where == "restore key (0, 0), sample 'cat'"


def test_skipped_elements_are_counted() -> None:
    def choose(value: int) -> float:
        if value % 5 == 1:
            raise en.SkipSample
        return 1 / (value % 5)

    node = en.items(range(20)).map(choose, on_error="skip")
    assert len(list(node)) == 12
    assert (node.skipped, node.failed) == (4, 4)


def test_one_bad_sample_in_ten_never_exceeds_a_tolerance_of_five_in_a_row() -> None:
    def fail(value: int) -> int:
        if value % 10 == 0:
            raise OSError("cannot be read")
        return value

    node = en.items(range(100)).map(fail).repeat(20)
    node.bind(en.Context(on_error="skip", tolerance=5))
    assert len(list(node)) == 1800


def test_more_failures_in_a_row_than_the_tolerance_end_the_stream() -> None:
    seen: list[int] = []

    def fail(value: int) -> int:
        seen.append(value)
        if value > 3:
            raise OSError("gone")
        return value

    node = en.items(range(100)).map(fail)
    node.bind(en.Context(on_error="skip", tolerance=5))
    with pytest.raises(en.FatalSampleError, match=r"6 elements in a row failed at Map.*tolerance is 5") as caught:
        list(node)
    assert seen[-1] == 9
    assert isinstance(caught.value.__cause__, OSError)


def test_a_policy_may_be_a_function_that_sees_error_and_key() -> None:
    seen: list[tuple[str, Key]] = []
    node = en.items(range(8)).map(broken_at_five, on_error=lambda error, key: seen.append((str(error), key)))
    assert list(node) == [0, 1, 2, 3, 4, 6, 7]
    assert seen == [("five", (0, 5))]


def test_a_policy_that_raises_decides() -> None:
    def decide(error: Exception, key: Key) -> None:
        raise KeyError("decided") from error

    with pytest.raises(KeyError, match="decided"):
        list(en.items(range(8)).map(broken_at_five, on_error=decide))


def test_a_fatal_error_is_never_skipped() -> None:
    def fail(value: int) -> int:
        raise en.FatalSampleError("the tokenizer is missing")

    with pytest.raises(en.FatalSampleError, match="tokenizer"):
        list(en.items([1]).map(fail, on_error="skip"))


@pytest.mark.parametrize("verb", ["map", "filter", "tap", "flat_map", "parallel_map"])
def test_a_stop_iteration_of_a_user_function_does_not_pass_for_the_end(verb: str) -> None:
    def stop(value: int) -> Any:
        return next(iter([]))

    for policy in ("raise", "skip"):
        node = getattr(en.items(range(3)), verb)(stop)
        node.bind(en.Context(on_error=policy))
        with pytest.raises(en.FatalSampleError, match="raised StopIteration; let it return or raise SkipSample"):
            next(node)


class Counting:
    """A callable with a state: every stream has its own, and checkpoints hold it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: int) -> tuple[int, int]:
        self.count += 1
        return value, self.count

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_a_callable_with_a_state_is_copied_and_saved() -> None:
    function = Counting()
    node = en.items("abcd").map(function)
    assert [next(node), next(node)] == [("a", 1), ("b", 2)]
    assert function.count == 0
    again = en.items("abcd").map(function)
    again.reset(node.state_dict())
    assert list(again) == [("c", 3), ("d", 4)]


@pytest.mark.parametrize("seed", ["3", 3.0, True])
def test_a_seed_that_is_no_integer_is_refused(seed: Any) -> None:
    with pytest.raises(TypeError, match="needs an int seed, got"):
        en.items(range(5)).shuffle(3, seed=seed)
    with pytest.raises(TypeError, match="needs an int seed, got"):
        en.items(range(5)).loader(seed=seed)


def test_integers_of_numpy_are_plain_settings() -> None:
    plain, foreign = (en.items(range(9)).shuffle(kind(4), seed=kind(3)) for kind in (int, np.int64))
    assert list(plain) == list(foreign)
    assert foreign.state_dict() == plain.state_dict()
    assert list(en.items(range(5)).loader(seed=np.int64(3), streams=np.int64(1))) == list(range(5))


class Remembering:
    """A function with a state."""

    def __call__(self, value: int) -> int:
        return value

    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


def test_a_state_of_a_function_needs_a_function_with_a_state() -> None:
    plain, stateful = en.items([1, 2]).map(abs), en.items([1, 2]).map(Remembering())
    with pytest.raises(en.StateError, match=r"without a state where Map\(fn=Remembering\) has one that has \(fn\)"):
        stateful.reset(plain.state_dict())
    with pytest.raises(en.StateError, match=r"with a state where Map\(fn=abs\) has one that has none \(fn\)"):
        plain.reset(stateful.state_dict())
    stateful.reset(stateful.state_dict())
