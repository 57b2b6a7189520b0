"""A task of your own: one class. It knows nothing of rounds, momentum or the network."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset


class OwnTask:
    """Classify 8x8 images that lie in train.npz and test.npz."""

    def build_model(self):
        """Any module with float32 parameters; the caller has seeded torch."""
        first = [nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU()]
        return nn.Sequential(*first, nn.Linear(32, 10))

    def train_data(self, root, shard, part="train"):
        """Any map-style dataset: a silo's own folder, or folder i of a simulation."""
        folder = root / f"silo-{shard.index}" if shard else root
        with np.load(folder / f"{part}.npz") as arrays:
            return TensorDataset(*(torch.tensor(arrays[name]) for name in ("inputs", "labels")))

    def eval_data(self, root, shard):
        """Optional: what the server model is tested on."""
        return self.train_data(root, shard, "test")

    def loss(self, model, batch):
        """The mean over the batch."""
        inputs, labels = batch
        return functional.cross_entropy(model(inputs), labels)

    def evaluate(self, model, batch):
        """Metric -> (sum, count), so that means over all silos are exact."""
        inputs, labels = batch
        hits = (model(inputs).argmax(1) == labels).sum()
        return {"accuracy": (hits, len(labels))}
