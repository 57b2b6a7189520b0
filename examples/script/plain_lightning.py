"""The same script in Lightning: python -m examples.script.plain_lightning FOLDER."""

import sys

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.functional.classification import binary_auroc

EPOCHS, PATIENCE, BATCH, LR = 20, 5, 32, 0.05


def dataset(folder, part):
    with np.load(f"{folder}/{part}.npz") as arrays:
        inputs, digits = (torch.tensor(arrays[name]) for name in ("inputs", "labels"))
    return TensorDataset(inputs, (digits >= 5).float())


class Script(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        self.net = nn.Sequential(*layers, nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))
        self.tested = []

    def forward(self, inputs):
        return self.net(inputs).squeeze(1).float()

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = bce(self(inputs), targets)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.tested.append((self(inputs).cpu(), targets.cpu()))

    def on_validation_epoch_end(self):
        logits, labels = (torch.cat(parts) for parts in zip(*self.tested, strict=True))
        self.tested.clear()
        self.log("loss", bce(logits, labels))
        self.log("auc", binary_auroc(logits, labels.int()))

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4)
        return [opt], [torch.optim.lr_scheduler.MultiStepLR(opt, [12, 16])]


def train(folder, **more):
    lightning.seed_everything(0)
    train_set, test_set = dataset(folder, "train"), dataset(folder, "test")
    train_batches = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    test_batches = DataLoader(test_set, batch_size=256)
    model = Script()
    best = ModelCheckpoint(monitor="auc", mode="max")
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        num_sanity_val_steps=0,
        callbacks=[EarlyStopping("auc", patience=PATIENCE, mode="max"), best],
        **more,
    )
    trainer.fit(model, train_batches, test_batches)
    return float(best.best_model_score)


if __name__ == "__main__":
    print("best AUC:", train(sys.argv[1]))
