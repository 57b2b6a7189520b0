"""The stored float64 trajectories (README beside this file), replayed through domo.algorithm."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from domo import algorithm, reference
from domo.methods import METHODS, Hyperparameters, Kernel, make_kernel
from tests.support.played import replay

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.npz"))


def names() -> list[str]:
    """`case/norm/method` of every stored trajectory."""
    out = []
    for path in FILES:
        with np.load(path) as f:
            out += [f"{path.stem}/{key[:-2]}" for key in f.files if key.endswith("/x")]
    return out


def gradients(spec: dict, data: dict[str, Tensor]) -> replay.Gradient:
    def gradient(r: int, k: int, p: int, x: Tensor) -> Tensor:
        rows = data["batches"][r, k, p].long()
        rows = rows[rows >= 0]
        if spec["kind"] == "quadratic":
            return data["A"][k] @ (x - data["C"][k][rows].mean(0))
        w = x.clone().requires_grad_()
        cut = spec["classes"] * spec["features"]
        logits = data["X"][k][rows] @ w[:cut].view(spec["classes"], spec["features"]).T + w[cut:]
        torch.nn.functional.cross_entropy(logits, data["Y"][k][rows]).backward()
        assert w.grad is not None
        return w.grad

    return gradient


def stored(name: str) -> tuple[dict, dict[str, Tensor], Kernel]:
    """Spec, arrays and constants of a trajectory."""
    case, norm, method = name.split("/")
    with np.load(HERE / f"{case}.npz") as f:
        spec = json.loads(str(f["spec"]))
        prefix = f"{norm}/{method}/"
        keys = [k for k in f.files if k != "spec" and "/" not in k]
        data = {k: torch.from_numpy(f[k]) for k in keys}
        data |= {k[len(prefix) :]: torch.from_numpy(f[k]) for k in f.files if k.startswith(prefix)}
        data["P_ref"] = torch.from_numpy(f[f"{norm}/P_ref"])
    hp = Hyperparameters(
        server_momentum=spec["mu_s"],
        local_momentum=spec["mu_l"],
        fusion_coef=spec["beta"],
        server_lr=spec["alpha"],
        weight_decay=spec["wd"],
        step_norm=norm,
    )
    return spec, data, make_kernel(method, hp)


def load(name: str, device: str = "cpu") -> tuple[dict, dict[str, Tensor], replay.Trajectory]:
    """Spec and arrays of a trajectory, and the same run made by domo."""
    spec, data, kernel = stored(name)
    made = replay.run(
        kernel,
        data["x0"],
        gradients(spec, data),
        etas=spec["eta"],
        steps=spec["P"],
        participants=spec["participants"],
        omegas=spec["weights"],
        device=device,
    )
    return spec, data, made


def load_reference(name: str) -> tuple[dict, dict[str, Tensor], replay.Trajectory]:
    """The same, made by the page beside the paper."""
    spec, data, kernel = stored(name)
    weights = spec["weights"] or [1.0] * len(spec["P"])
    rounds = [
        reference.Round(eta, {k: (weights[k], spec["P"][k]) for k in present})
        for eta, present in zip(spec["eta"], spec["participants"], strict=True)
    ]
    made = reference.train(kernel, data["x0"], rounds, gradients(spec, data))
    x, m, mbar, d, *_ = zip(*made, strict=True)
    return spec, data, replay.Trajectory(x, m, mbar, d[1:], data["P_ref"].tolist())


def differences(name: str, device: str = "cpu") -> list[str]:
    """What of a trajectory is outside its tolerance; empty if it is reproduced."""
    return outside(*load(name, device))


def outside(spec: dict, data: dict[str, Tensor], made: replay.Trajectory) -> list[str]:
    wrong = []

    def check(what: str, got: Tensor, want: Tensor, rtol: float, atol: float) -> None:
        if not torch.allclose(got, want, rtol=rtol, atol=atol):
            wrong.append(f"{what} is off by {(got - want).abs().max():.3g}")

    check("x", torch.stack(made.x), data["x"], 1e-9, 1e-11)
    check("m", torch.stack(made.m), data["m"], 1e-8, 1e-8)
    check("P_ref", torch.tensor(made.p_ref, dtype=torch.float64), data["P_ref"], 1e-12, 0)
    for r, present in enumerate(spec["participants"]):
        assert sorted(made.d[r]) == present
        got = torch.stack([made.d[r][k] for k in present])
        check(f"d of round {r}", got, data["d"][r][present], 1e-8, 1e-8)
    if "lm" in data:
        check("lm", torch.stack(made.lm), data["lm"], 1e-8, 1e-8)
    return wrong


@pytest.mark.parametrize("name", names())
def test_trajectory(name: str) -> None:
    assert differences(name) == []


@pytest.mark.parametrize("name", names())
def test_the_page_beside_the_paper(name: str) -> None:
    assert outside(*load_reference(name)) == []


def test_all_methods_are_stored() -> None:
    assert len(FILES) == 5
    paper = {
        name for name, row in METHODS.items() if row.server == "momentum" and row.control == "none"
    }
    assert {n.split("/")[2] for n in names()} == paper


def test_averaging_methods_store_mbar() -> None:
    for name in names():
        _, data, _ = load(name)
        assert ("lm" in data) == (METHODS[name.split("/")[2]].round_end == "average"), name


def _fusion_in_d(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(self: algorithm.LocalSGD) -> tuple[Tensor, None]:
        """The difference from x_r, as a silo that knows nothing of fusion would send."""
        return (self.x_before - self.x).div_(self.h * self.num_steps), None

    begin = algorithm.LocalSGD.begin

    def begin_and_note(self: algorithm.LocalSGD) -> None:
        self.x_before = self.x.clone()
        begin(self)

    monkeypatch.setattr(algorithm.LocalSGD, "begin", begin_and_note)
    monkeypatch.setattr(algorithm.LocalSGD, "finish", finish)


def _mean_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = algorithm.server.fold

    def over_k(readers, omegas, lo, hi):
        return fold(readers, omegas, lo, hi) * (len(readers) / 6)

    monkeypatch.setattr(algorithm.server, "fold", over_k)


def _current_eta(monkeypatch: pytest.MonkeyPatch) -> None:
    infer, calls = algorithm.infer_momentum, []
    with np.load(HERE / "p2_softmax_wd_decay.npz") as f:
        etas = json.loads(str(f["spec"]))["eta"]

    def with_eta_of_this_round(x_prev: Tensor, x: Tensor, scale: float) -> Tensor:
        calls.append(None)
        r = len(calls)
        return infer(x_prev, x, scale * etas[r] / etas[r - 1])

    monkeypatch.setattr(algorithm, "infer_momentum", with_eta_of_this_round)


def _wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    infer = algorithm.infer_momentum
    monkeypatch.setattr(algorithm, "infer_momentum", lambda a, b, scale: infer(b, a, scale))


def _uniform_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = algorithm.server.fold
    monkeypatch.setattr(
        algorithm.server,
        "fold",
        lambda readers, omegas, *at: fold(readers, [1.0] * len(readers), *at),
    )


def _momentum_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    init, last = algorithm.LocalSGD.__init__, []

    def keep(self, *args, **kwargs):
        if last and last[0].m is not None:
            kwargs["m_start"] = last[0].m
        init(self, *args, **kwargs)
        last[:] = [self]

    monkeypatch.setattr(algorithm.LocalSGD, "__init__", keep)


@pytest.mark.parametrize(
    ("bug", "name"),
    [
        (_fusion_in_d, "p1_quad_full/per_silo/DOMO"),
        (_fusion_in_d, "p1_quad_full/per_silo/DOMO-S"),
        (_wrong_sign, "p1_quad_full/per_silo/DOMO"),
        (_current_eta, "p2_softmax_wd_decay/per_silo/DOMO"),
        (_mean_over_all, "p3_softmax_partial/per_silo/FedAvg"),
        (_uniform_weights, "p4_quad_unequal/per_silo/FedAvgSM"),
        (_momentum_kept, "p1_quad_full/per_silo/FedAvgSLM-Z"),
    ],
)
def test_a_bug_is_seen(bug, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(name) == []
    with monkeypatch.context() as patched:
        bug(patched)
        assert any(text.startswith("x is off") for text in differences(name))
