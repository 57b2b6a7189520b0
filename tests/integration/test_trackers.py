"""A coordinator with trackers: they have every point, and a dead one delays nothing."""

import socket
import time
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

import domo_client
from domo.tasks.base import ArrayDataset
from domo_server.integrations.trackers import follow
from tests.support.live.coordinator import Coordinator, coordinator, own_run


def serve_one_run(server: Coordinator, folder: Path) -> None:
    data, model = ArrayDataset(torch.ones(4, 2), torch.zeros(4)), nn.Linear(2, 1)
    with domo_client.connect(server.address, "site-a", state_dir=folder) as silo:
        for rnd in silo.rounds(model):
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                opt.step()


@pytest.mark.alone
def test_a_tracker_that_never_answers_delays_no_round_and_no_other_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.05)
    monkeypatch.setattr(follow, "CLOSE_S", 0.5)
    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=3, evaluate_every=0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        trackers = {
            "tensorboard_dir": tmp_path / "tb",
            "mlflow_uri": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }
        with coordinator(tmp_path, run, trackers=trackers) as server:
            serve_one_run(server, tmp_path / "a")
            assert server.ended()["state"] == "FINISHED"
            end = time.monotonic() + 60
            while not (complete := list((tmp_path / "tb").glob("*/domo-complete"))):
                assert time.monotonic() < end, "TensorBoard waits for MLflow"
                time.sleep(0.05)
            began = time.monotonic()
        assert time.monotonic() - began < 8  # although MLflow was not left in peace yet
    folder = complete[0].parent
    events = EventAccumulator(str(folder)).Reload()
    assert [e.step for e in events.Scalars("silo/site-a/update_norm")] == [1, 2, 3]
    assert [e.step for e in events.Scalars("round/drift")] == [1, 2, 3]
