"""`wrap` brings in foreign iterables, iterators, nodes and factories."""

from __future__ import annotations

import gc
import logging
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torchdata.nodes import IterableWrapper, Loader, Mapper, Prefetcher, SamplerWrapper

import energon_nodes as en
from energon_nodes.testing import check_resume, interleave, on_stream


def letters(stream: int, streams: int) -> list[str]:
    return [f"{stream}/{streams}{letter}" for letter in "abc"]


def count() -> Iterator[int]:
    yield from range(5)


class Once:
    """An iterable that makes a new iterator each time."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


def fail_at_two(value: int) -> int:
    if value == 2:
        raise ValueError("two")
    return value


# ---- what can be wrapped ---------------------------------------------------------------------


FOREIGN: dict[str, Callable[[], Any]] = {
    "range": lambda: range(5),
    "list": lambda: [0, 1, 2, 3, 4],
    "dict": lambda: dict.fromkeys(range(5)),
    "iterable": lambda: Once(5),
    "node": lambda: IterableWrapper(range(5)),
    "mapper": lambda: Mapper(IterableWrapper(range(5)), int),
    "thread": lambda: Prefetcher(IterableWrapper(range(5)), 2),
    "loader": lambda: Loader(IterableWrapper(range(5))),
    "factory": lambda: lambda stream, streams: range(5),
    "factory of nodes": lambda: lambda stream, streams: IterableWrapper(range(5)),
}
ITERATORS: dict[str, Callable[[], Any]] = {"generator": count, "map": lambda: map(int, "01234")}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=list(FOREIGN))
def test_elements_come_in_their_order_and_a_state_goes_on(make: Callable[[], Any]) -> None:
    assert list(en.wrap(make())) == list(range(5))
    check_resume(lambda: en.wrap(make()))
    check_resume(lambda: en.wrap(make()).map(str).batch(2).shuffle(2).unbatch())


@pytest.mark.parametrize("make", ITERATORS.values(), ids=list(ITERATORS))
def test_an_iterator_gives_one_pass_and_a_state_goes_on_with_a_new_one(make: Callable[[], Any]) -> None:
    for taken in range(6):  # `check_resume` looks at three passes
        node = en.wrap(make())
        assert [next(node) for _ in range(taken)] == list(range(taken))
        again = en.wrap(make())
        again.reset(node.state_dict())
        assert list(again) == list(node) == list(range(taken, 5))


def test_a_node_of_the_library_is_itself() -> None:
    node = en.items([1])
    assert en.wrap(node) is node


def test_none_is_an_element_like_others() -> None:
    assert list(en.wrap([None, 1, None])) == [None, 1, None]


@pytest.mark.parametrize(
    "foreign",
    [range(4), Once(4), IterableWrapper(range(4)), Loader(IterableWrapper(range(4)))],
    ids=lambda foreign: type(foreign).__name__,
)
def test_the_next_pass_begins_anew(foreign: Any) -> None:
    node = en.wrap(foreign)
    assert [list(node), list(node), list(node)] == [[0, 1, 2, 3]] * 3
    assert list(en.wrap(foreign).repeat(2)) == [0, 1, 2, 3] * 2


def test_a_sampler_gives_another_order_in_each_pass() -> None:
    class Sampler:
        def __init__(self) -> None:
            self.epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            return iter([self.epoch, self.epoch])

        def __len__(self) -> int:
            return 2

    node = en.wrap(SamplerWrapper(Sampler()))
    assert [list(node), list(node)] == [[0, 0], [1, 1]]


def test_the_key_is_the_pass_and_the_number() -> None:
    assert [key for _, key in en.wrap("ab").repeat(2).with_keys()] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    node = on_stream(lambda: en.wrap(letters).with_keys(), 1, 3)()
    assert [key for _, key in node] == [(0, 1, 0), (0, 1, 1), (0, 1, 2)]


def test_what_cannot_be_rebuilt_says_so() -> None:
    with pytest.raises(NotImplementedError, match="a foreign object has no random access; use items"):
        en.wrap("ab").map(str).restore((0, 1))


# ---- iterators that can be run once ----------------------------------------------------------


def test_a_second_pass_over_an_iterator_is_a_named_error() -> None:
    node = en.wrap(count())
    assert list(node) == list(range(5))
    with pytest.raises(RuntimeError, match=r"Wrap\(generator\) gives its elements once, and a second pass"):
        next(iter(node))


def test_an_iterator_in_two_pipelines_is_a_named_error() -> None:
    source = en.wrap(count())
    left, right = source.map(str), source.map(str)
    assert next(left) == "0"
    with pytest.raises(RuntimeError, match="gives its elements once"):
        next(right)
    assert next(left) == "1"


def test_a_foreign_node_is_run_by_the_pipeline_that_began_last() -> None:
    source = en.wrap(IterableWrapper(range(5)))
    left, right = source.map(str), source.map(str)
    assert next(left) == "0"
    assert next(right) == "0"
    with pytest.raises(RuntimeError, match=r"is run by another pipeline or loader now.*wrap a factory"):
        next(left)
    assert list(right) == ["1", "2", "3", "4"]


def test_an_iterable_may_be_run_in_several_pipelines_at_once() -> None:
    source = en.wrap(Once(3))
    left, right = source.map(str), source.map(str)
    assert [next(left), next(right), next(left), next(right)] == ["0", "0", "1", "1"]
    assert list(en.zip(source, source)) == [(0, 0), (1, 1), (2, 2)]


def test_clones_do_not_keep_a_dropped_pipeline_alive() -> None:
    source = en.wrap(count())
    running = source.map(str)
    next(running)
    seen = weakref.ref(running)
    del running
    gc.collect()
    assert seen() is None
    assert pickle.loads(pickle.dumps(en.wrap([1]))).clone()


# ---- streams ---------------------------------------------------------------------------------


def test_several_streams_without_a_share_are_a_named_error() -> None:
    with pytest.raises(
        ValueError, match=r'Wrap\(range\) under 2 streams would deliver every element that often.*"stride"'
    ):
        en.wrap(range(9)).map(str).loader(streams=2)


@pytest.mark.parametrize("streams", [1, 2, 3, 7, 20])
def test_stride_gives_each_stream_its_part(streams: int) -> None:
    for foreign in (range(13), Once(13)):
        found = interleave(lambda foreign=foreign: en.wrap(foreign, share="stride"), streams, passes=2)
        assert [[value for _, value in elements] for elements in found] == [list(range(13))] * 2


def test_stride_works_in_a_loader_that_hosts_several_streams() -> None:
    assert list(en.wrap(Once(7), share="stride").loader(streams=3)) == list(range(7))


def test_a_part_of_a_stride_goes_on_from_its_state() -> None:
    for stream in range(3):
        check_resume(on_stream(lambda: en.wrap(Once(20), share="stride"), stream, 3))


def test_a_factory_is_told_stream_and_streams() -> None:
    found = interleave(lambda: en.wrap(letters), 2)[0]
    assert [value for _, value in found] == ["0/2a", "1/2a", "0/2b", "1/2b", "0/2c", "1/2c"]


# ---- errors ----------------------------------------------------------------------------------


def test_an_iterator_that_can_go_on_behind_an_error_does() -> None:
    for foreign in (map(fail_at_two, range(5)), Mapper(IterableWrapper(range(5)), fail_at_two)):
        node = en.wrap(foreign)
        assert [next(node), next(node)] == [0, 1]
        with pytest.raises(ValueError, match="two") as caught:
            next(node)
        assert caught.value.__notes__[1] == "restore key (0, 2)"
        assert list(node) == [3, 4]


def test_a_state_behind_an_error_goes_on_behind_it() -> None:
    node = en.wrap(map(fail_at_two, range(5)))
    node.bind(en.Context(on_error="skip"))
    assert [next(node) for _ in range(3)] == [0, 1, 3]
    assert node.failed == 1
    again = en.wrap(map(fail_at_two, range(5)))
    again.reset(node.state_dict())
    assert list(again) == [4]


def broken() -> Iterator[int]:
    yield 0
    raise ValueError("broken")


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_generator_that_raised_is_at_its_end_and_that_is_a_named_error(policy: Any) -> None:
    node = en.wrap(lambda stream, streams: broken())
    node.bind(en.Context(on_error=policy))
    assert next(node) == 0
    if policy == "raise":
        with pytest.raises(ValueError, match="broken"):
            next(node)
    with pytest.raises(en.FatalSampleError, match=r"the generator in Wrap.*has raised, which ends it") as caught:
        next(node)
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_end_right_behind_an_error_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    node = en.wrap(map(fail_at_two, range(3)))
    node.bind(en.Context(on_error="skip"))
    with caplog.at_level(logging.WARNING, "energon_nodes"):
        assert list(node) == [0, 1]
    assert "ended right behind an error" in caplog.text


def test_data_that_is_shorter_than_before_is_a_named_error() -> None:
    node = en.wrap(Once(9))
    for _ in range(5):
        next(node)
    again = en.wrap(Once(3))
    again.reset(node.state_dict())
    with pytest.raises(en.StateError, match=r"stands at element 5 of Wrap\(Once\), which has 3 now"):
        next(again)


def test_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match="wrap needs an iterable, a torchdata node or a factory, got int"):
        en.wrap(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wrap needs share=None or \"stride\", got 'all'"):
        en.wrap([1], share="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wrap takes no share='stride' with a factory"):
        en.wrap(letters, share="stride")


def test_a_foreign_state_that_cannot_be_saved_is_a_named_error() -> None:
    class Odd:
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

        def state_dict(self) -> dict[str, Any]:
            return {"odd": object()}

        def load_state_dict(self, state: dict[str, Any]) -> None: ...

    node = en.wrap(Odd())
    next(node)
    with pytest.raises(TypeError, match=r"a checkpoint cannot hold a value of type object"):
        node.state_dict()
