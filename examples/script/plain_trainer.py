"""The same script with Hugging Face's Trainer: python -m examples.script.plain_trainer FOLDER."""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import Dataset
from torchmetrics.functional.classification import binary_auroc
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments, set_seed

EPOCHS, PATIENCE, BATCH, LR = 20, 5, 32, 0.05


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


def metrics(predicted):
    logits, labels = map(torch.tensor, predicted)
    auc = binary_auroc(logits, labels.int())
    return {"loss": bce(logits, labels).item(), "auc": auc.item()}


class SGDTrainer(Trainer):
    def create_optimizer(self, *args, **kwargs):
        given = {"lr": LR, "momentum": 0.9, "weight_decay": 5e-4}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **given)
        return self.optimizer


def train(folder, out, **more):
    set_seed(0)
    arguments = TrainingArguments(
        output_dir=out,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=256,
        learning_rate=LR,
        lr_scheduler_type="cosine",
        max_grad_norm=1.0,
        bf16=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="auc",
        **more,
    )
    trainer = SGDTrainer(
        model=Model(),
        args=arguments,
        train_dataset=Digits(folder, "train"),
        eval_dataset=Digits(folder, "test"),
        compute_metrics=metrics,
        callbacks=[EarlyStoppingCallback(PATIENCE)],
    )
    trainer.train()
    return trainer.state.best_metric


if __name__ == "__main__":
    print("best AUC:", train(sys.argv[1], "out"))
