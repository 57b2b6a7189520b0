"""The Trainer script in a federation: python -m examples.script.silo_trainer FOLDER SERVER NAME."""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer

import domo
import domo_client
from examples.script.bridges import train_round


class Digits(Dataset):
    def __init__(self, folder, part):
        with np.load(f"{folder}/{part}.npz") as arrays:
            self.inputs, self.digits = (torch.tensor(arrays[n]) for n in ("inputs", "labels"))

    def __len__(self):
        return len(self.digits)

    def __getitem__(self, index):
        return {"pixels": self.inputs[index], "labels": (self.digits[index] >= 5).float()}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        self.net = nn.Sequential(*layers, nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, pixels, labels):
        logits = self.net(pixels).squeeze(1).float()
        return {"loss": bce(logits, labels), "logits": logits}


def evaluate(model, batch):
    with torch.autocast(batch["pixels"].device.type, dtype=torch.bfloat16):
        made = model(**batch)
    loss = domo.Sum(made["loss"] * len(batch["labels"]), len(batch["labels"]))
    return {"loss": loss, "auc": domo.metrics.auc(batch["labels"], logits=made["logits"])}


def train(folder, server, name, **more):
    train_set, test_set = Digits(folder, "train"), Digits(folder, "test")
    test_batches = DataLoader(test_set, batch_size=256)
    model = Model()
    with domo_client.connect(server, silo=name) as silo:
        for rnd in silo.rounds(model, samples=len(train_set), eval_samples=len(test_set)):
            rnd.evaluate(evaluate, test_batches)
            train_round(rnd, train_set, Trainer, max_grad_norm=1.0, bf16=True, **more)
    return silo.outcome


if __name__ == "__main__":
    print(train(sys.argv[1], sys.argv[2], sys.argv[3]))
