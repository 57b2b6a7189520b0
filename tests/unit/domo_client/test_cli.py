import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from domo.errors import ConfigError, CoordinatorUnavailableError, DomoError
from domo_client import cli
from domo_client.rpc import offer as connection
from domo_client.rpc.offer import UnknownRunError
from tests.support.live.coordinator import coordinator

runner = CliRunner()


@pytest.fixture(autouse=True)
def _signals_stay() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def fault(*flags: str, env: dict[str, str] | None = None) -> DomoError:
    """The error that a command line is refused with."""
    result = runner.invoke(cli.app, flags, env=env)
    assert isinstance(result.exception, DomoError), (result.exception, result.output)
    return result.exception


SERVER = ("--server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "which coordinator? Give --server host:port, or enrol this silo: domo-client enroll"),
        ((*SERVER, "--role", "boss"), "--role must be trainer or evaluator, got 'boss'"),
        ((*SERVER, "--compression", "gzip"), "--compression must be none or zstd, got 'gzip'"),
        ((*SERVER, "--precision", "fp8"), "--precision must be float32 or bf16, got 'fp8'"),
        ((*SERVER, "--once", "--data", "no-such"), "--data no-such: there is no such folder"),
        (
            (*SERVER, "--shard", "4/4"),
            "--shard must be i/K with 0 <= i < K, such as 0/4; got '4/4'",
        ),
        (
            ("--server", "nowhere"),
            "the coordinator's address must be host:port, got 'nowhere': the port is missing; "
            "nowhere:50051, if its admin says nothing else",
        ),
    ],
)
def test_flags_that_are_wrong(flags: tuple[str, ...], text: str, tmp_path: Path) -> None:
    error = fault(*flags, *(("--state-dir", str(tmp_path / "state")) if flags else ()))
    assert isinstance(error, ConfigError)
    assert str(error) == text
    assert not (tmp_path / "state").exists()


def test_the_environment_stands_in_for_flags(tmp_path: Path) -> None:
    env = {
        "DOMO_CLIENT_SERVER": "far.example:1",
        "DOMO_CLIENT_NAME": "site-a",
        "DOMO_CLIENT_STATE_DIR": str(tmp_path / "state"),
    }
    assert "far.example:1 is another machine" in str(fault(env=env))
    error = fault("--server", "near", env=env)
    assert "got 'near'" in str(error)


def test_nobody_answers(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    error = fault(*SERVER, "--connect-timeout", "0.1", "--state-dir", state)
    assert isinstance(error, CoordinatorUnavailableError)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("gpu-03.clinic.example", "gpu-03"),
        ("node_7", "node_7"),
        ("Büro PC", "B-ro-PC"),
        ("---", "silo"),
    ],
)
def test_the_name_is_the_machines(host: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert cli.host_name() == name


def join(server: Any, folder: Path, *flags: str) -> Any:
    state = ("--state-dir", str(folder / "state"), "--name", "site-a", "--once")
    return runner.invoke(cli.app, ["--server", server.address, *state, *flags])


def test_a_run_from_the_command_line(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 2, "num_silos": 1, "local_steps": 1, "name": "r"}
    with coordinator(tmp_path, run) as server:
        result = join(server, tmp_path, "--shard", "0/4")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines.pop(1).endswith("log lines stay here (--share-log would send domo's own)")
        assert lines.pop(1) == "policy: open, as was given (domo-client policy explain)"
        assert lines[:4] == [
            f"site-a: connected to {server.address}",
            "waiting for a run; Ctrl-C stops this silo",
            "run 1-r: DOMO on digits, 2 rounds",
            "run 1-r: 360 training and 90 test samples here; enrolling",
        ]
        one_round = (
            r"round {} of 2: 1 step in \d+\.\d s, train loss \d\.\d{{4}}, here: "
            r"accuracy \S+ %, loss \S+, received \S+ kB, sent \S+ kB"
        )
        assert re.fullmatch(one_round.format(1), lines[4])
        assert re.fullmatch(one_round.format(2), lines[5])
        assert re.fullmatch(r"model 2 of 2: here: accuracy \S+ %, loss \S+", lines[6])
        assert lines[7] == "run 1-r: finished after 2 rounds: all 2 rounds are committed"


def test_a_declined_run_exits_as_a_bad_configuration(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 1, "name": "r"}
    with coordinator(tmp_path, run) as server:
        result = join(server, tmp_path)
        assert result.exit_code == 2
        assert "run 1-r needs data of the task 'digits': train.npz and test.npz" in result.output
        assert re.search(r"\n  \S.* --data DIR\n", result.output)
        assert re.search(r"\n  \S.* --shard 0/1\n", result.output)
        (said,) = [e["text"] for e in server.get("/events") if e["kind"] == "declined"]
        assert said.startswith("site-a declined 1-r: no data was given to this silo (train.npz")


def test_a_run_of_another_version_is_declined_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_understood(run_id: str, *_: Any) -> Any:
        raise UnknownRunError(run_id, "it uses compile")

    monkeypatch.setattr(connection, "understood", not_understood)
    run = {"task": "digits", "num_rounds": 1, "num_silos": 1, "name": "r"}
    with coordinator(tmp_path, run) as server:
        result = join(server, tmp_path)
        assert result.exit_code == 2, result.output
        assert "error: this silo takes no part in 1-r: domo " in result.output
        (said,) = [e["text"] for e in server.get("/events") if e["kind"] == "declined"]
        assert said.endswith("it uses compile. Use the coordinator's version of domo")


def test_a_stopped_run_exits_with_4(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 2, "name": "r"}
    with coordinator(tmp_path, run) as server:

        def stop() -> None:
            server.until("/silos", lambda silos: any(s["phase"] == "waiting" for s in silos))
            server.post("/runs/1-r/stop")

        thread = threading.Thread(target=stop)
        thread.start()
        result = join(server, tmp_path, "--shard", "0/2")
        thread.join()
    assert result.exit_code == 4, result.output
    assert "run 1-r: stopped after 0 rounds: stopped by the admin" in result.output


def test_health(tmp_path: Path) -> None:
    state = ["health", "--state-dir", str(tmp_path)]
    error = fault(*state)
    assert str(error) == f"no silo has run with the state folder {tmp_path}"
    status = tmp_path / "status.json"
    status.write_text('{"phase": "training"}')
    result = runner.invoke(cli.app, state)
    assert result.exit_code == 0
    assert re.fullmatch(r"heard \d s ago: training\n", result.output)
    old = time.time() - cli.HEALTHY_S - 30
    os.utime(status, (old, old))
    assert re.match(r"the coordinator last heard of this silo 6\d s ago", str(fault(*state)))
    status.write_text('{"phase": "training", "next_s": 60}')  # where it is heard once a minute
    os.utime(status, (old, old))
    assert runner.invoke(cli.app, state).exit_code == 0


def test_errors_are_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["domo-client"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    text = "which coordinator? Give --server host:port, or enrol this silo: domo-client enroll"
    assert capsys.readouterr().err == f"error: {text}\n"
