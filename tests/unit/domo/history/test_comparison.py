"""Histories beside each other."""

import statistics

import pytest

import domo
from domo.errors import ConfigError
from domo.history.records import RunFacts, Test


def run(values: list[float], method: str | None = "DOMO", **facts: object) -> domo.History:
    tests = tuple(Test(i, {"accuracy": v}) for i, v in enumerate(values))
    named = {"title": "r", "method": method, **facts}
    return domo.History(RunFacts(**named), (), tests)  # type: ignore[arg-type]


def test_the_mean_over_seeds() -> None:
    seeds = [run([0.1, 0.6, 0.5]), run([0.1, 0.8, 0.9])]
    both = domo.compare({"DOMO": seeds, "FedAvg": run([0.1, 0.4], "FedAvg")})
    table = both.to_pandas()
    assert table.index.tolist() == ["DOMO", "FedAvg"]
    assert table["runs"].tolist() == [2, 1]
    assert table["last"].tolist() == pytest.approx([0.7, 0.4])
    assert table.loc["DOMO", "last_std"] == pytest.approx(statistics.stdev([0.5, 0.9]))
    assert table["last_std"].isna().tolist() == [False, True]
    assert table["best"].tolist() == pytest.approx([0.75, 0.4])
    assert list(both.columns) == ["run", *table.columns]
    assert repr(both).splitlines()[1] == "  DOMO: 0.7 +- 0.2828 after 0 rounds"


def test_which_way_is_better() -> None:
    def rows(**facts: object) -> list[object]:
        tests = tuple(Test(i, {"loss": v, "wobble": v}) for i, v in enumerate([2.0, 1.0, 3.0]))
        history = domo.History(RunFacts(**facts), (), tests)  # type: ignore[arg-type]
        return [domo.compare(history, metric=m).rows()[0].get("best") for m in ("loss", "wobble")]

    assert rows() == [1.0, None]
    assert rows(primary_metric="wobble", better="higher") == [1.0, 3.0]


def test_labels() -> None:
    a, b = run([0.1]), run([0.2], "FedAvg")
    assert list(domo.compare(a, b).runs) == ["DOMO", "FedAvg"]
    assert list(domo.compare(a, a).runs) == ["r", "r (2)"]
    assert list(domo.compare(run([0.1], None, title="x"), b).runs) == ["x", "r"]


def test_what_cannot_be_compared_is_said() -> None:
    loss = domo.History(RunFacts("q"), (), (Test(0, {"loss": 1.0}),))
    with pytest.raises(ConfigError, match="compare: q: q has no 'accuracy' in its history"):
        domo.compare({"a": run([0.1]), "q": loss})
    for nothing in ((), ({},), ({"a": []},)):
        with pytest.raises(ConfigError, match="nothing to compare"):
            domo.compare(*nothing)
    with pytest.raises(ConfigError, match="compare: int is no history"):
        domo.compare({"a": 5})  # type: ignore[dict-item]

    class Live:
        def history(self) -> None: ...

    with pytest.raises(ConfigError, match=r"Live is no history: call its \.history\(\)"):
        domo.compare(Live())  # type: ignore[arg-type]


def test_a_plot_of_the_runs_that_go_on_for_as_long() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    both = domo.compare({"$": [run([0.1, 0.5, 0.9]), run([0.3, 0.7])], "FedAvg": run([0.1, 0.2])})
    ax = both.plot()
    first, second = ax.get_lines()
    assert first.get_ydata().tolist() == pytest.approx([0.2, 0.6])
    assert second.get_color() == "#555555"
    assert len(ax.collections) == 1, "the band of the one with two seeds"
    figure = ax.get_figure()
    assert figure is not None
    figure.canvas.draw()
    pyplot.close("all")
