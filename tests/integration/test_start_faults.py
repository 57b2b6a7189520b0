"""A coordinator that cannot start: one line says why, and the exit code says of what kind it is."""

import contextlib
import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from domo_server import startup as hold
from domo_server.cli import main
from domo_server.store.database import open_database
from tests.support.certificates import Authority
from tests.support.live.coordinator import coordinator

CONFIG, PORT, STATE = 2, 7, 8


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **server: Any
) -> tuple[int, str]:
    """The exit code, and the last line on standard error."""
    values = {
        "listen": "127.0.0.1:0",
        "dashboard": "127.0.0.1:0",
        "state_dir": str(folder / "state"),
        **server,
    }
    tls = values.pop("tls", None)
    lines = ["[server]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
    if tls:
        lines += ["[server.tls]", *(f"{k} = {json.dumps(str(v))}" for k, v in tls.items())]
    file = folder / "federation.toml"
    file.write_text("\n".join(lines))
    monkeypatch.setattr("sys.argv", ["domo-server", "--config", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert "dashboard" not in out, "it says where it is only once it is there"
    assert "Traceback" not in err
    return int(ended.value.code or 0), err.strip().splitlines()[-1]


def test_ports(taken: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    def go(**server: Any) -> tuple[int, str]:
        return start(tmp_path, monkeypatch, capsys, **server)

    code, text = go(listen=taken)
    assert code == PORT
    assert text.startswith(f"error: cannot listen on {taken}: the port is in use")
    monkeypatch.setattr(hold, "why_taken", lambda address: "")
    assert go(listen=taken) == (code, text), "taken between the look and the start"
    code, text = go(dashboard=taken)
    assert code == PORT
    assert text.startswith(f"error: the dashboard cannot listen on {taken}: the port is in use")
    code, text = go(dashboard="127.0.0.1:99999")
    assert code == 2
    assert '"127.0.0.1:99999": must be host:port' in text
    assert "a port is 1 to 65535" in text


def test_the_state_folder(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    def go(**server: Any) -> tuple[int, str]:
        return start(tmp_path, monkeypatch, capsys, **server)

    (tmp_path / "file").touch()
    code, text = go(state_dir=str(tmp_path / "file" / "state"))
    assert (code, "cannot be used: Not a directory" in text) == (STATE, True)
    (tmp_path / "state" / "admin-token").mkdir(parents=True)
    code, text = go()
    assert (code, "admin-token cannot be used: Is a directory" in text) == (STATE, True)


def test_the_database(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    def go(**server: Any) -> tuple[int, str]:
        return start(tmp_path, monkeypatch, capsys, **server)

    (tmp_path / "state").mkdir()
    file = tmp_path / "state" / "coordinator.db"
    open_database(f"sqlite:///{file}").dispose()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        code, text = go()
        assert (code, text.endswith("coordinator.db: database is locked")) == (STATE, True)
    file.write_bytes(b"no database" * 1000)
    code, text = go()
    assert (code, text.endswith("coordinator.db: file is not a database")) == (STATE, True)
    code, text = go(database="nonsense")
    assert (code, text.startswith("error: cannot open the database")) == (STATE, True)


def test_tls_files_that_do_not_belong_together(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    authority = Authority(tmp_path, "ca")
    one, two = authority.sign("one"), authority.sign("two")
    tls = {"cert": one.cert, "key": two.key}
    code, text = start(tmp_path, monkeypatch, capsys, tls=tls)
    assert code == CONFIG
    assert f"tls: the key {two.key} does not belong to the certificate {one.cert}; give" in text


def test_a_database_of_another_coordinator(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    file = tmp_path / "shared.db"
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with coordinator(first, database=f"sqlite:///{file}"), sqlite3.connect(file) as db:
        db.execute("UPDATE alembic_version SET version_num = '0004'")
        db.commit()
        code, text = start(second, monkeypatch, capsys, database=f"sqlite:///{file}")
        left = db.execute("SELECT version_num FROM alembic_version").fetchall()
    db.close()
    assert left == [("0004",)], "a newer one that is refused must not migrate it"
    said = f"error: another domo-server (process {os.getpid()}) uses the database sqlite:///{file};"
    assert (code, text.startswith(said)) == (STATE, True)
