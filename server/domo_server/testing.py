"""A real coordinator in a thread of this process, for tests of one's own tasks and loops.

def test_my_task():
    with domo_server.testing.coordinator(task=MyTask()) as coordinator:
        domo_client.testing.try_task(MyTask(), "data", coordinator.address)
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from domo.api.client import Coordinator as Rest
from domo.errors import DeadlineError
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.tasks import load_task, name_of
from domo.tasks.base import Task
from domo.training.initial import build_initial
from domo_server.app import serve
from domo_server.config import ServerConfig
from domo_server.startup import Started

__all__ = ["Coordinator", "coordinator"]

PATIENCE_S = 60.0
"""How long a start and a stop may take."""
QUICK = {"report_interval_s": 0.2, "long_poll_s": 1.0}
"""Heartbeats and polls at a test's pace."""
SHORT = {"num_rounds": 2, "num_silos": 1}
"""A run that tries a task."""


class Coordinator:
    """A coordinator on free ports of this machine; a context manager that stops it.

    Args:
        runs: What it queues, as `RunConfig` or as `[[runs]]` of a configuration file.
        state_dir: Its state folder.
        settings: Fields of `[server]`.

    Attributes:
        address: host:port, for silos.
        url: Of the page and REST.
        token: The admin's.
        run_ids: The runs that it has queued.

    Raises:
        ConfigError: A setting is wrong.
        StateError: The state folder cannot be used.
    """

    def __init__(
        self, runs: Sequence[RunConfig | Mapping[str, Any]], state_dir: Path, **settings: Any
    ):
        free = {"listen": "127.0.0.1:0", "dashboard": "127.0.0.1:0", "state_dir": state_dir}
        config = validate(ServerConfig, {**free, **QUICK, **settings}, "domo_server.testing")
        configs = [
            run if isinstance(run, RunConfig) else validate(RunConfig, run, "domo_server.testing")
            for run in runs
        ]
        self.state_dir = state_dir
        self._started: Future[Started] = Future()
        self._stop: Callable[[], Any] = lambda: None
        self._thread = threading.Thread(
            target=self._run, args=(config, configs), name="coordinator", daemon=True
        )
        self._thread.start()
        started = self._started.result(PATIENCE_S)
        self.address, self.url = started.grpc_address, started.dashboard_url
        self.run_ids = list(started.run_ids)
        self.token = (state_dir / "admin-token").read_text("ascii").strip()

    def _run(self, config: ServerConfig, runs: list[RunConfig]) -> None:
        async def main() -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            self._stop = lambda: loop.call_soon_threadsafe(stop.set)
            await serve(config, runs, on_started=self._started.set_result, stop=stop)

        try:
            asyncio.run(main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop it as SIGTERM would.

        Raises:
            DeadlineError: It does not stop.
        """
        if self._thread.is_alive():
            self._stop()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            raise DeadlineError(f"the coordinator has not stopped after {PATIENCE_S:g} s")

    def rest(self) -> Rest:
        """Its REST, with the admin's token; a context manager."""
        return Rest(self.url, self.token)


@contextlib.contextmanager
def coordinator(
    *runs: RunConfig | Mapping[str, Any],
    task: Task | str | None = None,
    state_dir: Path | str | None = None,
    **settings: Any,
) -> Iterator[Coordinator]:
    """A coordinator that stops with the block, and leaves nothing behind.

    Args:
        runs: What it queues, as `RunConfig` or as `[[runs]]` of a configuration file.
        task: Queue a short run of this task too: two rounds, one silo, x_0 made of the task.
        state_dir: Its state folder, which stays; a temporary one by default.
        settings: Fields of `[server]`.

    Raises:
        ConfigError: A setting is wrong.
        TaskError: The task has no model that can be trained.
    """
    with TemporaryDirectory(prefix="domo-coordinator-") as scratch:
        queue = [*runs, *([] if task is None else [short_run(task, Path(scratch))])]
        with Coordinator(queue, Path(state_dir or Path(scratch) / "state"), **settings) as running:
            yield running


def short_run(task: Task | str, folder: Path, **settings: Any) -> dict[str, Any]:
    """A run of a task, with x_0 in a folder; as `coordinator` takes it.

    Raises:
        TaskError: The task has no model that can be trained.
    """
    made = load_task(task) if isinstance(task, str) else task
    name = task if isinstance(task, str) else name_of(task)
    path = folder / "x0.safetensors"
    save_model(path, *build_initial(made, settings.get("seed", 0)))
    return {"task": name, **SHORT, "initial_model": str(path), **settings}
