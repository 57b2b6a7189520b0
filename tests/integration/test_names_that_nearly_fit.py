"""A silo under another name than its run waits for: both ends say what they see, and the cure."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

import domo_client
from domo_client.loop.silo import Silo
from tests.support.live.coordinator import Coordinator, coordinator, own_run


def told_at(silo: Silo) -> Callable[[], str]:
    """What a silo is told while it waits for a run, once it is."""
    texts: list[str] = []
    told = threading.Event()

    def tell(text: str) -> None:
        texts.append(text)
        told.set()

    silo.on_wait = tell
    threading.Thread(target=_wait, args=(silo,), daemon=True).start()

    def first() -> str:
        assert told.wait(30)
        return texts[0]

    return first


def _wait(silo: Silo) -> None:
    try:
        silo.next_run()
    except Exception:
        assert silo.connection.session.closed


def the_run(server: Coordinator) -> str:
    return f"/runs/{server.run_ids[0]}"


@pytest.mark.parametrize("name", ["sitea", "Site-A", "site_a", "site-a.hospital.org", "site-aa"])
def test_a_name_that_is_nearly_one_of_the_roster(name: str, tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(4, 2), num_silos=None, roster=["site-a", "clinic"])
    with coordinator(tmp_path, run, report_interval_s=0.5) as server:
        silo = domo_client.connect(server.address, name, state_dir=tmp_path / "a")
        said = told_at(silo)()
        assert said.startswith(f"{name} has no place in run 1-")
        assert said.endswith(
            "It waits for site-a: did you mean --name site-a, with the state folder of that silo?"
        )
        assert "clinic" not in said, "a name that is not like its own is none of its business"
        text = f"{name} is connected and has no place in this run: is it site-a by another name?"
        (event,) = server.until("/events?kind=no-place", lambda told: told)
        assert event["text"] == text
        detail = server.until(the_run(server), lambda r: "connected" in r["detail"])["detail"]
        assert detail == f"waiting for site-a, clinic to enrol; {text}"
        silo.close()


def test_a_silo_that_is_renamed_in_mid_run(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(4, 2), num_silos=1, num_rounds=9)
    with coordinator(tmp_path, run, report_interval_s=0.5) as server:
        model, folder = nn.Linear(4, 2), tmp_path / "a"
        silo = domo_client.connect(server.address, "site-a", state_dir=folder)
        next(iter(silo.rounds(model, samples=4)))  # round 1 is in hand
        silo.close()
        shutil.rmtree(folder / "vectors")
        renamed = domo_client.connect(server.address, "site-a1", state_dir=folder)
        said = told_at(renamed)()
        assert "the run has begun with the first 1 silo that enrolled" in said
        assert "did you mean --name site-a, with" in said
        server.until("/events?kind=no-place", lambda told: told)
        stalled = server.until(the_run(server), lambda r: r["stalled"])["stalled"]
        assert stalled.endswith(
            "site-a1 is connected and has no place in this run: is it site-a by another name?"
        )
        renamed.close()


def test_one_that_is_no_name_of_the_run_is_told_no_name(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(4, 2), num_silos=None, roster=["site-a"])
    with coordinator(tmp_path, run, report_interval_s=0.5) as server:
        silo = domo_client.connect(server.address, "other", state_dir=tmp_path / "a")
        said = told_at(silo)()
        assert said.endswith("the admin, or another --name, can change that")
        assert "site-a" not in said
        text = "waiting for site-a to enrol; other is connected and has no place in this run"
        server.until(the_run(server), lambda r: r["detail"] == text)
        assert not server.get("/events?kind=no-place")
        silo.close()
