"""What peers are given and how they are started, each in a virtual environment of its own."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmarks.peers.install import LEFT_OUT, Package, installed
from benchmarks.simulators.setting import (
    BATCH_SIZE,
    LOCAL_LR,
    MOMENTUM,
    NUM_SILOS,
    SERVER_MOMENTUM,
    WEIGHT_DECAY,
    Setting,
    stacked_shards,
)

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """A peer, and the script beside this file that is run with its interpreter."""

    package: Package
    script: str


PEERS = {
    "flower": Peer(
        Package("flower-ray", "flwr", ("flwr[simulation]>=1.42,<2", "torch"), 6500), "on_ray.py"
    ),
    "pfl": Peer(
        Package("pfl-research", "pfl", ("pfl[pytorch]>=0.6,<1", "torch"), 6000), "pfl_loop.py"
    ),
}


def become(name: str, setting: Setting) -> NoReturn:
    """Be a peer from here on: what it says goes to whom this process would say it."""
    import numpy as np

    peer = PEERS[name]
    for k, (inputs, labels) in enumerate(stacked_shards(setting)):
        np.savez(setting.folder / f"silo-{k}.npz", inputs=inputs.numpy(), labels=labels.numpy())
    given = {
        "models": str(Path(__file__).parents[3] / "core" / "domo" / "tasks" / "models.py"),
        "model": setting.model,
        "num_silos": NUM_SILOS,
        "num_steps": setting.num_steps,
        "num_rounds": setting.num_rounds,
        "batch_size": BATCH_SIZE,
        "local_lr": LOCAL_LR,
        "local_momentum": MOMENTUM,
        "server_momentum": SERVER_MOMENTUM,
        "weight_decay": WEIGHT_DECAY,
    }
    (setting.folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    python = installed(peer.package)[0] / "python"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    paths = {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"}  # for what a peer starts, too
    words = [str(python), str(HERE / peer.script), str(setting.folder)]
    os.execve(python, words, kept | paths)
