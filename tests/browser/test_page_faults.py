"""Faults that the page once had, each looked for in a real browser."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from domo.api.schema import Event, RunDetail
from tests.support.chrome import Page, chrome, require
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options
from tests.support.played.crowd import crowd
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN
from tests.support.played.serving import Served

require()

AT = "2026-01-05T09:00:00Z"
NUM_SILOS = 16


def refusal(number: int) -> Event:
    silo_id = f"silo-{number % NUM_SILOS:02d}"
    text = f"{silo_id}: update {number} was refused"
    more: dict[str, Any] = {"level": "problem", "colour": "red"}
    return Event(event_id=number, at=AT, kind="refused", text=text, silo_id=silo_id, **more)


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Many silos with many refusals, and two runs that differ in one setting."""
    it = crowd(NUM_SILOS)
    it.event_list = [refusal(number) for number in range(1, 90)]
    given = {"task": "digits", "method": "FedAvg", "num_rounds": 6, "batch_size": 32}
    it.run_list.append(
        RunDetail(
            run_id="1-first",
            name="first",
            method="FedAvg",
            task="digits",
            state="FINISHED",
            num_rounds=6,
            rounds_done=6,
            created_at=AT,
            config={**given, "local_epochs": 1.0},
            roster=[],
        )
    )
    config = {**given, "method": "DOMO", "local_epochs": None}
    it.run_list[0] = it.run_list[0].model_copy(update={"config": config})
    return it


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    browser.as_new()
    browser.log_in(TOKEN)
    yield browser
    assert browser.errors() == []


def test_the_last_events_of_a_silo_are_shown(page: Page) -> None:
    page.go("#/silos/silo-03")
    for panel in ("Events", "Refusals, failures, warnings"):
        shown = f'#view-silo [aria-label="{panel}"] ol.events'
        page.until(lambda css=shown: "update 83 was refused" in page.text(css), panel)
        assert "update 3 was refused" in page.text(shown)
        assert "silo-04" not in page.text(shown)


@pytest.mark.parametrize("width", [390, 1400])
def test_no_page_goes_on_below_its_footer(page: Page, width: int) -> None:
    page.of_width(width)
    heights = """
        const footer = document.querySelector("footer").getBoundingClientRect().bottom + scrollY;
        return [document.documentElement.scrollHeight, Math.max(footer, innerHeight)];
    """
    for address, shown in [
        ("#/", "#events li"),
        ("#/runs", "#runs tr"),
        ("#/runs/2-crowd", "#view-run tbody tr"),
        ("#/silos/silo-03", "#view-silo .events li"),
        ("#/compare?runs=2-crowd,1-first", "#compared tr"),
        ("#/new", "form.start"),
    ]:
        page.go(address)
        page.find(shown)
        page.until(
            lambda: abs(float.__sub__(*map(float, page.driver.execute_script(heights)))) < 2,
            f"{address} as long as what is on it: {page.driver.execute_script(heights)}",
            5.0,
        )


def test_settings_that_mean_the_same_do_not_differ(page: Page) -> None:
    page.go("#/compare?runs=2-crowd,1-first")
    page.until(lambda: "DOMO" in page.text("#compared [data-key=method]"), "compared")
    page.until(
        lambda: (
            [x.text for x in page.driver.find_elements("css selector", "#compared .differs th")]
            == ["method"]
        ),
        "the one that differs",
    )
    page.click("#only-differing")
    page.until(
        lambda: page.text("#compared [data-key=local_epochs]").split() == ["local_epochs", "1", "1"]
    )
    page.go("#/runs/1-first")
    epochs = page.find("#view-run .settings [data-key=local_epochs]")
    assert epochs.get_attribute("class") == "", "bold is what is not at its default"


def test_an_address_that_means_nothing_is_said(page: Page) -> None:
    alert = "#alert-address"
    page.go("#/runs?stte=FINISHED")
    page.until(lambda: "stte, which means nothing here" in page.text(alert), "the parameter")
    page.go("#/rnus")
    page.until(lambda: "There is no page /rnus" in page.text(alert), "the page")
    page.go("#/silos/%E0%A4")
    page.until(lambda: "There is no page /silos/%E0%A4" in page.text(alert), "a mangled one")
    page.go("#/compare?runs=2-crowd,1-first")
    page.until(lambda: not page.driver.find_element("css selector", alert).is_displayed(), "well")


def test_an_unknown_query_or_kind_is_no_empty_answer(served: tuple[str, Served]) -> None:
    for query in ("limix=3", "kind=refusd"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{served[0]}/api/v1/events?{query}", timeout=30)
        with refused.value as answer:
            assert answer.status == 422
            assert b"did you mean" in answer.read()


def test_a_link_that_is_used_up_and_the_form(browser: Page) -> None:
    browser.as_new()
    here = "return location.pathname + location.search + location.hash"
    browser.driver.get(f"{browser.url}/login?code=of-yesterday#/runs")
    browser.until(lambda: browser.driver.execute_script(here) == "/login#/runs", "without code")
    assert browser.faults() == []
    browser.click("#login-form button")
    browser.until(lambda: "not valid (any more)" in browser.text("#login-error"), "refused")
    assert browser.driver.execute_script(here) == "/login#/runs"
    assert "domo-server login" in browser.text("#where")
    for width, theme in ((1400, "light"), (390, "dark")):
        browser.of_width(width)
        browser.colours(theme)
        assert browser.faults() == []
        assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= width
    browser.fill("#token", "guessed")
    browser.click("#login-form button")
    browser.until(lambda: "This is no token" in browser.text("#login-error"), "refused")
    browser.fill("#token", TOKEN)
    browser.click("#login-form button")
    browser.until(lambda: browser.driver.execute_script(here) == "/#/runs", "at the page it was")
    browser.until(lambda: browser.text("#role") == "Admin", "logged in")
    browser.go("#/silos/silo-01")
    browser.click("#logout button")
    browser.until(lambda: browser.text("#role") == "Read-only", "logged out")
    assert browser.driver.execute_script(here) == "/#/silos/silo-01"
    browser.click("#login")
    browser.find("#login-form")
    assert not browser.text("#login-form").startswith("This")
    browser.driver.get(f"{browser.url}/no-such-page")
    assert "there is nothing here" in browser.text(".error")
    assert browser.faults() == []


def test_a_link_leaves_no_token_behind(browser: Page) -> None:
    browser.as_new()
    browser.log_in(TOKEN)
    browser.driver.get(f"{browser.url}/api/v1/docs")
    visited = browser.driver.execute_cdp_cmd("Page.getNavigationHistory", {})["entries"]
    assert not [entry["url"] for entry in visited if "token" in entry["url"]]
    cookies = browser.driver.execute_cdp_cmd("Network.getAllCookies", {})["cookies"]
    assert [(c["httpOnly"], c["sameSite"], TOKEN in c["value"]) for c in cookies] == [
        (True, "Strict", False)
    ]


def test_going_away_and_back_holds_no_connections(browser: Page) -> None:
    """A browser has six for a server: pages that it keeps for its back button held one each."""
    browser.as_new()
    began = time.monotonic()
    for _ in range(8):
        browser.driver.get(browser.url)
        browser.find("#silos li")
        browser.driver.get(f"{browser.url}/api/v1/docs")
    browser.driver.back()
    browser.until(lambda: browser.text("#link") == "Live", "live again")
    assert time.monotonic() - began < 60


def speed(words: str) -> float:
    """Of "535.9 kB, 24.4 kB/s", bytes a second."""
    number, unit = words.split(", ")[1].split()
    return float(number) * {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6}[unit]


def test_after_a_restart_nothing_is_made_up(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What was sent before is not sent now, and who left was seen."""
    run = {"task": "digits", "num_rounds": 10_000, "num_silos": 2, "name": "long"}
    names, opts = ["site-a", "site-b"], lambda i: options(shard=(i, 2))
    fact = '#view-silo [data-key="{}"] dd'
    with coordinator(tmp_path, run) as server, agents(server.address, names[1:], tmp_path, opts):
        with agents(server.address, names[:1], tmp_path, lambda i: options(shard=(1, 2))):
            path = f"/runs/{server.run_ids[0]}"
            server.until(path, lambda run: run["rounds_done"] > 30)
            server.post(f"{path}/pause")
            server.until(path, lambda run: run["state"] == "PAUSED")
        listen, dashboard = server.address, server.url.removeprefix("http://")
        assert server.silo("site-b")["bytes_sent"] > 500e3
        server.close()
        again = coordinator(tmp_path, listen=listen, dashboard=dashboard)
        with again as server, chrome(server.url, tmp_path_factory.mktemp("downloads")) as page:
            page.driver.get(f"{server.url}/#/silos/site-b")
            page.until(
                lambda: not page.text(fact.format("Sent")).startswith("0 B"), "its first report"
            )
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                assert speed(page.text(fact.format("Sent"))) < 100e3, "it sends one update of 20 kB"
            page.go("#/silos/site-a")
            page.until(
                lambda: " s ago; not seen since" in page.text(fact.format("Last heard of")),
                "when it was seen last",
            )
            page.go("#/")
            page.until(lambda: "offline since " in page.text("#silos [data-key=site-a]"), "there")
            assert page.errors() == []
