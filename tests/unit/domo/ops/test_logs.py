"""Log lines for people and for machines."""

import contextvars
import json
import logging
from datetime import UTC, datetime

import pytest

from domo.errors import ConfigError
from domo.ops.logs import (
    CONTEXT,
    StderrHandler,
    log_context,
    setup_logging,
)
from tests.support.hostile import FORGED

log = logging.getLogger("domo.x")


def test_lines_for_people(capsys):
    setup_logging()
    log.info("update of %d bytes", 12, extra={"run": "r1", "round": 3, "silo": "a"})
    log.debug("not shown")
    err = capsys.readouterr().err
    assert err.endswith("INFO  [r1/3/a] update of 12 bytes\n")
    assert err.count("\n") == 1


def test_lines_for_machines(capsys, monkeypatch):
    monkeypatch.setenv("DOMO_LOG", "json")
    assert setup_logging("INFO") == "json"
    setup_logging("INFO")  # once more changes nothing
    log.info("two\nlines", extra={"silo": "a"})
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    at = datetime.fromisoformat(first.pop("time"))
    assert at.tzinfo == UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert first == {"level": "INFO", "logger": "domo.x", "message": "two\nlines", "silo_id": "a"}
    assert second["exception"].startswith("Traceback")
    assert second["exception"].endswith("ValueError: x")
    assert not set(CONTEXT.values()) & set(second)
    assert sum(isinstance(h, StderrHandler) for h in logging.getLogger().handlers) == 1


def test_the_flag_goes_before_the_variable(capsys, monkeypatch):
    monkeypatch.setenv("DOMO_LOG", "json")
    assert setup_logging(form="text") == "text"
    log.info("plain")
    assert capsys.readouterr().err.endswith("INFO  plain\n")


def test_lines_name_what_is_in_hand(capsys):
    def work() -> None:
        log_context(run="r1", round=2, silo="a")
        log.info("one")
        log.info("two", extra={"silo": "b"})
        log_context(round=None)
        log.info("three")

    setup_logging(form="json")
    contextvars.copy_context().run(work)
    log.info("elsewhere")
    *lines, last = map(json.loads, capsys.readouterr().err.splitlines())
    named = [{k: line[k] for k in CONTEXT.values() if k in line} for line in lines]
    assert named == [
        {"run_id": "r1", "round": 2, "silo_id": "a"},
        {"run_id": "r1", "round": 2, "silo_id": "b"},
        {"run_id": "r1", "silo_id": "a"},
    ]
    assert not set(CONTEXT.values()) & set(last)


def test_settings_that_do_not_exist(monkeypatch):
    with pytest.raises(ConfigError, match="DOMO_LOG_LEVEL = 'LOUD': must be"):
        setup_logging("loud")
    monkeypatch.setenv("DOMO_LOG", "xml")
    with pytest.raises(ConfigError, match="DOMO_LOG, must be text or json, got 'xml'"):
        setup_logging()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_record_is_one_line_whatever_a_peer_has_said(form, capsys):
    setup_logging(form=form)
    for evil in FORGED:
        log.info("site-a failed: %s", "lost" + evil, extra={"silo": "a" + evil})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(FORGED)
    assert all(line.isprintable() for line in lines)


def test_the_lines_of_a_traceback_look_like_no_record(capsys):
    setup_logging()
    try:
        raise ValueError("lost\n13:00:00 INFO  forged\u2028\x1b[2Jmore\x85yet more")
    except ValueError:
        log.exception("failed", stack_info=True)
    head, *lines = capsys.readouterr().err.splitlines()
    assert head.endswith("ERROR failed")
    assert all(line.startswith("    ") and line.isprintable() for line in lines), lines
    assert "    13:00:00 INFO  forged" in lines
    assert "    Traceback (most recent call last):" in lines
