import logging
from collections.abc import Iterator

import pytest

from domo.names import MOST_TEXT
from domo.outside.text import Public
from domo_client.telemetry.log_tail import (
    LINES_PER_REPORT,
    MAX_LINES,
    LogTail,
    journal,
)


@pytest.fixture
def tail() -> Iterator[LogTail]:
    it = LogTail("site-a")
    yield it
    it.close()


def texts(tail: LogTail) -> list[str]:
    return [line.text for line in tail.unheard()]


def test_only_domos_own_lines_from_info_on(tail: LogTail) -> None:
    logging.getLogger("domo_client.state.folder").warning("%s is damaged", "a file")
    journal.info("round 1", extra={"silo": "site-a"})
    for other in ("", "my_task", "domo_hospital", "torch", "examples.own_task"):
        logging.getLogger(other).error("patient 7")
    logging.getLogger("domo_client.rpc.session").debug("patient 7")
    journal.info("round 1", extra={"silo": "site-b"})
    assert texts(tail) == ["... is damaged", "round 1"]
    assert [line.level for line in tail.unheard()] == ["WARNING", "INFO"]


def test_words_and_numbers_go_and_what_is_put_into_them_stays(tail: LogTail) -> None:
    log = logging.getLogger("domo.tasks.images.reading")
    log.warning("left out in %s: %d files, as %r", "/data/Doe", 3, ValueError("Doe"))
    log.warning("%(what)s of %(n)d", {"what": "Doe", "n": 2})
    log.warning("silo %s", Public("site-a"))
    log.warning("100 %")
    assert texts(tail) == ["left out in ...: 3 files, as ...", "... of 2", "silo site-a", "100 %"]


def test_no_traceback_and_no_long_line(tail: LogTail) -> None:
    try:
        raise ValueError("patient 7")
    except ValueError:
        logging.getLogger("domo.training.local_round").exception("it failed")
    journal.info("x" * 10_000)
    assert texts(tail) == ["it failed", "x" * (MOST_TEXT - 3) + "..."]


def test_what_was_heard_is_not_said_again_and_the_oldest_go_first(tail: LogTail) -> None:
    for i in range(MAX_LINES + 10):
        journal.info("line %d", i)
    first = tail.unheard()
    assert [line.number for line in first] == list(range(11, 11 + LINES_PER_REPORT))
    assert tail.unheard() == first, "until they were heard"
    tail.heard(first[-1].number)
    assert tail.unheard()[0].number == first[-1].number + 1


def test_a_closed_one_hears_nothing(tail: LogTail) -> None:
    tail.close()
    journal.error("later")
    assert tail.unheard() == []
