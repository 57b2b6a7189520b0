"""The paper's recipes: runs of every scale are valid, and the printed numbers are there."""

import itertools
import re
from pathlib import Path

import pytest

from domo.errors import ConfigError
from domo.experiments.claims import CHECKS, check_all
from domo.experiments.recipe import ORDER, SCALES, load_recipe, load_recipes
from domo.experiments.results import Results
from domo.methods import PAPER_METHODS
from domo.tasks import is_named
from tests.support.recipes import made_up

OURS = Path(__file__).parents[4] / "experiments"
NUMBERS = {
    "figure-2": 24,
    "heatmap": 72,
    "figure-4": 32,
    "alpha-beta": 12,
    "svhn": 8,
    "cifar100": 16,
}
"""Rows of all panels: cells of the table or figure, each with three seeds."""


@pytest.mark.parametrize(("name", "scale"), list(itertools.product(ORDER, SCALES)))
def test_every_run_is_valid_at_every_scale(name, scale):
    cells = load_recipe(name).cells(scale)
    assert len(cells) == 3 * NUMBERS[name]
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.seed for cell in cells} == {0, 1, 2}
    for cell in cells:
        assert cell.config.expected_silos == 16
        assert cell.config.lr_milestones == (0.6, 0.8)
        assert cell.config.batch_size == 32
        assert is_named(cell.config.task)


@pytest.mark.parametrize("name", ORDER)
def test_the_papers_scale_is_the_papers(name):
    for cell in load_recipe(name).cells("paper"):
        c = cell.config
        assert c.num_rounds * c.local_epochs == pytest.approx(200)
        assert [c.lr_at(r) / c.lr_at(0) for r in (c.num_rounds * 6 // 10, c.num_rounds - 1)] == (
            pytest.approx([0.1, 0.01])
        )
        assert c.weight_decay == (1e-4 if name == "svhn" else 5e-4)
        assert c.task.startswith({"svhn": "svhn-", "cifar100": "cifar100-"}.get(name, "cifar10-"))


@pytest.mark.parametrize("path", sorted(OURS.glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_that_are_files_are_valid(path):
    recipe = load_recipe(str(path))
    cells = recipe.cells("small")
    rows = recipe.methods or recipe.variants
    rows = rows or [value for values in recipe.grid.values() for value in values]
    assert len(cells) == len(recipe.seeds) * len(rows) * len(recipe.panels)
    told = check_all(Results(recipe, "small", cells))
    assert [v.word for v in told] == ["not done"] * len(recipe.claims)


def test_local_steps_are_those_that_the_paper_names():
    by_panel = {cell.panel: cell.config for cell in load_recipe("figure-4").cells("paper")}
    steps = {name: c.steps_at(0, "silo-0", 50_000 // 16) for name, c in by_panel.items()}
    assert steps["E = 0.5"] == 49
    assert steps["E = 2"] == 196
    assert by_panel["ResNet-56"].task == "cifar10-resnet56"


def test_similarities_and_methods_are_the_papers():
    found = {(c.panel, c.config.similarity) for c in load_recipe("figure-2").cells("paper")}
    assert found == {("s = 5 %", 0.05), ("s = 10 %", 0.1), ("s = 20 %", 0.2)}
    for name, s in (("svhn", 0.02), ("cifar100", 0.4), ("figure-4", 0.1), ("alpha-beta", 0.1)):
        assert {cell.config.similarity for cell in load_recipe(name).cells("paper")} == {s}
    for name in ("figure-2", "figure-4", "svhn", "cifar100"):
        assert set(load_recipe(name).methods) == set(PAPER_METHODS)


def test_a_momentum_of_0_is_another_method():
    cells = {(c.panel, c.row): c.config.method for c in load_recipe("heatmap").cells("small")}
    assert cells["DOMO, s = 5 %", "mu_s = 0, mu_l = 0"] == "FedAvg"
    assert cells["DOMO, s = 5 %", "mu_s = 0, mu_l = 0.6"] == "FedAvgLM"
    assert cells["DOMO, s = 5 %", "mu_s = 0.9, mu_l = 0"] == "FedAvgSM"
    assert cells["DOMO-S, s = 10 %", "mu_s = 0.9, mu_l = 0.6"] == "DOMO-S"


@pytest.mark.parametrize(
    ("name", "panel", "row", "mean", "std"),
    [
        ("alpha-beta", "beta, alpha = 1", "beta = 0.9", 85.54, 0.11),
        ("alpha-beta", "beta, alpha = 1", "beta = 0.2", 74.54, 0.49),
        ("alpha-beta", "alpha, beta = 0.9", "alpha = 0.2", 77.58, 0.62),
        ("svhn", "SVHN", "DOMO-S", 90.45, 0.56),
        ("svhn", "SVHN", "FedAvgLM-Z", 87.93, 0.98),
        ("cifar100", "VGG-16", "FedAvg", 20.77, 1.31),
        ("cifar100", "VGG-16", "FedAvgSLM-Z", 57.89, 2.79),
        ("cifar100", "ResNet-56", "DOMO", 65.84, 0.30),
        ("figure-2", "s = 10 %", "DOMO", 85.54, 0.11),
        ("heatmap", "DOMO, s = 10 %", "mu_s = 0.9, mu_l = 0.6", 85.54, 0.11),
    ],
)
def test_printed_numbers(name, panel, row, mean, std):
    (found,) = [p for p in load_recipe(name).panels if p.name == panel]
    assert (found.printed[row].mean, found.printed[row].std) == (mean, std)


def test_tables_are_printed_in_full():
    for name in ("alpha-beta", "svhn", "cifar100"):
        recipe = load_recipe(name)
        for panel in recipe.panels:
            assert set(panel.printed) == {row.name for row in recipe.rows(panel)}


def test_printed_differences_are_those_of_the_text():
    found = {
        name: [c.printed for c in load_recipe(name).claims if c.printed is not None]
        for name in ORDER
    }
    assert found["figure-2"] == [5.00, 5.68, 23.14, 2.13, 1.41, 1.02, 0.85]
    assert found["figure-4"] == [1.25, 1.70, 1.35, 2.45, 2.03]
    assert found["svhn"] == [1.45, 1.56]
    assert found["cifar100"] == [2.46, 1.68, 2.39, 0.89]
    assert all(c.check in CHECKS for name in ORDER for c in load_recipe(name).claims)


def test_what_is_typed_wins_and_is_checked():
    recipe = load_recipe("figure-2")
    cells = recipe.cells("paper", (7,), {"local_lr": 0.05})
    assert len(cells) == 24
    assert {(cell.seed, cell.config.local_lr) for cell in cells} == {(7, 0.05)}
    with pytest.raises(ConfigError, match="num_round"):
        recipe.cells("small", (), {"num_round": 3})


def test_unlike_step_sizes_are_for_the_paper_alone():
    at = {c.row: c.config.local_lr for c in load_recipe("svhn").cells("paper")}
    assert (at["FedAvg"], at["FedAvgLM-Z"], at["FedAvgSM"], at["DOMO"]) == (0.1, 0.1, 0.01, 0.01)
    assert {c.config.local_lr for c in load_recipe("svhn").cells("small")} == {0.1}


OWN = """
title = "Mine"
paper = "none"
drawn = "curves"
methods = ["DOMO", "FedCM"]
[scales.small]
task = "digits"
num_silos = 4
num_rounds = 2
[[panels]]
name = "all"
"""


def test_a_recipe_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    (recipe,) = load_recipes([str(path)])
    assert recipe.name == "mine"
    assert [c.config.method for c in recipe.cells("small", (0,))] == ["DOMO", "FedCM"]
    with pytest.raises(ConfigError, match="no scale paper"):
        recipe.cells("paper")


def test_the_recipe_of_the_docs(tmp_path):
    page = Path(__file__).parents[4] / "docs" / "results.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    recipe = load_recipe(str(path))
    assert len(recipe.cells("small")) == 18
    assert check_all(made_up(recipe, lambda panel, row, seed: 9.0 * ("0.9" in row)))[0].holds
    assert all(f"<!-- {name} -->\n" in page.read_text(encoding="utf-8") for name in ORDER)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("[[panels]]", "[grid]\nserver_lr = [1.0]\n[[panels]]"),
            "methods, or a grid, or variants",
        ),
        (('methods = ["DOMO", "FedCM"]', ""), "methods, or a grid, or variants"),
        (('methods = ["DOMO", "FedCM"]', "[grid]\nlocal_lr = [1.0]"), "a grid is over"),
        (('name = "all"', 'name = "all"\nprinted = { X = { mean = 1.0 } }'), "is no row"),
        (("drawn", "drawnn"), "drawn"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_said(tmp_path, change, told):
    path = tmp_path / "mine.toml"
    path.write_text(OWN.replace(*change))
    with pytest.raises(ConfigError, match=told):
        load_recipe(str(path))


def test_names():
    assert [r.name for r in load_recipes(["svhn", "all"])] == [
        "svhn",
        *(n for n in ORDER if n != "svhn"),
    ]
    with pytest.raises(ConfigError, match="Did you mean 'figure-2'"):
        load_recipe("figure2")
