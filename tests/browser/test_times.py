"""Where the time goes, on the page of a run: over 300 rounds, and within one of them."""

import itertools

import pytest

from tests.support.chrome import Page, require
from tests.support.played.made_up import Federation
from tests.support.played.timed import RUN_ID, timed

require()

NUM_ROUNDS = 300
PANEL = '[aria-label="Where the time goes"]'
FRAME = f"{PANEL} .stacked .frame"


@pytest.fixture(scope="module")
def federation() -> Federation:
    return timed(NUM_ROUNDS)


@pytest.fixture
def panel(page: Page) -> Page:
    page.go(f"#/runs/{RUN_ID}")
    page.find(f"{FRAME} canvas")
    return page


def rows(page: Page) -> list[str]:
    found = page.driver.find_elements("css selector", f"{PANEL} table.times tbody tr")
    return [str(row.find_element("css selector", "a").text) for row in found]


def bar(page: Page, silo: str) -> list[tuple[str, float, float]]:
    """The pieces of a silo's bar: what, and from where to where, in percent of the round."""
    script = (
        "const bar = document.querySelector(`"
        + PANEL
        + " tr[data-key='${arguments[0]}'] .time-bar`);"
        "return [...bar.children].map((x) => [x.className.replace('part part-', ''),"
        " parseFloat(x.style.left), parseFloat(x.style.left) + parseFloat(x.style.width)])"
    )
    return [(str(n), a, b) for n, a, b in page.driver.execute_script(script, silo)]


def show_round(page: Page, number: int) -> None:
    script = (
        "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('change'))"
    )
    page.driver.execute_script(script, f"{PANEL} input[type=number]", number)
    page.until(lambda: page.text(f"{PANEL} .timeline [role=status]").startswith(f"Round {number} "))


def test_a_round_with_one_slow_silo(panel: Page) -> None:
    show_round(panel, 1)
    assert rows(panel) == ["site-c", "site-d", "site-b", "site-a", "judge"]
    said = panel.text(f"{PANEL} .timeline [role=status]")
    assert said == "Round 1 took 23.1 s. Closed by site-c, the last update."
    first = panel.text(f"{PANEL} table.times tbody tr:first-child th")
    assert first.split("\n") == ["site-c", "closed the round"]
    pieces = bar(panel, "site-c")
    assert [name for name, _, _ in pieces] == ["wait", "fetch", "test", "train", "upload", "wait"]
    assert pieces[0][1] == 0
    assert pieces[-1][2] == pytest.approx(100, abs=0.1)
    for one, other in itertools.pairwise(pieces):
        assert one[2] == pytest.approx(other[1], abs=0.01)
    assert pieces[3][2] - pieces[3][1] == pytest.approx(100 * 20 / 23.15, abs=0.1)
    own = panel.text(f"{PANEL} .timeline > p:last-child")
    assert "committing the round before took 1.10 s; folding took 0.350 s" in own
    label = panel.find(f"{PANEL} tr[data-key='judge'] .time-bar").get_attribute("aria-label")
    assert label == "judge: fetch 0.600 s, test 2.00 s, wait 20.6 s"
    assert "2 tries to upload" in panel.text(f"{PANEL} tr[data-key='site-b'] th")


def test_what_was_not_finished_and_what_is_not_known(panel: Page) -> None:
    show_round(panel, 3)
    assert "Closed by the deadline." in panel.text(f"{PANEL} .timeline [role=status]")
    row = panel.text(f"{PANEL} tr[data-key='site-d'] th")
    assert "left out: no update in time; did not finish to train" in row
    show_round(panel, 4)
    assert "was started again within it" in panel.text(f"{PANEL} .timeline [role=status]")
    assert [name for name, _, _ in bar(panel, "site-c")] == ["unknown", "upload", "wait"]
    assert [name for name, _, _ in bar(panel, "site-b")] == ["wait"]
    assert [name for name, _, _ in bar(panel, "site-d")] == ["unknown"]


def test_300_rounds_for_a_silo_the_mean_and_the_slowest(panel: Page) -> None:
    from selenium.webdriver import Keys

    said = f"{PANEL} .stacked > p"
    panel.choose(f"{PANEL} .head select", "*")
    panel.until(lambda: panel.text(said).startswith("the slowest silo, mean of 300 rounds"))
    panel.choose(f"{PANEL} .head select", "site-a")
    panel.until(lambda: panel.text(said).startswith("site-a, mean of 300 rounds: "))
    frame = panel.find(FRAME)
    frame.send_keys(Keys.HOME)
    panel.until(lambda: panel.text(said) == "site-a, round 1: 23.1 s", "the first")
    frame.send_keys(Keys.END)
    panel.until(lambda: panel.text(said).startswith("site-a, round 300: "), "the last")
    legend = panel.text(f"{PANEL} .stacked .time-legend").replace("\n", " ")
    assert "train 11.0 s" in legend
    assert "test 1.20 s" in legend
    frame.send_keys(Keys.ENTER)
    panel.until(
        lambda: panel.text(f"{PANEL} .timeline [role=status]").startswith("Round 300 "), "below"
    )


def test_bars_are_as_many_as_there_is_room_for(panel: Page) -> None:
    script = """
        const done = arguments[0];
        import(document.baseURI.replace(/#.*/, "") + "static/stacked_times.js").then(({ bars }) => {
          const parts = (x) => ({ fetch: x, test: 0, train: 0, upload: 0, wait: 0, unknown: 0 });
          const round = (_, i) => ({ round: i + 1, parts: parts(i + 1) });
          const all = Array.from({ length: 300 }, round);
          const gap = all.filter(({ round }) => round < 100 || round > 200);
          done([bars(all, 300), bars(all, 100), bars(gap, 10)].map(({ each, bars: made }) =>
            [each, made.length, made[0].parts.fetch, made.at(-1).to]));
        });
    """
    whole, third, gap = panel.driver.execute_async_script(script)
    assert whole == [1, 300, 1, 300]
    assert third == [3, 100, 2, 300]
    assert gap == [30, 8, 15.5, 300], "no bar where there is no round"


def test_the_rounds_of_a_silo_and_of_one_that_only_tests(page: Page) -> None:
    said = "#view-silo .stacked > p"
    page.go("#/silos/site-c")
    page.until(lambda: page.text(said).startswith("site-c, mean of 300 rounds: 26.9 s"), "rounds")
    page.go("#/silos/judge")
    page.until(lambda: page.text(said).startswith("judge, mean of 299 rounds"), "an evaluator")
    table = page.text("#view-silo tbody")
    assert "tested its model" in table
    assert "out:" not in table


@pytest.mark.parametrize(("width", "colours"), [(1400, "light"), (1024, "dark"), (390, "dark")])
def test_axe_and_the_width(panel: Page, width: int, colours: str) -> None:
    panel.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    panel.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", colours)
    try:
        show_round(panel, 3)
        panel.until(lambda: panel.find(f"{FRAME} canvas").size["width"] < width, "it fits")
        assert panel.faults() == []
        wide = panel.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
    finally:
        panel.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_waiting_for_silos_is_not_training(page: Page) -> None:
    """In the table of runs, side by side, and at the top of the overview."""
    page.go("#/runs")
    cell = "#runs [data-f=trained]"
    page.until(lambda: page.text(cell) == "1 h 40 min", "trained")
    title = page.find(cell).get_attribute("title")
    assert title == "waited for silos: 10 min 00 s; in all: 2 h 0 min"
    page.go(f"#/compare?runs={RUN_ID}")
    page.until(lambda: "trained for" in page.text("#compared"), "compared")
    compared = page.text("#compared")
    assert "trained for 1 h 40 min" in compared
    assert "waited for silos 10 min 00 s" in compared
    assert "time in all 2 h 0 min" in compared
    page.go("#/")
    page.until(lambda: page.text("#tile-time") == "1 h 40 min", "the tile")
    assert page.text("#tile-time-name") == "Trained for"
