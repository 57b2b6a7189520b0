"""What an open page costs: processor time and memory of Chromium's processes, and its heap."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dashboard.live import Coordinator, cpu_s
from tests.support.chrome import Page, chrome


@dataclass(frozen=True)
class Heap:
    """After a forced collection of garbage."""

    heap_mb: float
    renderer_mb: float
    nodes: int
    listeners: int
    documents: int


class Watched:
    """A page in a browser of its own."""

    def __init__(self, page: Page):
        self.page = page
        self._pid = int(page.driver.service.process.pid)
        page.driver.execute_cdp_cmd("HeapProfiler.enable", {})
        page.driver.execute_cdp_cmd("Performance.enable", {})

    def renderer(self) -> int:
        """The process that runs the page: of the renderers, the busiest."""
        return max(
            (pid for pid in self._processes() if b"--type=renderer" in _command(pid)), key=cpu_s
        )

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds of the renderer, and of the whole browser with it."""
        return cpu_s(self.renderer()), sum(map(cpu_s, self._processes()))

    def heap(self) -> Heap:
        """What is held now."""
        run: Any = self.page.driver.execute_cdp_cmd
        for _ in range(2):  # what a finalizer lets go of is collected by the second
            run("HeapProfiler.collectGarbage", {})
        found = {m["name"]: m["value"] for m in run("Performance.getMetrics", {})["metrics"]}
        return Heap(
            round(found["JSHeapUsedSize"] / 1e6, 2),
            round(_resident_mb(self.renderer()), 1),
            int(found["Nodes"]),
            int(found["JSEventListeners"]),
            int(found["Documents"]),
        )

    def _processes(self) -> list[int]:
        """All of the browser: what descends from its driver, without the driver."""
        found, left = [], _children(self._pid)
        while left:
            pid = left.pop()
            found.append(pid)
            left += _children(pid)
        return found


@contextlib.contextmanager
def opened(it: Coordinator, address: str) -> Iterator[Watched]:
    """A browser that shows one page of the dashboard, logged in."""
    with chrome(it.url, it.fed.folder / "downloads") as page:
        page.log_in(it.token)
        page.go(address)
        yield Watched(page)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(x for x in text.splitlines() if x.startswith("VmRSS")).split()[1]) / 1000
