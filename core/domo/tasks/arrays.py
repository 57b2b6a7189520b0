"""A silo's own data as arrays: a folder with train.npz and test.npz."""

import zipfile
from pathlib import Path

import numpy as np
import torch

from domo.errors import DataError
from domo.tasks.base import ArrayDataset


def check_folder(root: Path, wanted: str) -> None:
    """See that a data folder is there and has something in it.

    Raises:
        DataError: It does not exist, is no folder, or is empty; says what is wanted.
    """
    if not root.exists():
        raise DataError(f"the data folder {root} does not exist. It should hold {wanted}")
    if not root.is_dir():
        raise DataError(f"{root} is a file, not a folder. --data names a folder with {wanted}")
    if not any(root.iterdir()):
        raise DataError(f"the data folder {root} is empty. It should hold {wanted}")


def read_arrays(path: Path, shape: tuple[int, ...], num_classes: int) -> ArrayDataset:
    """Read an npz file with the keys `inputs` (floats) and `labels` (integers).

    Args:
        path: The file; pickled content is refused.
        shape: Shape of one input.
        num_classes: Labels are 0..num_classes-1.

    Raises:
        DataError: Not such a file, the wrong shape, no samples, or a wrong value; says which.
    """
    try:
        with path.open("rb") as f, np.load(f, allow_pickle=False) as arrays:
            missing = {"inputs", "labels"} - set(arrays.files)
            if missing:
                have = ", ".join(arrays.files) or "nothing"
                raise DataError(f"{path} has no array named {min(missing)}; it has {have}")
            inputs, labels = arrays["inputs"], arrays["labels"]
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} cannot be read as an npz file of plain arrays (numpy.savez): {error}"
        ) from error
    if inputs.dtype.kind != "f" or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path} has inputs of {inputs.dtype} and labels of {labels.dtype}; "
            "float32 and int64 are wanted"
        )
    if inputs.shape[1:] != shape or labels.shape != inputs.shape[:1]:
        raise DataError(
            f"{path} has inputs of shape {inputs.shape} and labels of shape {labels.shape}; "
            f"the task's model takes inputs of shape (N, {', '.join(map(str, shape))}) "
            "and labels of shape (N,)"
        )
    if not len(labels):
        raise DataError(f"{path} has no samples")
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise DataError(
            f"{path}: label {labels[wrong[0]]} at index {wrong[0]} is not in "
            f"0..{num_classes - 1} ({len(wrong)} of {len(labels)} labels are not)"
        )
    bad = np.flatnonzero(~np.isfinite(inputs.reshape(len(labels), -1)).all(axis=1))
    if len(bad):
        raise DataError(
            f"{path}: the input at index {bad[0]} has values that are not finite "
            f"({len(bad)} of {len(labels)} inputs have)"
        )
    return ArrayDataset(
        torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))
    )


def write_arrays(path: Path, data: ArrayDataset) -> None:
    """Write a dataset in the form of `read_arrays`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs, labels = data.stacked(range(len(data)))
    np.savez_compressed(path, inputs=inputs.numpy(), labels=labels.numpy())
