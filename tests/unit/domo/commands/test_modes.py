"""`domo simulate --mode`: what it says, and what it writes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from domo.batched import choose
from domo.commands import comparison
from domo.commands import simulate as simulate_command
from domo.commands.main import app

QUICK = ("--rounds", "3", "--local-steps", "2", "--silos", "3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def domo(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *QUICK, *words])


def history(folder: str) -> dict:
    return json.loads(Path(folder, "history.json").read_text())


def test_a_batched_run_says_so_and_ends_near_the_exact_one():
    exact, batched = domo("--out", "a"), domo("--out", "b", "--mode", "batched")
    assert exact.exit_code == batched.exit_code == 0, batched.output
    assert "silos one after another (exact): about" in exact.stdout
    assert "silos batched: about" in batched.stdout
    assert "one after another (exact)" in batched.stdout
    assert "batched: same as exact within float tolerance" in batched.stdout
    a, b = history("a"), history("b")
    assert (a["mode"], b["mode"]) == ("exact", "batched")
    for ours, theirs in zip(b["history"], a["history"], strict=True):
        assert ours["metrics"] == pytest.approx(theirs["metrics"], abs=1e-3)


def test_an_exact_run_that_takes_its_time_says_what_batched_would_take(monkeypatch):
    monkeypatch.setattr(choose, "QUICK_S", 0.0)
    told = domo("--out", "a").stdout
    assert " of local steps; batched " in told


@pytest.mark.parametrize(
    ("mode", "said"), [("exact", ""), ("batched", "silos batched: same as exact")]
)
def test_a_comparison_is_labelled(mode, said):
    result = domo("--compare", "FedAvg,DOMO", "--mode", mode, "--out", "c")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("c/comparison.json").read_text())["mode"] == mode
    assert said in " ".join(result.stdout.split())
    assert said in Path("c/comparison.md").read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--mode", "quick"), "exact, batched or auto"),
        (("--precision", "bf16"), "give both"),
        (("--mode", "batched", "--processes", "2"), "leave the processes or the mode out"),
        (("--mode", "batched", "--replay", "history.json"), "leave out --mode"),
    ],
)
def test_what_does_not_go_together_is_refused(flags, said):
    result = CliRunner().invoke(app, ["simulate", *flags])
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())


def test_a_run_goes_on_in_the_mode_that_it_began_with(monkeypatch):
    say, pressed = simulate_command.say, []

    def listen(text, **more):
        say(text, **more)
        if text.startswith("round 1/3") and not pressed:
            pressed.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(simulate_command, "say", listen)
    whole = domo("--mode", "batched", "--out", "whole")
    assert whole.exit_code == 130
    assert "--mode batched" in whole.stdout.splitlines()[-1]
    other = domo("--out", "whole", "--resume")
    assert other.exit_code == 2
    assert "began with mode batched" in other.output
    on = domo("--mode", "batched", "--out", "whole", "--resume")
    assert on.exit_code == 0, on.output
    assert history("whole")["mode"] == "batched"


def test_a_comparison_goes_on_in_the_mode_that_it_began_with(monkeypatch):
    say, pressed = comparison.say, []

    def listen(text, **more):
        say(text, **more)
        if text.startswith("seed 0") and not pressed:
            pressed.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "say", listen)
    flags = ("--compare", "FedAvg,DOMO", "--out", "c")
    domo(*flags, "--mode", "batched")
    other = domo(*flags, "--resume")
    assert other.exit_code == 2
    assert "began with --mode batched" in " ".join(other.output.split())
