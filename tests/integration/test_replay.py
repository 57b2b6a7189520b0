"""`domo simulate --replay`: a run that went on without some silos, repeated from its record."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from domo.commands.main import app
from domo.model.flat import digest
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import agents, options

NAMES = [f"silo-{i}" for i in range(4)]
RUN = {
    "name": "gaps",
    "task": "digits",
    "method": "DOMO",
    "num_rounds": 400,
    "num_silos": 4,
    "local_steps": 2,
    "lr_milestones": [0.005],
    "on_missing": "proceed",
    "min_silos": 2,
    "grace_s": 0.01,
    "norm_check": "reject",
    "norm_factor": 1.05,
    "similarity": 0.5,
    "evaluate_every": 0,
    "seed": 3,
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


def replay(source: object, *flags: str) -> Result:
    return CliRunner().invoke(app, ["simulate", "--replay", str(source), *flags])


def refused(source: object, *flags: str, code: int = 2) -> str:
    result = replay(source, *flags)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    return result.stderr


def gaps(server: Coordinator) -> list[set[str]]:
    """A run with silos too late, rejected, dropped and re-admitted, stopped on its way."""
    path = f"/runs/{server.run_ids[0]}"

    def after(num_rounds: int) -> int:
        return server.until(path, lambda run: run["rounds_done"] >= num_rounds)["rounds_done"]

    def both(rounds: Any) -> bool:
        reasons = " ".join(why for r in rounds for why in r["left_out"].values())
        return "no update in time" in reasons and "times the median" in reasons

    server.until(f"{path}/rounds", both)
    done = after(3)
    server.post("/silos/silo-2/drop")
    done = after(done + 3)
    server.post("/silos/silo-2/undrop")
    after(done + 3)
    server.post(f"{path}/stop")
    assert server.ended()["state"] == "STOPPED"
    return [{p["silo_id"] for p in r["participants"]} for r in server.rounds()]


@pytest.mark.parametrize("update_dtype", ["float32", "bfloat16"])
def test_a_run_that_went_on_without_some_silos_is_repeated(
    tmp_path: Path, update_dtype: str
) -> None:
    with (
        coordinator(tmp_path, RUN | {"update_dtype": update_dtype}) as server,
        agents(server.address, NAMES, tmp_path, lambda i: options(shard=(i, 4))),
    ):
        sets = gaps(server)
        url = f"{server.url}/api/v1/runs/{server.run_ids[0]}/history.json"
        record: dict[str, Any] = server.get(f"/runs/{server.run_ids[0]}/history.json")
        result = replay(url, "--out", "again")
        refused(url.replace("1-gaps", "9-x"), code=6)
    reasons = " ".join(why for r in record["rounds"] for why in r["left_out"].values())
    for reason in ("no update in time", "times the median", "dropped by the admin"):
        assert reason in reasons
    assert len({frozenset(s) for s in sets}) > 1, "the same silos in every round"
    rounds_done = record["run"]["rounds_done"]
    assert 9 <= rounds_done < RUN["num_rounds"]
    assert len({r["local_lr"] for r in record["rounds"][:rounds_done]}) == 2, "eta never decayed"

    assert result.exit_code == 0, result.output
    said = f"same bytes: x_{rounds_done}, m_{rounds_done} and all else in the checkpoint of 1-gaps"
    assert said in result.stdout
    folder = tmp_path / "coordinator" / "runs" / "1-gaps" / "checkpoints"
    theirs = load_file(max(folder.glob("x*.safetensors")))
    assert f"│ digest of the model    │ {digest(theirs['x'])}" in result.stdout
    assert f"│ digest of the momentum │ {digest(theirs['m'])}" in result.stdout
    ours = json.loads((tmp_path / "again" / "history.json").read_text())
    assert ours["checkpoint_digest"] == record["run"]["checkpoint_digest"]

    check_changed_records(record, tmp_path)


def check_changed_records(record: dict[str, Any], folder: Path) -> None:
    """Other participants or other data do not pass for the run."""
    path = folder / "record.json"

    def write() -> Path:
        path.write_text(json.dumps(record))
        return path

    assert replay(write()).exit_code == 0
    rounds, run = record["rounds"], record["run"]
    uneven = next(r for r in rounds if len(r["participants"]) > 1)
    taken = uneven["participants"].pop()
    assert "other bytes: the checkpoint" in refused(write(), code=1)
    uneven["participants"].append(taken)

    own = f"silo-1={folder}"
    assert "there is no train.npz" in refused(write(), "--silo-data", own)
    # by its place among six, silo-1 has fewer samples; but steps and weights do not show it
    assert "other bytes" in refused(path, "--silo-data", "silo-1=1/6", code=1)
    run["config"]["weights"] = "samples"
    assert "Give the data that it had" in refused(write())
    run["config"]["weights"] = "uniform"

    run["checkpoint_digest"], run["run_id"] = None, "../../elsewhere"
    result = replay(write())
    assert result.exit_code == 0
    assert (folder / "runs" / "replay-..-..-elsewhere").is_dir()
    run["run_id"] = "1-gaps"
    assert "the record has no checkpoint_digest to compare with" in result.stdout
    run["config"]["initial_model"] = "gone.safetensors"
    assert "give --initial-model FILE" in refused(write())
    x0 = folder / "coordinator" / "runs" / "1-gaps" / "x0.safetensors"
    assert replay(path, "--initial-model", str(x0)).exit_code == 0
    run["rounds_done"] = len(rounds) + 1
    assert "lacks committed rounds" in refused(write())
    run["rounds_done"] = 0
    assert "no round of 1-gaps is committed" in refused(write())


def test_what_cannot_be_replayed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    assert "cannot be read: No such file" in refused(path)
    path.write_text("no json")
    assert "not JSON" in refused(path)
    path.write_text("{}")
    assert "Give the run itself, by number or name" in refused(path)
    assert "no coordinator answers at" in refused("http://127.0.0.1:1/x", code=5)
    assert "leave out --method" in refused(path, "--method", "FedAvg")
    assert "leave out --compare" in refused(path, "--compare", "all")
    result = CliRunner().invoke(app, ["simulate", "--silo-data", "a=b"])
    assert (result.exit_code, "belong to --replay" in result.stderr) == (2, True)


def test_code_that_a_record_names_is_not_imported(tmp_path: Path) -> None:
    """A module of the current folder, or of anywhere, whoever wrote the file."""
    owned = tmp_path / "owned"
    (tmp_path / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(owned)!r}).touch()\nclass Task: pass\n"
    )
    (tmp_path / "digits.py").write_text((tmp_path / "evil.py").read_text())
    rounds = [{"round_index": 0, "state": "COMMITTED", "participants": []}]
    for task in ("evil:Task", "digits:Task", "os:getcwd"):
        config = {"task": task, "num_rounds": 1}
        run = {"run_id": "1-r", "config": config, "roster": ["a"], "rounds_done": 1}
        path = tmp_path / "history.json"
        path.write_text(json.dumps({"run": run, "rounds": rounds}))
        text = refused(path)
        assert f"the task here is {task}, code that does not come with domo" in text
        assert f"domo simulate --replay {path} --task {task}" in text
        assert f"the task here is {task}" in refused(path, "--task", "digits")
    assert not owned.exists()
    refused(path.with_name("history.json"), "--task", "os:getcwd")
    path.write_text(path.read_text().replace("os:getcwd", "evil:Task"))
    refused(path, "--task", "evil:Task")  # it is no task; it was imported, as was asked for
    assert owned.exists()
