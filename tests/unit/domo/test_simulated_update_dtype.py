"""Updates of 16 bits in the simulation, against a federation that is written out here."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from domo.algorithm import Vectors, inference_scale, reference_steps, server_round
from domo.commands.compare import Setting
from domo.commands.replay import replay_run
from domo.errors import DivergenceError, ReplayError
from domo.fold import average
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.run_config import RunConfig, UpdateDtype
from domo.simulating import visit
from domo.simulation import simulate
from domo.training.initial import build_initial, build_model
from domo.training.local_round import LocalRound
from domo.training.round_data import RoundNumbers
from domo.training.task_round import run_task_round
from tests.support.played import replay
from tests.unit.domo.test_simulation import SIZES, LinearTask, config, same, silos

WHO = (
    ("silo-0", "silo-1", "silo-10", "silo-2"),
    ("silo-0", "silo-10", "silo-2"),
    ("silo-0", "silo-2"),
    ("silo-0", "silo-1", "silo-2"),
)
"""silo-1 and silo-10 are left out in between; silo-1 comes back."""
SIXTEEN: list[UpdateDtype] = ["bfloat16", "float16"]


def written_out(c: RunConfig, rule: str = "committed") -> tuple[Tensor, Tensor, Tensor | None]:
    """x_R, m_R, mbar_R with every sum of the error feedback in place.

    Args:
        c: The run; its participants are `WHO`.
        rule: When a residual advances: once its update is `committed`; `always`, in rounds without
            the silo too; `never`: no feedback.
    """
    dtype, task, kernel = getattr(torch, c.update_dtype), LinearTask(), c.kernel
    x = build_initial(task, c.seed)[1][Section.TRAINABLE]
    flat = FlatModel(build_model(task, c.seed))
    m, x_prev, scale = torch.zeros_like(x), None, None
    mbar = torch.zeros_like(x) if kernel.average else None
    residuals = {s: torch.zeros_like(x) for s in SIZES}
    for r, who in enumerate(WHO):
        sent, momenta, omegas, steps = [], [], [], []
        for silo in sorted(silos(), key=lambda s: s.silo_id):
            n = len(silo.train)
            numbers = RoundNumbers(
                silo_id=silo.silo_id,
                round_index=r,
                num_rounds=c.num_rounds,
                num_steps=c.steps_at(r, silo.silo_id, n),
                local_lr=c.lr_at(r),
                batch_size=c.batch_size,
                run_seed=c.seed,
                kernel=kernel,
                inference_scale=scale,
            )
            rnd = LocalRound(flat, numbers, x, x_prev, mbar)
            result = run_task_round(task, rnd, silo.train, None)
            v = result.update + residuals[silo.silo_id]
            q = v.to(dtype)
            if rule == "always" or (rule == "committed" and silo.silo_id in who):
                residuals[silo.silo_id] = v - q.float()
            if silo.silo_id in who:
                sent.append(q.float())
                momenta.append(result.momentum.to(dtype).float() if kernel.average else v)
                omegas.append(c.weight_of(silo.silo_id, n))
                steps.append(numbers.num_steps)
        reads = [replay.reader(q) for q in sent]
        x_prev, h = x, c.lr_at(r)
        x, m, *_ = server_round(kernel, Vectors(x, m), reads, omegas, steps, h)
        if kernel.average:
            mbar = average([replay.reader(u) for u in momenta], omegas, x.numel())
        scale = inference_scale(kernel, h, reference_steps(kernel, omegas, steps))
    return x, m, mbar


def equal(a: tuple[Tensor | None, ...], b: tuple[Tensor | None, ...]) -> bool:
    return all(
        u is v if u is None or v is None else torch.equal(u, v) for u, v in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("update_dtype", ["float32", *SIXTEEN])
@pytest.mark.parametrize("method", ["DOMO", "FedAvg", "FedAvgSLM", "DOMO-S-avg"])
def test_a_run_is_the_one_written_out(method: str, update_dtype: UpdateDtype) -> None:
    """To the bit; also where silos are left out of rounds, whose residuals then wait."""
    c = config(method=method, update_dtype=update_dtype, weights="samples", participants=WHO)
    result = simulate(c, LinearTask(), silos())
    made = (result.x, result.m, result.mbar)
    assert equal(made, written_out(c))
    plain = update_dtype == "float32"
    assert equal(made, written_out(c, "always")) == plain
    assert equal(made, written_out(c, "never")) == plain
    recorded = c.model_copy(update={"participants": None})
    again = simulate(recorded, LinearTask(), silos(), participants=WHO)
    assert again.checkpoint_digest == result.checkpoint_digest


@pytest.mark.parametrize("method", ["DOMO", "FedAvgSLM"])
def test_the_type_changes_the_bytes_and_little_else(method: str) -> None:
    run = {
        u: simulate(config(method=method, update_dtype=u), LinearTask(), silos()) for u in SIXTEEN
    }
    run["float32"] = simulate(config(method=method), LinearTask(), silos())
    for u in SIXTEEN:
        again = simulate(config(method=method, update_dtype=u), LinearTask(), silos()[::-1])
        assert same(run[u], again), "deterministic, in any order of silos"
        assert again.history == run[u].history
        assert not same(run[u], run["float32"])
        torch.testing.assert_close(run[u].x, run["float32"].x, rtol=0, atol=5e-3)
        assert run[u].x.dtype == run[u].m.dtype == torch.float32
    assert not same(run["bfloat16"], run["float16"])


def test_what_cannot_be_encoded_names_round_and_silo(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DivergenceError("the update is beyond float32", 3)

    monkeypatch.setattr(visit, "encode_result", refuse)
    with pytest.raises(DivergenceError, match="round 1, silo-0: the update is beyond") as caught:
        simulate(config(), LinearTask(), silos())
    assert caught.value.count == 3


def test_a_recorded_run_is_replayed_with_its_type(tmp_path: Path) -> None:
    """A history.json of a run that went on without a silo for a round."""
    roster = ["silo-0", "silo-1", "silo-2"]
    c = RunConfig(task="digits", num_rounds=3, num_silos=3, local_steps=2, update_dtype="bfloat16")
    who = [roster, roster[1:], roster]
    task, shards = Setting(c, tmp_path).load()
    made = simulate(c, task, shards, participants=who)
    body = {
        "run": {
            "run_id": "1-r",
            "config": c.model_dump(mode="json"),
            "roster": roster,
            "rounds_done": 3,
            "checkpoint_digest": made.checkpoint_digest,
        },
        "rounds": [
            {
                "round_index": r,
                "state": "COMMITTED",
                "participants": [{"silo_id": s, "weight": 1, "num_steps": 2} for s in present],
            }
            for r, present in enumerate(who)
        ],
    }

    def again() -> str:
        path = tmp_path / "history.json"
        path.write_text(json.dumps(body), encoding="utf-8")
        result = replay_run(str(path), tmp_path, "silo-", (), None, "cpu", tmp_path / "out")
        return result.checkpoint_digest

    assert again() == made.checkpoint_digest
    body["run"]["config"]["update_dtype"] = "float32"
    with pytest.raises(ReplayError, match="other bytes"):
        again()
