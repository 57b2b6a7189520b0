"""The metadata in a real PostgreSQL, which the test starts where it is installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from domo.errors import StateError
from tests.coordinator import Coordinator, coordinator
from tests.silos import agents, options

RUN = {"name": "r", "task": "digits", "method": "DOMO", "num_silos": 2, "local_steps": 2}
INITDB = shutil.which("initdb") or max(
    map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None
)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of an empty one; it listens at a socket in its own folder only."""
    pytest.importorskip("psycopg", reason="no psycopg here")
    if INITDB is None:
        pytest.skip("no PostgreSQL here")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="domo-postgres-") as folder:
        if user:
            shutil.chown(folder, user)
        data, pg_ctl = f"{folder}/data", str(Path(INITDB).with_name("pg_ctl"))

        def do(*command: str) -> None:
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        do(INITDB, "-D", data, "-A", "trust", "-U", "domo", "--no-sync")
        flags = f"-h '' -k {folder} -F"
        do(pg_ctl, "-D", data, "-w", "-l", f"{folder}/log", "-o", flags, "start")
        try:
            yield f"postgresql+psycopg://domo@/postgres?host={folder}"
        finally:
            do(pg_ctl, "-D", data, "-m", "immediate", "stop")


def rounds_of(server: Coordinator, folder: Path, until_round: int) -> None:
    def shard(i: int) -> Any:
        return options(shard=(i, 2))

    with agents(server.address, ["site-a", "site-b"], folder, shard):
        path = f"/runs/{server.run_ids[0]}"
        server.until(path, lambda run: run["rounds_done"] >= until_round)


def test_a_run_over_a_restart_makes_the_bytes_that_it_makes_with_sqlite(
    database: str, tmp_path: Path
) -> None:
    ends = []
    for name, settings in (("sqlite", {}), ("postgres", {"database": database})):
        folder = tmp_path / name
        folder.mkdir()
        run = {**RUN, "num_rounds": 4}
        with coordinator(folder, run, **settings) as server:
            rounds_of(server, folder, 2)
            (said,) = [e["text"] for e in server.get("/events") if e["kind"] == "started"]
        with coordinator(folder, run, **settings) as server:
            rounds_of(server, folder, 4)
            assert server.ended()["state"] == "FINISHED"
            ends.append((said, [r["state"] for r in server.rounds()], server.run()["metrics"]))
            checkpoints = folder / "coordinator" / "runs" / "1-r" / "checkpoints"
            ends[-1] += (load_file(max(checkpoints.glob("x*.safetensors")))["x"].tolist(),)
    assert ends[0] == ends[1]
    assert ends[0][1] == ["COMMITTED"] * 4


def test_a_second_coordinator_is_refused(database: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    text = "another domo-server uses the database postgresql"
    with coordinator(first, database=database), pytest.raises(StateError, match=text):
        Coordinator(second, database=database)
    Coordinator(second, database=database).close()
