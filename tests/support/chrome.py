"""Chromium without a screen, and what tests ask of a page. Skips where there is no browser."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
PATIENCE_S = 100.0
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--window-size=1400,1000",
)


def require() -> tuple[str, str]:
    """The browser and its driver; skips the module without them."""
    pytest.importorskip("selenium", reason="the browser tests: selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip(
            "the browser tests: there is no chromium with chromedriver here "
            "(Debian: chromium, chromium-driver)",
            allow_module_level=True,
        )
    return browser, driver


class Page:
    """The dashboard in a browser.

    Attributes:
        downloads: The folder of what is saved.
    """

    def __init__(self, driver: Any, url: str, downloads: Path):
        self.driver, self.url, self.downloads = driver, url, downloads

    def log_in(self, token: str) -> None:
        self.driver.get(f"{self.url}/login")
        self.fill("#token", token)
        self.click("#login-form button")
        self.until(lambda: "admin" in self.driver.execute_script("return document.body.className"))

    def as_new(self) -> None:
        """No document, nobody logged in, nothing set, and no complaint of what was left."""
        self.driver.get(self.url)
        self.driver.execute_script("localStorage.clear()")
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.errors()

    def go(self, address: str) -> None:
        """Another page of the document, as its links do: nothing is loaded again."""
        self.driver.execute_script("location.hash = arguments[0]", address)

    def find(self, css: str) -> Any:
        """The first element, once it is shown."""
        return self.until(
            lambda: next(
                (e for e in self.driver.find_elements("css selector", css) if e.is_displayed()),
                None,
            ),
            css,
        )

    def text(self, css: str) -> str:
        return str(self.find(css).text)

    def click(self, css: str) -> None:
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.find(css))
        self.find(css).click()

    def fill(self, css: str, text: str) -> None:
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def choose(self, css: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.find(css)).select_by_value(value)

    def say_yes(self) -> None:
        """Confirm what the dialog asks."""
        self.click("#ask-do")
        self.until(lambda: not self.driver.find_elements("css selector", "#ask-dialog[open]"))

    def until(
        self, look: Callable[[], T | None], what: str = "", timeout_s: float = PATIENCE_S
    ) -> T:
        """The first value of `look` that is true; elements may be replaced meanwhile."""
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + timeout_s
        while True:
            try:
                if found := look():
                    return found
            except WebDriverException:
                pass
            if time.monotonic() > end:
                shown = self.driver.execute_script("return document.body.innerText")
                raise AssertionError(f"still not {what}; the page says:\n{shown}")
            time.sleep(0.02)

    def of_width(self, width: int) -> None:
        """A screen of this width; as on a phone, if it is narrow."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )

    def colours(self, theme: str) -> None:
        """`light` or `dark`."""
        script = "document.documentElement.dataset.theme = arguments[0]"
        self.driver.execute_script(script, theme)

    def faults(self) -> list[str]:
        """What axe-core finds on the page as it is, of serious and critical impact."""
        if not self.driver.execute_script("return Boolean(window.axe)"):
            self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run(document, {resultTypes: ['violations']})"
            ".then((r) => done(r.violations), (e) => done([{impact: 'critical', id: String(e),"
            " nodes: []}]))"
        )
        return [
            f"{fault['id']}: {'; '.join(node['html'][:160] for node in fault['nodes'][:4])}"
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]

    def errors(self) -> list[str]:
        """What the browser's console complains of, but for what a test has refused."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "status of 4" not in entry["message"]
        ]


@contextlib.contextmanager
def chrome(url: str, downloads: Path, *flags: str) -> Iterator[Page]:
    """A browser with an empty profile; its downloads land in a folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    browser, driver = require()
    options = Options()
    options.binary_location = browser
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    downloads.mkdir(parents=True, exist_ok=True)
    options.add_experimental_option(
        "prefs",
        {"download.default_directory": str(downloads), "download.prompt_for_download": False},
    )
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    try:
        session.set_script_timeout(60)
        yield Page(session, url, downloads)
    finally:
        session.quit()
