"""The promise of DESIGN section 4: a run over gRPC ends with the bytes of `domo simulate`."""

import itertools
from pathlib import Path

import pytest
import torch

from domo.methods import METHODS
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.tasks import load_task
from domo.training.batches import BatchLoader
from domo.trial import shard_silos
from tests.support.live.federation import federation
from tests.support.tasks.unequal import UnequalTask

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
UNEQUAL = (0, 1, 2, 3, 4, 5, 10, 11)
"""Numbers of the silos: sorted as text, 10 comes before 2."""


def assert_same(final: dict[str, torch.Tensor], config: RunConfig, silos, task) -> None:
    result = simulate(config, task, silos)
    assert torch.equal(final["x"], result.x), "x_R differs"
    assert torch.equal(final["m"], result.m), "m_R differs"
    assert result.x.isfinite().all()
    if result.mbar is not None:
        assert torch.equal(final["mbar"], result.mbar)


@pytest.mark.timeout(240)
def test_every_method_ends_with_the_bytes_of_the_simulation(tmp_path: Path) -> None:
    common = {"task": "digits", "num_rounds": 4, "num_silos": 4, "weight_decay": 5e-4, "seed": 7}
    configs = [validate(RunConfig, {**common, "method": m}, "test") for m in METHODS]
    runs = "".join(
        f'[[runs]]\nname = "{m.lower()}"\nmethod = "{m}"\n'
        'task = "digits"\nnum_rounds = 4\nnum_silos = 4\nweight_decay = 5e-4\nseed = 7\n'
        for m in METHODS
    )
    with federation(tmp_path) as fed:
        fed.start_server(runs, "--exit-when-done")
        for i in range(4):
            fed.start_silo(f"silo-{i}", "--shard", f"{i}/4")
        fed.finish(200)
        names = [f"silo-{i}" for i in range(4)]
        for number, config in enumerate(configs, 1):
            task = load_task("digits")
            silos = shard_silos(task, tmp_path, names, config.similarity, config.seed)
            final = fed.final_state(f"{number}-{config.method.lower()}")
            assert_same(final, config, silos, task)


@pytest.mark.timeout(240)
def test_updates_of_16_bits_end_with_the_bytes_of_the_simulation(tmp_path: Path) -> None:
    common = {"task": "digits", "num_rounds": 5, "num_silos": 4, "participation": 3, "seed": 7}
    configs = [
        validate(RunConfig, {**common, "method": m, "update_dtype": u, "name": f"{m}-{u}"}, "test")
        for m in ("DOMO", "DOMO-S", "FedAvgSLM")
        for u in ("bfloat16", "float16")
    ]
    runs = "".join(
        f'[[runs]]\nname = "{c.name}"\nmethod = "{c.method}"\nupdate_dtype = "{c.update_dtype}"\n'
        'task = "digits"\nnum_rounds = 5\nnum_silos = 4\nparticipation = 3\nseed = 7\n'
        for c in configs
    )
    names = [f"silo-{i}" for i in range(4)]
    rounds = [configs[0].participants_at(r, names) for r in range(5)]
    assert any(a != b for a, b in itertools.pairwise(rounds)), "nobody ever sits a round out"
    with federation(tmp_path) as fed:
        fed.start_server(runs, "--exit-when-done")
        for i, name in enumerate(names):
            fed.start_silo(name, "--shard", f"{i}/4", "--compression", ("none", "zstd")[i % 2])
        fed.finish(200)
        for number, config in enumerate(configs, 1):
            task = load_task("digits")
            silos = shard_silos(task, tmp_path, names, config.similarity, config.seed)
            final = fed.final_state(f"{number}-{config.name}")
            assert_same(final, config, silos, task)


@pytest.mark.timeout(240)
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
        fed.start_server(f'[[runs]]\nname = "unequal"\n{settings}', "--exit-when-done")
        for i, (name, folder) in zip(UNEQUAL, folders.items(), strict=True):
            fed.start_silo(
                name,
                *("--data", str(folder), "--task", "tests.support.tasks.unequal:UnequalTask"),
                *("--workers", "2" if i in (1, 10) else "0"),
            )
        fed.finish(200)
        final = fed.final_state("1-unequal")
        roster = sorted(folders)
        assert roster[:3] == ["silo-0", "silo-1", "silo-10"]
        seen = {s for r in range(5) for s in config.participants_at(r, roster)}
        assert {"silo-1", "silo-10"} & seen, "no round exercises loader workers"
    config = config.model_copy(update={"initial_model": str(tmp_path / "x0.safetensors")})
    silos = [
        SimulatedSilo(name, BatchLoader(task.train_data(folder, None)))
        for name, folder in folders.items()
    ]
    assert_same(final, config, silos, task)
