"""Drift and cosines of real rounds, as REST and the files of a run show them."""

import csv
import io
import sqlite3
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.older_database import take_back
from tests.support.played.raw import Raw

UPDATES = ([[1, 2, 3], [3, -2, 1]], [[2, 2, 0], [-1, 0, 4]])
"""d_k by round and silo, of nn.Linear(2, 1)."""


def play(server: Coordinator) -> list[dict[str, Any]]:
    """Two silos that send `UPDATES`; the rounds of the run."""
    silos = [Raw(server), Raw(server)]
    for silo, name in zip(silos, ("site-a", "site-b"), strict=True):
        silo.join(silo_id=name)
    for silo in silos:
        assert silo.enroll().enrolled
    for r, round_ in enumerate(UPDATES):
        for silo, d in zip(silos, round_, strict=True):
            silo.fetch()
            silo.submit(np.array(d, "<f4").tobytes(), round_index=r)
    assert server.ended()["state"] == "FINISHED"
    for silo in silos:
        silo.close()
    return server.rounds()


def test_rest_shows_drift_and_cosines(tmp_path: Path) -> None:
    run = own_run(
        tmp_path, nn.Linear(2, 1), num_silos=2, weights={"site-a": 1, "site-b": 3}, evaluate_every=0
    )
    run |= {"roster": ["site-a", "site-b"]}
    del run["num_silos"]
    with coordinator(tmp_path, run) as server:
        first, second = play(server)
        path = f"/runs/{server.run_ids[0]}"
        assert server.get(f"{path}/history.json")["rounds"] == [first, second]
        with urllib.request.urlopen(f"{server.url}/api/v1{path}/history.csv", timeout=30) as a:
            table = list(csv.DictReader(io.StringIO(a.read().decode())))

    v = np.array([1, 3])
    d = np.array(UPDATES, np.float64)
    means = (v[:, None] * d).sum(1) / 4
    spread = (v * np.square(d - means[:, None]).sum(2)).sum(1) / 4
    drift = np.sqrt(spread) / np.linalg.norm(means, axis=1)
    assert [first["drift"], second["drift"]] == pytest.approx(drift, rel=1e-5)
    assert [p["cosine"] for p in first["participants"]] == [None, None]
    m = means[0]  # m_1 = mu_s*0 + D_0
    cosines = d[1] @ m / np.linalg.norm(d[1], axis=1) / np.linalg.norm(m)
    shown = [p["cosine"] for p in second["participants"]]
    assert shown == pytest.approx(cosines, rel=1e-5)
    assert [row["cosine"] for row in table] == ["", "", *map(str, shown)]
    assert [row["drift"] for row in table[1:3]] == [str(first["drift"]), str(second["drift"])]


def test_rounds_of_an_older_version_have_none(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=2, evaluate_every=0)
    with coordinator(tmp_path, run) as server:
        first, _ = play(server)
        assert first["drift"] > 0
    db = sqlite3.connect(tmp_path / "coordinator" / "coordinator.db")
    parts = "replace(participants, '\"cosine\"', '\"unknown\"')"
    db.execute(f"UPDATE rounds SET participants = {parts}")
    db.commit()
    db.close()
    take_back(f"sqlite:///{tmp_path / 'coordinator' / 'coordinator.db'}", "0002")
    with coordinator(tmp_path, run) as server:
        for record in server.rounds():
            assert record["drift"] is None
            assert [p["cosine"] for p in record["participants"]] == [None, None]
