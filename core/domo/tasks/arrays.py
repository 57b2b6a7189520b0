"""A silo's own data as arrays: a folder with train.npz and test.npz."""

import math
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from numpy.typing import NDArray

from domo.errors import DataError
from domo.names import shown
from domo.outside.text import saying
from domo.tasks.base import ArrayDataset

Array = NDArray[Any]
PARTS = {"train.npz", "test.npz"}
SAVE = "numpy.savez(path, inputs=..., labels=...) names them"


def check_folder(root: Path, wanted: str) -> None:
    """See that a data folder is there and has something in it.

    Raises:
        DataError: It does not exist, is no folder, or is empty; says what is wanted.
    """
    if not root.exists():
        text = f"does not exist. It should hold {wanted}"
        raise saying(DataError(f"the data folder {shown(root)} {text}"), f"the data folder {text}")
    if not root.is_dir():
        raise DataError(
            f"{shown(root)} is a file, not a folder. --data names a folder with {wanted}"
        )
    if not any(root.iterdir()):
        text = f"is empty. It should hold {wanted}"
        raise saying(DataError(f"the data folder {shown(root)} {text}"), f"the data folder {text}")


def read_arrays(path: Path, shape: tuple[int, ...], num_classes: int) -> ArrayDataset:
    """Read an npz file with the keys `inputs` (floats) and `labels` (integers).

    Args:
        path: The file; pickled content is refused.
        shape: Shape of one input.
        num_classes: Labels are 0..num_classes-1.

    Raises:
        DataError: Not such a file, the wrong shape, no samples, or a wrong value; says which, and
            what makes it right.
    """
    inputs, labels = _open(path)
    _check_kinds(path, inputs, labels)
    _check_shapes(path, inputs, labels, shape)
    if not len(labels):
        raise DataError(f"{path} has no samples")
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        from_one = labels.min() == 1 and labels.max() == num_classes
        cure = ": they are counted from 1, so save labels - 1" if from_one else ""
        count = f"{len(wrong)} of {len(labels)} labels are not"
        raise saying(
            DataError(
                f"{path}: label {labels[wrong[0]]} at index {wrong[0]} is not in "
                f"0..{num_classes - 1} ({count}){cure}"
            ),
            f"labels have to be in 0..{num_classes - 1}, and {count}{cure}",
        )
    with np.errstate(over="ignore"):
        small = np.ascontiguousarray(inputs, np.float32)
    bad = np.flatnonzero(~np.isfinite(small.reshape(len(labels), -1)).all(axis=1))
    if len(bad):
        raise DataError(
            f"{path}: the input at index {bad[0]} has values that are not finite in float32 "
            f"({len(bad)} of {len(labels)} inputs have)"
        )
    data = ArrayDataset(torch.from_numpy(small), torch.from_numpy(labels.astype(np.int64)))
    data.facts = [f"{len(labels):,} of {inputs.dtype}, values {small.min():g} to {small.max():g}"]
    return data


def _open(path: Path) -> tuple[Array, Array]:
    try:
        with path.open("rb") as f, np.load(f, allow_pickle=False) as arrays:
            missing = {"inputs", "labels"} - set(arrays.files)
            if missing:
                have = ", ".join(map(shown, arrays.files)) or "nothing"
                raise DataError(f"{path} has no array named {min(missing)}; it has {have}. {SAVE}")
            return arrays["inputs"], arrays["labels"]
    except DataError:
        raise
    except Exception as error:  # zipfile and numpy raise anything on a file that is damaged
        told = shown(" ".join(str(error).split()) or type(error).__name__)
        if path.is_file() and not is_zipfile(path):  # numpy would say to unpickle it
            told = "it is cut off, or no zip file as an npz file is"
        elif "pickle" in told:
            told = "it holds objects; lists of arrays are stacked with numpy.stack"
        raise DataError(
            f"{path} cannot be read as an npz file of plain arrays (numpy.savez): {told}"
        ) from error


def _check_kinds(path: Path, inputs: Array, labels: Array) -> None:
    if inputs.dtype.kind == "f" and labels.dtype.kind in "iu":
        return
    cures = []
    if inputs.dtype.kind in "iub":
        cures.append("scale whole numbers as the other silos do, as in inputs.astype('float32')")
    elif inputs.dtype.kind != "f":
        cures.append("inputs are numbers")
    if labels.dtype.kind in "fb":
        cures.append("labels.astype('int64') where they are whole numbers")
    elif labels.dtype.kind not in "iu":
        cures.append("labels are numbers, the order of classes being that of all silos")
    raise DataError(
        f"{path} has inputs of {inputs.dtype} and labels of {labels.dtype}; "
        f"float32 and int64 are wanted: {'; '.join(cures)}"
    )


def _check_shapes(path: Path, inputs: Array, labels: Array, shape: tuple[int, ...]) -> None:
    if inputs.shape[1:] == shape and labels.shape == inputs.shape[:1]:
        return
    cures = []
    one = inputs.shape[1:]
    if one != shape and len(shape) == 3 and one == (*shape[1:], shape[0]) and shape[0] > 1:
        cures.append("inputs.transpose(0, 3, 1, 2) puts channels first")
    elif one != shape and math.prod(one) == math.prod(shape) and inputs.ndim:
        cures.append(f"inputs.reshape(-1, {', '.join(map(str, shape))}) if the order is right")
    if labels.ndim == 2 and labels.shape[1] == 1:
        cures.append("labels.ravel()")
    elif labels.ndim == 2:
        cures.append("labels.argmax(1) if they are one-hot")
    cure = f": {'; '.join(cures)}" if cures else ""
    raise DataError(
        f"{path} has inputs of shape {inputs.shape} and labels of shape {labels.shape}; "
        f"the task's model takes inputs of shape (N, {', '.join(map(str, shape))}) "
        f"and labels of shape (N,){cure}"
    )


def left_beside(root: Path) -> str | None:
    """What lies beside train.npz and test.npz and is not read, in words; hidden files aside."""
    others = sorted(p.name for p in root.iterdir() if p.name not in PARTS and p.name[0] != ".")
    if not others:
        return None
    listed = ", ".join(map(shown, others[:5])) + (", ..." if len(others) > 5 else "")
    arrays = [n for n in others if n.lower().endswith((".npz", ".npy"))]
    cure = ": only train.npz and test.npz are read" if arrays else ""
    return f"left out in {shown(root)}: {listed}{cure}"


def write_arrays(path: Path, data: ArrayDataset) -> None:
    """Write a dataset in the form of `read_arrays`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs, labels = data.stacked(range(len(data)))
    np.savez_compressed(path, inputs=inputs.numpy(), labels=labels.numpy())
