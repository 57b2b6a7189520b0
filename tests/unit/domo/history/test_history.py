"""A history: its tables, its curves, what a notebook shows of it."""

import pickle
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import domo
from domo.errors import ConfigError
from domo.history.page import MOST_ROWS, escaped, sparkline, spread
from domo.history.records import Round, RunFacts, SiloRound, Test
from tests.support.live.federation import ROOT

EVIL = '<img src=x onerror="alert(1)">\n\x1b[31m'


def made(num_rounds: int = 3, **facts: object) -> domo.History:
    """A run of two silos; in the last round one of them was left out."""
    rounds = []
    for r in range(num_rounds):
        a = SiloRound("a", 3, 1.0 - r / 10, {"grad": 2.0}, 1.0, 40, 0.5, 0.1, fetching_s=0.25)
        b = SiloRound("b", 5, update_bytes=60)
        if r == num_rounds - 1:
            b = SiloRound("b", left_out="no update in time")
        rounds.append(Round(r, (a, b), 0.05, 0.9 - r / 10, {"loss": 0.9, "grad": 2.0}, 1.5))
    tests = [
        Test(i, {"loss": 2.0 - i / 10, "accuracy": i / 10}, {"a": {"accuracy": i / 5}})
        for i in range(num_rounds + 1)
    ]
    values = {"title": "r", "method": "DOMO", "num_rounds": num_rounds, "num_silos": 2, **facts}
    return domo.History(RunFacts(**values), tuple(rounds), tuple(tests))  # type: ignore[arg-type]


def test_a_row_for_each_model_and_the_round_that_made_it() -> None:
    table = made().to_pandas()
    assert table.index.tolist() == [0, 1, 2, 3]
    assert table.index.name == "model_index"
    assert table["round_index"].tolist() == [pd.NA, 0, 1, 2]
    assert table["num_silos"].tolist() == [pd.NA, 2, 2, 1]
    assert table["num_steps"].tolist() == [pd.NA, 8, 8, 3]
    assert table["update_bytes"].tolist() == [pd.NA, 100, 100, 40]
    assert table["test_accuracy"].tolist() == [0.0, 0.1, 0.2, 0.3]
    assert table["train_grad"].tolist()[1:] == [2.0, 2.0, 2.0]
    assert "train_loss" in table
    assert [c for c in table if c.startswith("test_")] == ["test_accuracy", "test_loss"]
    kinds = {"integer": "Int64", "number": "float64"}
    for name, column in made().columns.items():
        if name != "model_index":
            assert str(table[name].dtype) == kinds[column.kind], name


def test_a_row_for_each_silo_and_model() -> None:
    table = made().silos_to_pandas()
    assert table.index.tolist() == [(0, "a"), *((i, s) for i in (1, 2, 3) for s in "ab")]
    assert table.loc[(0, "a"), "test_accuracy"] == 0.0
    assert table.loc[(1, "a"), "num_steps"] == 3
    assert table.loc[(1, "a"), "fetching_s"] == 0.25
    assert table.loc[(3, "a"), "test_accuracy"] == 0.6
    assert (table.loc[(2, "b"), "took_part"], table.loc[(3, "b"), "took_part"]) == (True, False)
    assert table.loc[(3, "b"), "left_out"] == "no update in time"
    assert pd.isna(table.loc[(3, "b"), "num_steps"])
    assert "test_loss" not in table, "no silo has told its own"


def test_every_column_says_its_unit_and_what_it_is() -> None:
    history = made()
    for columns, table in (
        (history.columns, history.to_pandas()),
        (history.silo_columns, history.silos_to_pandas()),
    ):
        assert list(columns) == [*table.index.names, *table.columns]
        assert all(column.text for column in columns.values())
        assert table.attrs["units"] == {name: column.unit for name, column in columns.items()}
        assert all(columns[n].unit == "s" for n in columns if n.endswith("_s"))
        assert all(columns[n].unit == "bytes" for n in columns if n.endswith("_bytes"))
    assert history.unit("duration_s") == "s"
    assert str(history.columns["update_bytes"]) == "all updates on the wire [bytes]"
    assert "lower is better" in history.columns["test_loss"].text


def test_a_metric_has_no_name_of_another_column() -> None:
    """Whatever a silo calls its metrics, each has a column of its own."""
    names = ("s", "loss", "bytes", "norm", "index")
    metrics = dict.fromkeys(names, 1.0)
    part = SiloRound("a", 1, 0.5, metrics, fetching_s=7.0, training_s=8.0, testing_s=9.0)
    rounds = (Round(0, (part,), 0.1, 0.5, metrics, 3.0),)
    history = domo.History(RunFacts(), rounds, (Test(1, metrics, {"a": metrics}),))
    (row,) = history.silo_rows()
    assert (row["fetching_s"], row["training_s"], row["testing_s"]) == (7.0, 8.0, 9.0)
    assert (row["train_loss"], row["test_loss"]) == (0.5, 1.0)
    assert [row[f"test_{name}"] for name in names] == [1.0] * len(names)
    assert history.round_rows()[0]["duration_s"] == 3.0


def test_curves() -> None:
    history = made(primary_metric="loss")
    assert history.metrics == ("loss", "accuracy")
    assert history.curve() == {0: 2.0, 1: 1.9, 2: 1.8, 3: 1.7}
    assert history.curve("accuracy")[2] == 0.2
    assert history.curve("train_loss") == {1: 0.9, 2: 0.8, 3: 0.7}
    assert history.curve("duration_s") == {1: 1.5, 2: 1.5, 3: 1.5}
    assert history.rounds[2].participants == ("a",)
    assert history.rounds[2].steps == (3,)
    with pytest.raises(ConfigError, match="r has no 'auc' in its history: it has loss, accuracy,"):
        history.curve("auc")
    untested = domo.History(RunFacts(), history.rounds, ())
    assert untested.curve() == {1: 0.9, 2: 0.8, 3: 0.7}
    assert "no test numbers" in repr(untested)


def test_it_cannot_be_changed_and_can_be_sent() -> None:
    history = made()
    with pytest.raises(FrozenInstanceError):
        history.facts = RunFacts()  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(history)) == history
    assert history.to_history() is history
    assert repr(history) == "<History r: 3 of 3 rounds, accuracy 0.3, loss 1.7>"


def test_no_text_of_others_is_html() -> None:
    """Every text in it is hostile; the page is well-formed, and has tags of its own alone."""
    metrics = {EVIL: 1.0}
    part = SiloRound(EVIL, 1, 0.5, metrics, left_out=EVIL)
    facts = RunFacts(EVIL, EVIL, EVIL, 1, 1, 1, EVIL, EVIL, EVIL, EVIL, EVIL, None, 0, 1.0, EVIL)
    rounds = (Round(0, (part,), 0.1, 0.5, metrics),)
    history = domo.History(facts, rounds, tuple(Test(i, metrics, {EVIL: metrics}) for i in (0, 1)))
    for page in (history._repr_html_(), domo.compare({EVIL: history})._repr_html_()):
        assert "\x1b" not in page
        tree = ElementTree.fromstring(f"<x>{page.replace('<br>', '')}</x>")
        assert not {e.tag for e in tree.iter()} - {
            "x", "div", "b", "small", "svg", "polyline", "table", "thead", "tbody", "tr", "th", "td"
        }  # fmt: skip
        assert EVIL.partition("\n")[0] in "".join(tree.itertext())
    assert escaped("a\nb<'\">&") == "a b&lt;&#x27;&quot;&gt;&amp;"


def test_a_page_is_small_however_long_the_run() -> None:
    page = made(3000)._repr_html_()
    assert len(page) < 10_000
    assert page.count("<tr>") == MOST_ROWS + 1
    assert "<td>3000</td>" in page
    rows = spread(list(range(100)))
    assert (rows[0], rows[-1], len(rows)) == (0, 99, MOST_ROWS)
    assert "digest" not in page, "what is not known is not there"
    assert "drift" not in page


def test_a_curve_in_svg() -> None:
    assert sparkline({0: 1.0}) == ""
    assert sparkline({0: float("nan"), 1: float("inf"), 2: 1.0}) == ""
    drawn = ElementTree.fromstring(sparkline({0: 1.0, 1: float("nan"), 2: 3.0, 4: 2.0}))
    points = [tuple(map(float, p.split(","))) for p in drawn[0].attrib["points"].split()]
    assert points == [(3.0, 45.0), (120.0, 3.0), (237.0, 24.0)]


def test_without_pandas_or_matplotlib_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = made()
    for name in ("pandas", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (history.to_pandas, history.silos_to_pandas, domo.compare(history).to_pandas):
        with pytest.raises(ConfigError, match=r"data frames need pandas: pip install .*\[notebook"):
            call()
    for draw in (history.plot, domo.compare(history).plot):
        with pytest.raises(ConfigError, match=r"plots need matplotlib: pip install .*\[notebook\]"):
            draw()
    assert history._repr_html_(), "needs neither"


def test_a_plot() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    evil = made(title="a $x_{ title", method=None)
    ax = evil.plot(silos=True)
    own, mean = ax.get_lines()
    assert mean.get_ydata().tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert own.get_ydata().tolist() == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds", "test accuracy")
    assert evil.plot("train_loss", ax) is ax
    figure = ax.get_figure()
    assert figure is not None
    figure.canvas.draw()  # a formula that is none would fail here
    pyplot.close("all")


def test_the_extra_has_a_lower_bound() -> None:
    text = Path(ROOT / "pyproject.toml").read_text("utf-8")
    assert 'notebook = ["pandas>=' in text
