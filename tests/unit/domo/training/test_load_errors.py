"""What the data of a task raise: said with its place here, and without names elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from domo.errors import DataError, TaskError
from domo.outside.faults import NO_SHARED_MEMORY, TOO_MANY_FILES, outside
from domo.training.batches import BatchLoader
from domo.training.task_errors import (
    LoadError,
    load_error,
    of_deaths,
    task_errors,
    text_of,
    told,
)

NAME = "Anna-Smith"


class TwoArguments(Exception):
    def __init__(self, a: str, b: str):
        super().__init__(a, b)


class NoText(Exception):
    def __str__(self) -> str:
        raise ValueError(NAME)


def from_another() -> None:
    try:
        raise FileNotFoundError(2, "No such file or directory", f"/data/{NAME}.dcm")
    except OSError as error:
        raise RuntimeError("a case cannot be read") from error


def raises(error: BaseException) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


FAULTS: dict[str, tuple[Callable[[], None], str, str]] = {
    "a key": (raises(KeyError(NAME)), f"KeyError: '{NAME}'", "KeyError"),
    "a value": (lambda: float(NAME), f"could not convert string to float: '{NAME}'", "ValueError"),
    "from another": (
        from_another,
        "RuntimeError: a case cannot be read (from FileNotFoundError: [Errno 2] No such file or "
        f"directory: '/data/{NAME}.dcm')",
        "FileNotFoundError (No such file or directory)",
    ),
    "a group": (
        raises(ExceptionGroup("faults", [ValueError(NAME), KeyError("b")])),
        f"faults: ValueError: {NAME} and 1 more",
        "ValueError",
    ),
    "of many lines": (raises(ValueError(f"{NAME}\nand more\n")), f"ValueError: {NAME},", "Value"),
    "huge": (raises(ValueError(NAME * 10**6)), f"ValueError: {NAME * 29}", "ValueError"),
    "not printable": (raises(ValueError(f"{NAME}\x1b[2J")), f"{NAME}?[2J", "ValueError"),
    "of two arguments": (raises(TwoArguments(NAME, "b")), f"('{NAME}', 'b')", "TwoArguments"),
    "without a text": (raises(NoText()), "NoText, in ", "NoText"),
    "of domo": (raises(DataError(f"{NAME}.png is empty")), f"{NAME}.png is empty", "not what the"),
    "that would end the process": (raises(SystemExit(NAME)), f"SystemExit: {NAME}", "SystemExit"),
}


class Faulty(Dataset[torch.Tensor]):
    def __init__(self, fault: Callable[[], None]):
        self.fault = fault

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> torch.Tensor:
        if i == 2:
            self.fault()
        return torch.zeros(1)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_has_its_place_here_and_no_name_elsewhere(fault: str) -> None:
    do, text, kind = FAULTS[fault]
    with pytest.raises(LoadError) as caught:
        list(BatchLoader(Faulty(do)).sequential(1))
    here, there = told(caught.value), outside(caught.value)
    assert text in here
    assert len(here.splitlines()) == 1
    assert len(here) < 800
    assert here.isprintable()
    if fault != "of domo":
        assert f", in {__file__}, line " in here
    assert NAME not in there
    assert there.startswith("samples cannot be loaded: ")
    assert kind in there
    assert caught.value.code == ("data" if fault == "of domo" else "sample")


def test_a_look_at_it_says_the_same() -> None:
    with pytest.raises(TaskError) as caught, task_errors("samples of train_data are no batch"):
        list(BatchLoader(Faulty(FAULTS["a key"][0])).sequential(1))
    assert told(caught.value).startswith(
        f"samples of train_data are no batch: KeyError: '{NAME}', in {__file__}, line "
    )
    there = outside(caught.value)
    assert there.startswith("samples of train_data are no batch: KeyError, in test_load_errors.py")
    assert there.endswith("; the silo's own text says more")
    assert caught.value.code == "sample"


def test_batches_and_plans_are_the_data_too() -> None:
    ragged: Any = [torch.zeros(1), torch.zeros(2)]
    with pytest.raises(LoadError, match="RuntimeError: stack expects each tensor"):
        list(BatchLoader(ragged).sequential())

    def plan() -> Any:
        yield [0]
        raise KeyError(NAME)

    with pytest.raises(LoadError, match=rf"KeyError: '{NAME}', in .* \(plan\)"):
        list(BatchLoader(ragged).load(plan()))
    with pytest.raises(LoadError, match=rf"KeyError: '{NAME}', in "):
        list(BatchLoader(Faulty(FAULTS["a key"][0])).items([0, 2]))


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (RuntimeError("unable to allocate shared memory(shm) for file </torch_1>"), "--shm-size"),
        (RuntimeError("received 0 items of ancdata"), "ulimit -n"),
        (OSError(24, "Too many open files", f"/data/{NAME}"), "LimitNOFILE"),
    ],
)
def test_what_the_machine_lacks_is_said_with_what_helps(error: Exception, meant: str) -> None:
    found = load_error(error)
    assert meant in str(found)
    assert meant in outside(found)
    assert NAME not in str(found)
    assert found.passes


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        ([None, -9], "a loader process was killed, most likely as memory ran out"),
        ([-7, None], NO_SHARED_MEMORY),
        ([-11], "has crashed in a library"),
        ([0, 3], "a loader process has ended with exit code 3"),
    ],
)
def test_what_a_loader_process_has_died_of(codes: list[int | None], text: str) -> None:
    found = of_deaths(codes)
    assert found is not None
    assert text in str(found)
    assert text in outside(found)


def test_a_process_that_runs_or_has_ended_well_has_not_died() -> None:
    assert of_deaths([None, 0]) is None
    assert "docker" in TOO_MANY_FILES


def test_torchs_own_loader_is_said_without_names() -> None:
    """A loop's own `DataLoader`: the traceback in its text names what it likes."""
    text = f"Caught KeyError in DataLoader worker process 1.\nOriginal Traceback\nKeyError: {NAME}"
    assert text_of(KeyError(text)) == "KeyError in a loader process"
    assert text_of(RuntimeError(text)) == "KeyError in a loader process"


def test_other_errors_say_where_too() -> None:
    with pytest.raises(TaskError) as caught, task_errors("loss(model, batch) fails"):
        raise ValueError("two\nlines")
    assert str(caught.value) == "loss(model, batch) fails: ValueError: two"
    assert told(caught.value).startswith(f"{caught.value}, in {__file__}, line ")
