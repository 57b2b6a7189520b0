"""What nobody must overlook, in a real browser: a stalled run, a coordinator that is gone."""

from pathlib import Path

from tests.support.chrome import chrome, require
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options

require()

RUN = {"task": "digits", "num_rounds": 10_000, "num_silos": 1, "name": "long"}
SOON_S = 5.0


def test_a_stalled_run_and_a_coordinator_that_is_gone(tmp_path: Path) -> None:
    with coordinator(tmp_path, RUN) as server, chrome(server.url, tmp_path / "downloads") as page:
        page.driver.get(server.url)
        with agents(server.address, ["site-a"], tmp_path, lambda i: options(shard=(0, 1))):
            page.until(lambda: "Round 2 of" in page.text("#run-round"), "in its rounds")
            assert not page.driver.find_element("css selector", "#alert-stalled").is_displayed()
        page.until(
            lambda: "long is stalled: round" in page.text("#alert-stalled"), "stalled", SOON_S
        )
        assert page.text("#stalled-text").endswith("cannot close without site-a.")
        assert page.text("#stalled-by").startswith("site-a: left (last: ")
        assert "Start domo-client there again, or drop it" in page.text("#stalled-by")
        assert not page.driver.find_element("css selector", "#stalled-by button").is_displayed()
        assert page.text("#run-stalled") == "Stalled"
        assert page.text("#silos [data-key=site-a] [data-f=phase]") == "offline"
        assert "Holds the run up: left" in page.text("#silos [data-holds]")
        page.go("#/runs")
        assert page.text("#alert-stalled"), "on every page"
        assert page.faults() == []
        with agents(server.address, ["site-a"], tmp_path, lambda i: options(shard=(0, 1))):
            page.until(
                lambda: not page.driver.find_element("css selector", "#alert-stalled").text,
                "moving again",
            )
        server.close()
        page.until(
            lambda: page.text("#alert-lost").startswith(
                "The connection to the coordinator is lost"
            ),
            "lost",
            SOON_S,
        )
        assert page.faults() == []
