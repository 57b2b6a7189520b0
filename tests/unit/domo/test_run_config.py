from typing import Any

import pytest
from pydantic import ValidationError

from domo.errors import ConfigError
from domo.ops.config_file import validate
from domo.run_config import RunConfig, as_meant, sort_roster


def config(**changes: Any) -> RunConfig:
    return RunConfig(**({"task": "digits", "num_rounds": 10} | changes))


def refusal(**changes: Any) -> str:
    """The text of the one error that a config has."""
    with pytest.raises(ValidationError) as caught:
        config(**changes)
    (error,) = caught.value.errors()
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}".removeprefix(": Value error, ")


def test_defaults_are_the_paper_s_best() -> None:
    c = config()
    assert (c.method, c.local_lr, c.batch_size) == ("DOMO", 0.05, 32)
    k = c.kernel
    assert (k.mu_s, k.mu_l, k.beta, k.alpha, k.wd, k.fusion) == (0.9, 0.6, 0.9, 1.0, 0.0, "pre")
    assert c.hyperparameters.step_norm == "per_silo"
    assert c.expected_silos == 1
    assert c.needs_samples


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        config().num_rounds = 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_rounds": 0}, "num_rounds: Input should be greater than or equal to 1"),
        ({"name": "two words"}, "name: String should match pattern"),
        ({"task": "../../../../p/x:Y"}, "task: Value error, must be a named task, such as digits"),
        ({"task": "a:" + "x" * 199}, "task: Value error, must be a named task, such as digits"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"threads": 0}, "threads: Input should be greater than or equal to 1"),
        ({"local_lr": 0}, "local_lr: Input should be greater than 0"),
        ({"local_lr": float("inf")}, "local_lr: Input should be a finite number"),
        ({"lr_decay": 0}, "lr_decay: Input should be greater than 0"),
        ({"lr_decay": 1.1}, "lr_decay: Input should be less than or equal to 1"),
        ({"local_lrs": [0.1] * 9 + [0]}, "local_lrs.9: Input should be greater than 0"),
        ({"local_epochs": 0}, "local_epochs: Input should be greater than 0"),
        ({"local_steps": 0}, "local_steps: Input should be greater than or equal to 1"),
        ({"batch_size": 0}, "batch_size: Input should be greater than or equal to 1"),
        ({"server_momentum": 1}, "server_momentum: Input should be less than 1"),
        ({"local_momentum": -0.1}, "local_momentum: Input should be greater than or equal to 0"),
        ({"fusion_coef": float("nan")}, "fusion_coef: Input should be"),
        ({"server_lr": 0}, "server_lr: Input should be greater than 0"),
        ({"weight_decay": -1}, "weight_decay: Input should be greater than or equal to 0"),
        ({"step_norm": "mean"}, "step_norm: Input should be 'per_silo', 'delta' or 'nova'"),
        (
            {"update_dtype": "int8"},
            "update_dtype: Input should be 'float32', 'bfloat16' or 'float16'",
        ),
        ({"num_silos": 0}, "num_silos: Input should be greater than or equal to 1"),
        ({"roster": ["a", "b/c"]}, "roster.1: String should match pattern"),
        ({"on_missing": "skip"}, "on_missing: Input should be 'wait', 'proceed' or 'fail'"),
        ({"similarity": 1.5}, "similarity: Input should be less than or equal to 1"),
        ({"evaluate_every": -1}, "evaluate_every: Input should be greater than or equal to 0"),
        ({"rounds": 10}, "rounds: Extra inputs are not permitted"),
        ({"method": "DOMOS"}, "unknown method 'DOMOS'; did you mean 'DOMO-S'?"),
        ({"num_silos": 2, "roster": ["a", "b"]}, "give num_silos or roster, not both"),
        ({"roster": ["a", "b", "a"]}, "roster names a silo twice"),
        ({"num_silos": 2, "participation": 3}, "participation = 3 is more than 2 silos"),
        ({"roster": ["a", "b"], "participation": 3}, "participation = 3 is more than 2 silos"),
        ({"num_silos": 2, "min_silos": 3}, "min_silos = 3 is more than the 2 silos of a round"),
        (
            {"num_silos": 4, "participation": 2, "min_silos": 3},
            "min_silos = 3 is more than the 2 silos of a round",
        ),
        ({"local_epochs": 1, "local_steps": 2}, "give one of local_epochs, local_steps(_list)"),
        (
            {"local_steps": 2, "local_steps_list": [2] * 10},
            "give one of local_epochs, local_steps(_list)",
        ),
        (
            {"local_lrs": [0.1, 0.1]},
            "local_lrs must have one entry for each of the 10 rounds, it has 2",
        ),
        (
            {"local_steps_list": [1] * 11},
            "local_steps_list must have one entry for each of the 10 rounds, it has 11",
        ),
        (
            {"participants": [["a"]]},
            "participants must have one entry for each of the 10 rounds, it has 1",
        ),
        ({"num_rounds": 1, "participants": [[]]}, "participants has a round with nobody in it"),
        ({"lr_milestones": [0.5, 1.2]}, "lr_milestones are fractions of num_rounds, in (0, 1]"),
        ({"lr_milestones": [0]}, "lr_milestones are fractions of num_rounds, in (0, 1]"),
        ({"num_rounds": 1, "local_steps_list": [0]}, "local_steps_list has a number below 1"),
        (
            {"num_rounds": 1, "local_steps_list": [{"a": 3, "b": 0}]},
            "local_steps_list has a number below 1",
        ),
        ({"roster": ["a"], "required_silos": ["c", "b"]}, "not on the roster: b, c"),
        (
            {"num_rounds": 1, "roster": ["a"], "participants": [["a", "b"]]},
            "not on the roster: b",
        ),
        ({"on_missing": "proceed"}, 'on_missing = "proceed" needs min_silos'),
        ({"on_missing": "fail"}, 'on_missing = "fail" needs round_deadline_s'),
        ({"round_deadline_s": 0}, "round_deadline_s: Input should be greater than 0"),
        ({"grace_s": -1}, "grace_s: Input should be greater than or equal to 0"),
        ({"weights": {"a": 0}}, "Input should be greater than 0"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], text: str) -> None:
    if "weights" in changes:  # a union: pydantic reports every alternative
        with pytest.raises(ValidationError, match=text):
            config(**changes)
    else:
        assert refusal(**changes).startswith(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"on_missing": "proceed", "min_silos": 1},
        {"on_missing": "fail", "round_deadline_s": 5},
        {"num_silos": 2, "participation": 2, "min_silos": 2},
        {"lr_milestones": [1.0]},
        {"roster": ["a", "b"], "required_silos": ["b"]},
    ],
)
def test_what_is_fine(changes: dict[str, Any]) -> None:
    assert config(**changes)


def test_the_method_gets_the_table_s_spelling() -> None:
    assert config(method="fedavgslm-z").method == "FedAvgSLM-Z"
    assert config(method="fedcm").kernel.lr_scale == pytest.approx(0.1)


def test_titles() -> None:
    assert config().title == "domo-digits"
    assert config(task="pkg.mod:Task", method="DOMO-S").title == "domo-s-pkg.mod.task"
    assert config(name="Mine").title == "Mine"


@pytest.mark.parametrize(
    ("epochs", "num_samples", "steps"),
    [
        (None, 3125, 98),  # CIFAR-10 over 16 silos, as in the paper
        (1, 3125, 98),
        (0.5, 3125, 49),
        (2, 3125, 196),
        (0.4, 3125, 40),  # 39.2
        (0.1, 960, 3),  # 0.1 * 30 is 3 and a bit in binary
        (0.01, 32, 1),
        (3, 33, 6),
    ],
)
def test_steps_from_epochs(epochs: float | None, num_samples: int, steps: int) -> None:
    assert config(local_epochs=epochs).steps_at(0, "a", num_samples) == steps


def test_steps_by_number_and_by_list() -> None:
    assert config(local_steps=7).steps_at(3, "a", 1) == 7
    c = config(num_rounds=2, local_steps_list=[5, {"a": 1, "b": 2}])
    assert [c.steps_at(r, s, 100) for r in (0, 1) for s in "ab"] == [5, 5, 1, 2]
    with pytest.raises(ConfigError, match=r"local_steps_list\[1\] has no entry for c"):
        c.steps_at(1, "c", 100)


def test_whether_sample_counts_are_needed() -> None:
    assert config().needs_samples
    assert not config(local_steps=3).needs_samples
    assert config(local_steps=3, weights="samples").needs_samples
    assert not config(local_steps=3, weights={"a": 1}).needs_samples


def test_lr_decays_at_fractions_of_the_run() -> None:
    c = config(local_lr=0.5, lr_decay=0.5, lr_milestones=[0.6, 0.8])
    assert [c.lr_at(r) for r in range(10)] == [0.5] * 6 + [0.25] * 2 + [0.125] * 2
    c = config(num_rounds=3, local_lrs=[3, 2, 1], lr_milestones=[0.5])
    assert [c.lr_at(r) for r in range(3)] == [3.0, 2.0, 1.0]
    assert config(lr_milestones=[0.55]).lr_at(5) == 0.05  # 5 < 5.5
    assert config().lr_at(9) == 0.05


@pytest.mark.parametrize("num_rounds", [10, 100, 350, 1000])
def test_lr_decays_on_time_whatever_the_fraction_is_in_binary(num_rounds: int) -> None:
    """0.55 of 100 is 55.00000000000001 in floats."""
    for hundredth in range(1, 100):
        if hundredth * num_rounds % 100 == 0:
            c = config(num_rounds=num_rounds, lr_milestones=[hundredth / 100], lr_decay=0.5)
            due = hundredth * num_rounds // 100
            assert (c.lr_at(due - 1), c.lr_at(due)) == (0.05, 0.025), hundredth


ROSTER = [f"silo-{i}" for i in range(6)]


def test_everybody_by_default() -> None:
    assert config().participants_at(0, ROSTER) == ROSTER
    assert config(participation=6).participants_at(0, ROSTER) == ROSTER


def test_participants_are_sampled_by_seed_and_round_in_roster_order() -> None:
    c = config(num_silos=6, participation=3, num_rounds=50)
    rounds = [c.participants_at(r, ROSTER) for r in range(50)]
    for chosen in rounds:
        assert len(chosen) == 3
        assert chosen == sorted(chosen)
    assert rounds == [c.participants_at(r, ROSTER) for r in range(50)]
    assert len({tuple(chosen) for chosen in rounds}) > 10
    assert {s for chosen in rounds for s in chosen} == set(ROSTER)
    other = config(num_silos=6, participation=3, num_rounds=50, seed=1)
    assert rounds != [other.participants_at(r, ROSTER) for r in range(50)]


def test_sampling_is_by_place_so_that_names_do_not_matter() -> None:
    c = config(participation=2)
    there, here = c.participants_at(4, ROSTER), c.participants_at(4, list("abcdef"))
    assert [ROSTER.index(s) for s in there] == ["abcdef".index(s) for s in here]


def test_participants_by_list() -> None:
    c = config(num_rounds=2, participants=[["silo-4", "silo-1"], ["silo-0", "x"]])
    assert c.participants_at(0, ROSTER) == ["silo-1", "silo-4"]
    with pytest.raises(ConfigError, match=r"participants\[1\] names x, not on the roster"):
        c.participants_at(1, ROSTER)


def test_weights() -> None:
    assert config().weight_of("a", 50) == 1.0
    assert config(weights="samples").weight_of("a", 50) == 50.0
    c = config(weights={"a": 2.5})
    assert c.weight_of("a", 50) == 2.5
    with pytest.raises(ConfigError, match="weights has no entry for b"):
        c.weight_of("b", 50)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"participants": [["a"], ["a", "c"]]}, "participants[1] names c, not on the roster"),
        ({"weights": {"a": 1}}, "weights has no entry for b"),
        ({"local_steps_list": [1, {"a": 1}]}, "local_steps_list[1] has no entry for b"),
        ({"local_steps_list": [1, {"a": 1}], "participants": [["b"], ["a"]]}, None),
        ({"weights": {"a": 1}, "participants": [["a"], ["a"]]}, None),
        ({"weights": {"a": 1, "b": 2, "c": 3}}, None),
        ({"local_steps_list": [1, 2], "participation": 1}, None),
    ],
)
def test_tables_are_checked_for_every_round(changes: dict[str, Any], text: str | None) -> None:
    c = config(num_rounds=2, **changes)
    if text is None:
        c.check_tables(["a", "b"])
        return
    with pytest.raises(ConfigError) as caught:
        c.check_tables(["a", "b"])
    assert str(caught.value) == text


def test_when_models_are_tested() -> None:
    assert [i for i in range(11) if config(evaluate_every=4).evaluates_at(i)] == [0, 4, 8, 10]
    assert not any(config(evaluate_every=0).evaluates_at(i) for i in range(11))
    assert all(config().evaluates_at(i) for i in range(11))


def test_expected_silos() -> None:
    assert config(num_silos=5).expected_silos == 5
    assert config(roster=["a", "b"]).expected_silos == 2


def test_the_digest_covers_every_field() -> None:
    changes: list[dict[str, Any]] = [
        {"name": "n"},
        {"task": "other"},
        {"method": "DOMO-S"},
        {"num_rounds": 11},
        {"seed": 1},
        {"local_lr": 0.06},
        {"local_steps": 3},
        {"weights": "samples"},
        {"num_silos": 3},
        {"participation": 1},
        {"grace_s": 1},
        {"similarity": 0.1},
        {"step_norm": "delta"},
        {"update_dtype": "bfloat16"},
        {"update_dtype": "float16"},
    ]
    digests = [config(**c).digest for c in [{}, *changes]]
    assert len(set(digests)) == len(digests)
    assert config().digest == digests[0]
    assert config(method="domo").digest == digests[0]


def test_what_is_at_its_default_is_not_in_the_digest() -> None:
    """So the digest of a run is the same before and after a field was added."""
    assert config().digest == "afebb65e7e8be3f1d0c9874afc3f2abb"
    assert config(update_dtype="float32", batch_size=32).digest == config().digest


def test_a_config_survives_json() -> None:
    c = config(roster=["b", "a"], local_steps_list=[{"a": 1, "b": 2}] * 10, weights={"b": 2})
    again = RunConfig.model_validate_json(c.model_dump_json())
    assert again == c
    assert again.digest == c.digest


def test_roster_order_is_bytewise() -> None:
    assert sort_roster(["b", "a10", "a2", "B", "a-1"]) == ["B", "a-1", "a10", "a2", "b"]


def test_what_is_left_out_means_its_default() -> None:
    old = {"task": "digits", "num_rounds": 3, "method": "DOMO"}
    shown = RunConfig(**old).model_dump(mode="json")
    assert shown["local_epochs"] is None
    assert as_meant(old)["local_epochs"] == 1
    assert as_meant(shown)["local_epochs"] == 1
    assert as_meant(old)["batch_size"] == 32
    assert as_meant(old) == as_meant({**old, "local_epochs": 1.0})
    assert as_meant({**old, "local_steps": 4})["local_epochs"] is None
    assert as_meant({**old, "local_steps_list": [1, 2, 3]})["local_epochs"] is None
    assert as_meant({**old, "local_epochs": 2.0})["local_epochs"] == 2.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"local_optimizer": "Adm"}, r"no local_optimizer 'Adm' \(known: .*AdamW.*\)"),
        ({"local_optimizer": "LBFGS"}, "no local_optimizer 'LBFGS'"),
        ({"local_optimizer": "Optimizer"}, "no local_optimizer"),
        ({"local_optimizer": "lr_scheduler"}, "must match pattern"),
        (
            {"local_optimizer": "AdamW", "local_optimizer_args": {"lr": 1.0}},
            r"AdamW takes no 'lr' in local_optimizer_args \(it takes betas, eps, ",
        ),
        (
            {"local_optimizer": "AdamW", "local_optimizer_args": {"betas": [2.0, 0.9]}},
            "AdamW does not take local_optimizer_args .*: Invalid beta",
        ),
        (
            {"local_optimizer": "AdamW", "local_optimizer_args": {"betas": "x"}},
            "AdamW does not take local_optimizer_args",
        ),
        ({"local_optimizer_args": {"nesterov": True}}, "SGD has no local_optimizer_args"),
        ({"local_optimizer": "NAdam", "local_state": "keep"}, "the state of NAdam cannot be kept"),
        ({"local_optimizer": "Rprop", "weight_decay": 0.1}, "Rprop has no weight decay"),
        ({"local_optimizer": "AdamW", "method": "DOMO-S"}, "with AdamW inside take DOMO"),
        ({"method": "FedDyn", "prox": 0.0}, "FedDyn needs a prox above 0"),
        ({"lr_schedule": "cosine", "lr_milestones": [0.5]}, "cosine, which has no lr_milestones"),
        ({"lr_warmup": 1, "local_lrs": [0.1, 0.1]}, "not both"),
        ({"lr_warmup": 3}, "more than the 2 of the run"),
        ({"clip_norm": 0}, "greater than 0"),
    ],
)
def test_optimizers_and_schedules_that_cannot_be(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        validate(RunConfig, {"task": "digits", "num_rounds": 2, **given}, "test")


def lrs(**given: Any) -> list[float]:
    config = RunConfig(task="digits", num_rounds=4, local_lr=0.8, **given)
    return [config.lr_at(r) for r in range(4)]


def test_how_eta_goes_over_the_rounds() -> None:
    half = 2**-0.5
    cosine = [0.8, 0.4 * (1 + half), 0.4, 0.4 * (1 - half)]
    assert lrs(lr_schedule="cosine") == pytest.approx(cosine)
    assert lrs(lr_schedule="linear") == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert lrs(lr_schedule="linear", lr_floor=0.5) == pytest.approx([0.8, 0.7, 0.6, 0.5])
    assert lrs(lr_warmup=2) == pytest.approx([0.4, 0.8, 0.8, 0.8])
    assert lrs(lr_warmup=2, lr_schedule="linear") == pytest.approx([0.4, 0.8, 0.8, 0.4])
    assert lrs(lr_milestones=[0.5], lr_by="step") == pytest.approx([0.8, 0.8, 0.08, 0.08])


def test_by_step_eta_goes_on_within_the_round() -> None:
    config = RunConfig(
        task="digits", num_rounds=4, local_lr=0.8, lr_schedule="linear", lr_by="step", lr_warmup=1
    )
    made = []
    for r in range(4):
        factor = config.lr_factor(r, 4)
        assert factor is not None
        made += [config.lr_at(r) * factor(p) for p in range(4)]
        assert sum(map(factor, range(4))) == pytest.approx(4)
    assert made == pytest.approx(
        [0.1, 0.3, 0.5, 0.7, *(0.8 * (1 - (p + 0.5) / 12) for p in range(12))]
    )
    assert RunConfig(task="digits", num_rounds=4).lr_factor(0, 4) is None
