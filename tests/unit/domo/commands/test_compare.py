"""Comparisons: numbers, tables and the plot."""

import builtins
import json
import struct
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from domo.commands.compare import (
    Comparison,
    Setting,
    compare,
    deviation,
    markdown,
    parse_methods,
    rich_table,
    that_fit,
    to_json,
)
from domo.commands.plot import _spread, plot
from domo.errors import ConfigError
from domo.methods import PAPER_METHODS
from domo.run_config import RunConfig

CONFIG = RunConfig(task="digits", num_rounds=2, num_silos=3, lr_milestones=(0.5,))


def made_up() -> Comparison:
    c = Comparison(CONFIG, "accuracy", ("FedAvg", "DOMO"), (0, 1), (0, 1, 2))
    for m, seed, last in (
        ("FedAvg", 0, 0.70),
        ("FedAvg", 1, 0.74),
        ("DOMO", 0, 0.80),
        ("DOMO", 1, 0.81),
    ):
        c.curves[m, seed] = [0.1, 0.5, last]
        c.losses[m, seed] = [2.0, 1.0]
    return c


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[Setting, Comparison]:
    setting = Setting(CONFIG, tmp_path_factory.mktemp("data"))
    return setting, compare(setting, ("FedAvg", "DOMO"), (0, 1))


def test_every_cell_is_run_and_told(measured):
    setting, c = measured
    told = []
    again = compare(setting, ("DOMO",), (1,), on_done=lambda *a: told.append(a))
    assert told == [("DOMO", 1, "accuracy", c.curves["DOMO", 1][-1])]
    assert again.curves["DOMO", 1] == c.curves["DOMO", 1]
    assert c.model_indices == (0, 1, 2)
    assert set(c.curves) == {(m, s) for m in ("FedAvg", "DOMO") for s in (0, 1)}
    assert c.curves["DOMO", 0] != c.curves["DOMO", 1]
    assert c.curves["DOMO", 0][0] == c.curves["FedAvg", 0][0]  # one initial model for a seed
    assert all(len(v) == 2 for v in c.losses.values())


def test_nothing_to_compare(measured):
    setting, _ = measured
    blind = replace(setting, config=setting.config.model_copy(update={"evaluate_every": 0}))
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare(blind, ("FedAvg",), (0,))


def test_statistics():
    c = made_up()
    assert c.best == "DOMO"
    assert c.finals("FedAvg") == [0.70, 0.74]
    mean, std = c.mean_curve("FedAvg")
    assert mean == pytest.approx([0.1, 0.5, 0.72])
    assert std == pytest.approx([0, 0, 0.04 / 2**0.5])
    assert deviation([3.0]) == 0
    c.metric = "loss"
    assert c.best == "FedAvg"


def test_markdown_has_every_seed_and_the_best_in_bold():
    assert markdown(made_up()).splitlines() == [
        "| method | mean | std | seed 0 | seed 1 |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| FedAvg | 72.00 | 2.83 | 70.00 | 74.00 |",
        "| **DOMO** | **80.50** | 0.71 | 80.00 | 81.00 |",
    ]


def test_terminal_table():
    out = Console(file=StringIO(), width=100)
    out.print(rich_table(made_up()))
    text = out.file.getvalue()
    assert "digits: test accuracy after 2 rounds, %" in text
    assert text.index("FedAvg") < text.index("DOMO")
    assert "80.50" in text


def test_json_has_every_number():
    body = json.loads(to_json(made_up()))
    assert body["model_indices"] == [0, 1, 2]
    assert body["config"]["task"] == "digits"
    assert "seed" not in body["config"]
    assert body["methods"]["DOMO"]["final"] == {"0": 0.80, "1": 0.81}
    assert body["methods"]["FedAvg"]["curve"]["1"] == [0.1, 0.5, 0.74]


def test_plot_is_a_png(tmp_path):
    c = made_up()
    plot(c, tmp_path / "deep" / "p.png")
    head = (tmp_path / "deep" / "p.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:24])[0] > 800
    c.seeds, c.metric = (0,), "loss"
    plot(c, tmp_path / "p.png")
    assert (tmp_path / "p.png").exists()


def test_plot_says_how_to_get_matplotlib(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install .domo-federated\[sim\]"):
        plot(made_up(), tmp_path / "p.png")


def test_labels_keep_apart_and_in_order():
    at = _spread([1.0, 1.01, 5.0, 0.99], 0.5)
    assert at[2] == 5.0
    assert at[3] < at[0] < at[1]
    assert at[0] - at[3] == pytest.approx(0.5)
    assert sum(at[i] for i in (0, 1, 3)) == pytest.approx(3.0)


def test_method_lists():
    assert parse_methods("all") == PAPER_METHODS
    assert parse_methods("domo, fedavg") == ("DOMO", "FedAvg")
    for wrong in ("", "DOMO,domo"):
        with pytest.raises(ConfigError, match="each method once"):
            parse_methods(wrong)
    with pytest.raises(ConfigError, match="did you mean 'DOMO'"):
        parse_methods("DOMOO")


def test_methods_that_do_not_go_with_a_run_are_left_out_of_all_and_refused_by_name(capsys) -> None:
    config = RunConfig(task="digits", num_rounds=2, local_optimizer="AdamW")
    assert that_fit(config, "all") == tuple(m for m in PAPER_METHODS if m != "DOMO-S")
    said = "DOMO-S is left out: DOMO-S fuses in every step of SGD; with AdamW inside take DOMO"
    assert said in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ConfigError, match="DOMO-S fuses in every step"):
        that_fit(config, "DOMO,DOMO-S")
