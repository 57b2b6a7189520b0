"""Metrics that stay exact over a federation: what `Task.evaluate` returns where a mean will not do.

    def evaluate(self, model, batch):
        inputs, labels = batch
        logits = model(inputs)
        return {
            **domo.classification_sums(model, batch),
            "auc": domo.metrics.auc(labels, logits=logits),
            "confusion": domo.metrics.confusion(labels, logits=logits, classes=["cat", "dog"]),
        }

Each gives a table of counts. Tables are added over batches and silos, and only then become numbers.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domo.metrics.table import Sum, Table
    from domo.metrics.tabulate import auc, average_precision, calibration, confusion, regression

__all__ = [
    "Sum",
    "Table",
    "auc",
    "average_precision",
    "calibration",
    "confusion",
    "regression",
]


def __getattr__(name: str) -> Any:
    """A name of `__all__`, at its first use: names of metrics are read without torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "table" if name in ("Sum", "Table") else "tabulate"
    value = globals()[name] = getattr(importlib.import_module(f"domo.metrics.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
