"""`domo-client doctor` as an operator starts it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.findings import Outcome
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.doctored import (
    Papers,
    doctor,
    flags,
    nobody_came,
    of,
    signed,
    tls_flags,
    write_images,
)
from tests.support.live.killable import free_port

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return signed(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator with mTLS that no test changes."""
    with coordinator(tmp_path_factory.mktemp("mutual"), tls=of(papers)) as it:
        it.admit("site-a")
        yield it


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator without TLS that no test changes."""
    with coordinator(tmp_path_factory.mktemp("plain")) as it:
        yield it


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("data"))


def doctor_process(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As an operator starts it."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", **variables}
    paths = [variables.get("PYTHONPATH", ""), str(ROOT), os.environ.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [str(BIN / "domo-client"), *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_nothing_is_wrong(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    args = flags(server.address, tmp_path, images, *tls_flags(papers), "--dashboard", server.url)
    done = doctor_process(*args)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-1] == f"nothing is wrong: site-a can join {server.address}; 2 not checked"
    others = [line.split()[2:4] for line in lines[:-1] if not line.startswith("ok  ")]
    assert others == [["open", "run"], ["same", "meaning"]], "no run is open"
    for check in ("proxy", "DNS", "TCP", "gRPC", "protocol", "clock", "data", "dummy round"):
        assert any(line.split("  ")[4:] and check in line for line in lines), check
    assert "digits: 40 training and 10 test samples" in done.stdout
    assert not (tmp_path / "state").exists()
    nobody_came(server)


@pytest.mark.parametrize(("shift", "side"), [(7200, "ahead of"), (-7200, "behind")])
def test_a_clock_that_is_two_hours_off(
    shift: int, side: str, plain: Coordinator, images: Path, tmp_path: Path
) -> None:
    args = flags(plain.address, tmp_path, images, "--dashboard", plain.url, "--json")
    clock = str(ROOT / "tests/support/faults/shifted_clock")
    done = doctor_process(*args, PYTHONPATH=clock, SHIFT_S=str(shift))
    outcome = Outcome(done.returncode, json.loads(done.stdout)["checks"])
    outcome.blames("clock", f"clock is 2 h 0 min {side} the coordinator's", "timedatectl")


def test_a_clock_that_is_behind_without_a_dashboard(
    papers: Papers, server: Coordinator, images: Path, tmp_path: Path
) -> None:
    """What was made lately is from the future."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "instance-id").write_text("0" * 32)
    made = time.time()
    nobody = f"http://127.0.0.1:{free_port()}"
    args = flags(server.address, tmp_path, images, *tls_flags(papers), "--dashboard", nobody)
    assert doctor(*args).of("not checked") == {"clock", "open run", "same meaning"}
    clock = str(ROOT / "tests/support/faults/shifted_clock")
    done = doctor_process(*args, "--json", PYTHONPATH=clock, SHIFT_S="-7200")
    outcome = Outcome(done.returncode, json.loads(done.stdout)["checks"])
    outcome.blames("clock", "min behind", "set it")
    (found,) = [f["text"] for f in outcome.found if f["check"] == "clock"]
    ((hours, minutes),) = re.findall(r"(?:(\d+) h )?(\d+) min behind", found)
    assert 119 - (time.time() - made) / 60 <= 60 * int(hours or 0) + int(minutes) <= 120


def test_the_table_says_how_to_mend_it(tmp_path: Path, images: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = doctor_process(*flags(address, tmp_path, images))
    assert done.returncode == 1
    assert f"problem      TCP                    nothing listens at {address}" in done.stdout
    table = done.stdout[done.stdout.index("how to mend it") :]
    assert "is the coordinator started" in table
    assert "Traceback" not in done.stdout + done.stderr


def test_it_can_be_stopped(tmp_path: Path) -> None:
    """Ctrl-C while a port says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = "{}:{}".format(*mute.getsockname())
        command = [str(BIN / "domo-client"), *flags(address, tmp_path, None)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as going:
            mute.accept()[0].close()
            with mute.accept()[0]:
                going.send_signal(signal.SIGINT)
                said = going.communicate(timeout=30)
    assert going.returncode == 130
    assert b"Traceback" not in said[0] + said[1]
