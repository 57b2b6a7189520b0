"""A run that says what its images are: silos with 12-bit files, deployed and simulated."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from domo.commands.export import export
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import simulate
from domo.training.initial import task_of
from domo.trial import load_silo
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options

NAMES = ["site-a", "site-b"]
IMAGES = {"size": [16, 24], "channels": 1, "aspect": "pad", "range": [0, 4095]}
RUN: dict[str, Any] = {
    "task": "imagefolder:2",
    "images": IMAGES,
    "num_rounds": 2,
    "roster": NAMES,
    "batch_size": 4,
    "local_steps": 3,
}


def write(folder: Path, seed: int) -> None:
    """Six 12-bit pictures of each class, some of them wide."""
    source = np.random.default_rng(seed)
    for part in ("train", "test"):
        for label, name in enumerate(("dark", "light")):
            (folder / part / name).mkdir(parents=True)
            for i in range(6):
                values = source.integers(0, 2048, (40, 40 + 10 * i)) + 2047 * label
                image = Image.fromarray(values.astype(np.uint16))
                image.save(folder / part / name / f"{i}.{'png' if i % 2 else 'tif'}")


def test_images_of_12_bits_train_to_the_bytes_of_the_simulation(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in NAMES]
    for seed, folder in enumerate(folders):
        write(folder, seed)
    with (
        coordinator(tmp_path, RUN) as server,
        agents(server.address, NAMES, tmp_path, lambda i: options(folders[i], "imagefolder:2")),
    ):
        ended = server.ended()
        assert ended["complete"] is True, ended
        run = server.state_dir / "runs" / server.run_ids[0]
        final = load_file(max((run / "checkpoints").glob("x*.safetensors")))
        exported = tmp_path / "model.pt"
        export(str(run / "model.safetensors"), None, exported, "", "imagefolder:2", False)
    config = validate(RunConfig, RUN, "the test")
    task = task_of(config)
    silos = [load_silo(task, n, f, None) for n, f in zip(NAMES, folders, strict=True)]
    expected = simulate(config, task, silos)
    assert torch.equal(final["x"], expected.x)
    assert torch.equal(final["m"], expected.m)
    module = task.build_model()
    module.load_state_dict(torch.load(exported, weights_only=True))
    assert expected.history[-1].metrics["accuracy"] > 0.4
