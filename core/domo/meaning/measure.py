"""What a silo's data mean, found out.

It is what their task says, what their dataset knows, and what a look at some of them shows. A few
examples are read, spread over the dataset. Labels are taken whole where the dataset holds them as
one list, as torchvision's and domo's do, and else from those examples.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from domo.errors import DomoError, TaskError
from domo.inputs.form import InputForm
from domo.meaning.value import Kind, Meaning, first_fault
from domo.outside.faults import kind_of_fault
from domo.outside.text import saying, task_error
from domo.stages.now import in_stage

logger = logging.getLogger(__name__)

LOOKS, LOOK_S = 32, 5.0
"""Examples that are looked at, and for how long; at least two."""
IGNORED_LABEL = -100
"""What torch's losses leave out by default."""
LABEL_KEYS = ("labels", "label", "targets", "target", "y")
INPUT_KEYS = ("pixel_values", "input_values", "input_ids", "inputs", "input", "image", "x")
ENOUGH_NUMBERS = 64
"""Numbers in an input from which on their range tells how they were read: a table of five columns
may lie in 0..1 at one silo and not at another, a picture may not."""
NEARLY = 1e-3

Read = Callable[[Sequence[int]], Iterable[Any]]
"""Gives the items of a dataset at some indices, one by one."""


class Example(NamedTuple):
    """What is looked at of an item: its input and its label, where it is clear which they are."""

    input: Tensor | None
    label: int | None


def of_task(task: Any, root: Path, shard: Any, dataset: Any, read: Read | None = None) -> Meaning:
    """The meaning of a silo's data.

    Args:
        task: May say some of it: see `domo.Task`.
        root: As for `train_data`.
        shard: The same.
        dataset: What the task has made of them.
        read: Reads its items, where that is not for this process.

    Raises:
        TaskError: What the task says is not of the form that is asked for.
    """
    with in_stage("meaning"):
        return _found_out(said_by(task, root, shard), dataset, read)


def meaning_of(
    dataset: Any,
    *,
    classes: Sequence[str] = (),
    version: str = "",
    input_form: InputForm | None = None,
) -> Meaning:
    """The meaning of a dataset, for a training loop of one's own.

        silo.rounds(model, samples=len(data), meaning=domo.meaning_of(data, version="2"))

    Args:
        dataset: Map-style, of (input, label) or of mappings; what it knows of its classes is taken
            from it (`classes`, or a Hugging Face `features`), and some examples are looked at.
        classes: Names in the order of their numbers, where the dataset does not know them.
        version: Of the code that reads the data.
        input_form: What an input is.

    Raises:
        TaskError: What is said is not of the form that is asked for.
    """
    said = _made(classes=classes or None, version=version, input_form=input_form)
    return _found_out(said, dataset, None)


def _found_out(said: Meaning, dataset: Any, read: Read | None) -> Meaning:
    return said.filled(_known(dataset)).filled(_measured(dataset, read or _reader(dataset)))


def _reader(dataset: Any) -> Read:
    return lambda indices: (dataset[i] for i in indices)


def said_by(task: Any, root: Path, shard: Any) -> Meaning:
    """What a task says by itself: by `meaning(root, shard)`, or by attributes.

    Raises:
        TaskError: Not of the form that is asked for.
    """
    tells = getattr(task, "meaning", None)
    if callable(tells):
        try:
            said = tells(root, shard)
        except DomoError:
            raise
        except Exception as error:
            what = "meaning(root, shard) of the task fails: "
            told = TaskError(f"{what}{type(error).__name__}: {error}")
            raise saying(told, what + kind_of_fault(error)) from error
        if not isinstance(said, Meaning):
            kind = type(said).__name__
            raise task_error(f"meaning(root, shard) of the task has to give a Meaning, not {kind}")
        return said
    keys = ("classes", "version", "input_form")
    return _made(**{key: getattr(task, key, None) for key in keys})


def _made(classes: Any = None, version: Any = None, input_form: Any = None) -> Meaning:
    """From what people write: names that are numbers, a number of classes, a version that is one.

    Raises:
        TaskError: Something else.
    """
    said: dict[str, Any] = {"version": "" if version is None else str(version)}
    if isinstance(classes, int):
        said["num_classes"] = classes
    elif isinstance(classes, str | bytes):
        raise TaskError(f"classes has to be a list of names, not the text {classes!r}")
    elif classes is not None:
        said["classes"] = tuple(str(name) for name in classes)
    if input_form is not None and not isinstance(input_form, InputForm):
        raise task_error(f"input_form has to be a domo.InputForm, not {type(input_form).__name__}")
    try:
        return Meaning(**said, input=input_form or InputForm())
    except ValidationError as error:
        raise TaskError(f"what the task says of its data: {first_fault(error)}") from None


def labels_of(dataset: Any) -> np.ndarray[Any, Any] | None:
    """All labels of a dataset that holds them as one list; None: it does not."""
    indices = getattr(dataset, "indices", None)
    if indices is not None and hasattr(dataset, "dataset"):  # torch's Subset
        whole = labels_of(dataset.dataset)
        return None if whole is None else whole[np.asarray(indices, dtype=np.int64)]
    tensors = getattr(dataset, "tensors", None)
    found = getattr(dataset, "targets", getattr(dataset, "labels", None))
    if isinstance(tensors, Sequence) and len(tensors) == 2:  # torch's TensorDataset
        found = tensors[1]
    if isinstance(found, Tensor):
        found = found.detach().cpu().numpy()
    if not isinstance(found, Sequence | np.ndarray) or isinstance(found, str):
        return None
    try:
        labels = np.asarray(found)
    except ValueError:
        return None
    fits = labels.ndim == 1 and labels.dtype.kind in "iu" and len(labels) == len(dataset)
    return labels.astype(np.int64) if fits else None


def _known(dataset: Any) -> Meaning:
    """What well-known datasets know: the names of classes, and a normalisation."""
    inner = dataset
    while hasattr(inner, "dataset") and hasattr(inner, "indices"):
        inner = inner.dataset
    names = getattr(inner, "classes", None)
    if not isinstance(names, list | tuple):
        features = getattr(inner, "features", None)
        known = dict(features) if isinstance(features, Mapping) else {}
        found = [known[k] for k in LABEL_KEYS if k in known]
        names = next((f.names for f in found if isinstance(getattr(f, "names", None), list)), ())
    mean, std = _normalisation(getattr(inner, "transform", None))
    with suppress(ValidationError):  # what a library has is nobody's fault here
        return Meaning(
            classes=tuple(str(name) for name in names), input=InputForm(mean=mean, std=std)
        )
    return Meaning()


def _normalisation(transform: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of torchvision's Normalize among the transforms; empty: there is none."""
    for step in [transform, *(getattr(transform, "transforms", None) or ())]:
        if type(step).__name__ == "Normalize" and hasattr(step, "mean") and hasattr(step, "std"):
            with suppress(TypeError, ValueError):
                return tuple(map(float, step.mean)), tuple(map(float, step.std))
    return (), ()


def _measured(dataset: Any, read: Read) -> Meaning:
    """Shape and type of inputs, the kind of their numbers, and the range of labels."""
    examples = list(_looked_at(len(dataset), read))
    inputs = [e.input for e in examples if e.input is not None]
    labels = labels_of(dataset)
    if labels is None:
        labels = np.asarray([e.label for e in examples if e.label is not None], dtype=np.int64)
    labels = labels[labels != IGNORED_LABEL]
    form = InputForm(shape=_shape(inputs), dtype=_dtype(inputs)) if inputs else InputForm()
    return Meaning(
        input=form,
        kind=_kind(inputs),
        labels=(int(labels.min()), int(labels.max())) if len(labels) else None,
    )


def _looked_at(size: int, read: Read) -> Iterator[Example]:
    """Some examples, without moving anybody's random numbers; what cannot be read fails a round."""
    spread = np.linspace(0, size - 1, min(size, LOOKS)).round().astype(int).tolist()
    began = time.monotonic()
    with torch.random.fork_rng(devices=[]):
        try:
            for n, item in enumerate(read(spread), 1):
                yield example_of(item)
                if n >= 2 and time.monotonic() - began > LOOK_S:
                    return
        except Exception as error:
            logger.warning("not all of the data can be read: %s: %s", type(error).__name__, error)


def example_of(item: Any) -> Example:
    """The input and the label of an item, as far as it is clear which they are."""
    if _maps(item):
        found = [item[k] for k in INPUT_KEYS if k in item]
        labels = [item[k] for k in LABEL_KEYS if k in item]
        return Example(_tensor(next(iter(found), None)), _label(next(iter(labels), None)))
    if isinstance(item, tuple | list) and len(item) >= 2:
        return Example(_tensor(item[0]), _label(item[1]))
    return Example(_tensor(item), None)


def _maps(item: Any) -> bool:
    return isinstance(item, Mapping) or (hasattr(item, "keys") and hasattr(item, "__getitem__"))


def _tensor(value: Any) -> Tensor | None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.ascontiguousarray(value).astype(value.dtype.newbyteorder("=")))
    return value.detach() if isinstance(value, Tensor) and not value.is_sparse else None


def _label(value: Any) -> int | None:
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if np.ndim(value) or "float" in str(value.dtype) or "bool" in str(value.dtype):
            return None
        value = value.item()
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shape(inputs: Sequence[Tensor]) -> tuple[int | None, ...] | None:
    """Sizes that all of them have; those in which they differ are None, as that of a sequence.

    A silo pads its texts to the longest that it has.
    """
    if len(inputs) < 2 or len({x.ndim for x in inputs}) > 1 or inputs[0].ndim > 16:
        return None
    if inputs[0].ndim == 1 and not inputs[0].is_floating_point():
        return (None,)
    sizes = zip(*(x.shape for x in inputs), strict=True)
    return tuple(n[0] if len(set(n)) == 1 else None for n in sizes)


def _dtype(inputs: Sequence[Tensor]) -> str:
    found = {str(x.dtype).removeprefix("torch.") for x in inputs}
    return found.pop() if len(found) == 1 else ""


def _kind(inputs: Sequence[Tensor]) -> Kind:
    """How large the numbers are that the model gets, where there are enough to tell."""
    if not inputs or min(x.numel() for x in inputs) < ENOUGH_NUMBERS:
        return ""
    if not all(x.dtype.is_floating_point or x.dtype is torch.uint8 for x in inputs):
        return ""
    low = min(float(x.min()) for x in inputs)
    high = max(float(x.max()) for x in inputs)
    if low >= -NEARLY and high <= 1 + NEARLY:
        whole = all(bool((x == x.round()).all()) for x in inputs)
        return "" if whole else "0..1"
    if low >= -NEARLY and high > 64:
        return "0..255" if high <= 255 else "above 255"
    if low <= -0.25:
        return "around 0" if max(-low, high) <= 64 else "wide"
    return ""
