"""What an update gives away, from the bytes that a silo sends; and what a policy makes of it."""

from pathlib import Path

import pytest
import torch

import domo_client
from domo.tasks.base import ArrayDataset, cross_entropy_loss
from domo_client.rpc.offer import PolicyError
from domo_proto.codec import VectorId
from experiments.what_leaves import Read, judge, local_images, mlp, read_off
from tests.support.played.hostile import Hostile

IMAGES, LABELS = local_images()
NUM_IMAGES = 4
RUN = {
    "task": "own:Loop",
    "method": "FedAvg",
    "num_silos": 3,
    "num_rounds": NUM_IMAGES,
    "local_steps": 1,
    "batch_size": 1,
    "evaluate_every": 0,
}
LAX = "min_batch = 1\nmin_samples_per_update = 1\n"


def read(folder: Path, policy: str) -> list[Read]:
    """What a coordinator reads out of updates of one image each."""
    path = folder / "policy.toml"
    path.write_text(policy)
    torch.manual_seed(0)
    model = mlp()
    found = []
    with Hostile(model, RUN, samples=len(IMAGES)) as it:
        with domo_client.connect(it.address, "site-a", state_dir=folder, policy=path) as silo:
            seen = []
            for rnd in silo.rounds(mlp(), samples=len(IMAGES)):
                opt = rnd.optimizer()
                for batch in rnd.batches(ArrayDataset(IMAGES, LABELS)):
                    seen += [(IMAGES - batch[0]).abs().flatten(1).sum(1).argmin().item()]
                    cross_entropy_loss(rnd.model, batch).backward()
                    opt.step()
                    opt.zero_grad()
        torch.manual_seed(0)
        for right, update in zip(seen, it.updates, strict=True):
            d = torch.frombuffer(bytearray(update[VectorId.UPDATE]), dtype=torch.float32)
            found.append(judge(read_off(mlp(), d), int(right), IMAGES))
    return found


def test_without_a_policy_each_image_comes_back(tmp_path: Path) -> None:
    found = read(tmp_path, LAX)
    assert len(found) == NUM_IMAGES
    assert all(one.psnr > 40 and one.identified for one in found)


def test_with_the_default_the_run_is_declined(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="min_batch: batches of 1 sample"):
        read(tmp_path, "")


def test_with_clip_and_noise_none_comes_back(tmp_path: Path) -> None:
    found = read(tmp_path, LAX + "clip = 1.0\nnoise = 0.1\n")
    assert len(found) == NUM_IMAGES
    assert all(one.psnr < 15 and not one.identified for one in found)
