"""What the data are: classes and counts, and what is likely to be a mistake in them."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from domo.meaning.compare import CURES, class_text, described, differences
from domo.meaning.measure import example_of
from domo.meaning.value import Meaning
from domo.model.flat import as_bytes, byte_view
from domo.ops.findings import Finding, ok, problem, unchecked, warning
from domo.training.batches import BatchLoader
from domo.training.task_errors import task_errors
from domo_client.doctor.checks import Facts, Setup
from domo_client.work import Work

READ_S = 20.0
"""For how long each of training and test data are read."""
SHOWN = 40
"""Classes with their counts in a line."""
NO_TESTS = (
    "a test folder (test/CLASS/, test.npz, or eval_data of your task) shows how the model does here"
)
SPLIT = (
    "if samples belong together (one patient, one film), make train and test folders yourself: "
    "else some of them are on both sides"
)


@dataclass(slots=True)
class Seen:
    """What was read of some data.

    Attributes:
        counts: Samples of each label.
        digests: First index of each content.
        num: Samples that were read.
        whole: Whether those are all.
    """

    counts: Counter[int] = field(default_factory=Counter)
    digests: dict[bytes, int] = field(default_factory=dict)
    num: int = 0
    whole: bool = True


def samples(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Each task's data: what they mean, counts, and warnings."""
    if not facts.works:
        yield unchecked("no task with its data is ready")
    for name, work in facts.works.items():
        for line in described(work.meaning):
            yield ok(f"{name}: {line}")
        for fault in differences(work.meaning, work.meaning):
            yield problem(f"{name}: {fault.text}", CURES[fault.what])
        train = _read(work.train, "training data")
        test = _read(work.evaluation, "test data")
        for finding in _counts(work, train, test):
            yield _named(name, finding)
        for finding in _test_part(setup, work):
            yield _named(name, finding)
        for finding in _duplicates(train, test):
            yield _named(name, finding)


def _named(name: str, found: Finding) -> Finding:
    elsewhere = found.elsewhere and f"{name}: {found.elsewhere}"
    return Finding(found.state, f"{name}: {found.text}", found.mend, elsewhere)


def _read(loader: BatchLoader | None, what: str) -> Seen:
    seen, began = Seen(), time.monotonic()
    if loader is None:
        return seen
    for i, item in enumerate(_all(loader, what)):
        if time.monotonic() - began > READ_S:
            seen.whole = False
            break
        example = example_of(item)
        if example.label is not None:
            seen.counts[example.label] += 1
        if example.input is not None:
            content = byte_view(as_bytes([example.input]))  # of any type, bfloat16 too
            seen.digests.setdefault(blake2b(content, digest_size=16).digest(), i)
        seen.num += 1
    return seen


def _all(loader: BatchLoader, what: str) -> Iterator[Any]:
    """Each item.

    Raises:
        TaskError: One cannot be read; says which.
    """
    i, left = 0, loader.items(range(len(loader)))
    while i < len(loader):
        with task_errors(f"sample {i} of the {what} cannot be read"):
            item = next(left)
        yield item
        i += 1


def _counts(work: Work, train: Seen, test: Seen) -> Iterator[Finding]:
    """How many samples there are of each class, and of which there are hardly any."""
    for what, loader, seen in (("training", work.train, train), ("test", work.evaluation, test)):
        if loader is None or not seen.counts:
            continue
        labels = _labels(work.meaning, seen)
        shown = [f"{_class(work.meaning, n)} {seen.counts[n]}" for n in labels[:SHOWN]]
        shown += [f"... ({len(labels)} classes in all)"] if len(labels) > SHOWN else []
        part = "" if seen.whole else f" of the first {seen.num} of {len(loader)}"
        yield ok(f"{what} samples{part} by class: {', '.join(shown)}")
        if not seen.whole:
            continue
        few = {n: [c for c in labels if seen.counts[c] == n] for n in (0, 1)}
        if few[0]:
            mend = "a silo may lack classes; if this one does not, look at names and labels"
            yield warning(f"no {what} samples of {_listed(work.meaning, few[0])}", mend)
        if few[1] and what == "training":
            text = f"a single training sample of {_listed(work.meaning, few[1])}"
            yield warning(text, "from one sample little is learned; is it where it belongs?")


def _labels(meaning: Meaning, seen: Seen) -> list[int]:
    known = range(len(meaning.classes) or meaning.num_classes)
    return sorted({*known, *seen.counts})


def _class(meaning: Meaning, label: int) -> str:
    named = 0 <= label < len(meaning.classes)
    return class_text(meaning.classes[label], label) if named else str(label)


def _listed(meaning: Meaning, labels: Sequence[int]) -> str:
    more = f", and {len(labels) - 10} more" if len(labels) > 10 else ""
    return ", ".join(_class(meaning, n) for n in labels[:10]) + more


def _test_part(setup: Setup, work: Work) -> Iterator[Finding]:
    if work.evaluation is None and work.train is not None:
        yield warning("there are no test data: this silo trains, and tests nothing", NO_TESTS)
    splits = getattr(work.task, "splits_itself", None)
    if splits is not None and setup.shard is None and splits(setup.data or Path()):
        text = "no train and test folders: domo holds one image in ten out for tests by itself"
        yield warning(text, SPLIT)


def _duplicates(train: Seen, test: Seen) -> Iterator[Finding]:
    both = [(i, train.digests[d]) for d, i in test.digests.items() if d in train.digests]
    if both:
        pairs = ", ".join(f"test {i} is training {j}" for i, j in both[:3])
        text = f"{len(both)} of {test.num} test samples are training samples too ({pairs})"
        mend = "take them out of one of the two: what was trained on tests nothing (counted from 0)"
        yield warning(text, mend)
