"""Nothing in this folder starts a process; what does is in tests/processes."""

import multiprocessing.util
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

ASKED = ("fc-list", "uname")
"""Of the machine by libraries, once: by matplotlib when it first draws, by mlflow's `platform`."""


@pytest.fixture(autouse=True, scope="module")
def processes() -> Iterator[list[str]]:
    """What the module's tests would have started; it is refused, also where the code goes on."""
    tried: list[str] = []

    def refuse(*words: Any, **_: Any) -> NoReturn:
        tried.append(f"{os.environ['PYTEST_CURRENT_TEST']}: {words}")
        raise AssertionError("a unit test starts no process: it belongs in tests/processes")

    def popen(self: Any, command: Any, *args: Any, **settings: Any) -> None:
        if command[0] not in ASKED:
            refuse(command)
        start(self, command, *args, **settings)

    start: Callable[..., None] = subprocess.Popen.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", popen)
        patch.setattr(multiprocessing.util, "spawnv_passfds", refuse)
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
            patch.setattr(os, name, refuse)
        yield tried
    assert not tried, tried
