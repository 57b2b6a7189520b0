"""`domo-client support-bundle`: what helps is in it, and nothing that is secret."""

import getpass
import json
import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import domo
from domo.errors import ConfigError
from domo.ops.logs import StderrHandler
from domo_client import cli
from domo_client.doctor.support_bundle import (
    LAST_LINES,
    anonymise,
    environment,
    redact,
)
from domo_client.state.folder import SiloState
from tests.support.certificates import Authority
from tests.support.live.coordinator import coordinator

runner = CliRunner()
SECRET = "s3cr3t-w0rd"


@pytest.fixture(autouse=True)
def _logging_stays() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(handler)


def bundle(folder: Path, *more: str) -> tuple[str, dict[str, str]]:
    """What is printed, and what is in the archive."""
    out = folder / "bundle.zip"
    args = ["support-bundle", "--out", str(out), "--state-dir", str(folder / "state"), *more]
    result = runner.invoke(cli.app, args)
    if result.exception is not None:
        raise result.exception
    assert out.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        return result.stdout, {n: archive.read(n).decode() for n in archive.namelist()}


def test_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOMO_ADMIN_TOKEN", SECRET)
    monkeypatch.setenv("grpc_proxy", f"http://ann:{SECRET}@proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PATIENT", SECRET)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    state = SiloState(tmp_path / "state")
    state.close()
    values = torch.arange(1000).float().numpy().tobytes()
    (tmp_path / "state" / "pending.bin").write_bytes(values + SECRET.encode())
    (tmp_path / "state" / "status.json").write_text('{"phase": "training", "run_id": "1-r"}')
    log = tmp_path / "silo.log"
    lines = [f"12:00:00 INFO  line {i}" for i in range(2 * LAST_LINES)]
    lines.append(f"log in http://host:8080/login?token={SECRET}")
    log.write_text("\n".join(lines) + "\n")
    with coordinator(tmp_path) as server:
        given = ["--server", server.address, "--name", "site-a", "--dashboard", server.url]
        given += ["--task", "digits", "--shard", "0/4", "--log", str(log)]
        said, parts = bundle(tmp_path, *given)
        assert server.get("/silos") == []
    assert set(parts) == {
        *("versions.json", "doctor.json", "status.json"),
        *("state-folder.txt", "environment.txt", "log.txt"),
    }
    assert SECRET not in "".join(parts.values()) + said
    versions = json.loads(parts["versions.json"])
    assert torch.__version__.startswith(versions["packages"]["torch"])
    doctor = json.loads(parts["doctor.json"])
    assert (doctor["domo"], doctor["state"]) == (domo.__version__, "ok")
    assert {"check": "protocol", "state": "ok"}.items() <= next(
        c for c in doctor["checks"] if c["check"] == "protocol"
    ).items()
    assert json.loads(parts["status.json"])["status"]["run_id"] == "1-r"
    assert f"{4000 + len(SECRET)}  pending.bin" in parts["state-folder.txt"]
    assert "DOMO_ADMIN_TOKEN = ***" in parts["environment.txt"]
    assert "grpc_proxy = http://***@proxy.example:3128" in parts["environment.txt"]
    assert "PATIENT = (not shown)" in parts["environment.txt"]
    assert "OMP_NUM_THREADS = 1" in parts["environment.txt"]
    kept = parts["log.txt"].splitlines()
    assert len(kept) == LAST_LINES
    assert kept[-1] == "log in http://host:8080/login?token=***"
    printed = said[: said.index("written: ")]
    assert all(f"  {name} " in printed for name in parts), "it is said before it is written"
    assert str(tmp_path / "bundle.zip") in said


def test_a_silo_that_cannot_even_start(tmp_path: Path) -> None:
    """What is wrong is in the archive; the archive is made all the same."""
    _, parts = bundle(tmp_path, "--device", "cuda:64", "--data", str(tmp_path / "absent"))
    found = json.loads(parts["doctor.json"])["checks"]
    assert {"flags", "device", "data folder"} <= {
        f["check"] for f in found if f["state"] == "problem"
    }
    assert "status.json" not in parts
    assert "is not there" in parts["state-folder.txt"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("key", "holds a private key, which stays here"),
        ("model", "not a text file"),
        ("absent", "cannot be read: No such file"),
    ],
)
def test_a_log_that_is_none(kind: str, text: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    if kind == "key":
        log = Authority(tmp_path, "ca").sign("site-a").key
    elif kind == "model":
        log.write_bytes(torch.randn(1000).numpy().tobytes())
    with pytest.raises(ConfigError, match=text):
        bundle(tmp_path, "--log", str(log))
    assert not (tmp_path / "bundle.zip").exists()


def test_an_archive_that_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_text("mine")
    with pytest.raises(ConfigError, match="is there already; give another name"):
        bundle(tmp_path)
    assert (tmp_path / "bundle.zip").read_text() == "mine"


def test_an_archive_that_cannot_be_written(tmp_path: Path) -> None:
    out = tmp_path / "absent" / "bundle.zip"
    args = ["support-bundle", "--out", str(out), "--state-dir", str(tmp_path / "state")]
    error: Any = runner.invoke(cli.app, args).exception
    assert isinstance(error, ConfigError)
    assert "cannot be written: No such file or directory" in str(error)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("https://ann:pw@host/x?a=1", "https://***@host/x?a=1"),
        ("password = hunter2, and more", "password = ***, and more"),
        ('{"token": "abc", "n": 1}', '{"token": "***", "n": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("round 3 of 15: 12 steps", "round 3 of 15: 12 steps"),
    ],
)
def test_what_looks_like_a_secret(text: str, instead: str) -> None:
    assert redact(text) == instead


def test_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ann")
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    variables = {"DOMO_ADMIN_TOKEN": SECRET, "MY_KEY": "a"}
    text = f"/srv/people/ann/x /home/bob/data /srv/people/anna ann's annex, owner ann; {SECRET} a"
    assert anonymise(text, variables) == (
        "~/x /home/USER/data /srv/people/anna USER's annex, owner USER; *** a"
    )


def test_only_values_that_help_are_shown() -> None:
    given = {
        "HOME": "/home/ann",
        "DOMO_LOG": "json",
        "MY_API_KEY": "k",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert environment(given) == (
        "CUDA_VISIBLE_DEVICES = 0\nDOMO_LOG = json\nHOME = (not shown)\n"
        "MY_API_KEY = *** (a secret by its name)\n"
    )
