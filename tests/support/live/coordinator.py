"""A real coordinator in a thread of the test process: gRPC and REST on free ports of loopback."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

import domo
from domo_server import testing
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_beside
from domo_server.store.store import Store


class Coordinator(testing.Coordinator):
    """The public one, with its REST as plain JSON."""

    def __init__(self, folder: Path, *runs: Mapping[str, Any], **server: Any):
        super().__init__(runs, folder / "coordinator", **server)

    def admit(self, *names: str) -> None:
        """Let silos in, with any key, as `domo-server admit` does beside it."""
        with contextlib.closing(Store(open_beside(self.database_url))) as store:
            for name in names:
                Admissions(store).admit(name, "a test")

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.state_dir / 'coordinator.db'}"

    # REST

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def get_text(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}/api/v1{path}", timeout=30) as answer:
            return str(answer.read().decode())

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

    def until(self, path: str, good: Callable[[Any], bool], timeout_s: float = 200.0) -> Any:
        """The first answer that is good."""
        end = time.monotonic() + timeout_s
        while not good(answer := self.get(path)):
            assert time.monotonic() < end, f"{path} is still {answer}"
            time.sleep(0.05)
        return answer

    def ended(self, number: int = 0, timeout_s: float = 200.0) -> Any:
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
    domo.save_initial(module, folder / "x0.safetensors")
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
