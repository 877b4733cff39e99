"""`log` tells how many elements have passed."""

from __future__ import annotations

import logging
import re

import pytest

import energon_nodes as en
from energon_nodes.combinators.watching import Meter

LINE = re.compile(r"(?:(\w+): )?([\d,]+) elements, ([\d.,e+]+)/s, (\d+) % of the time waiting")


def test_every_so_many_elements_a_line_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "energon_nodes"):
        list(en.items(range(3500)).log(label="train"))
    lines = [LINE.fullmatch(record.getMessage()) for record in caplog.records]
    assert [line and (line[1], line[2]) for line in lines] == [("train", n) for n in ("1,000", "2,000", "3,000")]


def test_a_logger_and_its_level_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mine"):
        list(en.items(range(4)).log(2, to="mine", level=logging.DEBUG))
        list(en.items(range(4)).log(4, to=logging.getLogger("mine"), level="WARNING").clone())
    assert [(record.name, record.levelname) for record in caplog.records] == [("mine", "DEBUG")] * 2 + [
        ("mine", "WARNING")
    ]


def test_the_line_comes_when_the_next_element_is_asked_for() -> None:
    lines: list[str] = []
    node = en.items(range(4)).log(2, to=lines.append)
    next(node), next(node)
    assert not lines
    next(node)
    assert len(lines) == 1


def test_an_error_of_the_function_loses_no_element() -> None:
    def full(text: str) -> None:
        raise OSError("the disk is full")

    node = en.items(range(5)).log(2, to=full).map(str)
    got: list[str] = []
    errors = 0
    while True:
        try:
            got.append(next(node))
        except OSError:
            errors += 1
        except StopIteration:
            break
    assert (got, errors) == (["0", "1", "2", "3", "4"], 2)


def test_the_streams_of_a_process_count_together() -> None:
    lines: list[str] = []
    assert sorted(en.items(range(40)).log(10, to=lines.append).loader(streams=4)) == list(range(40))
    counts = [int(line.split()[0]) for line in lines]
    assert counts == [10, 20, 30, 40]


def test_waiting_is_the_share_of_time_in_the_source() -> None:
    meter = Meter()
    meter.enter()
    meter.count, meter.waited = 8, 3.0
    elements, seconds, waited = meter.restart()
    assert (elements, waited) == (8, 3.0)
    assert 0 <= seconds < 3
    assert meter.restart()[0] == 0


def test_it_comes_and_goes_between_save_and_load() -> None:
    def make(watched: bool) -> en.Node[list[int]]:
        numbers = en.items(range(20), shuffle=True).shuffle(4)
        return numbers.log(3).watchdog(60).batch(2).gc(1000) if watched else numbers.batch(2)

    for saved in (False, True):
        node = make(saved)
        next(node)
        again = make(not saved)
        again.reset(node.state_dict())
        assert list(again) == list(node)
        loader = make(saved).loader(streams=2)
        rest = iter(loader)
        next(rest)
        resumed = make(not saved).loader()
        resumed.load_state_dict(loader.state_dict())
        assert list(resumed) == list(rest)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="log needs an int every >= 1, got every=0"):
        en.items([1]).log(0)
    with pytest.raises(TypeError, match="log needs the name of a logger, a logger, or a function of the text, got 3"):
        en.items([1]).log(to=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'log needs the name of a level \(.*"INFO", .*or an int, got level=.info.'):
        en.items([1]).log(level="info")
    for level in (True, 20.0, None):
        with pytest.raises(
            TypeError, match=r"log needs level, an int or a name such as .INFO., got .*: use logging.INFO"
        ):
            en.items([1]).log(level=level)  # type: ignore[arg-type]
