"""`make test`: shared out and alone, and one closing line of all."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "test.py"
TESTS = """
import os, time
from pathlib import Path
import pytest

def note(name):
    with Path("order").open("a") as file:
        file.write(name + " " + os.environ.get("PYTEST_XDIST_WORKER", "alone") + "\\n")

def test_shared():
    time.sleep(0.2)
    note("shared")

@pytest.mark.alone
def test_alone():
    note("alone")

def test_left_out():
    pytest.skip("no such thing here")

def test_fails():
    assert False
"""


def make_test(folder: Path, *words: str) -> tuple[int, list[str]]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, str(SCRIPT), *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_one_closing_line_and_those_alone_come_last(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: by itself\n")
    (tmp_path / "test_them.py").write_text(TESTS)
    code, lines = make_test(tmp_path)
    assert (code, lines[-2]) == (1, "1 left out: no such thing here")
    assert re.fullmatch(r"1 failed, 2 passed, 1 skipped in \d+\.\d\ds", lines[-1])
    shared, alone = (tmp_path / "order").read_text().splitlines()
    several = len(os.sched_getaffinity(0)) > 1
    assert re.fullmatch(r"shared gw\d+" if several else "shared alone", shared)
    assert alone == "alone alone"


def test_a_run_that_breaks_off_is_an_error(tmp_path: Path) -> None:
    code, lines = make_test(tmp_path, "no-such-file.py")
    assert code == 4
    assert re.fullmatch(r"1 error in \d+\.\d\ds", lines[-1])
