"""What leaves a silo of a fault: never a file's name, never a value of the data."""

import ast
import errno
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from domo.errors import (
    ChecksumError,
    ConfigError,
    DataError,
    DivergenceError,
    DomoError,
    ProtocolError,
    StateError,
    TaskError,
)
from domo.outside.faults import outside
from domo.outside.text import Public, public, saying
from domo.training.task_errors import LoadError, task_errors

NAME = "Doe_Jane_1961-04-12"
ROOT = Path(__file__).parents[3]


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError(NAME)


def caused() -> None:
    try:
        raise FileNotFoundError(errno.ENOENT, NAME, f"/data/{NAME}.png")
    except OSError as error:
        raise ValueError(f"case {NAME}") from error


def raising(error: BaseException) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


FAULTS: dict[str, Callable[[], None]] = {
    "a key": raising(KeyError(NAME)),
    "a value": lambda: float(NAME),  # type: ignore[arg-type, return-value]
    "a cause": caused,
    "a group": raising(ExceptionGroup(NAME, [ValueError(NAME), KeyError(NAME)])),
    "a path": lambda: Path(f"/no/{NAME}.png").read_bytes(),  # type: ignore[arg-type, return-value]
    "torch": raising(RuntimeError(f"{NAME} has sizes that do not fit")),
    "memory": raising(torch.OutOfMemoryError(f"out of memory of {NAME}")),
    "shared memory": raising(RuntimeError(f"unable to allocate shared memory(shm) for {NAME}")),
    "assertion": raising(AssertionError(NAME)),
    "exit": raising(SystemExit(NAME)),
    "odd": raising(Odd()),
    "data": raising(DataError(f"{NAME}.png cannot be read as an image")),
    "task": raising(TaskError(f"what {NAME} says")),
    "config": raising(ConfigError(f"--data /srv/{NAME}")),
    "state": raising(StateError(f"/srv/{NAME}/state")),
    "checksum": raising(ChecksumError(f"the cached /srv/{NAME}")),
    "domo": raising(DomoError(NAME)),
    "interrupt": raising(KeyboardInterrupt(NAME)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_no_name_and_no_value_leaves(fault: str, wrapped: bool) -> None:
    around = task_errors("loss(model, batch) fails") if wrapped else nullcontext()
    with pytest.raises(BaseException) as caught, around:  # noqa: PT011 - all kinds
        FAULTS[fault]()
    said = outside(caught.value)
    assert isinstance(said, Public)
    assert said
    assert NAME not in said
    assert "Doe" not in said
    assert "/" not in said or "--" in said or "docker" in said


def test_the_place_in_the_users_code_is_said_without_its_folder() -> None:
    with pytest.raises(KeyError) as caught:
        FAULTS["a key"]()
    said = outside(caught.value)
    assert said.startswith("KeyError, in test_outside.py, line ")
    assert said.endswith(" (do); the silo's own text says more")
    assert str(Path(__file__).parent) not in said


def test_what_is_made_of_domos_words_goes_as_it_is() -> None:
    assert outside(ProtocolError("the coordinator sent an empty frame")).endswith("empty frame")
    assert outside(DivergenceError("3 values are not finite", 3)) == "3 values are not finite"
    assert outside(public(TaskError("loss gives 2 numbers"))) == "loss gives 2 numbers"
    assert outside(saying(DataError(NAME), "the folder is empty")) == "the folder is empty"
    assert outside(LoadError(NAME, "KeyError")) == "samples cannot be loaded: KeyError"


def test_nothing_is_made_public_of_an_exceptions_own_text() -> None:
    """`Public(str(error))` would open the gate again."""
    found = []
    for path in (ROOT / "client/domo_client").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Public", "public"):
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                said = {
                    n.func.id
                    for n in ast.walk(node)
                    if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
                }
                if names & {"error", "e", "path", "folder"} and not said & {"describe", "outside"}:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
