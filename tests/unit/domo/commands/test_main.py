"""The command `domo`: what it makes, what it says, and how it refuses."""

import errno
import json
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from domo.commands.main import app
from domo.commands.run_flags import FLAGS, make_config
from domo.model.flat import digest
from domo.model.layout import Section
from domo.model.model_file import load_model
from domo.tasks import TASKS, load_task
from domo.training.initial import build_initial
from domo.trial import DEFAULTS

QUICK = ("--rounds", "2", "--local-steps", "2", "--silos", "3")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOMO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")


def domo(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def refused(*words: str) -> str:
    """The one line that a mistake gets; exit code 2."""
    result = domo(*words)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
    return result.stderr.removeprefix("error: ").rstrip("\n")


def test_simulate_leaves_model_and_history(tmp_path):
    result = domo("simulate", *QUICK, "--method", "domo-s", "--seed", "5", "--lr", "0.1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "domo-s-digits: DOMO-S on digits, 3 silos, similarity 5 %, 2 rounds, seed 5"
    assert lines[1].startswith("silos one after another (exact): about ")
    assert [line.split()[:2] for line in lines[3:6]] == [["round", f"{i}/2"] for i in range(3)]
    assert "test accuracy" in lines[5]
    assert "3 of 3 silos" in lines[5]
    asked = "--silos 3 --rounds 2 --seed 5 --lr 0.1 --local-steps 2"
    assert lines[-1].startswith(f"next:    domo simulate {asked} --data ")
    typed = shlex.split(lines[-1].removeprefix("next:"), comments=True)
    assert typed[-2:] == ["--compare", "all"]  # it works as it is printed
    folder = tmp_path / "runs" / "domo-s-digits"
    history = json.loads((folder / "history.json").read_text())
    assert history["config"]["local_lr"] == 0.1
    assert [r["model_index"] for r in history["history"]] == [0, 1, 2]
    assert history["history"][2]["made_by"]["participants"] == ["silo-0", "silo-1", "silo-2"]
    layout, vectors, metadata = load_model(folder / "model.safetensors")
    assert digest(vectors[Section.TRAINABLE]) == history["model_digest"]
    assert metadata["config_digest"] == history["config_digest"]
    assert layout.digest == build_initial(load_task("digits"), 5)[0].digest


def test_simulate_takes_a_run_from_a_file(tmp_path):
    (tmp_path / "f.toml").write_text(
        '[server]\nport = 1\n[[runs]]\nname = "first"\ntask = "digits"\nnum_rounds = 9\n'
        '[[runs]]\nname = "second"\ntask = "digits"\nnum_rounds = 2\nlocal_steps = 1\n'
        'roster = ["zoe", "amy"]\n'
    )
    result = domo("simulate", "--config", "f.toml", "--run", "second", "--out", "o")
    assert result.exit_code == 0, result.output
    history = json.loads((tmp_path / "o" / "history.json").read_text())
    assert history["config"]["name"] == "second"
    assert history["history"][1]["made_by"]["participants"] == ["amy", "zoe"]
    assert "choose one with --run NAME" in refused("simulate", "--config", "f.toml")
    told = refused("simulate", "--config", "f.toml", "--run", "third")
    assert told == "f.toml has the runs first, second, and no run 'third'"


def test_flags_win_over_the_file_and_both_over_the_demo(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text('[[runs]]\ntask = "digits"\nnum_rounds = 9\nlocal_epochs = 2\nseed = 4\n')
    made = make_config({"num_rounds": 3, "local_steps": 7, "seed": None}, path, None)
    assert (made.num_rounds, made.seed, made.local_steps) == (3, 4, 7)
    assert (made.local_epochs, made.num_silos) == (None, 4)
    demo = make_config({}, None, None)
    assert {k: getattr(demo, k) for k in DEFAULTS} == DEFAULTS
    assert (demo.method, demo.local_lr, demo.similarity) == ("DOMO", 0.05, 0.05)


def test_every_key_with_a_flag_has_the_flag_named(tmp_path):
    from typer.main import get_command

    flags = {o for p in get_command(app).commands["simulate"].params for o in p.opts}
    assert set(FLAGS.values()) <= flags


def test_a_faulty_file_is_blamed_and_not_the_flags(tmp_path):
    (tmp_path / "f.toml").write_text('[[runs]]\ntask = "digits"\nnum_rounds = 3\nlocal_ls = 1\n')
    told = refused("simulate", "--config", "f.toml")
    assert told.startswith("f.toml: runs[0].local_ls: unknown key; did you mean local_lr")
    (tmp_path / "f.toml").write_text("runs = 3\n")
    assert refused("simulate", "--config", "f.toml") == "f.toml: needs at least one [[runs]] table"
    assert refused("simulate", "--config", "none.toml") == "none.toml: no such file"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--rounds", "0"), "the command line: --rounds = 0: must be greater than or equal to 1"),
        (("--lr", "-1"), "the command line: --lr = -1.0: must be greater than 0"),
        (("--weights", "x"), "the command line: --weights = \"x\": must be 'uniform' or 'samples'"),
        (("--method", "DOMOO"), "the command line: unknown method 'DOMOO'; did you mean 'DOMO'?"),
        (("--lr-milestones", "a,b"), "--lr-milestones 'a,b': needs numbers separated by commas"),
        (("--seeds", "0,x"), "--seeds '0,x': give numbers from 0 up, each once, such as 0,1,2"),
        (("--seeds", "1,1"), "--seeds '1,1': give numbers"),
        (("--seeds", "-1"), "--seeds '-1': give numbers"),
        (("--device", "nope"), "--device nope: "),
        (("--task", "digit"), "there is no task named 'digit'. Did you mean 'digits'?"),
        (("--compare", "DOMO,DOMO"), "--compare 'DOMO,DOMO': give `all`"),
    ],
)
def test_mistakes_get_one_line(words, text):
    assert refused("simulate", *words).startswith(text)


def test_a_folder_that_cannot_be_written_is_told_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    for more in ((), ("--compare", "DOMO")):
        result = domo("simulate", *QUICK, "--out", "file/x", *more)
        assert result.exit_code == 2
        assert result.stderr == (
            "error: the results have no place: file/x cannot be written (Not a directory); give "
            "another folder as --out\n"
        )
        assert "round 1" not in result.stdout


def test_results_wait_for_room_on_a_full_disk(tmp_path, monkeypatch):
    from domo.commands import simulate

    full, save = [OSError(errno.EDQUOT, "Disk quota exceeded", "out")] * 2, simulate.save_model

    def save_once_there_is_room(*args):
        if full:
            raise full.pop()
        save(*args)

    monkeypatch.setattr(simulate, "save_model", save_once_there_is_room)
    monkeypatch.setattr(simulate, "DISK_S", 0.0)
    result = domo("simulate", *QUICK, "--out", "out")
    assert result.exit_code == 0
    assert result.stderr.startswith("Disk quota exceeded (out): the quota of its user is used up")
    assert result.stderr.count("\n") == 1, "it is said once"
    assert Path("out/model.safetensors").exists()


def test_divergence_exits_1():
    result = domo("simulate", *QUICK, "--lr", "1e30")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: round 1, silo-0: ")


def test_compare_writes_table_numbers_and_plot(tmp_path):
    result = domo("simulate", *QUICK, "--compare", "DOMO,FedAvg", "--seeds", "0,1")
    assert result.exit_code == 0, result.output
    assert "2 methods x 2 seeds on digits: 3 silos" in result.stdout
    assert "seed 1  FedAvg       accuracy" in result.stdout
    folder = tmp_path / "runs" / "compare-digits"
    assert {f.name for f in folder.iterdir()} == {
        "comparison.json",
        "comparison.md",
        "comparison.png",
    }
    body = json.loads((folder / "comparison.json").read_text())
    assert list(body["methods"]) == ["DOMO", "FedAvg"]
    alone = domo("simulate", *QUICK, "--seeds", "1", "--out", "alone")
    assert alone.exit_code == 0
    history = json.loads((tmp_path / "alone" / "history.json").read_text())
    assert history["history"][-1]["metrics"]["accuracy"] == body["methods"]["DOMO"]["final"]["1"]


def test_tasks_lists_all():
    result = domo("tasks")
    assert result.exit_code == 0
    for name in TASKS:
        assert name in result.stdout


def test_init_makes_a_complete_model(tmp_path):
    result = domo("init", "digits", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "6,090 trained and 0 frozen parameters" in result.stdout
    _, vectors, metadata = load_model(tmp_path / "x0.safetensors")
    assert torch.equal(
        vectors[Section.TRAINABLE], build_initial(load_task("digits"), 3)[1][Section.TRAINABLE]
    )
    assert (metadata["task"], metadata["seed"]) == ("digits", "3")


def test_init_starts_from_given_weights(tmp_path):
    named = {k: v + 1 for k, v in load_task("digits").build_model().state_dict().items()}
    save_file(named, tmp_path / "w.safetensors")
    torch.save(named, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        result = domo("init", "digits", "--weights", name, "--out", "x.safetensors")
        assert result.exit_code == 0, result.output
        made = load_file(tmp_path / "x.safetensors")
        assert all(torch.equal(made[k], v) for k, v in named.items())


def test_init_refuses_what_is_no_model(tmp_path):
    (tmp_path / "text.pt").write_text("hello\nworld")
    (tmp_path / "text.safetensors").write_text("hello")
    torch.save({"epoch": 3}, tmp_path / "other.pt")
    save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors")
    for name in ("text.pt", "text.safetensors"):
        told = refused("init", "digits", "--weights", name)
        assert told.startswith(f"--weights {name}: holds something else, or is damaged; it needs")
        assert "weights_only" not in told, "nobody is told to unpickle a stranger's file"
    a = {"a": torch.zeros(2)}
    torch.save({"model": a, "ema": a, "epoch": 3}, tmp_path / "last.ckpt")
    assert "model and ema in it are: save one alone" in refused(
        "init", "digits", "--weights", "last.ckpt"
    )
    torch.save({0: torch.zeros(2)}, tmp_path / "numbered.pt")
    assert "needs tensors by name" in refused("init", "digits", "--weights", "numbered.pt")
    assert "no such file" in refused("init", "digits", "--weights", "none.pt")
    assert "needs tensors by name" in refused("init", "digits", "--weights", "other.pt")
    told = refused("init", "digits", "--weights", "a.safetensors")
    assert "do not fit" in told
    assert "\n" not in told


def test_data_split_makes_a_folder_for_each_silo(tmp_path):
    result = domo("data", "split", "--silos", "3", "--out", "parts")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "3 folders in parts, similarity 0.05. Next, at each silo:",
        "  domo-client --server localhost:50051 --task digits --data parts/silo-0",
    ]
    assert len([f for f in (tmp_path / "parts").iterdir() if f.is_dir()]) == 3
