"""The dashboard in a real browser, over a real coordinator with four silos."""

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image
from pyarrow import parquet
from safetensors.torch import load_file

from tests.support.chrome import Page, chrome, require
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import agents, options

require()


NAMES = ["site-a", "site-b", "site-c", "site-d"]
SHORT = {"task": "digits", "method": "FedAvg", "num_rounds": 3, "num_silos": 4, "name": "short"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator with a finished run of four silos."""
    folder = tmp_path_factory.mktemp("browser")
    with (
        coordinator(folder, SHORT) as it,
        agents(it.address, NAMES, folder, lambda i: options(shard=(i, 4))),
    ):
        it.ended()
        yield it


@pytest.fixture(scope="module")
def browser(server: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chrome(server.url, tmp_path_factory.mktemp("downloads")) as it:
        yield it


@pytest.fixture
def nobody(browser: Page) -> Page:
    """The browser before anybody came."""
    browser.as_new()
    return browser


@pytest.fixture
def page(nobody: Page, server: Coordinator) -> Iterator[Page]:
    nobody.log_in(server.token)
    yield nobody
    assert nobody.errors() == []


def fill_form(page: Page, **values: Any) -> None:
    page.go("#/new")
    for key, value in values.items():
        if key == "method":
            page.choose("#f-method", value)
        else:
            page.fill(f"#f-{key}", str(value))
    page.click("form.start button[type=submit]")


def downloaded(folder: Path, pattern: str) -> Path:
    end = time.monotonic() + 100
    while time.monotonic() < end:
        found = [path for path in folder.glob(pattern) if not path.name.endswith(".crdownload")]
        if found and found[0].stat().st_size:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"no {pattern} in {[p.name for p in folder.iterdir()]}")


def test_a_run_from_the_form_to_its_model(page: Page, server: Coordinator) -> None:
    page.find("#silos [data-key=site-d]")
    page.driver.execute_script("window.sameDocument = true")
    fill_form(page, name="by-form", num_rounds=300, num_silos=4, local_epochs=8)
    run_id = page.until(lambda: page.driver.current_url.partition("#/runs/")[2], "at the run")
    assert page.text("#view-run h1") == "by-form"
    config = server.get(f"/runs/{run_id}")["config"]
    assert (config["local_epochs"], config["method"], config["num_silos"]) == (8, "DOMO", 4)

    # rounds arrive by themselves
    rows = "#view-run tbody tr"
    page.until(lambda: len(page.driver.find_elements("css selector", rows)) >= 2, "two rounds")
    page.go("#/")
    first = page.until(lambda: "Round" in page.text("#run-round") and page.text("#run-round"))
    page.until(lambda: page.text("#run-round") != first, "in another round")
    assert page.text("#tile-accuracy").endswith("%")
    charts = page.driver.find_elements("css selector", "#curves-charts .chart")
    canvases = page.driver.find_elements("css selector", "#curves-charts canvas")
    assert len(charts) == len(canvases) >= 5
    legend = page.text('#curves-charts [data-chart="norm"] .legend')
    assert all(name in legend for name in NAMES)

    # pause, resume, stop
    page.click("#hero-actions [data-do=pause]")
    page.say_yes()
    page.until(lambda: page.text("#run-state") == "Paused", "paused")
    assert server.get(f"/runs/{run_id}")["state"] == "PAUSED"
    done = server.get(f"/runs/{run_id}")["rounds_done"]
    page.click("#hero-actions [data-do=resume]")
    page.say_yes()
    page.until(lambda: page.text("#run-state") != "Paused", "resumed")
    server.until(f"/runs/{run_id}", lambda run: run["rounds_done"] > done)
    page.click("#hero-actions [data-do=stop]")
    page.say_yes()
    page.until(lambda: page.text("#run-state") == "Stopped", "stopped")
    assert page.driver.execute_script("return window.sameDocument"), "it was loaded again"

    # its model and its history
    page.go(f"#/runs/{run_id}")
    folder = page.downloads
    page.click("#view-run [data-f=model]")
    model = load_file(downloaded(folder, f"{run_id}-x*.safetensors"))
    assert sum(x.numel() for x in model.values()) >= server.get(f"/runs/{run_id}")["num_params"]
    page.click('#view-run [data-f="history.json"]')
    history = json.loads(downloaded(folder, "*history.json").read_text())
    page.click('#view-run [data-f="history.csv"]')
    with downloaded(folder, "*history.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    page.click('#view-run [data-f="history.parquet"]')
    assert parquet.read_table(downloaded(folder, "*.parquet")).num_rows == len(table)
    page.click("#view-run [data-f=card]")
    assert f"run `{run_id}`" in downloaded(folder, "README*").read_text()
    page.click('#view-run [data-chart="accuracy"] .save summary')
    page.click('#view-run [data-chart="accuracy"] [title="Save as PNG"]')
    picture = image.imread(downloaded(folder, "by-form*accuracy.png"))
    assert picture.shape[0] > 220
    assert picture[..., :3].std() > 0.02, "an empty picture"
    assert len(history["rounds"]) == server.get(f"/runs/{run_id}")["rounds_done"]
    assert len(table) == 4 * (1 + len(history["rounds"])), "a row for each silo and model"


def test_what_the_server_refuses_stands_at_its_field(page: Page, server: Coordinator) -> None:
    fill_form(page, num_rounds=0, local_lr=-1, name="short")
    assert "num_rounds = 0: must be greater than" in page.text("#e-num_rounds")
    assert "local_lr = -1: must be greater than 0" in page.text("#e-local_lr")
    assert page.find("#f-num_rounds").get_attribute("aria-invalid") == "true"
    assert "2 fields" in page.text("#form-error")
    fill_form(page, num_rounds=2, local_lr=0.05)
    page.until(lambda: "there is a run named 'short' already" in page.text("#e-name"))
    assert page.driver.find_element("css selector", "#e-num_rounds").text == ""
    fill_form(page, task="digitz", name="new-name")
    page.until(lambda: "there is no task 'digitz'" in page.text("#e-task"))
    page.choose("#f-method", "FedAvg")
    assert not page.find("#f-server_momentum").is_enabled()
    assert all(run["name"] != "new-name" for run in server.get("/runs"))


def test_two_runs_side_by_side(page: Page, server: Coordinator) -> None:
    if all(run["name"] != "other" for run in server.get("/runs")):
        other = {**SHORT, "name": "other", "method": "DOMO", "num_rounds": 2}
        run_id = server.post("/runs", other)["run_id"]
        server.until(f"/runs/{run_id}", lambda run: run["state"] == "FINISHED")
    page.go("#/runs")
    page.fill("#runs-text", "no such run")
    page.until(lambda: "No run fits" in page.text("#no-runs"), "filtered")
    page.find("#runs-text").clear()
    page.fill("#runs-text", "digits")
    page.choose("#runs-state", "FINISHED")
    for name in ("short", "other"):
        page.click(f'#runs input[aria-label="Compare {name}"]')
    page.click("#runs-compare")
    page.until(lambda: "FedAvg" in page.text("#compared [data-key=method]"), "compared")
    differing = page.driver.find_elements("css selector", "#compared .differs th")
    assert {cell.text for cell in differing} == {"name", "method", "num_rounds"}
    legend = '#view-compare [data-chart="accuracy"] .legend'
    page.until(lambda: page.text(legend).count("%") == 2, "curves of both")
    page.click(f"{legend} button")
    pressed = '#view-compare .legend button[aria-pressed="false"]'
    charts = page.driver.find_elements("css selector", "#view-compare .chart")
    assert len(page.driver.find_elements("css selector", pressed)) == len(charts)


def test_a_silo_is_dropped_and_taken_back(page: Page, server: Coordinator) -> None:
    page.go("#/silos/site-b")
    assert page.text("#view-silo h1") == "site-b"
    machine = '#view-silo [aria-label="Silo and machine"]'
    page.until(lambda: "359 samples" in page.text(machine), "with its samples")
    page.until(lambda: "B of" in page.text(machine), "memory of its machine")
    page.until(lambda: "keeps its log lines to itself" in page.text("#view-silo"), "its log")
    page.click("#view-silo .hero-title button")
    page.fill("#ask-reason", "its GPU is broken")
    page.say_yes()
    page.until(lambda: "its GPU is broken" in page.text("#view-silo .note"), "dropped")
    assert server.silo("site-b")["dropped"] == "its GPU is broken"
    page.click("#view-silo .hero-title button")
    page.say_yes()
    page.until(lambda: page.text("#view-silo .badge") != "Dropped", "taken back")
    assert server.silo("site-b")["dropped"] is None


@pytest.mark.alone
def test_an_event_is_on_the_screen_within_a_second(page: Page, server: Coordinator) -> None:
    page.find("#silos [data-key=site-c]")
    took = []
    for _ in range(5):
        began = time.monotonic()
        server.post("/silos/site-c/drop", {"reason": "a test"})
        page.until(lambda: "dropped" in page.text("#silos [data-key=site-c] .badge").lower())
        took.append(time.monotonic() - began)
        server.post("/silos/site-c/undrop")
        page.until(lambda: "dropped" not in page.text("#silos [data-key=site-c] .badge").lower())
    assert sorted(took)[2] < 1, took


def test_without_the_token_there_is_nothing_to_press(nobody: Page, server: Coordinator) -> None:
    nobody.driver.get(server.url)
    nobody.find("#silos [data-key=site-a]")
    assert nobody.text("#role") == "Read-only"
    assert nobody.find("#login").get_attribute("href").endswith("/login")
    shown = [b for b in nobody.driver.find_elements("css selector", "button") if b.is_displayed()]
    words = {button.text for button in shown}
    assert not words & {"Pause", "Resume", "Stop run", "Drop", "Take back"}
    nobody.go("#/new")
    assert not nobody.find("form.start button[type=submit]").is_enabled()


def test_the_keyboard_reaches_everything(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.find("#curves-charts canvas")
    reached = set()
    for _ in range(110):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(
            page.driver.execute_script(
                "const e = document.activeElement;"
                "return e.id || e.dataset.nav || e.className || e.tagName"
            )
        )
    assert {"skip", "overview", "runs", "new", "theme", "hint", "frame", "events"} <= reached
    frame = page.find('#curves-charts [data-chart="accuracy"] .frame')
    frame.send_keys(Keys.HOME)
    at = '#curves-charts [data-chart="accuracy"] .plot-at'
    assert page.text(at) == "at the start"
    assert page.text('#curves-charts [data-chart="loss"] .plot-at') == "at the start"
    frame.send_keys(Keys.ARROW_RIGHT)
    assert page.text(at) == "after round 1"


ADDRESSES = ["#/", "#/runs", "#/new", "run", "compare", "#/silos/site-a", "#/silos/none"]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Page, server: Coordinator, colours: str) -> None:
    run_id = server.run_ids[0]
    known = {"run": f"#/runs/{run_id}", "compare": f"#/compare?runs={run_id}"}
    page.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", colours)
    found = {}
    for address in ADDRESSES:
        page.go(known.get(address, address))
        time.sleep(1)
        found[address] = page.faults()
    page.driver.get(f"{server.url}/api/v1/docs")
    page.find(".docs pre, .docs details")
    found["docs"] = page.faults()
    assert {address: faults for address, faults in found.items() if faults} == {}


@pytest.mark.parametrize("width", [390, 1400, 2560])
def test_no_page_is_wider_than_the_screen(page: Page, server: Coordinator, width: int) -> None:
    run_id = server.run_ids[0]
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    for address in ["#/", "#/runs", "#/new", f"#/runs/{run_id}", "#/silos/site-a"]:
        page.go(address)
        time.sleep(0.5)
        wide = page.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{address} is {wide} wide"
