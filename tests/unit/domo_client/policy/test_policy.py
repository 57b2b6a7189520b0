"""A policy as a file: what it may say, which one applies, and how it is shown."""

import tomllib
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domo.errors import ConfigError
from domo.ops.config_file import load_runs
from domo.ops.exit_codes import MISUSE
from domo.run_config import RunConfig
from domo_client.cli import app
from domo_client.policy.command import as_toml
from domo_client.policy.policy import OPEN_POLICY, Chosen, Policy
from domo_client.policy.rules import refusal, verdicts


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("min_batches = 2", "did you mean min_batch?"),
        ("min_batch = 0", "min_batch = 0"),
        ('methods = ["Domo-X"]', "methods[0]"),
        ('tasks = ["a b"]', "tasks[0]"),
        ('coordinator = ["sha:00"]', "coordinator[0]"),
        ('hours = "25:00-06:00"', "hours"),
        ('x0 = ["abc"]', "x0[0]"),
        ("noise = 0.1", "noise is a part of clip: give clip too"),
        ('approve = "maybe"', "approve"),
    ],
)
def test_what_will_not_do_is_said_with_its_place(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Chosen.of(path, None)
    assert str(path) in str(caught.value)
    assert fault in str(caught.value)


def test_which_policy_applies(tmp_path: Path) -> None:
    own, other = tmp_path / "policy.toml", tmp_path / "other.toml"
    other.write_text("min_silos = 5")
    assert Chosen.of(None, tmp_path).policy == Policy()
    assert Chosen.of(None, tmp_path, public_data=True) == (
        OPEN_POLICY,
        "open, as the data are public (--shard)",
        True,
    )
    own.write_text("min_silos = 4")
    assert Chosen.of(None, tmp_path, public_data=True).policy.min_silos == 4
    assert Chosen.of("default", tmp_path).policy == Policy()
    assert Chosen.of("open", tmp_path).is_open
    assert Chosen.of(other, tmp_path).source == str(other)
    with pytest.raises(ConfigError, match="no such file"):
        Chosen.of("othr.toml", tmp_path)


def test_the_default_is_what_the_documentation_says() -> None:
    p = Policy()
    told = p.min_batch, p.min_samples_per_update, p.min_silos, p.max_rounds_a_day
    assert told == (16, 256, 3, 1000)


@pytest.mark.parametrize(
    ("hours", "at", "is_open"),
    [
        (None, "12:00", True),
        ("08:00-17:30", "07:59", False),
        ("08:00-17:30", "08:00", True),
        ("08:00-17:30", "17:30", False),
        ("20:00-06:00", "23:10", True),
        ("20:00-06:00", "05:59", True),
        ("20:00-06:00", "06:00", False),
    ],
)
def test_hours(hours: str | None, at: str, is_open: bool) -> None:
    assert Policy(hours=hours).is_open_at(datetime.fromisoformat(f"2026-01-31T{at}")) is is_open


def test_what_is_explained_is_a_policy_file() -> None:
    policy = Policy(tasks=("digits",), clip=1.0, hours="20:00-06:00", x0=("seed",))
    shown = "\n".join(as_toml(policy))
    assert Policy.model_validate(tomllib.loads(shown)) == policy
    assert "# An update of one sample" not in shown
    for key in Policy.model_fields:
        assert f"{key} =" in shown


def test_check_tells_what_each_rule_says(tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text('[[runs]]\ntask = "digits"\nnum_rounds = 2\nnum_silos = 2\nbatch_size = 8')
    given = ["--state-dir", str(tmp_path), "--policy", "default"]
    done = CliRunner().invoke(app, ["policy", "check", str(run), *given])
    assert done.exit_code == MISUSE
    assert "refused min_batch: batches of 8 samples (16 or more)" in done.output
    assert "refused min_silos: rounds of 2 silos (3 or more)" in done.output
    assert "ok      layouts: " in done.output
    run.write_text('[[runs]]\ntask = "digits"\nnum_rounds = 2\nnum_silos = 3')
    done = CliRunner().invoke(app, ["policy", "check", str(run), *given])
    assert done.exit_code == 0, done.output


def test_the_example_is_a_policy_that_takes_the_example_of_a_run() -> None:
    deploy = Path(__file__).parents[4] / "deploy"
    policy = Chosen.of(deploy / "silo" / "policy.toml", None).policy
    assert (policy.approve, policy.x0) == ("ask", ("seed",))
    (data,) = load_runs(deploy / "examples" / "hospitals.toml")
    assert refusal(verdicts(policy, RunConfig.model_validate(data))) == ""
