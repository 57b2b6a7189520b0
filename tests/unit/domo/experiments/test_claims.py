"""Claims on numbers that are made up: each check can hold and can fail."""

import math

import pytest

from domo.errors import ConfigError
from domo.experiments import claims
from domo.experiments.claims import check_all
from domo.experiments.recipe import ORDER, ClaimSpec, load_recipe
from domo.experiments.results import UndoneError
from tests.support.recipes import made_up

BASE = {
    "FedAvg": 60.0,
    "FedAvgLM": 70.0,
    "FedAvgLM-Z": 69.0,
    "FedAvgSM": 75.0,
    "FedAvgSLM": 78.0,
    "FedAvgSLM-Z": 78.5,
    "DOMO-S": 80.0,
    "DOMO": 81.0,
}
LEAD = {"s = 20 %": 0.0, "s = 10 %": 1.0, "s = 5 %": 2.0}
FIGURE = load_recipe("figure-2")


def as_printed(panel, row, seed):
    lead = LEAD[panel] if row.startswith("DOMO") else 0.0
    return BASE[row] + lead + seed / 10


def changed(**rows):
    names = {name.replace("_", "-"): value for name, value in rows.items()}

    def number(panel, row, seed):
        return names.get(row, as_printed(panel, row, seed))

    return made_up(FIGURE, number)


GROUPS = [["FedAvg"], ["FedAvgLM", "FedAvgLM-Z"], ["FedAvgSM"], ["FedAvgSLM"], ["DOMO", "DOMO-S"]]


def test_ordering():
    assert claims.ordering(changed(), GROUPS)[0]
    holds, found = claims.ordering(changed(FedAvgSM=69.5), GROUPS)
    assert not holds
    assert "s = 5 %: FedAvgLM 70.10 is not below FedAvgSM 69.50" in found
    assert not claims.ordering(changed(FedAvgSM=70.0, FedAvgLM=70.0), GROUPS)[
        0
    ]  # equal is not below


def test_ahead_is_paired_by_seed_and_over_the_best():
    holds, found = claims.ahead(changed(), "DOMO", panels=["s = 5 %"])
    assert holds
    assert found == "s = 5 %: +4.50 \N{PLUS-MINUS SIGN} 0.00 (3 of 3 seeds) over FedAvgSLM-Z"
    holds, found = claims.ahead(changed(FedAvg=83.0), "DOMO", panels=["s = 5 %"])
    assert holds
    assert "over FedAvg" in found
    assert not claims.ahead(changed(FedAvg=83.2), "DOMO", panels=["s = 5 %"])[0]


def test_a_mean_may_hold_and_a_seed_not():
    def number(panel, row, seed):
        return 90.0 - 2 * seed if row == "DOMO" else 87.0 if row == "FedAvg" else 50.0

    holds, found = claims.ahead(made_up(FIGURE, number), "DOMO", ["FedAvg"], ["s = 5 %"])
    assert holds
    assert "+1.00 \N{PLUS-MINUS SIGN} 2.00 (2 of 3 seeds)" in found


def test_behind():
    assert claims.behind(changed(), ["FedAvg", "FedAvgLM"], "DOMO")[0]
    assert not claims.behind(changed(), ["FedAvg", "DOMO"], "FedAvgSM")[0]


def test_gap_grows():
    panels = list(LEAD)
    assert claims.gap_grows(changed(), "DOMO", panels)[0]
    assert not claims.gap_grows(changed(), "DOMO", panels[::-1])[0]
    assert not claims.gap_grows(changed(DOMO=81.0), "DOMO", panels)[0]


def test_fastest():
    over = [name for name in BASE if not name.startswith("DOMO")]
    assert claims.fastest(changed(), ["DOMO", "DOMO-S"], over)[0]
    assert not claims.fastest(changed(FedAvg=99.0), ["DOMO", "DOMO-S"], over)[0]


HEAT = load_recipe("heatmap")
PEAK = "mu_s = 0.9, mu_l = 0.6"


def peaked(at_s, at_l):
    def number(panel, row, seed):
        s, ell = (float(part.split(" = ")[1]) for part in row.split(", "))
        return 80 - 10 * abs(s - at_s) - 10 * abs(ell - at_l)

    return made_up(HEAT, number)


def test_best_of_a_grid():
    assert claims.best_at(peaked(0.9, 0.6), PEAK)[0]
    holds, found = claims.best_at(peaked(0.6, 0.8), PEAK)
    assert not holds
    assert "mu_s = 0.6, mu_l = 0.8 80.00 is best, and mu_s = 0.9, mu_l = 0.6 75.00" in found


def test_lower_the_further_away():
    assert claims.falls_off(peaked(0.9, 0.6), PEAK)[0]
    holds, found = claims.falls_off(peaked(0.9, 0.8), PEAK)
    assert not holds
    assert "mu_s = 0.9, mu_l = 0.8 80.00 is above mu_s = 0.9, mu_l = 0.6 78.00" in found


def test_what_diverged_is_the_lowest():
    r = changed(FedAvgSLM=-math.inf)
    assert not claims.ordering(r, GROUPS)[0]
    assert claims.ahead(r, "DOMO")[0]
    assert claims.ahead(r, "DOMO", ["FedAvgSLM"], ["s = 5 %"]) == (
        True,
        "s = 5 %: diverged over FedAvgSLM",
    )
    assert not claims.ahead(r, "FedAvgSLM", ["DOMO"])[0]
    assert not claims.ahead(changed(DOMO=-math.inf, FedAvg=-math.inf), "DOMO", ["FedAvg"])[0]
    assert claims.fastest(r, ["DOMO"], ["FedAvgSLM"])[0]

    def in_turn(panel, row, seed):
        return -math.inf if (row, seed) in (("DOMO", 0), ("FedAvg", 1)) else 50.0

    assert not claims.ahead(made_up(FIGURE, in_turn), "DOMO", ["FedAvg"])[0]


def test_what_is_not_done_is_no_verdict():
    def number(panel, row, seed):
        return None if (row, seed) == ("DOMO", 2) else as_printed(panel, row, seed)

    r = made_up(FIGURE, number)
    with pytest.raises(UndoneError):
        claims.ahead(r, "DOMO")
    by_name = {v.says: v for v in check_all(r)}
    ahead = by_name["s = 5 %: DOMO is ahead of FedAvgSLM-Z"]
    assert (ahead.holds, ahead.word) == (None, "not done")
    assert by_name["s = 10 %: DOMO-S is ahead of the best other method"].holds is True


@pytest.mark.parametrize("name", ORDER)
def test_every_claim_of_the_paper_can_be_checked(name):
    """Each names panels, rows and arguments that are there."""
    r = made_up(load_recipe(name), lambda panel, row, seed: 50.0)
    verdicts = check_all(r)
    assert len(verdicts) >= 2
    assert not any(verdict.holds for verdict in verdicts if verdict.printed is not None)
    assert all(verdict.holds is not None for verdict in verdicts)


@pytest.mark.parametrize("name", ["alpha-beta", "svhn", "cifar100"])
def test_the_printed_tables_say_what_the_paper_says_of_them(name):
    recipe = load_recipe(name)
    numbers = {panel.name: panel.printed for panel in recipe.panels}
    r = made_up(recipe, lambda panel, row, seed: numbers[panel][row].mean)
    for verdict in check_all(r):
        assert verdict.holds, verdict
        if verdict.printed is not None:
            assert f"{verdict.printed:+.2f} " in verdict.found


def test_figure_2_as_printed_holds_in_full():
    verdicts = check_all(made_up(FIGURE, as_printed))
    assert [v.says for v in verdicts if not v.holds] == []
    assert verdicts[1].printed == 5.0


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (ClaimSpec(says="", check="nonsense"), "no check 'nonsense'"),
        (ClaimSpec(says="", check="ahead", given={"frst": "DOMO"}), "the check ahead"),
        (ClaimSpec(says="", check="ahead", given={"first": "Domo"}), "no row 'Domo'"),
        (
            ClaimSpec(says="", check="ahead", given={"first": "DOMO", "panels": ["x"]}),
            "no panel 'x'",
        ),
    ],
)
def test_a_claim_that_cannot_be_checked_is_said(claim, told):
    recipe = FIGURE.model_copy(update={"claims": (claim,)})
    with pytest.raises(ConfigError, match=told):
        check_all(made_up(recipe, as_printed))
