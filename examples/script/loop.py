"""The same script with its loop in a federation: ... -m examples.script.loop FOLDER SERVER NAME."""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset

import domo
import domo_client

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def dataset(folder, part):
    with np.load(f"{folder}/{part}.npz") as arrays:
        inputs, digits = (torch.tensor(arrays[name]) for name in ("inputs", "labels"))
    return TensorDataset(inputs, (digits >= 5).float())


def make_model():
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))


def forward(model, inputs):
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        return model(inputs).squeeze(1).float()


def evaluate(model, batch):
    inputs, targets = batch
    logits = forward(model, inputs)
    loss = domo.Sum(bce(logits, targets, reduction="sum"), len(targets))
    return {"loss": loss, "auc": domo.metrics.auc(targets, logits=logits)}


def train(folder, server, name):
    train_set, test_set = dataset(folder, "train"), dataset(folder, "test")
    test_batches = DataLoader(test_set, batch_size=256)
    model = make_model().to(DEVICE)
    with domo_client.connect(server, silo=name) as silo:
        for rnd in silo.rounds(model, samples=len(train_set), eval_samples=len(test_set)):
            rnd.evaluate(evaluate, test_batches)
            opt = rnd.optimizer()
            total = 0.0
            model.train()
            for inputs, targets in rnd.batches(train_set):
                loss = bce(forward(model, inputs), targets)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                total += loss.item() / rnd.num_steps
            rnd.log(loss=total)
    return silo.outcome


if __name__ == "__main__":
    print(train(sys.argv[1], sys.argv[2], sys.argv[3]))
