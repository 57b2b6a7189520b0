"""What goes wrong at a silo beside its training, and must not end or silence it."""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo_client
from domo.errors import TaskError
from domo.outside.text import Public, public
from domo.tasks.base import ArrayDataset
from domo_client.agent import run_agent
from domo_client.loop.rounds import Rounds
from domo_client.observe.messages import Ui
from domo_server.dashboard.silo_page import ADVICE, OTHER
from tests.support.live.coordinator import coordinator, own_run
from tests.support.live.silos import agents, options

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
    assert len(said) == 2
    for n in (1, 2):
        words = f"site-a failed in round {n}: FileNotFoundError, in test_silo_faults.py, line "
        assert any(text.startswith(words) for text in said), said
    assert not any("ller" in text for text in said), "a name leaves"


class Leaving:
    """A task that ends its process in the first round: a licence, a library that is not there."""

    calls = 0

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def train_data(self, root: Path, shard: Any) -> ArrayDataset:
        return DATA

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        Leaving.calls += 1
        if Leaving.calls == 2:  # the first was the look before the run
            raise SystemExit("the licence has expired")
        loss: torch.Tensor = (model(batch[0]) - batch[1]).square().mean()
        return loss

    def evaluate(self, model: nn.Module, batch: Any) -> Mapping[str, tuple[float, float]]:
        return {}


@pytest.mark.usefixtures("no_pause")
def test_a_task_that_would_end_the_process_fails_its_round_only(tmp_path: Path) -> None:
    task = f"{__name__}:Leaving"
    with (
        coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1), task=task)) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo,
    ):
        outcome = run_agent(silo, options(tmp_path, task), Ui(["domo-client"]), once=True)
        said = [e["text"] for e in server.get("/events") if e["kind"] == "silo-failed"]
    assert outcome is not None
    assert outcome.state == "FINISHED"
    assert len(said) == 1
    assert said[0].startswith("site-a failed in round 1: SystemExit, in test_silo_faults.py, line ")
    assert "licence" not in said[0]


def test_an_agent_declines_what_cannot_be_made_ready_and_stays(tmp_path: Path) -> None:
    """No model, and one whose shapes are not known yet; then a run that fits."""
    bad, good = ("tests.support.tasks.bad:NoModel", "tests.support.tasks.bad:Lazy"), "digits"
    runs = [own_run(tmp_path, nn.Linear(2, 3), task=task) for task in bad]
    runs.append({"task": good, "num_rounds": 1, "num_silos": 1, "local_steps": 1})
    with coordinator(tmp_path, *runs) as server:
        opts = options(None, *bad, good, shard=(0, 4))
        with agents(server.address, ["site-a"], tmp_path, lambda _: opts):
            for run_id in server.run_ids[:2]:

                def declined(events: Any, run_id: str = run_id) -> bool:
                    return any(e["kind"] == "declined" and run_id in e["text"] for e in events)

                server.until("/events", declined)
                server.post(f"/runs/{run_id}/stop")
            last = server.run_ids[2]
            server.until(f"/runs/{last}", lambda run: run["state"] == "FINISHED")
        said = [e["text"] for e in server.get("/events") if e["kind"] == "declined"]
    none = "build_model() must give a torch.nn.Module, and gives None"
    shapes = "trainable parameter weight has no shape yet (a lazy module): run a batch through"
    assert len(said) == 2
    for run_id, why in zip(server.run_ids, (none, shapes), strict=False):
        assert any(text.startswith(f"site-a declined {run_id}: {why}") for text in said), said


def test_a_silo_may_be_closed_twice(tmp_path: Path) -> None:
    with coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1))) as server:
        with domo_client.connect(
            server.address, "site-a", state_dir=tmp_path / "a", share_log=True
        ) as silo:
            silo.close("for today")
        silo.close()
        said = [e["text"] for e in server.get("/events") if "left" in e["text"]]
        with domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a"):
            pass
    assert said == ["site-a left: for today"]


def test_the_status_file_is_replaced_as_a_whole_and_by_one_thread(tmp_path: Path) -> None:
    """Who has it open reads on in what was there; a failure that is said at once leaves it."""
    path = tmp_path / "a" / "status.json"

    def until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end
            time.sleep(0.01)

    with coordinator(tmp_path, report_interval_s=0.2) as server:
        silo = domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a")
        with silo:
            until(path.exists)
            with path.open(encoding="utf-8") as old:
                until(lambda: os.fstat(old.fileno()).st_nlink == 0)
                assert json.loads(old.read())["phase"] == "idle"
    with coordinator(tmp_path / "slow", report_interval_s=60.0) as server:
        path.unlink()
        with domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo:
            until(path.exists)
            silo.progress.phase, before = "training", path.read_bytes()
            silo.fail(TaskError("no"))
            assert path.read_bytes() == before


def test_an_update_that_is_given_up_is_not_in_hand_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, and the run is stopped while the update waits for room."""
    with (
        coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1))) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo,
    ):
        (tmp_path / "a" / "pending.bin").symlink_to("/dev/full")
        beat, unsaved = silo._reporter.beat, []

        def stop(failure: Exception | str = "") -> bool:
            heard = beat(failure)
            if failure:
                unsaved.append(silo.has_unsaved)
                server.post(f"/runs/{server.run_ids[0]}/stop")
                beat()
            return heard

        monkeypatch.setattr(silo._reporter, "beat", stop)
        for rnd in silo.rounds(nn.Linear(2, 1), samples=4):
            for inputs, targets in rnd.batches(DATA):
                (rnd.model(inputs) - targets).square().mean().backward()
                rnd.optimizer().step()
        assert silo.outcome is not None
        assert silo.outcome.state == "STOPPED"
        assert unsaved == [True]
        assert not silo.has_unsaved


def test_no_text_is_too_odd_to_be_said(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with coordinator(tmp_path, run) as server:
        silo = domo_client.connect(
            server.address, "site-a", state_dir=tmp_path / "a", share_log=True
        )
        logging.getLogger("domo_client.state.folder").warning("%s", Public(BAD))
        silo.fail(public(TaskError(BAD)))
        silo.decline(silo.next_run(), Public(BAD))
        silo.close(Public(BAD))
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
        while "this heartbeat could not be sent: ValueError" not in caplog.text:
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
