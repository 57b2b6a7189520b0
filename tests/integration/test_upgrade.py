"""A state folder that another version of domo wrote."""

import sqlite3
from pathlib import Path

from torch import nn

from domo.api.client import Coordinator
from tests.support.live.coordinator import coordinator, own_run

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


def test_a_run_with_a_path_in_its_name_is_listed_and_stopped(tmp_path: Path) -> None:
    """Such a name was taken once; nothing of it is written outside of the state folder now."""
    with coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1))):
        pass
    before = sorted(tmp_path.rglob("*"))
    task, name = "../../../../p/x:Y", "domo-../../../../p/x.y"
    with sqlite3.connect(tmp_path / "coordinator" / "coordinator.db") as db:
        db.execute(
            "UPDATE runs SET name = ?, run_id = '1-' || ?, config = json_set(config, '$.task', ?)",
            (name, name, task),
        )
    db.close()
    with coordinator(tmp_path) as again, Coordinator(again.url, again.token) as asked:
        run_id = f"1-{name}"
        assert [run.run_id for run in asked.runs()] == [run_id]
        assert asked.run(run_id).config["task"] == task
        assert asked.rounds(run_id) == []
        asked.stop(run_id)
        assert asked.wait(run_id, 30).state == "STOPPED"
    with coordinator(tmp_path) as again, Coordinator(again.url) as asked:
        assert asked.run(run_id).state == "STOPPED"
    outside = [path for path in tmp_path.rglob("*") if path not in before]
    assert all(path.parts[len(tmp_path.parts)] == "coordinator" for path in outside)
    assert not (tmp_path.parent / "p").exists()
