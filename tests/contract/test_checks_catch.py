"""The checks can fail: nodes that are broken in a typical way are caught, each by the check that is made for it."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

import energon_nodes as en
from energon_nodes import testing
from energon_nodes.testing import ContractError
from energon_nodes.testing.runs import run_pass
from tests.contract import functions as f


class StateAfterYield(en.Node[Any]):
    source: en.Node[Any]
    n: int
    taken: int = en.state(int)

    def run(self) -> Iterator[Any]:
        if self.taken < self.n:
            for pair in islice(self.source.pairs(), self.n - self.taken):
                yield pair
                self.taken += 1  # the state that is taken at the yield lacks this element


class LostBuffer(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        held: list[Any] = []  # not a field: forgotten at a resume
        for pair in self.source.pairs():
            held.append(pair)
            if len(held) == 3:
                yield from held
                held.clear()
        yield from held


class Undeclared(en.Node[Any]):
    source: en.Node[Any]

    def bound(self) -> None:
        self._number = 0  # not a field: neither saved nor reset

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            self._number += 1
            yield (value, self._number), key


class SameKey(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, _ in self.source.pairs():
            yield value, (0, 0)


class ListKey(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield value, (list(key),)


class GlobalRandom(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for _, key in self.source.pairs():
            yield random.random(), key


class EndsAgain(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        yield from self.source.pairs()
        yield "end", (-1, self.epoch)  # nothing says that it was delivered


class PulledTooFar(en.Node[Any]):
    source: en.Node[Any]
    n: int
    held: en.Buffer = en.buffer()

    def run(self) -> Iterator[Any]:
        while True:
            self.held += [pair for pair, _ in zip(self.source.pairs(), range(self.n - len(self.held)))]  # noqa: B905
            if not self.held:
                return
            values, keys = [value for value, _ in self.held], tuple(key for _, key in self.held)
            self.held.clear()
            yield values, keys


class BuiltinMap(en.Node[Any]):
    source: en.Node[Any]
    fn: Callable[[Any], Any]

    def run(self) -> Iterator[Any]:
        yield from map(lambda pair: (self.fn(pair[0]), pair[1]), self.source.pairs())  # noqa: C417


class CallsUnguarded(en.Node[Any]):
    source: en.Node[Any]
    fn: Callable[[Any], Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield self.fn(value), key  # no policy is asked


class SetOrder(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield list({str(value), f"{value}!", f"{value}?", f"{value}."}), key


class ProcessNumber(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield (value, os.getpid()), key


class OddState(en.Node[Any]):
    source: en.Node[Any]
    seen: Any = en.state(set)

    def run(self) -> Iterator[Any]:
        for pair in self.source.pairs():
            self.seen.add(pair[0])
            yield pair


class LiveState(en.Node[Any]):
    source: en.Node[Any]
    seen: list[Any] = en.state(list)

    def run(self) -> Iterator[Any]:
        for pair in self.source.pairs():
            self.seen.append(pair[0])
            yield pair

    def snapshot(self) -> Any:
        counts, own, below = super().snapshot()
        return counts, own | {"seen": self.seen}, below  # not a copy


class ValuesInState(en.Node[Any]):
    source: en.Node[Any]
    held: list[Any] = en.state(list)

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            self.held = [*self.held, str(value) * 20][-50:]
            yield value, key


class SharedList(en.Node[Any]):
    source: en.Node[Any]
    bag: Any = en.shared()

    def check(self) -> None:
        self.bag = []

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            self.bag.append(value)  # the clones append to the same list
            yield (value, len(self.bag)), key


class NeverCleared(en.Node[Any]):
    source: en.Node[Any]
    n: int
    taken: int = en.state(int, per_pass=False)

    def run(self) -> Iterator[Any]:
        if self.taken < self.n:
            for pair in islice(self.source.pairs(), self.n - self.taken):
                self.taken += 1
                yield pair


class LimitPerStream(en.Node[Any]):
    source: en.Node[Any]
    n: int
    taken: int = en.state(int)

    def run(self) -> Iterator[Any]:
        if self.taken < self.n:
            for pair in islice(self.source.pairs(), self.n - self.taken):
                self.taken += 1
                yield pair


class NoRestore(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield value + 1, key


class RestoreMoves(en.Node[Any]):
    source: en.Node[Any]
    count: int = en.state(int)

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            self.count += 1
            yield (value, self.count) if self.count > 50 else value, key

    def restore_many(self, keys: Sequence[Any]) -> list[Any]:
        self.count += 100
        return self.source.restore_many(keys)


class WrongLength(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        yield from islice(self.source.pairs(), 0, None, 2)


class StreamRandom(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        for value, key in self.source.pairs():
            yield (value, self.context.stream), key


class SwallowsErrors(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        while True:
            try:
                yield next(self.source.pairs())
            except StopIteration:
                return
            except Exception:
                continue


class LosesAtErrors(en.Node[Any]):
    source: en.Node[Any]

    def run(self) -> Iterator[Any]:
        while True:
            chunk = list(islice(self.source.pairs(), 3))  # an error at the third loses the first two
            if not chunk:
                return
            yield [value for value, _ in chunk], tuple(key for _, key in chunk)


class KeepsIterator(en.Node[Any]):
    source: en.Node[Any]

    def bound(self) -> None:
        self._pulled: Any = None

    def run(self) -> Iterator[Any]:
        if self._pulled is None:
            self._pulled = self.source.pairs()  # dead after an error, and never made again
        yield from self._pulled


class Locked(en.Node[Any]):
    source: en.Node[Any]
    lock: Any = en.tuning()

    def run(self) -> Iterator[Any]:
        yield from self.source.pairs()


def make(kind: type[en.Node[Any]], *args: Any, n: int = 12) -> Callable[[], en.Node[Any]]:
    return lambda: kind(en.items(range(n)), *args)


def stop_at_five(value: int) -> int:
    if value == 5:
        raise StopIteration
    return value


CAUGHT: list[tuple[Callable[[], en.Node[Any]], Callable[..., None], dict[str, Any]]] = [
    (make(StateAfterYield, 8), testing.check_resume, {}),
    (make(StateAfterYield, 8), testing.check_rollback, {}),
    (make(LostBuffer), testing.check_resume, {}),
    (make(LostBuffer), testing.check_two_resumes, {}),
    (make(LostBuffer), testing.check_torchdata_loader, {}),
    (make(LostBuffer), testing.check_loader, {}),
    (make(LostBuffer), testing.check_stateful_dataloader, {"num_workers": [0]}),
    (make(LostBuffer), testing.check_topologies, {}),
    (make(Undeclared), testing.check_reset, {}),
    (make(SameKey), testing.check_keys, {}),
    (make(ListKey), testing.check_keys, {}),
    (make(GlobalRandom), testing.check_resume, {}),
    (make(GlobalRandom), testing.check_copies, {}),
    (make(EndsAgain), testing.check_end, {}),
    (make(EndsAgain), testing.check_resume, {}),
    (make(PulledTooFar, 3), testing.check_once, {}),
    (make(BuiltinMap, f.double), testing.check_functions, {}),
    (make(CallsUnguarded, f.double), testing.check_functions, {}),
    (make(SetOrder), testing.check_processes, {}),
    (make(ProcessNumber), testing.check_processes, {"hash_seeds": [1]}),
    (make(LiveState), testing.check_state, {}),
    (make(ValuesInState, n=60), testing.check_state, {"bytes_per_element": 8}),
    (make(SharedList), testing.check_copies, {}),
    (make(NeverCleared, 8), testing.check_counts, {"total": 8}),
    (make(LimitPerStream, 4), testing.check_counts, {"total": 4}),
    (make(NoRestore), testing.check_restore, {}),
    (make(RestoreMoves), testing.check_restore, {}),
    (make(WrongLength), testing.check_streams, {}),
    (make(StreamRandom), testing.check_once, {}),
    (make(SwallowsErrors), testing.check_errors, {}),
    (make(LosesAtErrors), testing.check_errors, {}),
    (make(KeepsIterator), testing.check_errors, {}),
    (make(Locked, threading.Lock()), testing.check_pickle, {}),
    (make(Locked, threading.Lock()), testing.check_processes, {"hash_seeds": [1]}),
]


def name(case: Any) -> str:
    build, check, _ = case
    return f"{type(build()).__name__} by {check.__name__}"


@pytest.mark.parametrize("case", CAUGHT, ids=name)
def test_broken_node_is_caught(case: Any) -> None:
    build, check, options = case
    subject = {"broken": build} if check is testing.check_processes else build
    with pytest.raises(ContractError) as caught:
        check(subject, **options)
    message = str(caught.value)
    assert message.startswith(f"{check.__name__}: ")
    assert type(build()).__name__ in message


def test_state_that_is_not_plain_is_refused_by_name_when_it_is_taken() -> None:
    with pytest.raises(TypeError, match="seen of OddState"):
        testing.check_state(make(OddState))


def test_stop_iteration_of_a_function_is_not_taken_for_the_end() -> None:
    with pytest.raises(en.FatalSampleError, match="StopIteration"):
        list(en.items(range(9)).map(stop_at_five))
    assert run_pass(make(BuiltinMap, stop_at_five)(), 12) == [0, 1, 2, 3, 4]  # what the check is there for


@pytest.mark.parametrize(
    "kind", [StateAfterYield, LostBuffer, SameKey, GlobalRandom, EndsAgain, SharedList, SwallowsErrors]
)
def test_whole_contract_catches_what_one_check_catches(kind: type[en.Node[Any]]) -> None:
    with pytest.raises(ContractError):
        testing.check_contract(make(kind, *([8] if kind is StateAfterYield else [])), workers=False)


def test_contract_refuses_to_skip_a_check_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="skip names 'resumes', which is no check; the checks are"):
        testing.check_contract(lambda: en.items([1]), skip=["resumes"])


def test_checks_say_what_they_need_if_it_is_not_a_pipeline() -> None:
    with pytest.raises(TypeError, match="builds a pipeline, and it returned a range"):
        testing.check_resume(lambda: range(3))  # type: ignore[arg-type, return-value]


def test_failure_names_check_cut_values_and_graph() -> None:
    with pytest.raises(ContractError) as caught:
        testing.check_resume(make(LostBuffer, n=4))
    assert str(caught.value).splitlines() == [
        "check_resume: a resume at element 1 of pass 1: the rest of that pass; the first difference is at position 0: "
        "expected 1, got 3",
        "  expected: [1, 2, 3]",
        "  got:      [3]",
        "in",
        "  LostBuffer()",
        "  └─ Items(4 elements)",
    ]
