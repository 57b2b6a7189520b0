"""What the model will be fed: levels and values of the inputs, and a sheet of pictures of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domo.ops.findings import Finding, ok, problem, unchecked, warning
from domo.tasks.datasets import PixelDataset
from domo.training.batches import BatchLoader
from domo.training.task_errors import task_errors
from domo_client.doctor.checks import Facts, Setup
from domo_client.doctor.sheet import Page, Picture, draw
from domo_client.work import Work

LOOKED_AT = 64
"""Inputs of a part that levels are counted in, and that are drawn."""
FEW = 8
"""Levels below which an input is hardly a picture."""
NOTED = "some are left out, or read in a way that is to be known; the doctor's own text says which"
READ = "docs/data.md says what is read, and what to do about the rest"


class Inputs(NamedTuple):
    """Some inputs of a part, spread over its classes."""

    inputs: Tensor
    labels: Sequence[int | None]


def inputs(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Each part's files, values and levels; and the sheet, if one is asked for."""
    if not facts.works:
        text = "no task with its data is ready"
        drawn = "" if setup.look is None else f", so --look {setup.look} is not drawn"
        yield unchecked(f"{text}{drawn}", elsewhere=text)
        return
    pages: list[Page] = []
    for name, work in facts.works.items():
        for part, loader in (("training", work.train), ("test", work.evaluation)):
            if loader is None:
                continue
            dataset: Any = loader.dataset
            for fact in getattr(dataset, "facts", ()):
                yield ok(f"{name}: {part} files: {fact}")
            for note in getattr(dataset, "notes", ()):
                yield warning(f"{name}: {note}", READ, f"{name}: of its {part} files {NOTED}")
            chosen = some(loader)
            if chosen is None:
                yield unchecked(f"{name}: the {part} inputs are no single tensor")
                continue
            yield _levels(f"{name}: {part} inputs", chosen.inputs)
            if chosen.inputs.dim() == 4 and chosen.inputs.shape[1] in (1, 3):
                pages.append(_page(f"{name}, {part}", work, dataset, chosen))
    if setup.look is not None:
        yield _drawn(pages, setup.look)


def some(loader: BatchLoader) -> Inputs | None:
    """A few inputs; None where a batch does not begin with a tensor of numbers."""
    held = getattr(loader.dataset, "labels", None)
    where = spread(held, LOOKED_AT) if isinstance(held, Tensor) else range(len(loader))
    with task_errors("samples cannot be put into a batch"):
        batch = next(iter(loader.load([list(where)[:LOOKED_AT]])), None)
    first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
    if not isinstance(first, Tensor) or first.dim() < 2 or first.is_complex() or not first.numel():
        return None
    second = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    labels = [None] * len(first)
    if isinstance(second, Tensor) and second.shape == first.shape[:1]:
        labels = second.tolist()
    return Inputs(first.float(), labels)


def spread(labels: Tensor, most: int) -> list[int]:
    """Indices of at most so many samples, in turn of each class, in order of class."""
    by_class = [
        torch.nonzero(labels == n).flatten().tolist() for n in torch.unique(labels).tolist()
    ]
    turns = max((len(c) for c in by_class), default=0)
    dealt = [c[turn] for turn in range(min(turns, most)) for c in by_class if turn < len(c)]
    return sorted(dealt[:most], key=lambda i: (int(labels[i]), i))


def _levels(what: str, inputs: Tensor) -> Finding:
    by_channel = inputs.unsqueeze(1) if inputs.dim() < 4 else inputs
    counts = sorted(max(torch.unique(c).numel() for c in one) for one in by_channel)
    shape = "x".join(map(str, inputs.shape[1:]))
    levels = f"{counts[0]:,} to {counts[-1]:,}" if counts[0] < counts[-1] else f"{counts[0]:,}"
    odd = int((~torch.isfinite(inputs)).flatten(1).any(1).sum())
    if odd:
        text = f"{what}: {odd} of {len(inputs)} looked at have values that are not finite"
        return problem(text, "look for what could not be read or divided, and leave it out")
    text = (
        f"{what}: {shape}, values {inputs.min().item():.4g} to {inputs.max().item():.4g}, {levels} "
        f"level{'' if counts[-1] == 1 else 's'} in each of {len(counts)} looked at"
    )
    if inputs.dim() == 4 and median(counts) < FEW:
        return warning(f"{text}: hardly a picture", "--look sheet.png shows them")
    return ok(text)


def _page(title: str, work: Work, dataset: Any, chosen: Inputs) -> Page:
    names = getattr(dataset, "classes", ()) or getattr(work.task, "classes", None) or ()
    pictures = []
    for one, label in zip(chosen.inputs, chosen.labels, strict=True):
        named = isinstance(label, int) and 0 <= label < len(names)
        text = names[label] if named and label is not None else str(label)
        pictures.append(Picture(seen(one, dataset), text if label is not None else ""))
    shape = "x".join(map(str, chosen.inputs.shape[1:]))
    return Page(f"{title}: {shape}, {len(pictures)} of {len(dataset):,}", pictures)


def seen(one: Tensor, dataset: Any) -> Tensor:
    """An input as a picture, uint8: what standardising did is undone, or its own range is taken."""
    if isinstance(dataset, PixelDataset):
        back = one * dataset.std + dataset.mean
    else:
        low, high = one.min(), one.max()
        back = 255 * (one - low) / (high - low).clamp(min=1e-12)
    return back.round().clamp(0, 255).to(torch.uint8)


def _drawn(pages: Sequence[Page], path: Path) -> Finding:
    if not pages:
        text = "no inputs are pictures (1 or 3 channels)"
        return problem(f"--look {path}: {text}", "leave it out", f"--look: {text}")
    try:
        draw(pages, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        mend = "another file, such as a.png"
        text = f"--look {path} cannot be written: {reason}"
        return problem(text, mend, "the file of --look cannot be written")
    num = sum(len(page.pictures) for page in pages)
    text = f"{num} inputs with their classes, as the model will see them: look at it"
    return ok(f"{path}: {text}", text)
