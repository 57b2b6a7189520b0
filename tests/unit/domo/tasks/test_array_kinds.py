"""Arrays as people have them: what becomes of each file."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domo.errors import DataError
from domo.tasks import load_task
from domo.tasks.base import ArrayDataset

INPUTS = (np.arange(3 * 64).reshape(3, 1, 8, 8) / 64).astype(np.float32)
LABELS = np.array([0, 1, 9])
GOOD = {"inputs": INPUTS, "labels": LABELS}


def read(root: Path) -> ArrayDataset:
    data = load_task("digits").train_data(root, None)
    assert isinstance(data, ArrayDataset)
    return data


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": INPUTS.astype(np.float64)},
        {"inputs": np.asfortranarray(INPUTS)},
        {"inputs": INPUTS.astype(">f4")},
        {"inputs": np.repeat(INPUTS, 2, 3)[..., ::2]},
        {"labels": LABELS.astype(np.uint8)},
        {"labels": LABELS.astype(">i2")},
        {"extra": np.zeros(3)},
    ],
    ids=["float64", "Fortran order", "big-endian", "a view", "uint8", "big-endian labels", "more"],
)
def test_the_same_numbers_are_the_same_data(tmp_path: Path, changes: dict[str, Any]) -> None:
    np.savez_compressed(tmp_path / "train.npz", **(GOOD | changes))
    data = read(tmp_path)
    assert torch.equal(data.inputs, torch.from_numpy(INPUTS))
    assert data.inputs.is_contiguous()
    assert data.labels.tolist() == [0, 1, 9]
    assert data.notes == ()
    assert next(iter(data.facts)).endswith("values 0 to 2.98438")


def test_float16_is_read_as_it_is(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", inputs=INPUTS.astype(np.float16), labels=LABELS)
    assert read(tmp_path).inputs.dtype == torch.float32


ONE_HOT = np.eye(10)[LABELS].astype(int)
OBJECTS = np.array([INPUTS[0], INPUTS[1], None], dtype=object)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"X": INPUTS, "y": LABELS}, "no array named inputs; it has X, y. numpy.savez(path, inp"),
        ({"inputs": INPUTS, "y": LABELS}, "no array named labels; it has inputs, y."),
        ({}, "no array named inputs; it has nothing"),
        (GOOD | {"inputs": (INPUTS * 64).astype(np.uint8)}, "scale whole numbers as the other"),
        (GOOD | {"inputs": INPUTS > 1}, "inputs of bool and labels of int64; float32 and int64"),
        (GOOD | {"inputs": INPUTS.astype(complex)}, "inputs of complex128"),
        (GOOD | {"inputs": INPUTS.astype(str)}, "inputs are numbers"),
        (GOOD | {"inputs": OBJECTS}, "it holds objects; lists of arrays are stacked with numpy."),
        (GOOD | {"labels": LABELS.astype(float)}, "labels.astype('int64') where they are whole"),
        (GOOD | {"labels": LABELS > 0}, "labels.astype('int64')"),
        (GOOD | {"labels": np.array(["a", "b", "c"])}, "labels are numbers, the order of classes"),
        (GOOD | {"labels": LABELS + 1}, "label 10 at index 2 is not in 0..9 (1 of 3 labels are no"),
        (GOOD | {"labels": np.array([1, 5, 10])}, "they are counted from 1, so save labels - 1"),
        (GOOD | {"labels": -LABELS}, "label -1 at index 1 is not in 0..9"),
        (GOOD | {"labels": np.array([0, 1, 2**63], np.uint64)}, "label 9223372036854775808 at"),
        (GOOD | {"labels": ONE_HOT}, "labels of shape (3, 10); the task's model takes"),
        (GOOD | {"labels": ONE_HOT}, "labels.argmax(1) if they are one-hot"),
        (GOOD | {"labels": LABELS[:, None]}, "and labels of shape (N,): labels.ravel()"),
        (GOOD | {"labels": LABELS[:2]}, "labels of shape (2,)"),
        (GOOD | {"labels": np.array(1)}, "labels of shape ()"),
        (GOOD | {"inputs": INPUTS[0, 0, 0, 0]}, "inputs of shape ()"),
        (GOOD | {"inputs": INPUTS.reshape(3, 64)}, "inputs.reshape(-1, 1, 8, 8) if the order is"),
        (GOOD | {"inputs": INPUTS.reshape(3, 8, 8, 1)}, "inputs.reshape(-1, 1, 8, 8)"),
        (GOOD | {"inputs": np.zeros((3, 1, 9, 9), "f4")}, "takes inputs of shape (N, 1, 8, 8)"),
        (
            GOOD | {"inputs": INPUTS * np.nan},
            "index 0 has values that are not finite in float32 (3",
        ),
        (GOOD | {"inputs": np.where(INPUTS > 2.9, np.inf, INPUTS)}, "the input at index 2 has val"),
        (GOOD | {"inputs": INPUTS.astype("f8") * 1e300}, "not finite in float32 (3 of 3"),
        ({"inputs": INPUTS[:0], "labels": LABELS[:0]}, "train.npz has no samples"),
    ],
)
def test_what_is_wrong_is_said_with_a_cure(
    tmp_path: Path, arrays: dict[str, Any], text: str
) -> None:
    np.savez(tmp_path / "train.npz", **arrays)
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert text in str(caught.value)
    assert str(caught.value).isprintable()


def damaged(path: Path) -> None:
    np.savez_compressed(path, **GOOD)
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 2] = b"\0" * (len(content) // 2 - len(content) // 3)
    path.write_bytes(content)


def cut(path: Path) -> None:
    np.savez(path, **GOOD)
    path.write_bytes(path.read_bytes()[:-100])


def one_array(path: Path) -> None:
    with path.open("wb") as f:
        np.save(f, INPUTS)


def odd_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("inputs\n.npy", b"x")


@pytest.mark.parametrize(
    "make",
    [
        damaged,
        cut,
        one_array,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"a,b,c\n1,2,3\n"),
        lambda path: path.write_bytes(b"\x80\x04\x95 a pickle"),
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 99),
    ],
    ids=["damaged", "cut off", "one array", "0 bytes", "CSV", "pickle", "HDF5"],
)
def test_files_that_are_no_npz(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path / "train.npz")
    with pytest.raises(DataError, match=r"cannot be read as an npz file of plain array") as told:
        read(tmp_path)
    assert "pickle" not in str(told.value), "nobody is told to unpickle it"


def test_odd_names_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    odd_zip(tmp_path / "train.npz")
    with pytest.raises(DataError, match=r"no array named inputs; it has inputs\\n"):
        read(tmp_path)


def test_what_lies_beside_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    np.savez(tmp_path / "train.npz", **GOOD)
    np.savez(tmp_path / "val.npz", **GOOD)
    (tmp_path / ".DS_Store").write_bytes(b"x")
    wanted = f"left out in {tmp_path}: val.npz: only train.npz and test.npz are read"
    assert list(read(tmp_path).notes) == [wanted]
    assert wanted in caplog.text
    (tmp_path / "train.npz").rename(tmp_path / "Train.npz")
    with pytest.raises(
        DataError, match=r"no train\.npz in .*; left out in .*: Train\.npz, val\.npz"
    ):
        read(tmp_path)


def test_a_file_without_arrays_beside_is_named_plainly(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", **GOOD)
    (tmp_path / "README.md").write_text("mine")
    assert list(read(tmp_path).notes) == [f"left out in {tmp_path}: README.md"]
