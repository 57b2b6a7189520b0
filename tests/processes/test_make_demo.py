"""`make demo`: what it installs, what it says meanwhile, and that an earlier demo's models stay."""

import subprocess
from pathlib import Path

import pytest

from scripts import demo, install

ROOT = Path(__file__).parents[2]


def would_do(target: str, venv: Path) -> str:
    command = ["make", "-n", target, f"VENV={venv}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_what_it_runs_with_and_the_tests_add_their_tools(tmp_path: Path) -> None:
    assert f"setup.sh python3 {tmp_path} run" in would_do("demo", tmp_path)
    assert f"setup.sh python3 {tmp_path} dev" in would_do("test", tmp_path)
    for done in (".demo", ".done"):
        (tmp_path / done).touch()
        assert "setup.sh" not in would_do("demo", tmp_path), done
    (tmp_path / ".done").unlink()
    assert f"setup.sh python3 {tmp_path} dev" in would_do("test", tmp_path)


def test_each_demo_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RUNS", tmp_path / "runs")
    first = demo.own_folder()
    (first / "domo.safetensors").write_bytes(b"a model")
    folders = [first, demo.own_folder(), demo.own_folder()]
    assert [folder.name for folder in folders] == ["demo", "demo-2", "demo-3"]
    assert (first / "domo.safetensors").read_bytes() == b"a model"


def test_what_pip_says_is_shown_as_one_line_that_moves(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.9.0-cp311-none-any.whl"
    wheel.write_bytes(bytes(3_000_000))
    progress = install.Progress()
    assert progress.line(1, 0, 0) == "   1 s  asking what there is (packages so far: 0)"
    progress.hear("Collecting torch>=2.9 (from domo-federated==0.1.0)\n")
    progress.hear(f"Processing {wheel} (from domo-federated==0.1.0)\n")
    assert progress.line(9, 0, 0) == "   9 s  fetching torch (packages so far: 1, MB: 3)"
    progress.hear("Collecting rich>=13.9\n")
    progress.hear("  Downloading rich-14.0.0-py3-none-any.whl (243 kB)\n")
    assert progress.line(10, 0, 0) == "  10 s  fetching rich (packages so far: 2, MB: 3)"
    progress.hear("Installing collected packages: rich, torch, domo-federated\n")
    assert progress.line(40, 2, 2.1e9) == (
        "  40 s  unpacking: 2 of 3 packages, about 2.1 GB written"
    )
