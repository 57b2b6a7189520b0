"""The Python blocks of the pages, run as they stand."""

import base64
import hashlib
import hmac
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import domo
from domo_server import testing
from examples import test_own_task as example
from examples.own_task import OwnTask
from tests.support.live.silos import agents, options
from tests.unit.test_public_face import SNIPPETS


def block(with_: str) -> str:
    (found,) = [b for name, b in SNIPPETS.items() if with_ in b and ".md " in name]
    return found


def run(code: str, **given: Any) -> dict[str, Any]:
    exec(compile(code, "the page", "exec"), given)
    return given


def test_a_simulation_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    left = run(block("def patients("))
    result = left["result"]
    assert f"{result.accuracies}\n" == capsys.readouterr().out
    assert len(result.accuracies) == 4
    assert result.accuracies[-1] > result.accuracies[0]
    with torch.no_grad():
        flat = nn.utils.parameters_to_vector(left["model"].parameters())
    assert torch.equal(flat, result.x)
    same = domo.load_weights("model.safetensors")
    assert all(torch.equal(same[name], t) for name, t in result.state_dict.items())


def test_histories_of_simulations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    left = run(block("silos_to_pandas()"))
    assert left["fused"].accuracies[-1] > left["plain"].accuracies[-1]
    assert "FedAvg: " in capsys.readouterr().out
    (code,) = [b for name, b in SNIPPETS.items() if name.startswith("README") and "savefig" in b]
    run(code)
    assert Path("accuracy.png").stat().st_size > 5000
    pyplot.close("all")


def test_the_history_of_a_live_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = block(".history()")
    config = domo.RunConfig(name="domo-digits", task="digits", num_rounds=2, num_silos=1)
    with (
        testing.coordinator(config) as coordinator,
        agents(coordinator.address, ["a"], tmp_path, lambda i: options(shard=(i, 1))),
    ):
        history = run(code.replace("http://127.0.0.1:8080", coordinator.url))["history"]
    assert "<History domo-digits: 2 of 2 rounds, accuracy" in capsys.readouterr().out
    assert history.facts.digest == domo.simulate(config, roster=["a"]).checkpoint_digest
    assert [r.participants for r in history.rounds] == [("a",), ("a",)]
    assert all(r.duration_s > 0 and r.update_bytes == 24_360 for r in history.rounds)
    assert history.rounds[1].silos[0].training_s > 0


def test_the_test_of_the_own_task(tmp_path: Path) -> None:
    example.test_own_task_in_a_federation(tmp_path)


def test_a_model_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last model of a coordinator, with its card."""
    monkeypatch.chdir(tmp_path)
    source = np.random.default_rng(0)
    for part in ("train", "test"):
        inputs = source.random((20, 1, 8, 8), dtype="float32")
        np.savez(tmp_path / part, inputs=inputs, labels=source.integers(10, size=20))
    with testing.coordinator(task=OwnTask()) as coordinator, coordinator.rest() as rest:
        given = options(tmp_path, "examples.own_task:OwnTask")
        with agents(coordinator.address, ["a"], tmp_path, lambda _: given):
            assert rest.wait(coordinator.run_ids[0], 60).state == "FINISHED"
        rest.download_model(coordinator.run_ids[0], tmp_path / "model.safetensors")
    model = OwnTask().build_model()
    before = nn.utils.parameters_to_vector(model.parameters()).clone()
    left = run(block("load_weights"), model=model)
    assert not torch.equal(before, nn.utils.parameters_to_vector(model.parameters()))
    assert (left["card"].method, left["card"].round_index) == ("DOMO", 2)


@pytest.mark.slow
def test_rest_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = block("coordinator.submit(")
    with testing.coordinator() as coordinator:
        monkeypatch.setenv("DOMO_TOKEN", coordinator.token)
        with agents(coordinator.address, ["a", "b"], tmp_path, lambda i: options(shard=(i, 2))):
            left = run(code.replace("http://127.0.0.1:8080", coordinator.url))
    assert left["done"].state == "FINISHED"
    assert left["done"].accuracy > 0.5
    assert domo.load_card("model.safetensors").round_index == 15


def test_a_webhook_is_checked_as_the_page_says() -> None:
    is_genuine = run(block("is_genuine"))["is_genuine"]
    secret, body, now = b"secret", b"{}", str(int(time.time()))
    signature = base64.b64encode(hmac.digest(secret, f"id.{now}.".encode() + body, hashlib.sha256))
    headers = {
        "webhook-id": "id",
        "webhook-timestamp": now,
        "webhook-signature": "v1," + signature.decode(),
    }
    assert is_genuine(headers, body, secret)
    assert not is_genuine(headers, body + b" ", secret)
    assert not is_genuine(headers | {"webhook-timestamp": "1"}, body, secret)


def test_metrics_of_a_loop(tmp_path: Path) -> None:
    code = block("SiloMetrics").replace("127.0.0.1:9464", "127.0.0.1:0")
    with testing.coordinator() as coordinator:
        run(code, server=coordinator.address, name="a")
        with coordinator.rest() as rest:
            assert [s.silo_id for s in rest.silos()] == ["a"]
