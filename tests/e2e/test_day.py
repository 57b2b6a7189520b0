"""A day in short, in its shortest form; benchmarks/day.py is the same with every fault there is."""

from pathlib import Path

import pytest

from tests.support.live.day import Plan, day
from tests.support.live.day_faults import FAULTS

ONLY = (
    "a silo is killed",
    "a loader process is killed",
    "a silo's disk is full",
    "the link is silent",
    "the coordinator is killed",
    "bytes are damaged on the way up",
)


@pytest.mark.alone  # it kills in phases of milliseconds
@pytest.mark.e2e
@pytest.mark.slow
def test_a_day_in_short_ends_with_the_bytes_of_an_undisturbed_one(tmp_path: Path) -> None:
    assert set(ONLY) <= {fault.name for fault in FAULTS}
    report = day(tmp_path, Plan(num_rounds=14, num_faults=len(ONLY), seed=3, only=ONLY))
    assert {one.fault for one in report.struck} == set(ONLY)
    assert not [one for one in report.struck if not one.said]
    assert not [one for one in report.struck if one.locally is False]
    assert report.same_bytes, report.digests
    assert not report.left
