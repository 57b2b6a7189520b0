from dataclasses import replace

import pytest

from domo.errors import ConfigError
from domo.methods import (
    METHODS,
    PAPER_METHODS,
    PRESETS,
    Hyperparameters,
    canonical_name,
    make_kernel,
    method_row,
)

HP = Hyperparameters(0.9, 0.6, 0.7, 0.8, weight_decay=0.01)


def test_the_table_is_the_paper_s() -> None:
    rows = {
        m.name: (m.server_momentum, m.local_momentum, m.round_end, m.fusion, m.num_vectors)
        for m in METHODS.values()
    }
    assert rows == {
        "FedAvg": (False, False, "reset", "none", 1),
        "FedAvgSM": (True, False, "reset", "none", 1),
        "FedAvgLM": (False, True, "average", "none", 2),
        "FedAvgLM-Z": (False, True, "reset", "none", 1),
        "FedAvgSLM": (True, True, "average", "none", 2),
        "FedAvgSLM-Z": (True, True, "reset", "none", 1),
        "DOMO": (True, True, "reset", "pre", 1),
        "DOMO-S": (True, True, "reset", "intra", 1),
        "DOMO-avg": (True, True, "average", "pre", 2),
        "DOMO-S-avg": (True, True, "average", "intra", 2),
        "FedAdam": (True, False, "reset", "none", 1),
        "FedYogi": (True, False, "reset", "none", 1),
        "FedAdagrad": (True, False, "reset", "none", 1),
        "DOMO-Adam": (True, True, "reset", "pre", 1),
        "FedExP": (False, False, "reset", "none", 1),
        "FedExP-LM-Z": (False, True, "reset", "none", 1),
        "SCAFFOLD": (False, False, "reset", "none", 1),
        "SCAFFOLD-LM-Z": (False, True, "reset", "none", 1),
        "DOMO-SCAFFOLD": (True, True, "reset", "pre", 1),
        "FedDyn": (False, False, "reset", "none", 1),
        "FedDyn-LM-Z": (False, True, "reset", "none", 1),
        "DOMO-FedDyn": (False, True, "reset", "pre", 1),
    }
    later = {n for n, m in METHODS.items() if m.server != "momentum" or m.control != "none"}
    assert set(METHODS) - set(PAPER_METHODS) == {"DOMO-avg", "DOMO-S-avg"} | later
    assert all(name == m.name for name, m in METHODS.items())


@pytest.mark.parametrize("name", METHODS)
def test_a_kernel_has_the_constants_of_its_row(name: str) -> None:
    row, k = METHODS[name], make_kernel(name, HP)
    dyn = row.server == "dyn"
    assert k.mu_s == (1 if dyn else 0.9 if row.server_momentum else 0)
    assert k.mu_l == (0.6 if row.local_momentum else 0)
    assert k.beta == (0.7 if row.fusion != "none" else 0)
    assert k.fusion == row.fusion
    assert k.average == (row.round_end == "average")
    adaptive = row.server in ("adam", "yogi", "adagrad")
    assert k.adapts == adaptive
    assert (k.control, k.rho) == (row.control, 0.01 if dyn else 0)
    assert k.tells_control == (name == "DOMO-SCAFFOLD")
    assert make_kernel(name, HP, partial=True).tells_control == ("SCAFFOLD" in name)
    assert (k.alpha, k.slr) == ((1.0, 0.06) if adaptive else (0.8, 0.0))
    assert k.tau == (1e-3 if adaptive or row.server == "exp" else 0)
    known = make_kernel(name, replace(HP, local_lr=0.2))
    assert known.eta == (0.2 if adaptive or dyn else 0)
    assert known.decay(0.02) == pytest.approx(0.1 if adaptive or dyn else 1)
    assert k.decay(0.02) == 1, "nothing is known of a decay"
    assert k.b2 == (0.99 if row.server in ("adam", "yogi") else 0)
    norm = {"scaffold": "nova", "dyn": "delta", "none": "per_silo"}[row.control]
    assert (k.wd, k.step_norm, k.lr_scale) == (0.01, norm, 1.0)


def test_a_term_that_is_off_leaves_no_trace() -> None:
    for method in ("DOMO", "DOMO-S"):
        plain = make_kernel("FedAvgSLM-Z", HP)
        assert make_kernel(method, replace(HP, fusion_coef=0.0)) == plain
    assert not make_kernel("FedAvgLM", replace(HP, local_momentum=0.0)).average


@pytest.mark.parametrize(
    ("preset", "constants"),
    [  # mu_s, mu_l, beta, alpha, fusion, lr_scale
        ("FedCM", (0.9, 0.0, 0.9, 1.0, "intra", pytest.approx(0.1))),
        ("FedACG", (0.9, 0.0, 0.9, 1.0, "pre", 1.0)),
        ("FedADC", (0.9, 0.0, 0.7, 0.8, "intra", 1.0)),
        ("SlowMo", (0.9, 0.6, 0.0, 0.8, "none", 1.0)),
        ("DiLoCo-outer", (0.9, 0.0, pytest.approx(0.72), 0.8, "pre", 1.0)),
    ],
)
def test_a_preset_ties_the_constants(preset: str, constants: tuple) -> None:
    k = make_kernel(preset, HP)
    assert (k.mu_s, k.mu_l, k.beta, k.alpha, k.fusion, k.lr_scale) == constants
    assert not k.average
    assert method_row(preset) is METHODS[PRESETS[preset].row]
    assert PRESETS[preset].name == preset
    assert PRESETS[preset].source


def test_names_in_any_case() -> None:
    assert canonical_name("domo-s") == "DOMO-S"
    assert canonical_name("FEDCM") == "FedCM"
    assert make_kernel("fedavgslm-z", HP) == make_kernel("FedAvgSLM-Z", HP)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown method 'FedAvgSLMZ'; did you mean 'FedAvgSLM-Z'"
    ):
        canonical_name("FedAvgSLMZ")
    with pytest.raises(ConfigError, match=r"unknown method 'xyzzy' \(known: FedAvg, .*DiLoCo"):
        make_kernel("xyzzy", HP)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("server_momentum", 1.0, r"server_momentum must be in \[0, 1\), got 1.0"),
        ("server_momentum", -0.1, r"server_momentum must be in"),
        ("local_momentum", float("nan"), r"local_momentum must be in"),
        ("local_momentum", 1.5, r"local_momentum must be in"),
        ("fusion_coef", -1.0, "fusion_coef must be finite and >= 0, got -1.0"),
        ("fusion_coef", float("inf"), "fusion_coef must be finite"),
        ("weight_decay", -1e-9, "weight_decay must be finite and >= 0"),
        ("prox", -0.1, "prox must be finite and >= 0, got -0.1"),
        ("server_lr", 0.0, "server_lr must be finite and > 0, got 0.0"),
        ("server_lr", float("inf"), "server_lr must be finite"),
        ("step_norm", "mean", "step_norm must be one of per_silo, delta, nova, got 'mean'"),
    ],
)
def test_hyperparameters_are_checked(field: str, value: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        replace(HP, **{field: value})


def test_the_bounds_themselves_are_fine() -> None:
    hp = Hyperparameters(0.0, 0.0, 0.0, 1e-6, 0.0, "delta")
    assert make_kernel("DOMO", hp).step_norm == "delta"


def test_silos_need_the_model_before_for_what_two_models_tell() -> None:
    assert make_kernel("DOMO", HP).infers
    assert make_kernel("SCAFFOLD", HP).infers
    assert not make_kernel("SCAFFOLD", HP, partial=True).infers
    assert not make_kernel("FedDyn", HP).infers
    assert make_kernel("DOMO-FedDyn", HP).infers
    assert make_kernel("DOMO-SCAFFOLD", HP).infers, "for fusion; c_r travels beside it"


def test_feddyn_divides_by_its_coefficient() -> None:
    with pytest.raises(ConfigError, match="FedDyn-LM-Z needs a prox above 0"):
        make_kernel("FedDyn-LM-Z", replace(HP, prox=0.0))
