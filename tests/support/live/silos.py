"""Silos as threads of the test process: the agent of `domo-client`, on the real loop API."""

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import domo_client
from domo.errors import DomoError
from domo_client.agent import run_agent
from domo_client.loop.silo import Silo
from domo_client.observe.messages import Ui
from domo_client.work import AgentOptions


def options(data: Path | None = None, *tasks: str, **given: Any) -> AgentOptions:
    """An operator's options, for a CPU."""
    values: dict[str, Any] = {
        "shard": None,
        "device": torch.device("cpu"),
        "autocast": None,
        "num_workers": 0,
        "role": "trainer",
        "cache": Path("no-such-cache"),
    }
    return AgentOptions(data=data, tasks=tasks, **{**values, **given})


class Agent:
    """`run_agent` in a thread; `close` takes the silo away."""

    def __init__(self, address: str, name: str, folder: Path, opts: AgentOptions, **connect: Any):
        self.silo: Silo = domo_client.connect(
            address, name, state_dir=folder / f"state-{name}", role=opts.role, **connect
        )
        self.error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, args=(opts,), name=name, daemon=True)
        self._thread.start()

    def _run(self, opts: AgentOptions) -> None:
        try:
            run_agent(self.silo, opts, Ui(["domo-client"]))
        except DomoError as error:
            self.error = None if self._closed else error

    def close(self) -> None:
        self._closed = True
        self.silo.close()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.error is None, self.error


@contextlib.contextmanager
def agents(
    address: str,
    names: list[str],
    folder: Path,
    opts: Callable[[int], AgentOptions],
    **connect: Any,
) -> Iterator[list[Agent]]:
    """One agent for each name; `opts(i)` are the options of the i-th, `connect` those of all."""
    running: list[Agent] = []
    try:
        for i, name in enumerate(names):
            running.append(Agent(address, name, folder, opts(i), **connect))
        yield running
    finally:
        for agent in running:
            agent.close()


def copy_state(folder: Path, into: Path) -> None:
    """The state folder of a silo that runs, as a copy of its machine has it.

    What the silo says of itself is left out: it is replaced all the time.
    """
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("status.json*"))
