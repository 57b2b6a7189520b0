"""Killed at random, and the same bytes; benchmarks/chaos.py is the same at full size."""

from pathlib import Path

import pytest

from tests.support.live.chaos import Plan, chaos

PLAN = Plan(
    "DOMO",
    num_rounds=8,
    num_kills=6,
    mean_wait_s=1.0,
    seed=9,
    step_s=0.15,
    num_steps=4,
    aim_s=4.0,
)


@pytest.mark.alone  # it kills in phases of milliseconds
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_processes_killed_at_random_instants_change_no_byte(tmp_path: Path) -> None:
    report = chaos(tmp_path, PLAN)
    assert report.num_kills == PLAN.num_kills, report.kills
    assert report.same_bytes, report
    assert report.incomplete_rounds == 0
