"""A silo's secret: noise that only it can make again."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domo.errors import StateError
from domo_client.policy.secret import FILE, Secret

N = 100_001


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path)


def test_a_long_update_is_made_as_long_as_may_be_and_a_short_one_stays(secret: Secret) -> None:
    long, short = torch.ones(400), torch.full((400,), 0.01)
    assert secret.protect(long, 2.0, None) == pytest.approx(20.0)
    assert float(long.norm()) == pytest.approx(2.0)
    assert secret.protect(short, 2.0, None) == pytest.approx(0.2)
    assert torch.equal(short, torch.full((400,), 0.01))


def test_the_noise_is_gaussian_of_the_size_that_was_asked_for(secret: Secret) -> None:
    noise = torch.zeros(N)
    secret.protect(noise, 4.0, 0.5)
    assert float(noise.mean()) == pytest.approx(0.0, abs=4 * 2.0 / math.sqrt(N))
    assert float(noise.std()) == pytest.approx(2.0, rel=0.02)
    inside = [float((noise.abs() < k * 2.0).double().mean()) for k in (1, 2, 3)]
    assert inside == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.006)
    near = torch.corrcoef(torch.stack((noise[:-1], noise[1:])))[0, 1]
    assert abs(float(near)) < 0.02


def test_the_same_update_has_the_same_noise_and_no_other_one_has(
    secret: Secret, tmp_path: Path
) -> None:
    def made(by: Secret, x: float) -> torch.Tensor:
        update = torch.full((1000,), x)
        by.protect(update, 100.0, 0.1)
        return update - x

    first = made(secret, 1.0)
    assert torch.equal(made(Secret(tmp_path), 1.0), first), "after a restart too"
    (tmp_path / "other").mkdir()
    for noise in (made(secret, 1.0 + 2**-20), made(Secret(tmp_path / "other"), 1.0)):
        assert abs(float(torch.corrcoef(torch.stack((first, noise)))[0, 1])) < 0.15


@given(st.integers(1, 70_000))
def test_any_length(n: int) -> None:
    secret = Secret.__new__(Secret)
    secret._key = bytes(32)
    update = torch.zeros(n)
    secret.protect(update, 1.0, 1.0)
    assert int(update.count_nonzero()) == n


def test_the_order_is_of_the_run_and_the_secret(secret: Secret, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    seeds = {
        secret.order_seed("1-a", "c"),
        secret.order_seed("2-a", "c"),
        Secret(tmp_path / "other").order_seed("1-a", "c"),
    }
    assert len(seeds) == 3
    assert Secret(tmp_path).order_seed("1-a", "c") in seeds
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_it_is_for_its_user_only_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    Secret(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o77 == 0
    (tmp_path / FILE).write_text("zz")
    with pytest.raises(StateError, match="damaged; restore it, or delete it"):
        Secret(tmp_path)
