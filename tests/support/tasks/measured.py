"""Digits with all that `domo.metrics` makes, a mean that is none, and a name that nobody knows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

import domo
from domo import metrics
from domo.metrics import Sum, Table
from domo.tasks import load_task
from domo.tasks.base import Shard

CLASSES = [f"digit {i}" for i in range(10)]


class MeasuredDigits:
    """The embedded digits."""

    def __init__(self) -> None:
        self._task = load_task("digits")

    def build_model(self) -> nn.Module:
        return self._task.build_model()

    def train_data(self, root: Path, shard: Shard | None) -> Dataset[Any]:
        return self._task.train_data(root, shard)

    def eval_data(self, root: Path, shard: Shard | None) -> Dataset[Any] | None:
        return self._task.eval_data(root, shard)  # type: ignore[attr-defined, no-any-return]

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return self._task.loss(model, batch)

    def evaluate(self, model: nn.Module, batch: Any) -> Mapping[str, Sum | Table]:
        inputs, labels = batch
        logits = model(inputs)
        return {
            **domo.classification_sums(model, batch),
            "auc": metrics.auc(labels, logits=logits, classes=CLASSES),
            "confusion": metrics.confusion(labels, logits=logits, classes=CLASSES),
            "calibration": metrics.calibration(labels, logits=logits),
            "wobble": Sum(float(logits.std()) * len(labels), len(labels)),
            "macro_auc": Sum(0.5 * len(labels), len(labels)),
        }
