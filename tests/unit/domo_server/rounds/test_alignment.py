"""The numbers of a summed round, against float64 sums over whole vectors."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from domo import fold
from domo.methods import Kernel, StepNorm
from domo_proto.codec import VectorId
from domo_server.rounds import aggregate as closing
from domo_server.rounds.aggregate import sum_round
from domo_server.rounds.alignment import Alignment, alignment
from domo_server.store.checkpoint import Checkpoint, create_file
from domo_server.store.rows import Participant, RoundRecord
from domo_server.store.spool import update_path

N = 2 * fold.PIECE + 77
WEIGHTS, STEPS = (1.0, 20.0, 3.5), (2, 1, 7)
DIGEST = "0" * 32


def vectors(seed: int = 0) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """m_r, and updates that lean on it more or less."""
    torch.manual_seed(seed)
    m = torch.randn(N)
    return m, [s * m + torch.randn(N) for s in (0.5, -1.0, 2.0)]


def kernel(step_norm: StepNorm = "per_silo") -> Kernel:
    return Kernel(0.9, 0.9, 0.5, 1.0, 0.0, "pre", False, step_norm)


class Round:
    """A round whose set is recorded, on disk."""

    def __init__(self, folder: Path, m: torch.Tensor, updates: Sequence[torch.Tensor]):
        self.folder = folder
        sizes = {"x": 4 * N, "m": 4 * N, "float_buffer": 0, "integer_buffer": 0}
        file = create_file(folder / "checkpoints", 3, sizes, None)
        file.write("x", 0, torch.ones(N))
        file.write("m", 0, m)
        self.state = Checkpoint(3, file, {"x": "x", "m": "m"}, 0.1)
        (folder / "spool").mkdir()
        members = []
        for k, d in enumerate(updates):
            path = update_path(folder / "spool", f"site-{k}", DIGEST)
            path.write_bytes(d.numpy().tobytes())
            norm, sizes = float(d.double().norm()), [(VectorId.UPDATE, 4 * N)]
            members.append(
                Participant(f"site-{k}", WEIGHTS[k], STEPS[k], norm, None, DIGEST, sizes)
            )
        self.record = RoundRecord(3, members, {}, local_lr=0.1, reference_steps=1)

    def sum(self, step_norm: StepNorm = "per_silo") -> tuple[Checkpoint, Alignment]:
        where = (self.folder / "spool", self.folder / "checkpoints")
        return sum_round(kernel(step_norm), self.state, self.record, *where)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks, with a short one at the end."""
    monkeypatch.setattr(fold, "BLOCK", fold.PIECE + 5)


@pytest.mark.parametrize("step_norm", ["per_silo", "delta"])
def test_the_numbers_are_those_of_whole_vectors(tmp_path: Path, step_norm: StepNorm) -> None:
    m, updates = vectors()
    made, got = Round(tmp_path, m, updates).sum(step_norm)
    d = np.stack([u.double().numpy() for u in updates])
    m64, v = m.double().numpy(), np.array(WEIGHTS)
    if step_norm == "delta":
        v = v * np.array(STEPS)
    mean = (v[:, None] * d).sum(0) / v.sum()
    cosines = d @ m64 / np.linalg.norm(d, axis=1) / np.linalg.norm(m64)
    spread = (v * np.square(d - mean).sum(1)).sum() / v.sum()
    np.testing.assert_allclose(got.cosines, cosines, rtol=1e-5)
    assert got.drift == pytest.approx(np.sqrt(spread) / np.linalg.norm(mean), rel=1e-5)
    np.testing.assert_allclose(made["m"].numpy(), 0.9 * m64 + mean, rtol=1e-4, atol=1e-5)


def test_the_first_round_has_no_momentum(tmp_path: Path) -> None:
    _, got = Round(tmp_path, torch.zeros(N), vectors()[1]).sum()
    assert got.cosines == [None, None, None]
    assert got.drift is not None
    assert got.drift > 0.5


def test_an_update_that_is_zero_and_a_mean_that_is(tmp_path: Path) -> None:
    m, (d, _, _) = vectors()
    (tmp_path / "one").mkdir()
    _, got = Round(tmp_path / "one", m, [d, torch.zeros(N)]).sum()
    assert got.cosines[0] is not None
    assert got.cosines[1] is None
    # D = d/21: the two lie 20/21 and 1/21 of |d| from it
    assert got.drift == pytest.approx(20**0.5, rel=1e-5)
    (tmp_path / "none").mkdir()
    _, got = Round(tmp_path / "none", m, [torch.zeros(N)] * 3).sum()
    assert (got.cosines, got.drift) == ([None, None, None], None)


def test_updates_that_are_one_do_not_drift(tmp_path: Path) -> None:
    m, _ = vectors()
    for name, updates in (("alone", [m]), ("equal", [m, m, m]), ("against", [-m, -m])):
        (tmp_path / name).mkdir()
        _, got = Round(tmp_path / name, m, updates).sum()
        assert got.drift == pytest.approx(0, abs=2e-3)
        sign = -1 if name == "against" else 1
        assert got.cosines == pytest.approx([sign] * len(updates), rel=1e-6)
    assert alignment([], [], []) == Alignment([], None)


def test_summed_again_the_numbers_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Round(tmp_path, *vectors())
    first, numbers = closed.sum()
    shutil.rmtree(tmp_path / "checkpoints")
    for workers in (1, 3):
        monkeypatch.setattr(closing, "WORKERS", workers)
        again, same = closed.sum()
        assert (same, again.digest) == (numbers, first.digest)
