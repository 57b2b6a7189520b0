"""Pictures of every page, from a live run of four silos beside one that is done."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.dashboard.live import Coordinator, coordinator
from tests.support.chrome import Page, chrome

NUM_SILOS = 4
WIDE, PHONE = (1400, 1000), (390, 844)
# rounds that are quick to make and slow to learn, so that the second run lasts for all pictures
RUN = {
    "task": "digits",
    "num_rounds": 300,
    "num_silos": NUM_SILOS,
    "similarity": 0.05,
    "batch_size": 32,
    "local_lr": 0.01,
}


def take(out: Path) -> Iterator[Path]:
    """The files, one after another."""
    with (
        coordinator(report_interval_s=0.5) as it,
        chrome(it.url, it.fed.folder / "downloads") as page,
    ):
        page.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        page.driver.get(it.url)
        page.find("#no-silos")
        yield _shot(page, out / "nothing-yet.png", WIDE)
        for i in range(NUM_SILOS):
            flags = ("--shard", f"{i}/{NUM_SILOS}", "--device", "cpu")
            it.fed.start_silo(f"site-{'abcd'[i]}", *flags)
        first = it.post("/runs", {**RUN, "name": "fedavg", "method": "FedAvg"})["run_id"]
        second = it.post("/runs", {**RUN, "name": "domo", "method": "DOMO"})["run_id"]
        it.until(lambda: it.rounds_done(second) >= 20, "in round 21 of the second run", 600)
        page.log_in(it.token)
        page.find("#silos [data-key=site-d]")
        for theme in ("light", "dark"):
            yield from _pages(page, it, out, theme, first, second)


def _pages(
    page: Page, it: Coordinator, out: Path, theme: str, first: str, second: str
) -> Iterator[Path]:
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    addresses = {
        "overview": "#/",
        "runs": "#/runs",
        "run": f"#/runs/{second}",
        "compare": f"#/compare?runs={first},{second}",
        "silo": "#/silos/site-b",
        "start": "#/new",
    }
    for name, address in addresses.items():
        for width, size in (("", WIDE), ("-phone", PHONE)):
            page.go(address)
            yield _shot(page, out / f"{name}{width}-{theme}.png", size)


def _shot(page: Page, path: Path, size: tuple[int, int]) -> Path:
    """The whole length of the page at a width."""
    run = page.driver.execute_cdp_cmd
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    run("Emulation.setDeviceMetricsOverride", metrics)
    page.driver.execute_async_script("setTimeout(arguments[0], 1500)")
    length = page.driver.execute_script("return document.documentElement.scrollHeight")
    run("Emulation.setDeviceMetricsOverride", {**metrics, "height": max(height, length)})
    page.driver.execute_async_script("setTimeout(arguments[0], 500)")
    page.driver.save_screenshot(str(path))
    return path
