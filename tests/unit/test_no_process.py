"""Unit tests start no process, in whichever way."""

import asyncio
import multiprocessing
import os
import pty
import subprocess
from collections.abc import Callable

import pytest


async def begin() -> None:
    await asyncio.create_subprocess_exec("true")


def worker(kind: str) -> None:
    multiprocessing.get_context(kind).Process(target=print).start()


WAYS: dict[str, Callable[[], object]] = {
    "run": lambda: subprocess.run(["true"], check=True),
    "asyncio": lambda: asyncio.run(begin()),
    "fork": lambda: os.fork(),
    "terminal": pty.fork,
    "system": lambda: os.system("true"),
    "fork of multiprocessing": lambda: worker("fork"),
    "spawn of multiprocessing": lambda: worker("spawn"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_is_refused_and_remembered(way: str, processes: list[str]) -> None:
    with pytest.raises(AssertionError, match="a unit test starts no process"):
        WAYS[way]()
    assert processes, "it is told although somebody caught the error"
    processes.clear()
