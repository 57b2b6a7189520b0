"""The Lightning script in a federation: ... examples.script.silo_lightning FOLDER SERVER NAME."""

import sys

import lightning
import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset

import domo
import domo_client
from examples.script.bridges import fit_round


def dataset(folder, part):
    with np.load(f"{folder}/{part}.npz") as arrays:
        inputs, digits = (torch.tensor(arrays[name]) for name in ("inputs", "labels"))
    return TensorDataset(inputs, (digits >= 5).float())


class Script(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        self.net = nn.Sequential(*layers, nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, inputs):
        return self.net(inputs).squeeze(1).float()

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = bce(self(inputs), targets)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return self.rnd.optimizer()


def evaluate(model, batch):
    inputs, targets = batch
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        logits = model(inputs)
    loss = domo.Sum(bce(logits, targets, reduction="sum"), len(targets))
    return {"loss": loss, "auc": domo.metrics.auc(targets, logits=logits)}


def train(folder, server, name, **more):
    train_set, test_set = dataset(folder, "train"), dataset(folder, "test")
    test_batches = DataLoader(test_set, batch_size=256)
    model = Script()
    with domo_client.connect(server, silo=name) as silo:
        for rnd in silo.rounds(model, samples=len(train_set), eval_samples=len(test_set)):
            rnd.evaluate(evaluate, test_batches)
            fit_round(rnd, train_set, precision="bf16-mixed", gradient_clip_val=1.0, **more)
    return silo.outcome


if __name__ == "__main__":
    print(train(sys.argv[1], sys.argv[2], sys.argv[3]))
