"""What an older domo left behind, killed with a round open, opens and goes on to the same end."""

import json
import sqlite3
import tarfile
from pathlib import Path

from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options

STORED = Path(__file__).parent / "stored"
TASK = "tests.support.tasks.stored:StoredTask"
SILOS = ["site-a", "site-b"]


def test_a_run_that_an_older_version_began_ends_with_its_bytes(tmp_path: Path) -> None:
    """Database, checkpoints, an accepted update, residuals and a held model of two silos."""
    expected = json.loads((STORED / "expected.json").read_text())
    with tarfile.open(STORED / "state.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for number, name in enumerate(SILOS):
        (tmp_path / name).mkdir()
        (tmp_path / name / "silo.txt").write_text(str(number))

    with coordinator(tmp_path) as server:
        run = server.until("/runs/1-stored", lambda run: run["waiting_for"] == ["site-b"])
        assert run["rounds_done"] == expected["rounds_done"]
        rounds = server.get("/runs/1-stored/rounds")
        assert [len(r["participants"]) for r in rounds] == [2] * expected["rounds_done"]
        kinds = {event["kind"] for event in server.get("/events")}
        assert {"joined", "started", "round-committed"} <= kinds
        assert run["metrics"] == expected["metrics"][: expected["rounds_done"] + 1]
        with agents(server.address, SILOS, tmp_path, lambda i: options(tmp_path / SILOS[i], TASK)):
            end = server.until("/runs/1-stored", lambda run: run["state"] != "OPEN", 100)
            end = server.until("/runs/1-stored", lambda run: run["finished_at"] is not None)
        assert (end["state"], end["complete"]) == ("FINISHED", True), end
        assert end["checkpoint_digest"] == expected["checkpoint_digest"]
        assert end["metrics"] == expected["metrics"]
    with sqlite3.connect(tmp_path / "coordinator" / "coordinator.db") as db:
        made = dict(db.execute("SELECT round_index + 1, model_digest FROM rounds").fetchall())
        told = db.execute("SELECT DISTINCT model_index, model_digest FROM evaluations").fetchall()
    db.close()
    before = expected["rounds_done"]
    assert all(made[i] is None for i in range(1, before + 1)), "none was kept then"
    assert None not in [made[i] for i in range(before + 1, 7)]
    assert {(i, d) for i, d in told if i > before} == {(i, made[i]) for i in made if i > before}
