"""The LoRA example in short: adapters and the head are trained and travel, the base stays."""

import itertools
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import domo
import domo_client
from domo.model.layout import Section
from domo_server import testing
from examples.lora.base import initial_model, pretrain
from examples.lora.model import Reader
from examples.lora.task import Turned
from tests.support.faults.proxy import Count, proxy
from tests.support.live.federation import ROOT

FOLDER = ROOT / "examples" / "lora"
NAMES = ("silo-0", "silo-1")
RUNS = {r["name"]: r for r in tomllib.loads((FOLDER / "run.toml").read_text())["runs"]}
TRAINED = 4 * 8842
"""Bytes of adapters and head."""
FROZEN = 4 * 101_184
"""Bytes of the base, which has a head of its own no more."""
STEPS = 60
"""Of pre-training, in short."""


@pytest.fixture(scope="module")
def base() -> dict[str, Tensor]:
    """The tensors of x_0, with a base that was pre-trained in short."""
    return initial_model(Turned(), steps=STEPS).state_dict()


@pytest.fixture
def x0(base: dict[str, Tensor], tmp_path: Path) -> Path:
    model = Turned().build_model()
    model.load_state_dict(base)
    domo.save_initial(model, tmp_path / "x0.safetensors")
    return tmp_path / "x0.safetensors"


def settings(name: str, x0: Path, **changes: Any) -> domo.RunConfig:
    """A run of the example, for two silos whose data are alike."""
    short = {"num_rounds": 3, "num_silos": 2, "local_steps": 8, "similarity": 1.0}
    return domo.RunConfig(**RUNS[name] | short | {"initial_model": str(x0)} | changes)


def test_adapters_and_the_head_are_what_is_trained() -> None:
    model = Turned().build_model()
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in name or name.startswith("head.") for name in trained)
    assert sum(name.endswith("lora_a") for name in trained) == 8  # four in each of two blocks
    assert 4 * sum(p.numel() for p in model.parameters() if p.requires_grad) == TRAINED
    plain = Reader()
    assert set(dict(plain.named_parameters())) == {
        name for name, _ in model.named_parameters() if "lora_" not in name
    }


def test_an_adapted_model_begins_as_its_base(base: dict[str, Tensor]) -> None:
    model, plain = Turned().build_model(), Reader()
    model.load_state_dict(base)
    plain.load_state_dict({name: t for name, t in base.items() if "lora_" not in name})
    images = torch.rand(3, 1, 8, 8)
    torch.testing.assert_close(model(images), plain(images))


def test_the_base_reads_what_it_was_shown_and_comes_out_the_same_again(
    base: dict[str, Tensor],
) -> None:
    again = pretrain(steps=STEPS)
    frozen = [name for name in base if "lora_" not in name and not name.startswith("head.")]
    assert len(frozen) == len(again) - 2
    assert all(torch.equal(base[name], again[name]) for name in frozen)
    reader, tests = Reader(), domo.load_task("digits").eval_data(Path(), domo.Shard(0, 1))
    reader.load_state_dict(again)
    known = tests.labels < 5
    hits = (reader(tests.inputs).argmax(1) == tests.labels).float()
    assert hits[known].mean() > 0.8
    assert hits[~known].mean() < 0.1  # it was shown none of them


@pytest.mark.parametrize("name", [n for n in RUNS if "whole" not in n])
def test_every_run_learns_and_leaves_the_base_as_it_was(
    name: str, base: dict[str, Tensor], x0: Path
) -> None:
    result = domo.simulate(config=settings(name, x0))
    after = result.state_dict
    assert after.keys() == base.keys()
    for key, before in base.items():
        moved = "lora_" in key or key.startswith("head.")
        assert torch.equal(after[key], before) != moved, key
    assert result.layout.num_bytes(Section.TRAINABLE) == TRAINED
    assert result.layout.num_bytes(Section.FLOAT_BUFFER) == 0
    losses = [record.metrics["loss"] for record in result.history]
    assert losses[-1] < losses[0]
    assert result.accuracies[-1] > result.accuracies[0] + 0.1


def test_only_adapters_and_the_head_travel(x0: Path, tmp_path: Path) -> None:
    """A federation with AdamW inside, each silo behind a proxy that counts: the simulated bytes."""
    config = settings("adamw-diloco", x0)
    held: dict[str, list[Count]] = {name: [] for name in NAMES}

    def loop(index: int, address: str) -> None:
        task, shard = Turned(), domo.Shard(index, 2, config.similarity, config.seed)
        train, tests = task.train_data(tmp_path, shard), task.eval_data(tmp_path, shard)
        model, name = task.build_model(), NAMES[index]
        sizes = {"samples": len(train), "eval_samples": len(tests)}
        with (
            proxy(address) as wire,
            domo_client.connect(wire.address, name, state_dir=tmp_path / name) as silo,
        ):
            for rnd in silo.rounds(model, **sizes):
                held[name].append(wire.count)
                rnd.evaluate(task.evaluate, DataLoader(tests, batch_size=256))
                opt = rnd.optimizer()
                for batch in rnd.batches(train):
                    task.loss(model, batch).backward()
                    opt.step()
                    opt.zero_grad()
            assert silo.outcome is not None
            assert silo.outcome.state == "FINISHED"

    with testing.coordinator(config, report_interval_s=2.0, long_poll_s=20.0) as coordinator:
        threads = [
            threading.Thread(target=loop, args=(i, coordinator.address), daemon=True)
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with coordinator.rest() as rest:
            history = rest.run(coordinator.run_ids[0]).history()
            rest.download_model(coordinator.run_ids[0], tmp_path / "model.safetensors")

    assert [rnd.update_bytes for rnd in history.rounds] == [2 * TRAINED] * 3
    simulated = domo.simulate(config=config).state_dict
    deployed = domo.load_weights(tmp_path / "model.safetensors")
    assert deployed.keys() == simulated.keys()
    assert all(torch.equal(deployed[key], simulated[key]) for key in simulated)
    whole = 4 * sum(p.numel() for p in Reader().parameters())
    for name, counts in held.items():
        rounds = [after.since(before) for before, after in itertools.pairwise(counts[1:])]
        assert FROZEN < counts[0].down < 1.2 * (FROZEN + TRAINED)  # the base, once
        assert len(rounds) == 2  # x_1 to x_2, x_2 to x_3
        for count in rounds:
            sys.stdout.write(f"\n{name}: {count.up} bytes up, {count.down} down in a round")
            assert TRAINED <= count.up < whole / 6
            assert TRAINED <= count.down < whole / 6
