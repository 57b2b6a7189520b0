"""A state folder that was copied, and a silo that moves."""

import time
from pathlib import Path

import pytest
from torch import nn

import domo_client
from domo.errors import SiloConflictError
from tests.support.live.coordinator import coordinator, own_run
from tests.support.live.silos import copy_state


def test_a_copy_of_a_silo_is_refused_and_said_once_and_moving_just_works(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run = own_run(tmp_path, nn.Linear(4, 2, bias=False), num_silos=2)
    with coordinator(tmp_path, run, report_interval_s=0.5) as server:
        silo = domo_client.connect(server.address, "site-a", state_dir=here)
        server.until("/silos", lambda them: them)
        copy_state(here, there)
        joined = len(server.get("/events?kind=joined"))
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(SiloConflictError, match=r"\(127.0.0.1\), since .*--state-dir"):
                domo_client.connect(server.address, "site-a", state_dir=there)
            assert time.monotonic() - began < 20.0
        (event,) = server.until("/events?kind=silo-conflict", lambda told: told)
        assert event["text"].startswith("two processes have the identity of site-a: ")
        assert event["text"].count("(127.0.0.1)") == 2
        assert len(server.get("/events?kind=joined")) == joined
        assert silo.connection.counts.joins == 1
        silo.close()
        moved = domo_client.connect(server.address, "site-a", state_dir=there)
        with pytest.raises(SiloConflictError):  # the old machine comes back
            domo_client.connect(server.address, "site-a", state_dir=here)
        moved.close()


def test_who_asks_with_another_folder_is_an_event_too(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(4, 2, bias=False), num_silos=2)
    with coordinator(tmp_path, run, report_interval_s=0.5) as server:
        silo = domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a")
        with pytest.raises(SiloConflictError, match="domo rebind site-a"):
            domo_client.connect(server.address, "site-a", state_dir=tmp_path / "b")
        silo.close()
        (event,) = server.until("/events?kind=silo-conflict", lambda told: told)
        assert "(127.0.0.1) was refused: the name 'site-a' is taken" in event["text"]


def test_a_copy_that_is_quicker_after_a_restart_of_the_coordinator_gives_the_name_back(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run = own_run(tmp_path, nn.Linear(4, 2, bias=False), num_silos=2)
    how = {"report_interval_s": 0.2, "long_poll_s": 0.2}
    with coordinator(tmp_path, run, **how) as first:
        silo = domo_client.connect(first.address, "site-a", state_dir=here)
        copy_state(here, there)
        waits = silo.connection.session._lock  # it cannot join again yet
        waits.acquire()
    with coordinator(tmp_path, run, listen=first.address, **how) as second:
        copy = domo_client.connect(second.address, "site-a", state_dir=there)
        second.until("/silos", lambda them: them)
        waits.release()
        (event,) = second.until("/events?kind=silo-conflict", lambda told: told)
        assert "(127.0.0.1) was refused" in event["text"]
        with pytest.raises(SiloConflictError, match="another process with the identity"):
            copy.next_run()
        assert silo.connection.counts.joins == 2
        assert not silo.connection.session.refused
        copy.close()
        silo.close()
