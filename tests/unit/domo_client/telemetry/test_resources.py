from pathlib import Path

import pytest
import torch

from domo_client.telemetry import resources
from domo_client.telemetry.resources import measure


def test_a_cpu(tmp_path: Path) -> None:
    found = measure(torch.device("cpu"), tmp_path)
    assert found.keys() == {
        "process_memory_bytes",
        "memory_available_bytes",
        "memory_total_bytes",
        "disk_free_bytes",
    }
    assert 0 < found["process_memory_bytes"] < found["memory_total_bytes"]
    assert found["memory_available_bytes"] <= found["memory_total_bytes"]


def test_in_a_container_its_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("2000000\n")
    (tmp_path / "memory.current").write_text("1500000\n")
    monkeypatch.setattr(resources, "GROUP", tmp_path)
    found = measure(None, tmp_path)
    assert (found["memory_total_bytes"], found["memory_available_bytes"]) == (2_000_000, 500_000)


def test_what_is_not_known_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATM", "MEMINFO"):
        monkeypatch.setattr(resources, name, tmp_path / "absent")
    found = measure(None, tmp_path / "absent")
    assert found.keys() == {"memory_available_bytes", "memory_total_bytes"}


def test_a_gpu_that_does_not_answer_stops_no_heartbeat(tmp_path: Path) -> None:
    """No CUDA here, or no such device, raises; so does each call after a kernel has crashed."""
    found = measure(torch.device("cuda", 99), tmp_path)
    assert "disk_free_bytes" in found
    assert not {"gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_busy"} & found.keys()
