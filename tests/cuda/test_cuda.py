"""What needs a GPU: the same promises as on a CPU, and page-locked memory on the way."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from domo.methods import METHODS
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import simulate
from domo.tasks import load_task
from domo.training.batches import to_device
from domo.training.devices import to_host
from domo.training.local_round import LocalRound
from domo.trial import shard_silos
from domo_client.loop.rounds import Rounds
from domo_client.telemetry.resources import measure
from domo_client.work import AgentOptions
from domo_proto.assignment import Announced, Assignment
from domo_proto.codec import VectorId
from tests.golden import test_golden
from tests.support.live import silos
from tests.support.live.federation import federation

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
    pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation"),
]
DEVICE = torch.device("cuda")
NAMES = ["silo-0", "silo-1"]
COMMON = 'task = "digits"\nnum_rounds = 4\nnum_silos = 2\nweight_decay = 5e-4\nseed = 7\n'


def config(method: str) -> RunConfig:
    values = {"task": "digits", "num_rounds": 4, "num_silos": 2, "weight_decay": 5e-4, "seed": 7}
    return validate(RunConfig, {**values, "method": method}, "test")


def test_every_method_ends_with_the_bytes_of_the_simulation_on_a_gpu(tmp_path: Path) -> None:
    runs = "".join(f'[[runs]]\nname = "{m.lower()}"\nmethod = "{m}"\n{COMMON}' for m in METHODS)
    with federation(tmp_path) as fed:
        fed.start_server(runs, "--exit-when-done")
        for i, name in enumerate(NAMES):
            fed.start_silo(name, "--shard", f"{i}/2", "--device", "cuda")
        fed.finish()
        for number, method in enumerate(METHODS, 1):
            task, c = load_task("digits"), config(method)
            parts = shard_silos(task, tmp_path, NAMES, c.similarity, c.seed)
            result = simulate(c, task, parts, device="cuda")
            final = fed.final_state(f"{number}-{method.lower()}")
            assert torch.equal(final["x"], result.x), method
            assert torch.equal(final["m"], result.m), method


def test_the_stored_trajectories_are_reproduced_on_a_gpu() -> None:
    wrong = {name: test_golden.differences(name, "cuda") for name in test_golden.names()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_vectors_of_a_gpu_silo_lie_in_page_locked_memory_and_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    hand_out = Rounds._hand_out

    def seen(
        self: Rounds,
        assignment: Assignment[Announced],
        vectors: Mapping[VectorId, torch.Tensor],
    ) -> LocalRound:
        assert all(v.is_pinned() for v in vectors.values())
        received.extend(v.data_ptr() for v in vectors.values())
        return hand_out(self, assignment, vectors)

    monkeypatch.setattr(Rounds, "_hand_out", seen)
    with federation(tmp_path) as fed:
        fed.start_server(f'[[runs]]\nname = "r"\nmethod = "DOMO"\n{COMMON}')

        def options(i: int) -> AgentOptions:
            return silos.options(shard=(i, 2), device=DEVICE)

        with silos.agents(fed.address, NAMES, tmp_path, options) as agents:
            end = time.monotonic() + 60
            while time.monotonic() < end and any(a.silo.outcome is None for a in agents):
                time.sleep(0.1)
            assert [a.silo.outcome.state for a in agents if a.silo.outcome] == 2 * ["FINISHED"]
    assert len(received) == 2 * (1 + 3 * 2 + 1)  # x_0, x_r and x_{r-1}, x_4
    assert len(set(received)) <= 2 * 2


def test_what_leaves_the_gpu_is_page_locked_and_right() -> None:
    a, b = torch.randn(1 << 20, device="cuda"), torch.randn(7, device="cuda")
    here, none, there = to_host(a, None, b)
    assert none is None
    assert here is not None
    assert there is not None
    assert here.is_pinned()
    assert torch.equal(here, a.cpu())
    assert torch.equal(there, b.cpu())


def test_batches_are_sent_without_waiting_for_the_gpu() -> None:
    """While the GPU works, the loop comes to the next batch."""

    def batches() -> Iterator[torch.Tensor]:
        yield from (torch.full((256, 1024), float(i)) for i in range(4))

    x = torch.randn(8192, 8192, device="cuda")
    work, sums = x, []
    torch.cuda.synchronize()
    ahead = torch.cuda.Event()
    for batch in batches():
        there = to_device(batch, x.device)
        sums.append(there.sum())
        for _ in range(20):
            work = (work @ x).div_(100)
    ahead.record()
    assert not ahead.query(), "the CPU has waited for the GPU"
    assert [float(s) for s in sums] == [256 * 1024 * i for i in range(4)]


def test_how_busy_the_gpu_is_comes_from_nvml(tmp_path: Path) -> None:
    pynvml = pytest.importorskip("pynvml", reason="the extra gpu is not installed")
    pynvml.nvmlInit()
    x = torch.randn(4096, 4096, device=DEVICE)
    found: set[float] = set()
    until = time.monotonic() + 10
    while time.monotonic() < until and not any(found):  # the sampling period is up to a second
        for _ in range(20):
            torch.mm(x, x)
        torch.cuda.synchronize()
        found.add(measure(torch.device("cuda", 0), tmp_path)["gpu_busy"])
    assert 0 < max(found) <= 1
