"""`domo experiment` in this process: runs, tables, plots and claims on digits."""

import csv
import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow.parquet
import pytest
from rich.console import Console
from typer.testing import CliRunner

from domo.commands.experiment import cells
from domo.commands.experiment.cells import Job, run_all, run_cell
from domo.commands.experiment.cli import RECIPES
from domo.commands.experiment.report import put_into, report
from domo.commands.experiment.tables import in_markdown, on_terminal, ours, tables
from domo.commands.main import app
from domo.errors import ConfigError
from domo.experiments.recipe import ORDER, load_recipe
from domo.sweeps.cells import Setting
from tests.support.recipes import made_up

ROOT = Path(__file__).parents[4]


def call(*words, code=0):
    result = CliRunner().invoke(app, ["experiment", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """The alpha and beta table at the scale of seconds, 4 of its 11 runs done."""
    out = tmp_path_factory.mktemp("half")
    words = ("run", "alpha-beta", "--scale", "tiny", "--seeds", "0", "--out", out)
    text = call(*words, "--cells", "4")
    return out, words, text


def test_a_part_is_run_and_told(half):
    out, _, text = half
    assert "12 runs, 11 runs to do, 4 now" in text
    assert text.count("| seed 0") >= 4
    last = text.strip().splitlines()[-1]
    assert last == f"next:    domo experiment run alpha-beta --scale tiny --out {out} --seeds 0"
    assert len(list((out / "tiny" / "cells").glob("*.json"))) == 4
    assert "of 2 claims: 2 not done yet" in text


def test_the_rest_is_run_and_nothing_twice(half):
    out, words, _ = half
    store = out / "tiny" / "cells"
    before = {path: path.stat().st_mtime_ns for path in store.glob("*.json")}
    text = call(*words)
    assert "12 runs, 7 runs to do" in text
    assert "domo experiment run figure-2" in text.strip().splitlines()[-1]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(store.glob("*.json"))) == 11
    assert "12 runs, 0 runs to do" in call(*words)
    assert len(list(store.glob("*"))) == 11, "nothing else is left"

    folder = out / "tiny" / "alpha-beta"
    made = (folder / "report.md").read_text()
    assert "| beta = 0.9 |" in made
    assert "85.54 \N{PLUS-MINUS SIGN} 0.11" in made
    assert "12 of 12 runs done" in made
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((folder / "runs.csv").read_text().splitlines()))
    assert len(rows) == 12
    assert {row["method"] for row in rows} == {"DOMO"}
    assert pyarrow.parquet.read_table(folder / "runs.parquet").num_rows == 12
    curves = list(csv.DictReader((folder / "curves.csv").read_text().splitlines()))
    assert len(curves) == 12 * 4
    assert curves[0]["train_loss"] == ""
    assert float(curves[1]["train_loss"]) > 0


def test_changed_settings_are_refused(half):
    _, words, _ = half
    text = call(*words, "--set", "local_lr=0.2", code=2)
    assert "local_lr was 0.05, now 0.2" in text
    assert "--afresh" in text


def test_list_shows_what_is_done(half):
    out, _, _ = half
    text = call("list", "--scale", "tiny", "--out", out, "--seeds", "0")
    assert "domo experiment run" in text
    assert all(name in text for name in ORDER)
    (line,) = [line for line in text.splitlines() if "svhn" in line and "next" not in line]
    assert "0 of 8" in line


def test_a_report_of_what_is_there(tmp_path):
    """Nothing, and a part."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- svhn -->\nold\n<!-- /svhn -->\nend\n")
    words = ("report", "svhn", "--scale", "tiny", "--out", tmp_path, "--into", page)
    assert "0 of 24 runs done" in call(*words)
    text = page.read_text()
    assert "old" not in text
    assert text.endswith("<!-- /svhn -->\nend\n")
    assert "| DOMO | - | 90.34 \N{PLUS-MINUS SIGN} 0.83 |" in text
    assert "png" not in text
    call("run", "svhn", "--scale", "tiny", "--out", tmp_path, "--cells", "1")
    call(*words)
    assert "(1 of 3)" in page.read_text()
    assert "](page-svhn.png)" in page.read_text()
    assert (tmp_path / "page-svhn.png").exists()


def test_a_page_without_a_place(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ConfigError, match=r"needs the lines <!-- svhn --> and <!-- /svhn -->"):
        put_into(page, "svhn", "text")
    with pytest.raises(ConfigError, match="No such file"):
        put_into(tmp_path / "none.md", "svhn", "text")


def job(tmp_path, **settings):
    (cell, *_) = load_recipe("alpha-beta").cells("tiny", (0,), {"num_rounds": 4, **settings})
    return Job(cell, Setting(cell.config, tmp_path), tmp_path)


def test_a_long_run_goes_on_where_a_kill_left_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "KEEP_S", 0.0)
    (tmp_path / "other").mkdir()
    undisturbed = run_cell(job(tmp_path / "other"))
    seen = []

    def killed(record):
        seen.append(record.model_index)
        if record.model_index == 3:
            raise SystemExit

    with pytest.raises(SystemExit):
        run_cell(job(tmp_path), killed)
    assert list(tmp_path.glob("*.held"))
    again = []
    record = run_cell(job(tmp_path), lambda r: again.append(r.model_index))
    assert (seen, again) == ([0, 1, 2, 3], [3, 4])
    assert record.metrics == undisturbed.metrics
    assert record.train_loss == undisturbed.train_loss
    assert record.steps == undisturbed.steps
    assert not list(tmp_path.glob("*.held"))


def test_a_record_says_the_mode_that_computed_it(tmp_path):
    exact, batched, auto = (
        run_cell(replace(job(tmp_path), mode=mode)) for mode in ("exact", "batched", "auto")
    )
    assert (exact.mode, batched.mode) == ("exact", "batched")
    assert auto.mode in ("exact", "batched")
    for other in (batched, auto):
        assert other.metrics["accuracy"] == pytest.approx(exact.metrics["accuracy"], abs=0.01)
    assert run_cell(replace(job(tmp_path, local_lr=1e30), mode="auto")).mode == "exact"


def test_records_of_either_mode_are_kept_apart_and_auto_takes_both(tmp_path):
    words = ("run", "alpha-beta", "--scale", "tiny", "--seeds", "0", "--out", tmp_path)
    text = call(*words, "--mode", "batched", "--cells", "1")
    assert "  batched\n" in text
    assert "batched: same as exact within float tolerance" in text
    assert text.strip().endswith("--mode batched")
    assert [p.stem.split("-")[1:] for p in (tmp_path / "tiny/cells").iterdir()] == [["batched"]]
    assert "mode was batched, now exact" in call(*words, "--cells", "1", code=2)
    report = ("report", *words[1:])
    assert "0 of 12 runs done" in call(*report)
    for mode in ("batched", "auto"):
        assert "1 of 12 runs done" in call(*report, "--mode", mode)


def test_what_is_damaged_is_run_from_the_start(tmp_path):
    one = job(tmp_path)
    (tmp_path / f"{one.cell.config.digest}.held").write_bytes(b"half")
    assert run_cell(one).model_indices == [0, 1, 2, 3, 4]


def test_a_run_that_diverges_is_a_result(tmp_path):
    record = run_cell(job(tmp_path, local_lr=1e30))
    assert "round 1" in record.failed
    assert record.final() == -math.inf
    assert json.dumps(record.metrics) == "{}"


def test_a_run_without_tests_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="tests no accuracy"):
        run_cell(job(tmp_path, evaluate_every=0))


def heat(value):
    def number(panel, row, seed):
        return value(panel, row, seed)

    return made_up(load_recipe("heatmap"), number)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *((name, "some") for name in (*ORDER, "experiments/methods.toml")),
        *((name, what) for name in ("svhn", "heatmap", "alpha-beta") for what in ("all", "none")),
    ],
)
def test_every_recipe_is_drawn_and_told(tmp_path, name, what):
    def number(panel, row, seed):
        if what == "none" or (what == "some" and (seed == 2 or row.startswith("mu_s = 0.3"))):
            return None
        if what == "some" and row in ("FedAvg", "beta = 0.2", "mu_s = 0.9, mu_l = 0.9"):
            return -math.inf
        return 50.0 + len(row) + seed

    r = made_up(load_recipe(str(ROOT / name) if "/" in name else name), number)
    report(r, tmp_path)
    assert (tmp_path / "plot.png").exists() == (what != "none")
    text = (tmp_path / "report.md").read_text()
    assert r.recipe.paper in text
    assert ("diverged" in text) == (what == "some")


def test_tables():
    def number(panel, row, seed):
        return 81.0 + seed if row == "DOMO" else 70.0

    r = made_up(load_recipe("svhn"), number)
    (table,) = tables(r)
    text = in_markdown(table)
    assert "| method | SVHN | printed |" in text
    assert "| DOMO | **82.00 \N{PLUS-MINUS SIGN} 1.00** | 90.34 \N{PLUS-MINUS SIGN} 0.83 |" in text
    out = Console(file=StringIO(), width=100)
    out.print(on_terminal(table))
    assert "82.00" in out.file.getvalue()
    assert ours(r, "SVHN", "FedAvg") == "70.00 \N{PLUS-MINUS SIGN} 0.00"

    first, *_ = tables(heat(lambda panel, row, seed: 60.0 if "0.9, mu_l = 0.6" in row else 50.0))
    assert first.head[1:3] == ("mu_l = 0", "mu_l = 0.2")
    assert first.rows[3][0] == "mu_s = 0.9"
    assert first.bold == {(3, 4)}
    assert "printed: mu_s = 0.9, mu_l = 0.6: 85.54" in first.title


def test_mistakes(tmp_path):
    assert "Did you mean 'svhn'" in call("run", "svnh", "--out", tmp_path, code=2)
    assert "write KEY=VALUE" in call("run", "svhn", "--set", "x", "--out", tmp_path, code=2)
    text = call("run", "svhn", "--jobs", "2", "--on", "slurm", "--out", tmp_path, code=2)
    assert "give one" in text
    assert "give --seeds" in call("run", "svhn", "--set", "seed=1", "--out", tmp_path, code=2)


def test_any_executor_gives_the_same_numbers(tmp_path):
    todo = [
        Job(cell, Setting(cell.config, tmp_path), tmp_path)
        for cell in load_recipe("svhn").cells("tiny", (0,), {"num_rounds": 1})[:3]
    ]
    one = {job.title: record.metrics for job, record in run_all(todo)}
    with ThreadPoolExecutor(2) as threads:
        several = {job.title: r.metrics for job, r in run_all(todo, executor=threads)}
    assert several == one
    assert len(one) == 3


def test_what_tab_proposes_are_the_recipes():
    assert (*ORDER, "all") == RECIPES
