"""`domo-server check`: could a coordinator start here? Each fault is named, nothing is changed."""

import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domo.errors import ConfigError
from domo.storage.state_folder import lock_folder
from domo_server import cli
from domo_server.store.database import open_database, versions
from tests.support.certificates import Authority, Pair
from tests.support.faults.small_disk import small_disk
from tests.support.findings import Outcome
from tests.support.live.coordinator import coordinator
from tests.support.live.killable import free_port

runner = CliRunner()
RUN = '[[runs]]\ntask = "digits"\nnum_rounds = 2\nnum_silos = 3\n'


def write(folder: Path, server: str = "", runs: str = RUN, **addresses: str) -> Path:
    """A configuration file on free ports, with a state folder that need not be there."""
    values = {
        "listen": f"127.0.0.1:{free_port()}",
        "dashboard": f"127.0.0.1:{free_port()}",
        "state_dir": str(folder / "state"),
        **addresses,
    }
    lines = "\n".join(f'{key} = "{value}"' for key, value in values.items())
    path = folder / "federation.toml"
    path.write_text(f"[server]\n{lines}\n{server}\n{runs}")
    return path


def check(path: Path) -> Outcome:
    result = runner.invoke(cli.app, ["check", str(path), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, json.loads(result.stdout)["checks"])


def tls(pair: Pair, ca: Path | None = None) -> str:
    text = f'[server.tls]\ncert = "{pair.cert}"\nkey = "{pair.key}"\n'
    return f'{text}client_ca = "{ca}"\n' if ca else text


def test_nothing_is_wrong(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca", (-1, 100))
    path = write(tmp_path, tls(ca.sign("coordinator", "localhost"), ca.cert))
    before = sorted(tmp_path.rglob("*"))
    outcome = check(path)
    assert (outcome.code, outcome.of("ok")) == (0, {f["check"] for f in outcome.found})
    result = runner.invoke(cli.app, ["check", str(path)])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1] == "  domo-digits: DOMO on digits, 2 rounds, the first 3 silos"
    assert lines[-1] == "nothing is wrong: a coordinator can start here"
    assert any("silos can dial localhost" in line for line in lines)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is made"


def test_a_file_with_a_fault(tmp_path: Path) -> None:
    path = write(tmp_path, runs=RUN.replace("num_rounds", "rounds"))
    plain = runner.invoke(cli.app, ["check", str(path)])
    assert isinstance(plain.exception, ConfigError)
    assert plain.stdout == ""
    result = runner.invoke(cli.app, ["check", str(path), "--json"])
    assert isinstance(result.exception, ConfigError)
    (found,) = json.loads(result.stdout)["checks"]
    assert found["state"] == "problem"
    assert "runs[0].rounds: unknown key" in found["text"]


def test_the_file_only(tmp_path: Path) -> None:
    """As before a coordinator that runs is given a changed file."""
    with coordinator(tmp_path) as server:
        path = write(tmp_path, state_dir=str(server.state_dir), listen=server.address)
        assert check(path).of("problem") == {"port for silos", "state folder"}
        result = runner.invoke(cli.app, ["check", "--file-only", str(path)])
    assert result.exit_code == 0
    assert "is good: silos at" in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_ports_that_are_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        text = f"cannot listen on {address}: the port is in use"
        check(write(tmp_path, listen=address)).blames("port for silos", text, "--listen")
        text = f"the dashboard cannot listen on {address}: the port is in use"
        check(write(tmp_path, dashboard=address)).blames("port of the dashboard", text, "dashboard")


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    path = write(tmp_path, "insecure = true", listen="192.0.2.1:50051")
    text = "cannot listen on 192.0.2.1:50051: the address is not this machine's"
    check(path).blames("port for silos", text, "--listen")


def test_a_state_folder_in_use(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path / "state", "domo-server")
    with closing(lock):
        text = f"another domo-server (process {os.getpid()}) uses the state folder"
        check(write(tmp_path)).blames("state folder", text, "stop it")
    assert check(write(tmp_path)).code == 0
    assert (tmp_path / "state" / "lock").read_text() == str(os.getpid())


def test_a_state_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    text = f"{tmp_path / 'state'} is a file, not a folder"
    check(write(tmp_path)).blames("state folder", text, "--state-dir")


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk("4m") as folder:
        yield folder


def test_no_disk(disk: Path, tmp_path: Path) -> None:
    path = write(tmp_path, state_dir=str(disk / "state"))
    check(path).blames("disk space", f"4.2 MB are free in {disk}", "make room")


def test_certificates(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca", (-1, 100))
    good = ca.sign("coordinator", "localhost")
    old = ca.sign("old", "localhost", days=(-9, -2))
    text = f"the certificate {old.cert} expired on"
    check(write(tmp_path, tls(old))).blames("TLS files", text, "renewed")
    early = ca.sign("early", "localhost", days=(2, 90))
    text = f"the certificate {early.cert} is not valid before"
    check(write(tmp_path, tls(early))).blames("TLS files", text, "clock")
    text = f"the key {old.key} does not belong to the certificate {good.cert}"
    check(write(tmp_path, tls(Pair(good.cert, old.key)))).blames("TLS files", text, "together")
    text = "cannot read /absent.key: No such file or directory"
    absent = Pair(good.cert, Path("/absent.key"))
    check(write(tmp_path, tls(absent))).blames("TLS files", text, "permissions")
    swapped = Pair(good.key, good.cert)
    check(write(tmp_path, tls(swapped))).blames("TLS files", "holds no certificate", "path")
    nameless = ca.sign("nameless")
    text = "has no subject alternative name"
    check(write(tmp_path, tls(nameless))).blames("TLS files", text, "names that silos dial")
    soon = ca.sign("soon", "localhost", days=(-30, 5.5))
    outcome = check(write(tmp_path, tls(soon)))
    assert (outcome.code, outcome.of("warning")) == (0, {"TLS files"})
    assert any("expires in 5 days" in f["text"] for f in outcome.found)
    text = f"the silos' CA {tmp_path / 'gone.pem'}"
    gone = Authority(tmp_path, "gone", (-9, -2))
    check(write(tmp_path, tls(good, gone.cert))).blames("TLS files", text, "renewed")


def test_a_database(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    file = state / "coordinator.db"
    engine = open_database(f"sqlite:///{file}")
    engine.dispose()
    bytes_before = file.read_bytes()
    outcome = check(write(tmp_path))
    assert outcome.code == 0
    assert any(f"can be reached, version {versions()[0]}" in f["text"] for f in outcome.found)
    assert [p.name for p in state.iterdir()] == ["coordinator.db"]
    assert file.read_bytes() == bytes_before

    def make_it(version: str) -> None:
        with closing(sqlite3.connect(file)) as db:
            db.execute("UPDATE alembic_version SET version_num = ?", (version,))
            db.commit()

    make_it("0001")
    outcome = check(write(tmp_path))
    assert (outcome.code, outcome.of("warning")) == (0, {"database"})
    make_it("9999")
    text = "has version 9999, which this domo does not know"
    check(write(tmp_path)).blames("database", text, "a newer domo")
    file.write_bytes(b"SQLite format 3\0" + bytes(5000))
    check(write(tmp_path)).blames("database", "cannot be read", "backup")


def test_a_database_whose_tables_are_in_its_log_still(tmp_path: Path) -> None:
    """After `kill -9`; the log is neither read past nor folded in."""
    state = tmp_path / "state"
    state.mkdir()
    file = state / "coordinator.db"
    engine = open_database(f"sqlite:///{file}")
    with engine.connect():
        copies = {p.name: p.read_bytes() for p in state.iterdir() if "-shm" not in p.name}
    engine.dispose()
    for path in state.iterdir():
        path.unlink()
    for name, content in copies.items():
        (state / name).write_bytes(content)
    assert copies["coordinator.db-wal"]
    outcome = check(write(tmp_path))
    assert outcome.code == 0
    assert any("can be reached, version" in f["text"] for f in outcome.found)
    assert {p.name: p.read_bytes() for p in state.iterdir()} == copies


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nothing", "no URL of SQLAlchemy"),
        ("nosuch://ann:pw@host/db", "the database nosuch://ann:***@host/db cannot be read"),
    ],
)
def test_a_database_elsewhere(url: str, text: str, tmp_path: Path) -> None:
    outcome = check(write(tmp_path, f'database = "{url}"'))
    assert outcome.of("problem") == {"database"}
    assert any(text in f["text"] for f in outcome.found)
    assert "ann:pw" not in str(outcome)


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ('[[runs]]\ntask = "digits"\nnum_rounds = 2\n', "say who takes part"),
        (RUN + 'initial_model = "/absent"\n', "initial_model: there is no file /absent"),
        (RUN.replace("digits", "mine:Task"), "is code of your own"),
    ],
)
def test_a_run_that_could_not_be_queued(runs: str, text: str, tmp_path: Path) -> None:
    check(write(tmp_path, runs=runs)).blames("runs", text, "mend the run")
