"""The charts of the page in a real browser, over a real dashboard; the runs are made up."""

import csv
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest
from matplotlib import image

from tests.support.chrome import Page, require
from tests.support.played.judged import BEST, ROUNDS, SILOS, SPIKE, WORST, Judged
from tests.support.played.made_up import Federation

require()

RUN, OTHER = "#/runs/2-judged", "1-other"
CAPTION = "Rows: the truth. Columns: what the model said."


@pytest.fixture(scope="module")
def federation() -> Federation:
    return Judged()


def chart(key: str, part: str = "") -> str:
    return f'main > .view:not([hidden]) [data-chart="{key}"] {part}'.strip()


def said(page: Page, key: str, name: str) -> str:
    return str(page.find(chart(key)).get_attribute(f"data-{name}"))


def window(page: Page, key: str) -> list[float]:
    return [float(x) for x in said(page, key, "window").split(",")]


def query(page: Page) -> dict[str, list[str]]:
    address = page.driver.execute_script("return location.hash")
    return parse_qs(str(address).partition("?")[2])


def look(page: Page, address: str) -> None:
    page.go(address)
    page.find("#view-compare" if "compare" in address else "#view-run")
    page.find(chart("loss", "canvas"))


def module(page: Page, name: str, body: str, *given: Any) -> Any:
    """What a function body returns of a module `m` of the page and of `given`."""
    return page.driver.execute_async_script(
        "const [name, given, done] = arguments;"
        "import(document.baseURI.replace(/#.*/, '') + `static/charts/${name}.js`).then((m) => {"
        f"done(((m, ...given) => {{ {body} }})(m, ...given)); }});",
        name,
        list(given),
    )


def test_points_are_smoothed_cut_off_and_put_in_columns(page: Page) -> None:
    points = [[1, 4], [2, 0], [3, 0]]
    mean = module(page, "series", "return m.smoothed(given[0], given[1])", points, 0.5)
    assert [round(y, 4) for _, y in mean] == [4, 1.3333, 0.5714], "corrected for its start"
    assert module(page, "series", "return m.smoothed(given[0], 0)", points) == points

    kept = "return m.withoutFarOut(...given)"
    falls = [2.3, 1.2, 0.8, 0.5, 0.4, 0.35, 0.3, 0.28]
    assert module(page, "series", kept, [*falls, 1e6]) == falls
    assert module(page, "series", kept, falls) == falls
    assert module(page, "series", kept, [0.0] * 9 + [7]) == [0.0] * 9 + [7]
    assert max(module(page, "series", kept, [*falls * 3, *[1e6] * 3], 3)) == 2.3, "of each line"
    assert module(page, "series", kept, [0, 1e6]) == [0, 1e6], "of two neither is far out"

    column = "return m.column(...given).map((y) => (y === undefined ? 'on' : y))"
    xs = [1, 2, 3, 4, 5, 6]
    assert module(page, "series", column, [[1, 7], [3, 8], [6, 9]], [5], xs) == [
        *(7, "on", 8),
        *(None, None, 9),
    ]
    assert module(page, "series", column, [[2, 7]], [1, 4], xs) == [
        *(None, 7, None, None, None, None)
    ]
    alone = "return m.alone(given[0].map((y) => (y === 'on' ? undefined : y)))"
    assert module(page, "series", alone, [1, None, 2, "on", 3, None, 4]) == [0, 6]


def test_an_axis_has_round_marks(page: Page) -> None:
    linear = "const { low, high, step } = m.niceRange(given[0], 5); return [low, high, step]"
    assert module(page, "scale", linear, [0.31, 0.78]) == pytest.approx([0, 0.8, 0.2])
    same = module(page, "scale", linear, [1.5, 1.5 * (1 + 2e-16)])
    assert same == [1.5, 2, 0.5], "a rounding is no difference"
    both = "const { low, high } = m.logRange(given[0]); return [low, high, m.logTicks(low, high)]"
    assert module(page, "scale", both, [0.3, 7, 0, -1]) == [0.2, 10, [0.2, 0.5, 1, 2, 5, 10]]
    low, high, marks = module(page, "scale", both, [1e-9, 1e6])
    assert (low, high) == (1e-9, 1e6)
    assert marks == [1e-9, 1e-6, 1e-3, 1, 1e3, 1e6]
    assert module(page, "scale", both, [1, 1])[:2] == [1, 2]
    assert module(page, "scale", both, [])[2], "it has marks without a value"


def test_an_address_that_makes_no_sense_is_the_usual_view(page: Page) -> None:
    body = (
        "const view = m.readView(new URLSearchParams(given[0]));"
        "return [view, m.writeView(new URLSearchParams(given[0]), view)]"
    )
    plain, rest = module(page, "view", body, "runs=a&x=toString&smooth=7&zoom=9,3&zoom=x")
    assert (plain["x"], plain["smooth"], plain["zoom"], plain["charts"]) == ("round", 0, None, None)
    assert rest == "runs=a"
    asked = "runs=a,b&x=time&smooth=0.7&zoom=10,40&log=loss&chart=loss&hide=x&pick=y"
    view, again = module(page, "view", body, asked)
    assert view["zoom"] == [10, 40]
    assert sorted(again.split("&")) == sorted(asked.split("&"))


def test_what_an_address_cannot_mean_is_said(page: Page) -> None:
    look(page, f"{RUN}?x=miles&smooth=2&chart=none&log=loss")
    said_so = page.text("#alert-address")
    assert "x=miles, smooth=2, which means nothing here" in said_so
    page.find(chart("accuracy", "canvas"))
    look(page, f"{RUN}?x=time&smooth=0.5&zoom=0,100&silos=each&log=loss")
    page.until(lambda: not page.driver.find_element("id", "alert-address").is_displayed(), "well")


def test_each_name_of_a_task_is_a_chart(page: Page) -> None:
    look(page, RUN)
    page.find(chart("log:spare", "canvas"))  # one silo alone logs it
    names = page.driver.execute_script(
        "return [...document.querySelectorAll('#view-run .chart')].map((x) => x.dataset.chart)"
    )
    tests = ["accuracy", "loss", "test:auc", *(f"test:class-{i}" for i in range(5))]
    training = ["train", "norm", "drift", "cosine", "seconds", "log:grad_norm", "log:spare"]
    assert names == [*tests, *training]
    assert "judged" in page.text(chart("test:auc", ".unit"))
    page.click("#view-run .chooser summary")
    assert page.text("#view-run .chooser summary") == "Charts: 15 of 17"
    page.click('#view-run .chooser input[value="test:class-6"]')
    page.find(chart("test:class-6", "canvas"))
    assert "test:class-6" in query(page)["chart"]
    page.click('#view-run .chooser input[value="test:class-6"]')
    page.until(lambda: "chart" not in query(page), "the usual ones are not in the address")
    page.driver.execute_script("document.querySelector('#view-run .chooser').open = false")


def test_all_charts_zoom_together_and_back_goes_back(page: Page) -> None:
    from selenium.webdriver import ActionChains, Keys

    look(page, RUN)
    assert window(page, "loss") == [0, 60], "the axis ends where the run will"
    over = page.find(chart("loss", ".u-over"))
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    width = over.size["width"]
    mouse = ActionChains(page.driver)
    mouse.move_to_element_with_offset(over, -width // 4, 0).click_and_hold()
    mouse.move_by_offset(width // 4, 0).release().perform()
    page.until(lambda: window(page, "loss") == [15, 30], "zoomed")
    assert window(page, "norm") == [15, 30]
    assert query(page)["zoom"] == ["15,30"]
    high = float(said(page, "loss", "range").split(",")[1])
    assert high < 1, "the range is of what is seen"
    page.driver.back()
    page.until(lambda: window(page, "norm") == [0, 60], "Back")
    page.driver.forward()
    page.until(lambda: window(page, "norm") == [15, 30], "Forward")
    ActionChains(page.driver).double_click(over).perform()
    page.until(lambda: window(page, "loss") == [0, 60], "double click")

    frame = page.find(chart("accuracy", ".frame"))
    frame.send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * 20, "+")
    page.until(lambda: window(page, "loss") == [5, 35], "around the cursor")
    frame.send_keys("-")
    page.until(lambda: window(page, "loss") == [0, 50], "half of it back")
    frame.send_keys("0")
    page.until(lambda: "zoom" not in query(page), "all")
    assert page.driver.execute_script("return document.activeElement === arguments[0]", frame)
    assert not page.find("#view-run .reset-zoom").is_enabled()


def test_one_loss_of_a_million_flattens_nothing(page: Page) -> None:
    look(page, RUN)
    assert float(said(page, "loss", "range").split(",")[1]) <= 3
    mark = page.find(chart("loss", ".far.up"))
    assert mark.get_attribute("title") == f"all silos: 1.0e+6, after round {SPIKE}"
    assert f"after round {SPIKE}" in page.text(chart("loss", ".far-out"))
    page.click(chart("loss", ".log-y"))
    page.until(lambda: float(said(page, "loss", "range").split(",")[1]) >= 1e6, "on a log axis")
    assert not page.driver.find_elements("css selector", chart("loss", ".far"))
    assert query(page)["log"] == ["loss"]
    page.click(chart("loss", ".log-y"))
    look(page, f"{RUN}?smooth=0.9")
    page.until(lambda: page.driver.find_elements("css selector", chart("loss", ".far.up")))
    assert float(said(page, "loss", "range").split(",")[1]) <= 3, "it moves no mean"


def test_there_is_no_line_through_rounds_left_out(page: Page) -> None:
    look(page, RUN)
    broken = saved(page, "norm", "SVG")
    lines = [x for x in broken.iter("{http://www.w3.org/2000/svg}polyline") if drawn(x)]
    assert len(lines) == len(SILOS) + 1, "a line each, and one in two pieces"


def drawn(line: ElementTree.Element) -> bool:
    """Whether it is a curve: lines of the grid are thin, a legend's are thick."""
    return line.get("stroke-width") == "2"


def file_of(page: Page, key: str, kind: str) -> Path:
    for old in page.downloads.iterdir():
        old.unlink()
    page.click(chart(key, ".save summary"))
    page.click(chart(key, f'[title="Save as {kind}"]'))
    found = page.until(
        lambda: [p for p in page.downloads.glob(f"*.{kind.lower()}") if p.stat().st_size], kind
    )
    return found[0]


def saved(page: Page, key: str, kind: str) -> ElementTree.Element:
    return ElementTree.parse(file_of(page, key, kind)).getroot()


def test_a_chart_is_saved_as_png_svg_and_csv(page: Page) -> None:
    look(page, f"{RUN}?x=time")
    size = page.find(chart("test:auc", "canvas")).size
    picture = image.imread(file_of(page, "test:auc", "PNG"))
    assert picture.shape[1] >= 2 * size["width"], "twice as fine"
    assert picture[..., :3].std() > 0.02, "an empty picture"
    root = saved(page, "test:auc", "SVG")
    words = [x.text for x in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "auc, the run is judged by it" in words
    assert any("all silos" in str(x) for x in words)
    with file_of(page, "test:auc", "CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"line", "round", "seconds", "value"}
    ours = [row for row in rows if row["line"] == "all silos"]
    assert len(ours) == ROUNDS + 1
    assert float(ours[2]["seconds"]) == 40
    assert {row["line"] for row in rows} == {"all silos", "'=silo-c", *SILOS[:2]}


def test_the_best_round_and_the_worst_silo_are_named(page: Page) -> None:
    look(page, RUN)
    star = page.find(chart("test:auc", ".best"))
    assert star.get_attribute("title") == f"best of all silos: 0.900, round {BEST}"
    assert page.find(chart("loss", ".best")), "it is on each test"
    best = page.text("#view-run .best-line")
    assert f"round {BEST}" in best
    assert "auc 0.900" in best
    row = page.text("#view-run [aria-label='Table of rounds'] tbody tr")
    assert "0.800" in row, "the column of rounds is what the run is judged by"
    page.go("#/")
    page.until(lambda: page.text("#tile-accuracy-name") == "Test auc", "so is the top")
    assert page.text("#tile-accuracy") == "0.800"
    assert page.text("#run-best") == f"\u2605 Best: auc 0.900 in round {BEST} \u00b7 Best model"
    look(page, RUN)
    link = page.find("#view-run .best-line a")
    assert str(link.get_attribute("href")).endswith("/api/v1/runs/2-judged/model?which=best")
    legend = page.text(chart("test:auc", ".legend")).replace("\n", " ")
    assert f"worst: {WORST} 0.600" in legend
    assert "silos 0.600 \u2013 0.800" in legend
    legend = page.text(chart("test:class-0", ".legend")).replace("\n", " ")
    assert f"worst: {WORST} 0.300" in legend, "as the coordinator says"
    page.choose('#view-run [aria-label="Silos in test charts"]', "each")
    legend = page.text(chart("test:auc", ".legend"))
    assert all(silo in legend for silo in SILOS)
    assert query(page)["silos"] == ["each"]


def test_tables_of_a_test_are_pictures(page: Page) -> None:
    look(page, RUN)
    panel = '#view-run [aria-label="Tests in detail"]'
    page.until(lambda: f"of x_{ROUNDS}" in page.text(panel), "of the newest model")
    confusion = page.text(f"{panel} .confusion").split()
    assert confusion == [*CAPTION.split(), "cat", "dog", "cat", "8", "2", "dog", "1", "9"]
    cell = page.find(f"{panel} .confusion td:last-child")
    assert cell.get_attribute("title") == "cat said to be dog: 20.0 %"
    lines = page.driver.find_elements("css selector", f"{panel} polyline")
    assert [len(str(x.get_attribute("points")).split()) for x in lines] == [3, 3]
    bins = page.driver.find_elements("css selector", f"{panel} [data-kind=calibration] .count")
    assert [x.get_attribute("textContent") for x in bins] == ["5", "2", "9"]
    page.choose(f"{panel} select", "best")
    page.until(lambda: f"of x_{BEST}" in page.text(panel), "of the best one")


def test_runs_over_one_another_by_time(page: Page) -> None:
    look(page, f"#/compare?runs=2-judged,{OTHER}")
    stars = page.driver.find_elements("css selector", chart("test:auc", ".best"))
    assert len(stars) == 2
    page.choose('#view-compare [aria-label="Horizontal axis"]', "time")
    page.until(lambda: window(page, "loss")[1] >= 20 * ROUNDS, "in seconds")
    assert query(page) == {"runs": [f"2-judged,{OTHER}"], "x": ["time"]}
    page.click(f'#view-compare .chips [data-key="{OTHER}"] button')
    page.until(lambda: query(page) == {"runs": ["2-judged"], "x": ["time"]}, "one less")


@pytest.mark.parametrize("width", [390, 1024])
def test_names_in_legends_are_whole(page: Page, width: int) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    try:
        look(page, f"{RUN}?silos=each")
        page.until(lambda: page.driver.execute_script("return innerWidth") == width)
        cut = page.driver.execute_script(
            "return [...document.querySelectorAll('#view-run .legend .name')]"
            ".filter((x) => x.scrollWidth > x.clientWidth || !x.clientWidth)"
            ".map((x) => x.textContent)"
        )
        assert cut == []
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.faults() == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
