"""The stored trajectories once more, in float32, through a coordinator and silos over gRPC."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domo.model.layout import Section
from domo.model.model_file import save_model
from domo.training.initial import build_initial
from tests.support.live.coordinator import coordinator
from tests.support.live.federation import federation
from tests.support.live.silos import agents, options
from tests.support.tasks.golden import CASES, stored

RTOL, ATOL = 1e-4, 1e-6
TASKS = {case: f"tests.support.tasks.golden:{cls.__name__}" for case, cls in CASES.items()}


def trajectories(case: str) -> list[tuple[str, str]]:
    """(norm, method) of every trajectory stored for a case."""
    _, arrays = stored(case)
    return [tuple(k.split("/")[:2]) for k in arrays if k.endswith("/x")]


def run_config(folder: Path, case: str, norm: str, method: str) -> dict[str, Any]:
    """The case as a run; writes its x_0."""
    spec, arrays = stored(case)
    names = [f"silo-{k}" for k in range(spec["K"])]
    x0 = folder / f"{case}.safetensors"
    if not x0.exists():
        layout, vectors = build_initial(CASES[case](), 0)
        vectors[Section.TRAINABLE] = torch.from_numpy(arrays["x0"]).float()
        save_model(x0, layout, vectors)
    return {
        "name": f"{case}-{norm}-{method}",
        "task": TASKS[case],
        "method": method,
        "num_rounds": spec["R"],
        "roster": names,
        "participants": [[names[k] for k in present] for present in spec["participants"]],
        "local_lrs": spec["eta"],
        "local_steps_list": [dict(zip(names, spec["P"], strict=True))] * spec["R"],
        "batch_size": spec["batch"],
        "weights": dict(zip(names, spec["weights"], strict=True)) if spec["weights"] else "uniform",
        "step_norm": norm,
        "server_momentum": spec["mu_s"],
        "local_momentum": spec["mu_l"],
        "fusion_coef": spec["beta"],
        "server_lr": spec["alpha"],
        "weight_decay": spec["wd"],
        "initial_model": str(x0),
    }


def data_folder(folder: Path, k: int) -> Path:
    data = folder / f"data-{k}"
    data.mkdir(exist_ok=True)
    (data / "silo.txt").write_text(str(k))
    return data


def trajectory(metrics: list[dict[str, Any]], n: int) -> np.ndarray:
    """x_0..x_R as silo 0 saw them, from the numbers that it reported."""
    points = {p["model_index"]: [p["metrics"][f"x{i}"] for i in range(n)] for p in metrics}
    assert sorted(points) == list(range(len(points)))
    return np.array([points[r] for r in sorted(points)])


@pytest.mark.slow
def test_every_case_and_method(tmp_path: Path) -> None:
    wanted = [(case, *which) for case in CASES for which in trajectories(case)]
    assert len(wanted) == 52
    runs = [run_config(tmp_path, *what) for what in wanted]
    names = [f"silo-{k}" for k in range(6)]
    worst = 0.0
    with (
        coordinator(tmp_path, *runs) as server,
        agents(
            server.address,
            names,
            tmp_path,
            lambda k: options(data_folder(tmp_path, k), *TASKS.values()),
        ),
    ):
        for number, (case, norm, method) in enumerate(wanted):
            run = server.ended(number, 200)
            assert run["state"] == "FINISHED", run
            spec, arrays = stored(case)
            want = arrays[f"{norm}/{method}/x"]
            got = trajectory(run["metrics"], spec["n"])
            np.testing.assert_allclose(got, want, RTOL, ATOL, err_msg=f"{case} {norm} {method}")
            worst = max(worst, float((np.abs(got - want) / (ATOL + RTOL * np.abs(want))).max()))
            taken = [[p["silo_id"] for p in r["participants"]] for r in server.rounds(number)]
            assert taken == [list(p) for p in runs[number]["participants"]]
    print(f"\n52 trajectories, worst error {worst:.3f} of the tolerance")  # noqa: T201
    assert worst > 0, "float32 cannot be exact: nothing was compared"


@pytest.mark.e2e
@pytest.mark.slow
def test_unequal_steps_and_weights_through_the_command_line(tmp_path: Path) -> None:
    """p4 (P_k 2 to 8, weights 20 to 80) with one process for the coordinator and each silo."""
    case, norm, method = "p4_quad_unequal", "delta", "DOMO"
    config = run_config(tmp_path, case, norm, method)
    lines = "\n".join(f"{key} = {toml(value)}" for key, value in config.items())
    with federation(tmp_path) as fed:
        fed.start_server(f"[[runs]]\n{lines}", "--exit-when-done")
        for k in range(4):
            data = data_folder(tmp_path, k)
            fed.start_silo(f"silo-{k}", "--data", str(data), "--task", TASKS[case])
        fed.finish()
        final = fed.final_state(f"1-{config['name']}")
    _, arrays = stored(case)
    for got, want in (
        (final["x"], arrays[f"{norm}/{method}/x"][-1]),
        (final["x_prev"], arrays[f"{norm}/{method}/x"][-2]),
    ):
        np.testing.assert_allclose(got.numpy(), want, RTOL, ATOL)


def toml(value: Any) -> str:
    """A plain value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)
