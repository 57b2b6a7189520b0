"""A real coordinator in a thread of the test process: gRPC and REST on free ports of loopback."""

import asyncio
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from torch import nn

from domo.model.flat import FlatModel
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo_server.app import serve
from domo_server.config import ServerConfig
from domo_server.startup import Started

STARTUP_S = 60.0
QUICK = {"report_interval_s": 0.2, "long_poll_s": 1.0}
"""Heartbeats and polls at a test's pace."""


class Coordinator:
    """`domo_server.app.serve` with a stop button; what it says is read over REST."""

    def __init__(self, folder: Path, *runs: Mapping[str, Any], **server: Any):
        self.state_dir = folder / "coordinator"
        settings = {
            "listen": "127.0.0.1:0",
            "dashboard": "127.0.0.1:0",
            "state_dir": self.state_dir,
            **QUICK,
            **server,
        }
        config = validate(ServerConfig, settings, "the test")
        configs = [validate(RunConfig, run, "the test") for run in runs]
        self._started: Future[Started] = Future()
        self._stop: Callable[[], Any] = lambda: None
        self._thread = threading.Thread(
            target=self._run, args=(config, configs), name="coordinator", daemon=True
        )
        self._thread.start()
        started = self._started.result(STARTUP_S)
        self.address, self.url, self.run_ids = (
            started.grpc_address,
            started.dashboard_url,
            list(started.run_ids),
        )
        self.token = (self.state_dir / "admin-token").read_text().strip()

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

    def close(self) -> None:
        """Stop it as SIGTERM would."""
        if self._thread.is_alive():
            self._stop()
        self._thread.join(STARTUP_S)
        assert not self._thread.is_alive(), "the coordinator does not stop"

    # REST

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            json.dumps(body or {}).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def run(self, number: int = 0) -> Any:
        return self.get(f"/runs/{self.run_ids[number]}")

    def rounds(self, number: int = 0) -> Any:
        return self.get(f"/runs/{self.run_ids[number]}/rounds")

    def silo(self, name: str) -> Any:
        return next(s for s in self.get("/silos") if s["silo_id"] == name)

    def until(self, path: str, good: Callable[[Any], bool], timeout_s: float = 60.0) -> Any:
        """The first answer that is good."""
        end = time.monotonic() + timeout_s
        while not good(answer := self.get(path)):
            assert time.monotonic() < end, f"{path} is still {answer}"
            time.sleep(0.05)
        return answer

    def ended(self, number: int = 0, timeout_s: float = 60.0) -> Any:
        """The run, once it is over."""
        over = ("FINISHED", "FAILED", "STOPPED")
        path = f"/runs/{self.run_ids[number]}"
        return self.until(path, lambda run: run["state"] in over, timeout_s)


@contextlib.contextmanager
def coordinator(folder: Path, *runs: Mapping[str, Any], **server: Any) -> Iterator[Coordinator]:
    """A coordinator that stops with the block."""
    it = Coordinator(folder, *runs, **server)
    try:
        yield it
    finally:
        it.close()


def own_run(folder: Path, module: nn.Module, **settings: Any) -> dict[str, Any]:
    """A run of a loop of one's own on a module, with its x_0; one silo and one step by default."""
    flat = FlatModel(module)
    save_model(folder / "x0.safetensors", flat.layout, flat.read_all())
    values = {
        "task": "own:Loop",
        "method": "DOMO",
        "num_rounds": 2,
        "num_silos": 1,
        "local_steps": 1,
        "batch_size": 2,
        "initial_model": str(folder / "x0.safetensors"),
    }
    if "local_steps_list" in settings or "local_epochs" in settings:
        del values["local_steps"]
    return {**values, **settings}
