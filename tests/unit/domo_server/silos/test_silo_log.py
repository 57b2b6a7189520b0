"""Whatever a silo says of its machine and its log, what is kept is bounded and harmless."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domo.names import MOST_TEXT, one_line
from domo_proto.v1 import federation_pb2 as pb
from domo_server.silos.silo_log import (
    LINES_PER_REPORT,
    LINES_PER_S,
    MAX_BYTES,
    MAX_LINES,
    HeardLog,
    resources,
)
from tests.support.played.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def log(clock: Clock) -> HeardLog:
    return HeardLog(clock, lambda: 1_000_000.0)


def lines(first: int, count: int, **given: Any) -> list[pb.LogLine]:
    return [
        pb.LogLine(number=i, **{"text": f"line {i}", **given}) for i in range(first, first + count)
    ]


NUMBERS = st.integers(0, 2**64 - 1)
LINE = st.builds(
    pb.LogLine,
    number=NUMBERS,
    age_s=st.floats(),
    level=st.text(max_size=10),
    text=st.text(max_size=900),
)


@given(st.lists(st.lists(LINE, max_size=80), max_size=8))
def test_any_lines(reports: list[list[pb.LogLine]]) -> None:
    log = HeardLog(Clock(), lambda: 1_000_000.0)
    for report in reports:
        log.hear(True, report)
    kept = log.after(0)
    assert len(kept) <= MAX_LINES
    assert [line.number for line in kept] == list(range(1, len(kept) + 1))
    for line in kept:
        assert len(line.text) <= MOST_TEXT
        assert line.text.isprintable()
        assert line.level in ("INFO", "WARNING", "ERROR")
        assert "1970-01-12T13:46:40" >= line.at[:19] >= "1970-01-11T13:46:40"


@given(
    st.builds(
        pb.Resources,
        gpu_memory_used_bytes=st.none() | NUMBERS,
        gpu_memory_total_bytes=st.none() | NUMBERS,
        gpu_busy=st.none() | st.floats(),
        memory_available_bytes=st.none() | NUMBERS,
        memory_total_bytes=st.none() | NUMBERS,
        disk_free_bytes=st.none() | NUMBERS,
    )
)
def test_any_numbers(message: pb.Resources) -> None:
    kept = resources(message).model_dump(exclude_none=True)
    for name, value in kept.items():
        assert value == getattr(message, name)
        assert 0 <= value <= (1 if name == "gpu_busy" else MAX_BYTES)
    if {"gpu_memory_used_bytes", "gpu_memory_total_bytes"} <= kept.keys():
        assert kept["gpu_memory_used_bytes"] <= kept["gpu_memory_total_bytes"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain", "red and plain"),
        ("one\r\ntwo\tthree\0", "one two three"),
        ("right\u202eto left, zero\u200bwidth", "rightto left, zerowidth"),
        ("Gr\u00fc\u00dfe \u2713", "Gr\u00fc\u00dfe \u2713"),
        ("\x1b", ""),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_a_text_that_can_be_printed(text: str, kept: str) -> None:
    assert one_line(text) == kept


def test_lines_that_are_here_already_are_passed_over(log: HeardLog) -> None:
    log.hear(True, lines(1, 3))
    log.hear(True, lines(2, 4))
    assert [line.text for line in log.after(0)] == [f"line {i}" for i in range(1, 6)]
    assert [line.text for line in log.after(4)] == ["line 5"]
    log.begin()
    log.hear(True, lines(1, 1))
    assert log.after(5)[0].text == "line 1", "the silo was started again"


def test_more_than_the_rate_is_lost(log: HeardLog, clock: Clock) -> None:
    for report in range(10):
        log.hear(True, lines(1 + 100 * report, 100))
    assert len(log.after(0)) == MAX_LINES
    assert log.after(0)[-1].number == MAX_LINES, "50 of each of four reports, and then no more"
    clock.now += 1
    log.hear(True, lines(5000, LINES_PER_REPORT))
    assert log.after(0)[-1].number == MAX_LINES + LINES_PER_S


def test_a_silo_that_shares_no_more_is_forgotten(log: HeardLog) -> None:
    log.hear(True, lines(1, 3))
    log.hear(False, lines(4, 3))
    assert (log.shared, log.after(0)) == (False, [])
