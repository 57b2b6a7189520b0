"""The promise of DESIGN section 4: a run over gRPC ends with the bytes of `domo simulate`."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from domo.methods import METHODS
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.tasks import load_task
from domo.training.batches import BatchLoader
from domo.trial import shard_silos
from tests.support.live.federation import Federation, federation
from tests.support.tasks.unequal import UnequalTask

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
UNEQUAL = (0, 1, 2, 3, 4, 5, 10, 11)
"""Numbers of the silos: sorted as text, 10 comes before 2."""
NAMES = [f"silo-{i}" for i in range(4)]
COMMON = {"task": "digits", "num_silos": 4, "seed": 7}
PLAIN: list[dict[str, Any]] = [
    {**COMMON, "name": m.lower(), "method": m, "num_rounds": 4, "weight_decay": 5e-4}
    for m in METHODS
]
ROUNDED: list[dict[str, Any]] = [
    {**COMMON, "name": f"{m}-{u}".lower(), "method": m, "update_dtype": u, "num_rounds": 5}
    | {"participation": 3}
    for m, u in (
        *itertools.product(("DOMO", "DOMO-S", "FedAvgSLM"), ("bfloat16", "float16")),
        *itertools.product(("SCAFFOLD", "DOMO-SCAFFOLD", "FedDyn-LM-Z"), ("float32", "bfloat16")),
    )
]
INSIDE: list[dict[str, Any]] = [
    {**COMMON, "name": f"inside-{i}", "num_rounds": 4, "participation": 3, **run}
    for i, run in enumerate(
        (
            {"method": "DiLoCo", "local_lr": 1e-3, "lr_schedule": "cosine", "lr_by": "step"},
            {"method": "DOMO", "local_optimizer": "Muon", "local_state": "keep"},
            {"method": "FedDyn", "local_optimizer": "RMSprop", "local_lr": 1e-3, "clip_norm": 1.0},
            {"method": "DOMO", "private": ["7.*"], "update_dtype": "bfloat16"},
            {"method": "DOMO-S", "local_state": "keep", "lr_by": "step", "lr_warmup": 1.5},
        )
    )
]


def assert_same(final: dict[str, torch.Tensor], config: RunConfig, silos, task) -> None:
    result = simulate(config, task, silos)
    assert torch.equal(final["x"], result.x), "x_R differs"
    assert torch.equal(final["m"], result.m), "m_R differs"
    assert result.x.isfinite().all()
    if result.mbar is not None:
        assert torch.equal(final["mbar"], result.mbar)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Four silos through the command line, and all runs of the three lists, in turn."""
    folder = tmp_path_factory.mktemp("four")
    runs = "".join(
        "[[runs]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in run.items())
        for run in [*PLAIN, *ROUNDED, *INSIDE]
    )
    with federation(folder) as fed:
        fed.start_server(runs, "--exit-when-done")
        for i, name in enumerate(NAMES):
            fed.start_silo(name, "--shard", f"{i}/4", "--compression", ("none", "zstd")[i % 2])
        fed.finish()
        yield fed


def assert_all_same(fed: Federation, runs: list[dict[str, Any]], first: int) -> None:
    for number, run in enumerate(runs, first):
        config, task = validate(RunConfig, run, "test"), load_task("digits")
        silos = shard_silos(task, fed.folder, NAMES, config.similarity, config.seed)
        assert_same(fed.final_state(f"{number}-{config.name}"), config, silos, task)


def test_every_method_ends_with_the_bytes_of_the_simulation(ended: Federation) -> None:
    assert_all_same(ended, PLAIN, 1)


def test_what_silos_keep_ends_with_the_bytes_of_the_simulation(ended: Federation) -> None:
    config = validate(RunConfig, ROUNDED[0], "test")
    rounds = [config.participants_at(r, NAMES) for r in range(5)]
    assert any(a != b for a, b in itertools.pairwise(rounds)), "nobody ever sits a round out"
    assert_all_same(ended, ROUNDED, len(PLAIN) + 1)


def test_other_optimizers_and_schedules_end_with_the_bytes_of_the_simulation(
    ended: Federation,
) -> None:
    assert_all_same(ended, INSIDE, len(PLAIN) + len(ROUNDED) + 1)


def test_eight_unequal_silos_with_dropout_augmentation_and_loader_workers(tmp_path: Path) -> None:
    settings = """
task = "tests.support.tasks.unequal:UnequalTask"
method = "DOMO"
num_rounds = 5
num_silos = 8
participation = 5
weights = "samples"
step_norm = "delta"
local_epochs = 1.5
batch_size = 8
local_lr = 0.1
weight_decay = 1e-3
initial_model = "x0.safetensors"
seed = 3
"""
    import tomllib

    from domo.model.model_file import save_model
    from domo.training.initial import build_initial

    config = validate(RunConfig, tomllib.loads(settings), "test")
    task = UnequalTask()
    save_model(tmp_path / "x0.safetensors", *build_initial(task, config.seed))
    folders = {f"silo-{i}": tmp_path / f"data-{i}" for i in UNEQUAL}
    for i, folder in zip(UNEQUAL, folders.values(), strict=True):
        folder.mkdir()
        (folder / "samples.txt").write_text(str(13 + 5 * i))
    with federation(tmp_path) as fed:
        whole = f'[[runs]]\nname = "whole"\ndrop_last = true\n{settings}'
        both = f'[[runs]]\nname = "unequal"\n{settings}{whole}'
        fed.start_server(both, "--exit-when-done")
        for i, (name, folder) in zip(UNEQUAL, folders.items(), strict=True):
            fed.start_silo(
                name,
                *("--data", str(folder), "--task", "tests.support.tasks.unequal:UnequalTask"),
                *("--workers", "2" if i in (1, 10) else "0"),
            )
        fed.finish()
        finals = fed.final_state("1-unequal"), fed.final_state("2-whole")
        roster = sorted(folders)
        assert roster[:3] == ["silo-0", "silo-1", "silo-10"]
        seen = {s for r in range(5) for s in config.participants_at(r, roster)}
        assert {"silo-1", "silo-10"} & seen, "no round exercises loader workers"
    config = config.model_copy(update={"initial_model": str(tmp_path / "x0.safetensors")})
    silos = [
        SimulatedSilo(name, BatchLoader(task.train_data(folder, None)))
        for name, folder in folders.items()
    ]
    for final, drop_last in zip(finals, (False, True), strict=True):
        assert_same(final, config.model_copy(update={"drop_last": drop_last}), silos, task)
