"""A training script as people have them: python -m examples.script.plain FOLDER."""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.functional.classification import binary_auroc

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPOCHS, PATIENCE, BATCH, LR = 20, 5, 32, 0.05


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


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    logits, labels = [], []
    for inputs, targets in loader:
        logits.append(forward(model, inputs.to(DEVICE)).cpu())
        labels.append(targets)
    logits, labels = torch.cat(logits), torch.cat(labels)
    return {"loss": bce(logits, labels), "auc": binary_auroc(logits, labels.int())}


def train(folder, best_path):
    torch.manual_seed(0)
    train_set, test_set = dataset(folder, "train"), dataset(folder, "test")
    train_batches = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    test_batches = DataLoader(test_set, batch_size=256)
    model = make_model().to(DEVICE)
    opt = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(opt, [12, 16])
    best, since = 0.0, 0
    for epoch in range(EPOCHS):
        total = 0.0
        model.train()
        for inputs, targets in train_batches:
            loss = bce(forward(model, inputs.to(DEVICE)), targets.to(DEVICE))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            total += loss.item() / len(train_batches)
        scheduler.step()
        tested = evaluate(model, test_batches)
        print(f"epoch {epoch + 1}: train loss {total:.4f}", tested)
        since += 1
        if tested["auc"] > best:
            best, since = tested["auc"], 0
            torch.save(model.state_dict(), best_path)
        if since == PATIENCE:
            break
    return best


if __name__ == "__main__":
    print("best AUC:", train(sys.argv[1], "best.pt"))
