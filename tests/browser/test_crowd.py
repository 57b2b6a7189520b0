"""The page with many silos, in a real browser over a real dashboard; the silos are made up."""

from typing import Any

import pytest

from domo.api.silo_log import LogLine
from tests.support.chrome import Page, require
from tests.support.played.crowd import ROUNDS, crowd
from tests.support.played.made_up import Federation
from tests.support.played.serving import Served

require()

NUM_SILOS = 48
NORM = '#curves-charts [data-chart="norm"]'


@pytest.fixture(scope="module")
def federation() -> Federation:
    return crowd(NUM_SILOS)


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
    legend = f"{NORM} .legend"
    overview.until(lambda: "33.5" in overview.text(legend), "the numbers of the rounds")
    entries = overview.text(legend).replace("\n", " ")
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
    overview.choose(".many-silos select", "silo-47")
    named = overview.text(f"{NORM} .legend")
    assert named.count("silo-47") == 1, "who is at an end is not named twice"
    overview.choose(".many-silos select", "silo-47")
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


def test_nothing_of_one_silo_is_on_the_page_of_another(page: Page, federation: Federation) -> None:
    """Nor of a coordinator before its restart, after which lines are counted from 1 again."""

    def line(text: str, at: str) -> LogLine:
        return LogLine(number=1, at=at, level="INFO", text=text)

    page.go("#/silos/silo-00")
    log = "#view-silo .log"
    page.until(lambda: "line 3" in page.text(log), "the log")
    page.find("#view-silo tbody tr")
    federation.log_lines = [line("of silo-01", "2026-01-05T09:00:00Z")]
    left = page.driver.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('hashchange', () => done(["
        "  ...document.querySelectorAll('#view-silo :is(tbody tr, .events li, .log li)')].length),"
        "  { once: true });"
        "location.hash = '#/silos/silo-01';"
    )
    assert left == 0
    page.until(lambda: "of silo-01" in page.text(log), "the other log")
    assert "line" not in page.text(log)
    page.find("#view-silo tbody tr")
    federation.log_lines = [line("after a restart", "2026-01-05T10:00:00Z")]
    federation.log_began_at = "2026-01-05T09:59:00Z"
    page.until(lambda: "after a restart" in page.text(log), "the log after a restart")
    assert "of silo-01" not in page.text(log)


def test_a_run_again_with_all_its_settings(page: Page, federation: Federation) -> None:
    config = {"method": "FedAvg", "notes": "of one line\nand another"}
    federation.run_list[0] = federation.run_list[0].model_copy(update={"config": config})
    page.go("#/new?from=2-crowd")
    sent = "return document.querySelector('form.start pre').textContent"
    page.until(lambda: "FedAvg" in page.driver.execute_script(sent), "filled in")
    assert "of one line\\nand another" in page.driver.execute_script(sent)
    page.go("#/new?from=9-none")
    page.until(lambda: "run 9-none could not be fetched" in page.text("#form-error"), "said")


def test_on_a_phone_the_list_is_short_and_captions_are_whole(overview: Page) -> None:
    from selenium.webdriver import Keys

    def shown() -> list[str]:
        cards = overview.driver.find_elements("css selector", "#silos > li")
        return [str(card.get_attribute("data-key")) for card in cards if card.is_displayed()]

    def tops() -> list[float]:
        script = "[...document.querySelectorAll('#curves-charts .frame')].map((x) => x.offsetTop)"
        return list(overview.driver.execute_script(f"return {script}"))

    cut = (
        "return [...document.querySelectorAll('#curves-charts figcaption :is(h3, .unit)')]"
        ".filter((x) => x.scrollWidth > x.clientWidth).map((x) => x.textContent)"
    )
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    assert len(shown()) == NUM_SILOS
    overview.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        overview.until(lambda: len(shown()) == 6, "a short list")
        assert shown()[:2] == ["silo-46", "silo-47"]
        assert overview.driver.execute_script(cut) == []
        before = tops()
        link = overview.find("#silos [data-key=silo-03] a")
        overview.driver.execute_script("arguments[0].focus()", link)
        overview.until(lambda: "silo-03" in overview.text(f"{NORM} .plot-at"), "a long caption")
        assert tops() == before
        link.send_keys(Keys.TAB)
        button = overview.driver.switch_to.active_element
        assert button.text == f"Show all {NUM_SILOS} silos"
        button.send_keys(Keys.ENTER)
        overview.until(lambda: len(shown()) == NUM_SILOS, "all")
        assert overview.driver.switch_to.active_element.text == "silo-04"
        overview.click("#silos-all")
        overview.until(lambda: len(shown()) == 6, "a short list again")
    finally:
        overview.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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


def test_another_coordinator_at_the_address_is_another_page(
    overview: Page, served: tuple[str, Served], federation: Federation
) -> None:
    script = """
        const [cases, done] = arguments;
        import(document.baseURI.replace(/#.*/, "") + "static/another.js").then((m) => {
          const known = { run: { run_id: "2-b", created_at: "t2" },
            runs: [{ run_id: "1-a", created_at: "t1" }],
            events: [{ event_id: 7, at: "t7" }, { event_id: 6, at: "t6" }] };
          done([...cases.map(([run, ...events]) => m.isAnother(known, { run, events })),
            m.isOtherTable(known.runs, [known.run]),
            m.isOtherTable(known.runs, [known.run, ...known.runs])]);
        });
    """

    def run(run_id: str, at: str) -> dict[str, str]:
        return {"run_id": run_id, "created_at": at}

    def event(event_id: int, at: str) -> dict[str, Any]:
        return {"event_id": event_id, "at": at}

    cases: list[tuple[Any, bool]] = [
        ([None], False),
        ([run("2-b", "t2"), event(7, "t7"), event(8, "t8")], False),
        ([run("3-c", "t3")], False),
        ([run("2-b", "t9")], True),
        ([run("1-a", "t9")], True),
        ([None, event(7, "t9")], True),
        ([None, event(2, "t9")], True),
    ]
    found = overview.driver.execute_async_script(script, [case for case, _ in cases])
    assert found == [*(other for _, other in cases), True, False]

    overview.driver.execute_script("window.sameDocument = true")
    began = {"created_at": "2026-01-05T12:00:00Z", "rounds_done": 2}
    federation.run_list[0] = federation.run_list[0].model_copy(update=began)
    federation.round_list = federation.round_list[:2]
    served[1].change()
    overview.until(lambda: not overview.driver.execute_script("return window.sameDocument"))
    overview.until(lambda: "Round 3" in overview.text("#run-round"), "of the new run")
    label = "return document.querySelector(arguments[0]).getAttribute('aria-label')"
    frame = f"{NORM} .frame"
    overview.until(
        lambda: "After round 2:" in overview.driver.execute_script(label, frame), "its curves"
    )
