"""How busy a GPU is, with and without the package that torch asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NVML = """
class NVMLError_DriverNotLoaded(Exception): pass
class Rates: gpu = 93
def nvmlInit(): pass
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUtilizationRates(handle): return Rates
"""
ASK = """
import sys, pathlib
{first}
import torch
from domo_client.telemetry.resources import measure
print(measure(torch.device("cuda", 0), pathlib.Path()).get("gpu_busy"))
"""


@pytest.mark.parametrize(
    ("first", "busy"), [("", "0.93"), ("sys.modules['pynvml'] = None", "None")]
)
def test_how_busy_a_gpu_is_needs_the_package_of_the_extra(
    first: str, busy: str, tmp_path: Path
) -> None:
    """torch looks for it once, when it is imported; without it nothing is said at all.

    With a GPU and the real package: `tests/cuda`.
    """
    (tmp_path / "pynvml.py").write_text(NVML)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    answer = subprocess.run(
        [sys.executable, "-c", ASK.format(first=first)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=True,
    )
    assert (answer.stdout.strip(), answer.stderr) == (busy, "")
