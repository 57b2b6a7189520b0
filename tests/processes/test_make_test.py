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

@pytest.mark.parametrize("word", ["a b"])
def test_comes_late(word):
    late = Path("late")
    if not late.exists():
        late.touch()
        assert False, "too late - on a busy machine"
"""


def make_test(folder: Path, *words: str) -> tuple[int, list[str]]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    command = [sys.executable, str(SCRIPT), *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_one_closing_line_and_those_alone_come_last(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: by itself\n")
    (tmp_path / "test_them.py").write_text(TESTS)
    code, lines = make_test(tmp_path)
    assert (code, lines[-3]) == (1, "1 left out: no such thing here")
    late = "test_them.py::test_comes_late[a b]"
    assert lines[-2] == f"failed beside others, passed by itself: {late}"
    assert re.fullmatch(r"1 failed, 3 passed, 1 skipped in \d+\.\d\ds", lines[-1])
    shared, alone = (tmp_path / "order").read_text().splitlines()
    several = len(os.sched_getaffinity(0)) > 1
    assert re.fullmatch(r"shared gw\d+" if several else "shared alone", shared)
    assert alone == "alone alone"


def test_one_that_passes_by_itself_is_named_and_passed(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: by itself\n")
    (tmp_path / "test_them.py").write_text(TESTS.replace("assert False\n\n", "pass\n\n"))
    code, lines = make_test(tmp_path)
    assert code == 0
    assert "run once more by themselves: 1" in lines
    assert "passed by itself: test_them.py::test_comes_late" in lines[-2]
    assert re.fullmatch(r"4 passed, 1 skipped in \d+\.\d\ds", lines[-1])


def test_when_many_fail_nothing_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: by itself\n")
    many = "import pytest\n@pytest.mark.parametrize('i', range(9))\ndef test_it(i):\n    assert 0\n"
    (tmp_path / "test_them.py").write_text(many)
    code, lines = make_test(tmp_path)
    assert code == 1
    assert re.fullmatch(r"9 failed in \d+\.\d\ds", lines[-1])


def test_a_run_that_breaks_off_is_an_error(tmp_path: Path) -> None:
    code, lines = make_test(tmp_path, "no-such-file.py")
    assert code == 4
    assert re.fullmatch(r"1 error in \d+\.\d\ds", lines[-1])
