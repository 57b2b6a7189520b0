"""Bytes on the wire for each silo and round, counted between the two ends by a TCP proxy."""

import itertools
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import domo_client
from domo.tasks.base import ArrayDataset
from tests.support.faults.proxy import Count, proxy
from tests.support.live.coordinator import coordinator, own_run

NUM_SILOS = 2


class Figures(NamedTuple):
    """Bytes of one silo: from the moment it holds x_r to the moment it holds x_{r+1}, r = 1, ..."""

    rounds: list[Count]
    total: Count


def measure(
    folder: Path,
    method: str,
    shape: tuple[int, int],
    num_rounds: int,
    update_dtype: str = "float32",
) -> list[Figures]:
    """Run a federation of `NUM_SILOS` loops, each behind a proxy of its own."""
    folder.mkdir()
    run = own_run(
        *(folder, nn.Linear(*shape, bias=False)),
        method=method,
        num_rounds=num_rounds,
        num_silos=NUM_SILOS,
        local_lr=1e-3,
        batch_size=1,
        update_dtype=update_dtype,
    )
    figures: dict[int, Figures] = {}

    def loop(number: int, address: str) -> None:
        model = nn.Linear(*shape, bias=False)
        data = ArrayDataset(torch.ones(1, shape[0]), torch.zeros(1, dtype=torch.int64))
        held: list[Count] = []
        with (
            proxy(address) as wire,
            domo_client.connect(
                wire.address, f"silo-{number}", state_dir=folder / f"s{number}"
            ) as silo,
        ):
            for rnd in silo.rounds(model, samples=1):
                held.append(wire.count)
                rnd.evaluate(lambda m, batch: {"loss": (float(m(batch[0]).sum()), 1)}, [data[:]])
                opt = rnd.optimizer()
                for inputs, _ in rnd.batches(data):
                    model(inputs).sum().backward()
                    opt.step()
                    opt.zero_grad()
            assert silo.outcome is not None
            assert silo.outcome.state == "FINISHED"
        rounds = [after.since(before) for before, after in itertools.pairwise(held[1:])]
        figures[number] = Figures(rounds, wire.count)

    with coordinator(folder, run, report_interval_s=2.0, long_poll_s=20.0) as server:
        threads = [
            threading.Thread(target=loop, args=(k, server.address), daemon=True)
            for k in range(NUM_SILOS)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join(100)
    assert len(figures) == NUM_SILOS, "a silo did not finish"
    return list(figures.values())


@pytest.mark.parametrize(
    ("method", "vectors"),
    [
        *[(method, 1) for method in ("DOMO", "DOMO-S", "FedAvg")],
        *[(method, 1) for method in ("SCAFFOLD", "FedDyn", "FedAdam", "FedProx")],
        *[(method, 2) for method in ("FedAvgLM", "FedAvgSLM")],
    ],
)
def test_a_round_costs_its_vectors_and_one_percent(
    method: str, vectors: int, tmp_path: Path
) -> None:
    shape = (2500, 2000)
    vector = 4 * shape[0] * shape[1]
    assert vector == 20_000_000
    silos = measure(tmp_path / "run", method, shape, 4)
    for k, silo in enumerate(silos):
        assert len(silo.rounds) == 3  # x_1 to x_2, x_2 to x_3, x_3 to x_4
        for r, count in enumerate(silo.rounds, 1):
            up, down = count.up / vector, count.down / vector
            sys.stdout.write(
                f"\n{method} silo {k} round {r + 1}: up {up:.5f}, down {down:.5f} vectors"
            )
            assert vectors <= up <= 1.01 * vectors
            last = r == len(silo.rounds)  # x_R is only tested: no mean momentum with it
            wanted = 1 if last else vectors
            assert wanted <= down <= 1.01 * wanted


@pytest.mark.parametrize("update_dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("method", "vectors"), [("DOMO", 1), ("FedAvgSLM", 2)])
def test_updates_of_16_bits_cost_half_upwards(
    method: str, vectors: int, update_dtype: str, tmp_path: Path
) -> None:
    shape = (1000, 1000)
    silos = measure(tmp_path / "run", method, shape, 3, update_dtype)
    for k, silo in enumerate(silos):
        (count, _) = silo.rounds
        up, down = count.up / 4e6, count.down / 4e6
        sys.stdout.write(f"\n{method} {update_dtype} silo {k}: up {up:.5f}, down {down:.5f}")
        assert vectors / 2 <= up <= 1.01 * vectors / 2
        assert vectors <= down <= 1.01 * vectors


def test_a_round_of_a_tiny_model_costs_less_than_20_kb(tmp_path: Path) -> None:
    silos = measure(tmp_path / "run", "DOMO", (2, 1), 12)
    for k, silo in enumerate(silos):
        assert len(silo.rounds) == 11
        up = sum(c.up for c in silo.rounds) / 11
        down = sum(c.down for c in silo.rounds) / 11
        sys.stdout.write(f"\ntiny model, silo {k}: {up:.0f} bytes up and {down:.0f} down a round")
        assert 0 < up + down < 20_000
