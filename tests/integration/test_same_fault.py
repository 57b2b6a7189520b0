"""A fault that comes again and again is said once at each end, and whether it may pass."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from domo.tasks.base import ArrayDataset
from domo_client.loop import faults
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.tasks.bad import Linear

TRIES = 5


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "FIRST_BACKOFF_S", 0.05)
    monkeypatch.setattr(faults, "MAX_BACKOFF_S", 0.3)


class Fails(Linear):
    """Its loss fails from the second round on, for as long as it is told to."""

    error: ClassVar[BaseException | None] = None
    begun: ClassVar[int] = 0
    tries: ClassVar[int] = 0

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 3)

    def train_data(self, root: Path, shard: Any) -> ArrayDataset:
        return ArrayDataset(torch.ones(4, 2), torch.tensor([0, 1, 1, 2]))

    def batch_plan(self, round_index: int, num_steps: int) -> None:
        Fails.begun = round_index

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:  # type: ignore[override]
        if Fails.begun and Fails.error is not None:
            Fails.tries += 1
            raise Fails.error
        return nn.functional.cross_entropy(model(batch[0]), batch[1])


@contextmanager
def stalled_by(folder: Path, error: BaseException, words: str) -> Iterator[tuple[Coordinator, str]]:
    """A run that a silo holds up, as it fails again and again, and what is said of it."""
    Fails.error, Fails.begun, Fails.tries = error, 0, 0
    run = own_run(folder, nn.Linear(2, 3), task=f"{__name__}:Fails", num_rounds=3)
    opts = options(folder, run["task"])
    with (
        coordinator(folder, run) as server,
        agents(server.address, ["site-a"], folder, lambda _: opts),
    ):
        server.until("/events", lambda _: Fails.tries > TRIES)
        path = f"/runs/{server.run_ids[0]}"
        yield server, server.until(path, lambda r: words in (r["stalled"] or ""))["stalled"]


PLACE = re.compile(r", in [\w.]+, line \d+ \(\w+\)")


def said(server: Coordinator) -> list[str]:
    return [e["text"] for e in server.get("/events") if e["kind"] == "silo-failed"][::-1]


def test_what_will_not_pass_is_said_so_at_both_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RuntimeError("no such layer")
    with stalled_by(tmp_path, error, "will not pass") as (server, stalled):
        silo = server.until("/silos/site-a", lambda s: s["error_lasts"])
        events = said(server)
        Fails.error = None
        assert server.ended()["state"] == "FINISHED"
        after = server.silo("site-a")
    events = [PLACE.sub("", text) for text in events]
    stalled, error = PLACE.sub("", stalled), PLACE.sub("", silo["error"])
    text = "RuntimeError; the silo's own text says more"
    assert sorted(events) == sorted(
        [
            f"site-a failed in round 2: {text}",
            f"site-a failed 3 times with the same fault in round 2: {text}. It will not pass by "
            "itself",
        ]
    )
    assert "site-a: failed " in stalled
    assert f"times with the same fault: {text} (it will not pass by itself)" in stalled
    assert error.startswith("failed ")
    assert error.endswith(f" times with the same fault: {text}")
    assert silo["advice"].startswith("It will not pass by itself: ask its operator to mend it")
    assert (after["error"], after["error_lasts"]) == (None, False)
    printed = capsys.readouterr().err
    assert "error: round 2 failed here 3 times with the same fault, and it will not" in printed
    assert "Mend it and start domo-client again; until then it is tried again" in printed
    assert "Traceback" not in printed


def test_what_may_pass_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory")
    with stalled_by(tmp_path, error, "tries again by") as (server, stalled):
        events = said(server)
        Fails.error = None
        assert server.ended()["state"] == "FINISHED"
    events = [PLACE.sub("", text) for text in events]
    assert events == ["site-a failed in round 2: out of memory"]
    assert "times: out of memory (it tries again by itself)" in PLACE.sub("", stalled)
    printed = capsys.readouterr().err
    assert "error: round 2 failed here 3 times: out of memory: CUDA out of memory" in printed
    assert "will not pass" not in printed + stalled
