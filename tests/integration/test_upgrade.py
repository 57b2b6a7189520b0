"""A state folder that another version of domo wrote."""

import sqlite3
from pathlib import Path

from tests.support.live.coordinator import coordinator

RUN = {"name": "r", "task": "digits", "num_rounds": 3, "num_silos": 2}


def test_a_run_is_the_same_where_the_settings_are(tmp_path: Path) -> None:
    """A new version may digest a configuration differently: what counts is the settings."""
    with coordinator(tmp_path, RUN) as first:
        run_ids = first.run_ids
    with sqlite3.connect(tmp_path / "coordinator" / "coordinator.db") as db:
        assert db.execute("UPDATE runs SET config_digest = 'of another version'").rowcount == 1
    db.close()
    with coordinator(tmp_path, RUN) as second:
        assert second.run_ids == run_ids
