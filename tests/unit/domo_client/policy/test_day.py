"""What left in a day."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domo_client.policy.day import FILE, Day

EVENING = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)


def test_an_update_counts_once_and_a_restart_begins_no_new_day(tmp_path: Path) -> None:
    day = Day(tmp_path, lambda: EVENING)
    for name in ("a", "a", "b"):
        day.note_update(name)
    day.note_test()
    again = Day(tmp_path, lambda: EVENING)
    assert (again.updates, again.tests) == (2, 1)
    assert again.has("b")
    again.note_update("b")
    assert again.updates == 2


def test_a_new_day_begins_at_midnight(tmp_path: Path) -> None:
    now = [EVENING]
    day = Day(tmp_path, lambda: now[0])
    day.note_update("a")
    now[0] += timedelta(minutes=1)
    assert (day.updates, day.tests) == (0, 0)
    day.note_update("a")
    assert day.updates == 0, "it is the same one"
    day.note_update("b")
    assert Day(tmp_path, lambda: now[0]).updates == 1


@pytest.mark.parametrize("text", ["", "{", '{"day": "today"}', '{"day": "2026-01-31", "n": 1}'])
def test_a_damaged_file_is_said(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(text)
    with caplog.at_level(logging.WARNING):
        assert Day(tmp_path, lambda: EVENING).updates == 0
    assert "today's updates are counted anew" in caplog.text
