"""The table of runs, and what is shown first of a run that is stalled, in a real browser."""

import pytest

from tests.support.chrome import Page, require
from tests.support.played.made_up import Federation
from tests.support.played.many_runs import history, stall
from tests.support.played.serving import Served

require()


@pytest.fixture(scope="module")
def federation() -> Federation:
    return history()


@pytest.fixture
def table(page: Page) -> Page:
    page.of_width(1400)
    page.colours("light")
    page.go("#/")
    page.find("#silos li")
    page.go("#/runs")
    page.find("#runs tr")
    return page


def rows(page: Page) -> list[str]:
    """The runs, by number, as they are listed."""
    script = "return [...document.querySelectorAll('#runs > tr')].map((x) => x.dataset.key)"
    return [key.split("-")[0] for key in page.driver.execute_script(script)]


def address(page: Page) -> str:
    return str(page.driver.execute_script("return location.hash"))


def test_it_sorts_by_any_column_and_the_address_says_how(table: Page) -> None:
    assert rows(table) == ["11", "10", "9", "7", "6", "2", "5", "3", "2", "1"]
    for words, first, last, said in (
        ("Result", "3", "2", "-result"),
        ("Best", "3", "1", "-best"),
        ("Loss", "5", "2", "loss"),
        ("Trained", "3", "2", "trained"),
        ("Rounds", "11", "2", "-rounds"),
        ("Method", "2", "3", "method"),
        ("Task", "10", "2", "task"),
        ("State", "7", "2", "state"),
        ("Run", "2", "11", "name"),
    ):
        buttons = table.driver.find_elements("css selector", "#runs-head .sort")
        next(button for button in buttons if button.text == words).click()
        table.until(lambda said=said: address(table) == f"#/runs?sort={said}", said)
        table.until(lambda first=first: rows(table)[0] == first, f"by {words}: {rows(table)}")
        assert rows(table)[-1] == last, f"by {words}"
    auc = "#runs [data-key='3-fedavgslm-03']"
    assert table.text(f"{auc} [data-f=result]") == "0.912"
    assert table.text(f"{auc} [data-f=metric]") == "auc"
    assert table.text(f"{auc} [data-f=when]") == "round 9"
    head = table.find("#runs-head [aria-sort]")
    assert (head.text, head.get_attribute("aria-sort")) == ("Run", "ascending")
    head.find_element("css selector", "button").click()
    table.until(lambda: rows(table)[0] == "11", "the other way")
    assert head.get_attribute("aria-sort") == "descending"
    table.driver.refresh()
    table.until(lambda: rows(table)[:1] == ["11"], "as the address says")


def test_it_filters_and_the_address_says_by_what(table: Page) -> None:
    for name, value in (("method", "FedAvg"), ("task", "digits"), ("tag", "baseline")):
        table.choose(f"#runs-{name}", value)
    table.until(lambda: rows(table) == ["9"], "the one that fits")
    assert address(table) == "#/runs?method=FedAvg&task=digits&tag=baseline"
    table.click("#runs-clear")
    table.until(lambda: len(rows(table)) == 10, "all")
    assert table.text("#runs-sum") == "10 of 13 runs; 3 archived"
    table.fill("#runs-text", "labels shifted")
    table.until(lambda: rows(table) == ["7"], "by its notes")
    table.go("#/runs?state=FAILED&archived=yes&sort=created")
    table.until(lambda: rows(table) == ["2", "7", "12"], "from the address")
    assert table.find("#runs-archived").is_selected()
    assert table.text("#runs tr:last-child [data-f=archived]") == "archived"
    table.click("#runs [data-key='7-fedavgslm-07'] .tag")
    table.until(lambda: rows(table) == ["7"], "by a tag that is clicked")
    table.go("#/runs?tag=none%20such")
    table.until(lambda: "No run fits" in table.text("#no-runs"), "said")
    assert table.find("#runs-tag").get_attribute("value") == "none such"


def test_tags_and_notes_are_text_and_archived_runs_are_away(
    table: Page, federation: Federation
) -> None:
    row = "#runs [data-key='9-fedavg-09']"
    table.click(f"{row} [data-f=edit]")
    table.fill("#edit-tags", "one, <b>two</b>")
    table.fill("#edit-notes", "<img src=x onerror=alert(1)> **bold**")
    assert table.faults() == []
    table.click("#edit-dialog .primary")
    table.until(lambda: table.text(f"{row} .tags") == "one\n<b>two</b>", "the tags")
    assert table.text(f"{row} [data-f=notes]").startswith("<img src=x")
    table.click(f"{row} [data-f=edit]")
    table.fill("#edit-tags", "x" * 41)
    table.click("#edit-dialog .primary")
    table.until(lambda: "1 to 40 characters" in table.text("#edit-dialog .error"), "refused")
    table.fill("#edit-tags", "kept")
    table.click("#edit-archived")
    table.click("#edit-dialog .primary")
    table.until(lambda: "9" not in rows(table), "archived")
    run = next(run for run in federation.run_list if run.run_id == "9-fedavg-09")
    assert (run.archived, run.tags) == (True, ("kept",))
    table.go("#/runs/9-fedavg-09")
    table.until(lambda: table.text("#view-run .tags") == "kept", "its page")
    assert table.text("#view-run .notes").startswith("Archived.\n<img src=x")


def test_axe_and_the_width(table: Page) -> None:
    for width, theme in ((1400, "light"), (1024, "dark"), (390, "light"), (390, "dark")):
        table.of_width(width)
        table.colours(theme)
        table.go("#/runs?archived=yes")
        table.find("#runs tr")
        assert table.faults() == []
        assert table.driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_who_holds_a_run_up_comes_first(
    page: Page, served: tuple[str, Served], federation: Federation
) -> None:
    page.of_width(1400)
    page.colours("light")
    page.go("#/")
    page.find("#silos li")
    stall(federation)
    served[1].change()
    page.until(lambda: page.text("#run-stalled") == "Stalled", "the badge")
    assert page.text("#stalled-text").endswith("silo-04, silo-05, silo-06 and 3 more.")
    groups = page.driver.find_elements("css selector", "#stalled-by > li")
    assert [group.text.split(":")[0] for group in groups] == ["5 silos", "silo-14"]
    assert not page.driver.find_element("css selector", "#stalled-by ul").is_displayed()
    page.click("#stalled-by summary")
    shown = page.text("#stalled-by ul").replace("Drop", "").split()
    assert shown == ["silo-04", "silo-05", "silo-06", "silo-07", "silo-08"]
    holding = [*shown, "silo-14"]
    script = "return [...document.querySelectorAll('#silos > li')].map((x) => x.dataset.key)"
    page.until(lambda: page.driver.execute_script(script)[:6] == holding, "first", 10.0)
    red = "return getComputedStyle(document.querySelector(arguments[0])).borderColor"
    assert page.driver.execute_script(red, "#silos [data-key=silo-04]") == "rgb(176, 37, 52)"
    for width, theme in ((1400, "light"), (1024, "dark"), (390, "dark")):
        page.of_width(width)
        page.colours(theme)
        assert page.faults() == []
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    page.of_width(1400)
    page.go("#/runs?state=stalled")
    page.until(lambda: page.text("#runs [data-f=stalled]") == "Stalled", "in the table")
    page.of_width(390)
    room = "const s = document.querySelector('#view-runs .scroll');"
    cut = page.driver.execute_script(f"{room} return s.scrollWidth - s.clientWidth")
    assert cut == 0, "the result is in sight beside two badges"
    page.of_width(1400)
    page.go("#/runs/2-crowd")
    page.until(lambda: "Stalled" in page.text("#view-run .hero-title"), "on its page")
    page.click("#stalled-by > li:last-child button")
    page.fill("#ask-reason", "out of memory")
    page.say_yes()
    (out,) = (silo for silo in federation.silo_list if silo.silo_id == "silo-14")
    assert out.dropped == "out of memory"
