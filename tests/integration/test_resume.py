"""A coordinator that starts again: what a silo hears of a run that has ended or was forgotten."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo_client
from domo_client.loop.outcome import Outcome
from tests.support.live.coordinator import Coordinator, coordinator, own_run


def one_step(silo: domo_client.Silo) -> int:
    """The next run, with one step in each round; how many there were."""
    module, steps = nn.Linear(2, 1), 0
    for rnd in silo.rounds(module, eval_samples=0):
        opt = rnd.optimizer()
        for inputs in rnd.batches([torch.ones(2)]):
            module(inputs).sum().backward()
            opt.step()
            steps += 1
    return steps


@pytest.mark.parametrize("forgets", [False, True], ids=["same file", "no file"])
def test_a_silo_hears_how_a_run_ended_before_a_restart(forgets: bool, tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    first = Coordinator(tmp_path, run)
    second: list[Coordinator] = []

    def restart(rnd: Any, state: str, text: str) -> None:
        if rnd.round_index == 1:
            assert first.ended()["state"] == "FINISHED"
            first.close()
            runs = [] if forgets else [run]
            second.append(Coordinator(tmp_path, *runs, listen=first.address))

    try:
        with domo_client.connect(first.address, "site-a", state_dir=tmp_path / "s") as silo:
            silo.on_sent = restart
            one_step(silo)
            assert second
            why = "all 2 rounds are committed; no model has test numbers"
            end = Outcome("1-domo-own.loop", "FINISHED", why, 2)
            assert silo.outcome == end
    finally:
        for server in (first, *second):
            server.close()


class Died(Exception):
    """Stands for the death of a silo."""


def test_an_update_of_a_deleted_coordinator_is_not_taken_for_one_of_the_next(
    tmp_path: Path,
) -> None:
    """Run ids begin anew with the coordinator's state: same id, same round, other settings."""

    def die(*_: Any) -> None:
        raise Died  # it has sent its update, and does not hear the end

    def run_once(folder: Path, local_lr: float, on_sent: Callable[..., None]) -> int:
        folder.mkdir()
        run = own_run(folder, nn.Linear(2, 1), num_rounds=1, local_lr=local_lr)
        with (
            coordinator(folder, run) as server,
            domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
        ):
            silo.on_sent = on_sent
            return one_step(silo)

    with pytest.raises(Died):
        run_once(tmp_path / "old", 0.1, die)
    assert (tmp_path / "s" / "pending.bin").exists()
    assert run_once(tmp_path / "new", 0.2, lambda *_: None) == 1
