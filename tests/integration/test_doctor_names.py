"""What the doctor says for a ticket names no file of the data and no user."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from domo_client import cli
from tests.support.live.killable import free_port

PATIENT = "Jane_Doe_1961"


def some(folder: Path) -> Path:
    source = np.random.default_rng(0)
    for name in ("ape", "bee"):
        (folder / name).mkdir(parents=True)
        for i in range(12):
            pixels = source.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


def broken(folder: Path) -> Path:
    (some(folder) / "ape" / f"{PATIENT}.png").write_bytes(b"\x89PNG no picture")
    return folder


def strays(folder: Path) -> Path:
    (some(folder) / f"x.{PATIENT}").write_text("x")
    (folder / "ape" / PATIENT).mkdir()
    (folder / "ape" / PATIENT / "more.txt").write_text("x")
    return folder


def missing(folder: Path) -> Path:
    return folder / PATIENT


def empty(folder: Path) -> Path:
    (folder / PATIENT).mkdir(parents=True)
    return folder / PATIENT


def a_file(folder: Path) -> Path:
    folder.mkdir()
    (folder / PATIENT).write_text("x")
    return folder / PATIENT


@pytest.mark.parametrize("make", [some, broken, strays, missing, empty, a_file])
def test_json_for_a_ticket(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home-of-jroe"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    data = make(tmp_path / f"data-{PATIENT}")
    sheet = tmp_path / PATIENT / "sheet.png"
    args = [
        *("doctor", "--server", f"127.0.0.1:{free_port()}", "--name", "site-a", "--json"),
        *("--state-dir", str(home / "state"), "--data", str(data), "--task", "imagefolder:2"),
        *("--look", str(sheet)),
    ]
    told = CliRunner().invoke(cli.app, args).stdout
    checks = json.loads(told)["checks"]
    assert all(set(one) == {"check", "state", "text", "mend"} for one in checks)
    assert "Doe" not in told
    assert "jroe" not in told
    assert any("~/state" in one["text"] or "~" in one["text"] for one in checks)
    named = CliRunner().invoke(cli.app, [*args, "--names"]).stdout
    assert PATIENT in named
    assert [(c["check"], c["state"]) for c in json.loads(named)["checks"]] == [
        (c["check"], c["state"]) for c in checks
    ]


def test_names_are_of_the_json(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli.app, ["doctor", "--names"]).exception is not None
