"""Nothing grows with the number of rounds; benchmarks/soak.py is the same at full length."""

from pathlib import Path

import pytest

from tests.support.live.growth import over_rounds

POOL = 12
"""Threads and handles that pools may still add (a database connection has three handles); one lost
in each of 20 rounds is more."""
SILO_MB = 50.0
"""Ten vectors. A silo that lost one in each round would grow by twice as much. The coordinator's
allocator keeps more than that back, now and then, so its memory is left to the long version."""


@pytest.mark.alone
@pytest.mark.e2e
@pytest.mark.slow
def test_threads_handles_and_memory_stay_as_they_are(tmp_path: Path) -> None:
    first, last = over_rounds(tmp_path, (10, 30), limit_s=200).values()
    assert set(first) == {"coordinator", "site-a", "site-b", "site-c", "site-d"}
    for name, before in first.items():
        after = last[name]
        assert after.threads <= before.threads + POOL, name
        assert after.handles <= before.handles + POOL, name
        if name != "coordinator":
            assert after.rss_mb <= before.rss_mb + SILO_MB, f"{name}: {before}, then {after}"
