"""Ctrl-C in `domo simulate` keeps what was done, and `--resume` ends with the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from domo.commands import compare, comparison, interrupted
from domo.commands import simulate as simulate_command
from domo.commands.main import app
from domo.simulating import visit
from domo.simulating.state import ModelRecord
from domo.training.local_round import LocalRound

QUICK = ("--rounds", "6", "--local-steps", "2", "--silos", "3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def domo(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *words])


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """In the middle of what follows a line that begins so, once."""
    say, pressed = simulate_command.say, []

    def listen(text: str, **more: Any) -> None:
        say(text, **more)
        if text.startswith(when) and not pressed:
            pressed.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(simulate_command, "say", listen)
    monkeypatch.setattr(comparison, "say", listen)


def left(folder: str) -> dict[str, Any]:
    history = json.loads(Path(folder, "history.json").read_text())
    return {k: v for k, v in history.items() if k != "seconds"}


@pytest.mark.parametrize(
    "flags",
    [
        ("--method", "DOMO"),
        ("--method", "FedAvgSLM", "--participation", "2"),
        ("--config", "run.toml"),
    ],
)
@pytest.mark.parametrize("r", [1, 4, 6])
def test_a_run_that_was_interrupted_ends_with_the_same_bytes(
    flags: tuple[str, ...], r: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'task = "digits"\nnum_rounds = 6\nnum_silos = 3\nupdate_dtype = "bfloat16"\n'
    Path("run.toml").write_text(f"[[runs]]\n{text}stop_after = 50\n")
    whole = domo(*QUICK, *flags, "--out", "whole")
    assert whole.exit_code == 0, whole.output
    press_ctrl_c(monkeypatch, f"round {r}/6")
    cut = domo(*QUICK, *flags, "--out", "cut")
    assert cut.exit_code == 130
    assert f"stopped after {r} round{'s' if r > 1 else ''} of 6" in cut.stdout
    assert " --out cut --resume" in cut.stdout.splitlines()[-1]
    so_far = left("cut")
    assert so_far["interrupted"] is True
    assert so_far["history"] == left("whole")["history"][:r]
    assert Path("cut/model.safetensors").exists()
    rest = domo(*QUICK, *flags, "--out", "cut", "--resume")
    assert rest.exit_code == 0, rest.output
    assert f"round {r - 1}/6" not in rest.stdout
    assert left("cut") == left("whole")
    for name in ("model.safetensors", "best.safetensors"):
        a, b = Path("cut", name), Path("whole", name)
        assert a.exists() == b.exists()
        assert not a.exists() or a.read_bytes() == b.read_bytes()
    assert not Path("cut", interrupted.FILE).exists()


def test_a_second_interruption_and_one_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domo(*QUICK, "--out", "whole")
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, "round 0/6")
        assert domo(*QUICK, "--out", "cut").exit_code == 130
    nothing = domo(*QUICK, "--out", "cut", "--resume")
    assert nothing.exit_code == 2
    assert "no run was interrupted in cut" in nothing.stderr
    for r in (2, 5):
        with monkeypatch.context() as patched:
            press_ctrl_c(patched, f"round {r}/6")
            words = ("--resume",) if r == 5 else ()
            assert domo(*QUICK, "--out", "cut", *words).exit_code == 130
    assert domo(*QUICK, "--out", "cut", "--resume").exit_code == 0
    assert left("cut") == left("whole")


def test_the_best_model_so_far_is_kept_where_it_is_the_last_that_was_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    press_ctrl_c(monkeypatch, "round 3/6")
    domo("--out", "left", *QUICK)
    told = left("left")
    tested = [record["model_index"] for record in told["history"]]
    assert told["best_index"] == tested[-1]
    assert told["best_digest"] != told["checkpoint_digest"], "the model is that of the next round"
    assert Path("left", "best.safetensors").exists()


def test_a_fault_of_a_later_round_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    train, rounds = visit.run_task_round, []

    def fail(task: Any, rnd: LocalRound, *more: Any) -> Any:
        rounds.append(rnd.round_index)
        if rnd.round_index == 3 and rounds.count(3) == 1:
            raise OSError("the drive is gone")
        return train(task, rnd, *more)

    domo("--out", "whole", *QUICK)
    monkeypatch.setattr(visit, "run_task_round", fail)
    told = domo("--out", "left", *QUICK)
    assert told.exit_code == 2
    assert "error: round 4, silo-0: OSError: the drive is gone" in told.output
    assert "stopped after 3 rounds of 6" in told.output
    assert left("left")["interrupted"]
    assert domo("--out", "left", *QUICK, "--resume").exit_code == 0
    assert left("left") == left("whole")


def test_another_run_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, "round 2/6")
        domo(*QUICK, "--out", "cut")
    kept = Path("cut", interrupted.FILE).read_bytes()
    other = domo(*QUICK, "--lr", "0.1", "--out", "cut", "--resume")
    assert other.exit_code == 2
    assert "local_lr was 0.05, now 0.1" in other.stderr
    assert Path("cut", interrupted.FILE).read_bytes() == kept
    Path("cut", interrupted.FILE).write_bytes(kept[:100])
    assert "cannot be read" in domo(*QUICK, "--out", "cut", "--resume").stderr


def test_a_comparison_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*QUICK, "--compare", "FedAvg,DOMO", "--seeds", "0,1")
    assert domo(*words, "--out", "whole").exit_code == 0
    with monkeypatch.context() as patched:
        press_ctrl_c(patched, "seed 1  FedAvg")
        cut = domo(*words, "--out", "cut")
    assert cut.exit_code == 130
    assert "stopped: 3 of 4 runs done, kept in cut" in cut.stdout
    assert "--compare FedAvg,DOMO --resume" in cut.stdout.splitlines()[-1]
    kept = json.loads(Path("cut", interrupted.PART).read_text())["runs"]
    assert [run[:2] for run in kept] == [["FedAvg", 0], ["DOMO", 0], ["FedAvg", 1]]
    runs: list[str] = []
    monkeypatch.setattr(compare, "run_one", counting(runs))
    rest = domo(*words, "--out", "cut", "--resume")
    assert rest.exit_code == 0, rest.output
    assert runs == ["DOMO"]
    for name in ("comparison.json", "comparison.md"):
        assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()
    assert not Path("cut", interrupted.PART).exists()
    assert "no comparison was interrupted" in domo(*words, "--out", "cut", "--resume").stderr


def counting(runs: list[str]) -> Any:
    run_one = compare.run_one

    def run(setting: compare.Setting) -> list[ModelRecord]:
        runs.append(setting.config.method)
        return run_one(setting)

    return run
