"""What the name of a metric tells: which way is better, and whether a mean can be it."""

import re
from collections.abc import Collection, Iterable
from typing import Literal

from domo.names import prints

Better = Literal["higher", "lower"]

MOST_METRICS = 64
"""Of one silo's test of one model, and of one round's training."""
MOST_NAME = 64
MOST_IN_A_LINE = 12

_LOWER = """
    loss error err mae mse rmse mape ece brier nll bce perplexity ppl entropy divergence kl
    distance fpr fnr wer cer deviation hausdorff regret
"""
_HIGHER = """
    accuracy acc auc auroc auprc roc ap map precision recall f1 r2 iou dice sensitivity
    specificity kappa mcc bleu rouge psnr ssim score top1 top5 tpr tnr ndcg correlation
    likelihood reward
"""
_NEVER = re.compile(
    r"(^|[^a-z])(auc|auroc|roc|auprc|pr_?auc|average_precision|avg_precision|m?ap|"
    r"balanced_(accuracy|acc)|macro_\w+|rmse|r2|mcc|kappa|ece|median|correlation|c_?index)"
    r"($|[^a-z])"
)
"""No quotient of two sums over samples."""
_SELDOM = re.compile(
    r"(^|[^a-z])(f1|f_?score|f_?beta|precision|recall|sensitivity|specificity|dice|iou|jaccard)"
    r"($|[^a-z])"
)
"""Quotients of sums, but not over all samples."""
_SHARES = """
    accuracy acc auc auroc precision recall f1 dice iou jaccard sensitivity specificity top1 top5
"""
"""What is between 0 and 1 by its definition, as the last word of a name."""
_NEARLY = 1e-6
"""How far from it sums of float32 come."""
_CURES = (
    (re.compile(r"average_precision|avg_precision|auprc|pr_?auc|(^|[^a-z])m?ap($|[^a-z])"),
     "domo.metrics.average_precision(labels, logits=...)"),
    (re.compile(r"auc|auroc|roc"), "domo.metrics.auc(labels, logits=...)"),
    (re.compile(r"ece"), "domo.metrics.calibration(labels, logits=...)"),
    (re.compile(r"rmse|r2"), "domo.metrics.regression(targets, predictions)"),
    (re.compile(r"f1|f_?score|f_?beta|precision|recall|sensitivity|specificity|balanced|macro"),
     "domo.metrics.confusion(labels, logits=...)"),
    (re.compile(r"dice|iou|jaccard"), "Sum(intersection, union), summed over the batch"),
)  # fmt: skip


def is_metric_name(name: str) -> bool:
    """One printable line of 1 to MOST_NAME characters."""
    return 0 < len(name) <= MOST_NAME and prints(name) and name.strip() == name


def direction(name: str) -> Better | None:
    """Which way a metric of this name is better; None: nobody knows."""
    for part in name.lower().split("/"):
        words = set(re.split(r"[^a-z0-9]+", part))
        if words & set(_LOWER.split()):
            return "lower"
        if words & set(_HIGHER.split()):
            return "higher"
    return None


def main_names(names: Iterable[str], first: str | None = None) -> list[str]:
    """Names for a screen or a line: what a run is judged by, accuracy, the others in their order.

    Of many those of single classes are left out, such as `recall/cat`.
    """
    there = list(names)
    if len(there) > MOST_IN_A_LINE:
        plain = [name for name in there if "/" not in name or name == first]
        there = plain or there[:MOST_IN_A_LINE]
    return sorted(there, key=lambda name: (name != first, name != "accuracy"))


def primary_of(names: Iterable[str], given: str | None) -> str | None:
    """What a run is judged by: the given one, else accuracy, else loss, else the first name.

    One that is too long to be given, of a class of a table, is none.
    """
    there = sorted(name for name in names if len(name) <= MOST_NAME)
    if given is not None:
        return given
    return next((n for n in ("accuracy", "loss") if n in there), there[0] if there else None)


def why_no_mean(name: str, num: float, nums: Collection[float]) -> str | None:
    """Why a sum and a count under this name are not what the name says, with the cure.

    Args:
        name: Of the metric.
        num: Its count.
        nums: Counts of samples: of other metrics, of the test data.

    Returns:
        The text; None: nothing speaks against it.
    """
    lower = name.lower()
    if not (_NEVER.search(lower) or (_SELDOM.search(lower) and num in nums)):
        return None
    cure = next((cure for pattern, cure in _CURES if pattern.search(lower)), None)
    mend = f"return {cure} in its place" if cure else "return sums that it can be made of"
    return (
        f"{name!r} comes as a mean over batches or silos, which is not {name} of the federation; "
        f"{mend} (docs/metrics.md)"
    )


def why_no_share(name: str, value: float) -> str | None:
    """Why a mean under this name is not what the name says, with the cure; None: it may be.

    Args:
        name: Of the metric.
        value: Of it, as total over count.
    """
    last = [re.split(r"[^a-z0-9]+", part)[-1] for part in name.lower().split("/")]
    if not set(_SHARES.split()) & set(last) or -_NEARLY <= value <= 1 + _NEARLY:
        return None
    return (
        f"{name!r} is a share, from 0 to 1, and comes as {value:.4g}: return a sum over its count, "
        "such as Sum(correct, len(labels)), and no percent"
    )
