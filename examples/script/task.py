"""The same script as a task, for domo-client, the simulation and comparisons of methods."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import TensorDataset

import domo


class Script:
    """Tell small digits from large ones."""

    def build_model(self):
        """The model; the caller has seeded torch, and moves it to its device."""
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))

    def train_data(self, root, shard, part="train"):
        """The silo's own folder, or folder i of a simulation."""
        folder = root / f"silo-{shard.index}" if shard else root
        with np.load(f"{folder}/{part}.npz") as arrays:
            inputs, digits = (torch.tensor(arrays[name]) for name in ("inputs", "labels"))
        return TensorDataset(inputs, (digits >= 5).float())

    def eval_data(self, root, shard):
        """What the server model is tested on."""
        return self.train_data(root, shard, "test")

    def forward(self, model, inputs):
        """Logits, computed in bfloat16."""
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
            return model(inputs).squeeze(1).float()

    def loss(self, model, batch):
        """The mean over the batch."""
        inputs, targets = batch
        return bce(self.forward(model, inputs), targets)

    def on_gradients(self, model):
        """Before each step."""
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def evaluate(self, model, batch):
        """Sums, and a histogram for the AUC over all silos."""
        inputs, targets = batch
        logits = self.forward(model, inputs)
        loss = domo.Sum(bce(logits, targets, reduction="sum"), len(targets))
        return {"loss": loss, "auc": domo.metrics.auc(targets, logits=logits)}
