"""The page with many silos, in a real browser over a real dashboard; the silos are made up."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chrome import Page, chrome, require
from tests.crowd import ROUNDS, TOKEN, crowd, dashboard

require()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NUM_SILOS = 48
NORM = '#curves-charts [data-chart="norm"]'


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with (
        dashboard(crowd(NUM_SILOS)) as url,
        chrome(url, tmp_path_factory.mktemp("downloads")) as it,
    ):
        it.log_in(TOKEN)
        yield it
        assert it.errors() == []


@pytest.fixture
def overview(page: Page) -> Page:
    page.go("#/")
    page.find("#curves-charts canvas")
    return page


def names(page: Page) -> list[str]:
    script = "return [...document.querySelectorAll('#silos > li')].map((x) => x.dataset.key)"
    return list(page.driver.execute_script(script))


def test_who_needs_somebody_comes_first(overview: Page) -> None:
    assert names(overview)[:3] == ["silo-46", "silo-47", "silo-00"]
    heights = overview.driver.execute_script(
        "return [...document.querySelectorAll('#silos > li')].map((x) => x.clientHeight)"
    )
    assert len(set(heights)) == 1, "an error makes no card higher"


def test_the_legend_has_the_middle_and_both_ends(overview: Page) -> None:
    entries = overview.text(f"{NORM} .legend").replace("\n", " ")
    assert "median 33.5" in entries
    assert "quartiles 21.8 \u2013 45.3" in entries
    for silo, value in (("silo-47", "57.0"), ("silo-45", "55.0"), ("silo-02", "12.0")):
        assert f"{silo} {value}" in entries
    assert "silo-20" not in entries
    label = overview.find(f"{NORM} .frame").get_attribute("aria-label")
    assert f"After round {ROUNDS}: median 33.5" in label
    assert "lowest: silo-00 10.0" in label


def test_a_card_and_its_line_light_up_together(overview: Page) -> None:
    from selenium.webdriver import ActionChains, Keys

    def lit() -> list[str]:
        return [
            str(card.get_attribute("data-key"))
            for card in overview.driver.find_elements("css selector", "#silos [data-lit]")
        ]

    mouse = ActionChains(overview.driver)
    mouse.move_to_element(overview.find("#silos [data-key=silo-20] h3")).perform()
    overview.until(lambda: overview.text(f"{NORM} .plot-at").startswith("silo-20 30.0"), "lit")
    assert lit() == ["silo-20"]
    overview.driver.execute_script(f"document.querySelector('{NORM}').scrollIntoView()")
    mouse.move_to_element(overview.find(f"{NORM} .legend li:nth-child(3)")).perform()
    overview.until(lambda: lit() == ["silo-47"], "from the legend")
    mouse.move_to_element(overview.find(".brand")).perform()
    overview.until(lambda: lit() == [], "none")
    link = overview.find("#silos [data-key=silo-05] a")
    overview.driver.execute_script("arguments[0].focus({preventScroll: true})", link)
    overview.until(lambda: lit() == ["silo-05"], "by keyboard")
    overview.driver.switch_to.active_element.send_keys(Keys.TAB)
    overview.until(lambda: lit() == ["silo-06"], "the next one")
    overview.driver.execute_script("document.activeElement.blur()")


def test_silos_are_picked(overview: Page) -> None:
    for name in ("silo-20", "silo-21"):
        overview.choose(".many-silos select", name)
    for chart in ("train", "norm", "cosine"):
        legend = overview.text(f'#curves-charts [data-chart="{chart}"] .legend')
        assert "silo-20" in legend
        assert "silo-21" in legend
    overview.click(f'{NORM} .legend [data-key="picked silo-20"] button')
    overview.until(lambda: "silo-20" not in overview.text(f"{NORM} .legend"), "picked no more")
    assert "silo-21" in overview.text(f"{NORM} .legend")


def test_the_order_changes_seldom_and_not_under_the_pointer(page: Page) -> None:
    def order(*steps: tuple[int, dict[str, dict[str, Any]], bool]) -> list[list[str]]:
        """The order after each step: milliseconds, what is not well, held."""
        return list(
            page.driver.execute_async_script(
                "const [steps, done] = arguments;"
                "import('./static/order.js').then(({ Order }) => {"
                "  const order = new Order();"
                "  done(steps.map(([now, odd, held]) => order.sort(['a', 'b', 'c', 'd'].map((id) =>"
                "    ({silo_id: id, phase: 'training', last_seen_s: 0, ...odd[id]})),"
                "    {waiting_for: odd.late ?? [], roster: ['a', 'b', 'c', 'd']}, now, held)"
                "    .map((silo) => silo.silo_id).join('')));"
                "});",
                steps,
            )
        )

    bad, off, out = {"error": "e"}, {"phase": "offline"}, {"dropped": ""}
    well: dict[str, Any] = {}
    assert order((0, well, False), (1000, {"d": bad}, False), (6000, {"d": bad}, False)) == [
        "abcd",
        "abcd",
        "dabc",
    ]
    assert order((0, {"c": off, "d": bad, "a": out}, False)) == ["dcba"]
    held = order((0, well, False), (9000, {"d": bad}, True), (9100, {"d": bad}, False))
    assert held == ["abcd", "abcd", "dabc"]
    calm = order((0, {"d": bad}, False), (30_000, well, False), (70_000, well, False))
    assert calm == ["dabc", "dabc", "abcd"], "it stays in front for a minute"
    late: Any = {"late": ["c"]}
    slow = order((0, late, False), (6000, late, False), (12_000, late, False))
    assert slow == ["abcd", "abcd", "cabd"], "slow is who is among the last for 10 s"


def test_the_page_of_a_silo(page: Page) -> None:
    page.go("#/silos/silo-00")
    panel = '[aria-label="Silo and machine"]'
    page.until(lambda: "79.0 GB of 80.0 GB" in page.text(panel), "what it has")
    machine = page.text(panel)
    assert "360 samples" in machine
    assert "no TLS" in machine
    page.until(lambda: "INFO\nline 3" in page.text("#view-silo .log"), "the log")
    page.go("#/silos/silo-46")
    page.until(lambda: "smaller batch_size" in page.text("#view-silo .trouble"), "advice")


@pytest.mark.parametrize("width", [390, 2560])
def test_axe_and_the_width(page: Page, width: int) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    colours = "dark" if width == 390 else "light"
    page.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", colours)
    found = {}
    for address, shown in (("#/", "#curves-charts canvas"), ("#/silos/silo-46", ".log")):
        page.go(address)
        page.find(shown)
        found[address] = page.faults()
        wide = page.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{address} is {wide} wide"
    assert {address: faults for address, faults in found.items() if faults} == {}


def test_of_a_long_run_older_rounds_are_kept_thinly(overview: Page) -> None:
    script = """
        const done = arguments[0];
        import(document.baseURI.replace(/#.*/, "") + "static/history.js").then(({ thinned }) => {
          const round = (r) => ({ round_index: r });
          const all = Array.from({ length: 3000 }, (_, r) => round(r));
          let grown = [], most = 0;
          for (const one of all) {
            grown = thinned([...grown, one]);
            most = Math.max(most, grown.length);
          }
          done([thinned(all).map((x) => x.round_index), grown.map((x) => x.round_index), most]);
        });
    """
    at_once, grown, most = overview.driver.execute_async_script(script)
    assert at_once == grown, "the rounds that are kept depend on how they came"
    assert most <= 601
    assert at_once[-200:] == list(range(2800, 3000))
    assert at_once[:3] == [0, 8, 16]
