"""What goes wrong at a silo beside its training, and must not end or silence it."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo_client
from domo.errors import TaskError
from domo.tasks.base import ArrayDataset
from domo_client.loop.rounds import Rounds
from domo_server.dashboard.silo_page import ADVICE, OTHER
from tests.support.live.coordinator import coordinator, own_run

INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))
BAD = "no such file: /data/M\udcfcller"
SENT = "no such file: /data/M\\udcfcller"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed round is tried again at once."""
    monkeypatch.setattr(Rounds, "_back_off", lambda rounds: None)


@pytest.mark.usefixtures("no_pause")
def test_a_failed_test_is_tried_once_more_and_no_run_waits_for_ever(tmp_path: Path) -> None:
    failures = {0: 1, 1: 99}
    tried = []

    def sums(module: nn.Module, batch: Any) -> Mapping[str, tuple[float, float]]:
        r = rnd.round_index
        tried.append(r)
        if failures[r]:
            failures[r] -= 1
            raise FileNotFoundError(BAD)
        return {"loss": (1.0, 4), "rare": (0.0, 0), "huge": (float("inf"), 4)}

    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=1)
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo,
    ):
        for rnd in silo.rounds(nn.Linear(2, 1), samples=4):
            try:
                rnd.evaluate(sums, [DATA[0:4]])
                for inputs, targets in rnd.batches(DATA):
                    (rnd.model(inputs) - targets).square().mean().backward()
                    rnd.optimizer().step()
            except OSError as error:
                silo.fail(error)
        ended = server.run()
        said = [e["text"] for e in server.get("/events") if e["kind"] == "silo-failed"]
    assert (ended["state"], tried) == ("FINISHED", [0, 0, 1, 1])
    assert [(m["model_index"], m["metrics"]) for m in ended["metrics"]] == [(0, {"loss": 0.25})]
    assert set(said) == {f"site-a failed in round {n}: FileNotFoundError: {SENT}" for n in (1, 2)}


def test_no_text_is_too_odd_to_be_said(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with coordinator(tmp_path, run) as server:
        silo = domo_client.connect(
            server.address, "site-a", state_dir=tmp_path / "a", share_log=True
        )
        logging.getLogger("domo_client.state.folder").warning(BAD)
        silo.fail(TaskError(BAD))
        silo.decline(silo.next_run(), BAD)
        silo.close(BAD)
        said = [e["text"] for e in server.get("/events")]
        lines = [line["text"] for line in server.get("/silos/site-a/log")["lines"]]
    assert f"site-a declined {server.run_ids[0]}: {SENT}" in said
    assert f"site-a left: {SENT}" in said
    assert SENT in lines


def test_heartbeats_go_on_after_one_that_cannot_be_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo,
    ):
        silo.progress.step = 2**40
        while "this heartbeat could not be sent: ValueError: Value out of range" not in caplog.text:
            assert silo._reporter.is_alive()
        silo.progress.step = 7
        server.until("/silos", lambda silos: silos[0]["step"] == 7)


def test_advice_goes_by_the_kind_of_failure(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo,
    ):

        def told() -> tuple[str | None, str]:
            found = server.get("/silos/site-a")
            return found["error_code"], found["advice"]

        offer = silo.next_run()
        silo.fail(torch.OutOfMemoryError("CUDA out of memory"))
        assert told() == ("out-of-memory", ADVICE["out-of-memory"])
        silo.fail(KeyError("x"))
        assert told() == (None, OTHER)
        silo.decline(offer, "the run trains 'own:Loop'", "task-not-allowed")
        assert told() == ("task-not-allowed", ADVICE["task-not-allowed"])
