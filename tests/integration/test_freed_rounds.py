"""What a round leaves behind in the process of a silo."""

import gc
import weakref
from pathlib import Path

import torch
from torch import nn

import domo_client
from tests.support.live.coordinator import coordinator, own_run


def test_a_round_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """It holds vectors, and the collector counts objects, not bytes."""
    module, past = nn.Linear(2, 1), []
    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=4, method="DOMO-S")
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
    ):
        gc.disable()
        try:
            for rnd in silo.rounds(module, eval_samples=0):
                assert [r() for r in past] == [None] * len(past)
                opt = rnd.optimizer()
                for inputs in rnd.batches([torch.ones(2)]):
                    module(inputs).sum().backward()
                    opt.step()
                past += [weakref.ref(rnd), weakref.ref(opt)]
                del rnd, opt
        finally:
            gc.enable()
    assert len(past) == 8


def test_a_loop_that_is_left_keeps_no_vectors(tmp_path: Path) -> None:
    """Nor a run that is lost: the next one may be long in coming."""
    run = own_run(tmp_path, nn.Linear(2, 1))
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
    ):
        vectors = silo.connection.data.vectors
        for _ in silo.rounds(nn.Linear(2, 1)):
            assert vectors._memory
            break
        assert not vectors._memory
