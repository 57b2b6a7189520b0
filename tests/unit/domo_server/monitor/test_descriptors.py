"""Who may have how many descriptors."""

import os
import resource

import pytest

from domo_server.monitor import descriptors
from domo_server.monitor.descriptors import Shares, crowded, raise_limit, shares


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (256, Shares(128, 64)),
        (1024, Shares(512, 256)),
        (20_000, Shares(4096, 512)),
        (resource.RLIM_INFINITY, Shares(4096, 512)),
    ],
)
def test_descriptors_stay_for_the_coordinator_itself(
    monkeypatch: pytest.MonkeyPatch, limit: int, wanted: Shares
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert shares() == wanted
    assert limit == resource.RLIM_INFINITY or sum(wanted) <= 3 * limit // 4


@pytest.mark.parametrize(
    ("soft", "hard", "set_to"),
    [
        (1024, 524_288, 65_536),
        (1024, resource.RLIM_INFINITY, 65_536),
        (1024, 4096, 4096),
        (1024, 1024, None),
        (100_000, 200_000, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_what_may_be_had_is_had(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, set_to: int | None
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: told.append(limits))
    raise_limit()
    assert told == ([] if set_to is None else [(set_to, hard)])


def test_that_it_is_crowded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert crowded() is None
    monkeypatch.setattr(descriptors, "shares", lambda: Shares(3, 1))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    try:
        text = crowded()
        assert text is not None
        assert "takes at most 3 connections of silos" in text
    finally:
        for fd in held:
            os.close(fd)
