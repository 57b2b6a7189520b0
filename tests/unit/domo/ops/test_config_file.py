"""Faults of a configuration, in words that name file, key, value and what is allowed."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from domo.errors import ConfigError
from domo.ops.config_file import load_toml, validate
from domo.run_config import RunConfig


class Server(BaseModel):
    model_config = ConfigDict(extra="forbid")
    port: int = Field(50051, ge=1, le=65535)
    admin_token: str | None = None


class Federation(BaseModel):
    model_config = ConfigDict(extra="forbid")
    server: Server | None = None
    runs: tuple[RunConfig, ...] = ()


GOOD = {"task": "digits", "num_rounds": 3}


def fault(data, **named) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(Federation, data, Path("federation.toml"), **named)
    return str(caught.value)


def test_good_data_becomes_the_model():
    made = validate(Federation, {"server": {"port": 1}, "runs": [GOOD]}, "f.toml")
    assert made.runs == (RunConfig(**GOOD),)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ({"num_round": 3}, "runs[0].num_round: unknown key; did you mean num_rounds?"),
        ({"num_rounds": 0}, "runs[0].num_rounds = 0: must be greater than or equal to 1"),
        ({"num_rounds": "abc"}, 'runs[0].num_rounds = "abc": must be an integer'),
        ({"local_steps": 2.5}, "runs[0].local_steps = 2.5: must be an integer"),
        ({"local_lr": float("nan")}, "runs[0].local_lr = NaN: must be a finite number"),
        ({"lr_milestones": [0.5, "x"]}, 'runs[0].lr_milestones[1] = "x": must be a number'),
        ({"lr_milestones": 3}, "runs[0].lr_milestones = 3: must be an array"),
        (
            {"on_missing": "shrug"},
            "runs[0].on_missing = \"shrug\": must be 'wait', 'proceed' or 'fail'",
        ),
        (
            {"weights": "equal"},
            "runs[0].weights = \"equal\": must be 'uniform' or 'samples' or must be a table",
        ),
        ({"weights": {"a": -1}}, "runs[0].weights.a = -1: must be greater than 0"),
        ({"roster": ["a", "b c"]}, 'runs[0].roster[1] = "b c": must match pattern \'^['),
        ({"method": "DOMOO"}, "runs[0]: unknown method 'DOMOO'; did you mean 'DOMO'?"),
        (
            {"local_steps": 2, "local_epochs": 1},
            "runs[0]: give one of local_epochs, local_steps(_list)",
        ),
    ],
)
def test_each_fault_in_one_line(run, text):
    told = fault({"runs": [GOOD | run]})
    assert told.startswith(f"federation.toml: {text}")
    assert "\n" not in told


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"runs": [{"num_rounds": 3}]}, "runs[0].task: missing"),
        ({"runs": [3]}, "runs[0] = 3: must be a table"),
        ({"sever": {}}, "sever: unknown key; did you mean server?"),
        ({"server": {"prot": 1}}, "server.prot: unknown key; did you mean port?"),
        ({"server": {"zzz": 1}}, "server.zzz: unknown key (known: port, admin_token)"),
        ({"server": {"port": 0}}, "server.port = 0: must be greater than or equal to 1"),
    ],
)
def test_nested_places(data, text):
    assert fault(data) == f"federation.toml: {text}"


def test_all_faults_are_told_at_once():
    told = fault({"server": {"port": 0}, "runs": [GOOD, {"task": "digits", "num_rounds": -1}]})
    assert told.splitlines() == [
        "federation.toml: 2 faults",
        "  server.port = 0: must be greater than or equal to 1",
        "  runs[1].num_rounds = -1: must be greater than or equal to 1",
    ]


def test_secrets_and_long_values_are_not_repeated():
    assert fault({"server": {"admin_token": 12345}}) == (
        "federation.toml: server.admin_token = ***: must be a string"
    )
    long = fault({"runs": [GOOD | {"batch_size": "x" * 500}]})
    assert long.endswith("xxx...: must be an integer")
    assert len(long) < 130


def test_part_of_a_file_and_flags():
    with pytest.raises(ConfigError, match=r"^f\.toml: runs\[2\]\.num_rounds = -3: must"):
        validate(RunConfig, GOOD | {"num_rounds": -3}, "f.toml", at="runs[2]")
    with pytest.raises(ConfigError, match=r"^f\.toml: runs\[2\]: give one of"):
        validate(RunConfig, GOOD | {"local_steps": 1, "local_epochs": 1}, "f.toml", at="runs[2]")
    with pytest.raises(ConfigError, match=r"^flags: --rounds = -3: must"):
        validate(RunConfig, GOOD | {"num_rounds": -3}, "flags", names={"num_rounds": "--rounds"})


def test_toml_is_read(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text('[[runs]]\ntask = "digits"\nlr_milestones = [0.6, 0.8]\n')
    assert load_toml(path) == {"runs": [{"task": "digits", "lr_milestones": [0.6, 0.8]}]}


def test_files_that_are_no_toml(tmp_path):
    bad, binary = tmp_path / "bad.toml", tmp_path / "binary.toml"
    bad.write_text("a = 1\nb = = 2\n")
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bad\.toml: not valid TOML: .*line 2"):
        load_toml(bad)
    with pytest.raises(ConfigError, match="not a text file"):
        load_toml(binary)
    with pytest.raises(ConfigError, match="no such file"):
        load_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_toml(tmp_path)
