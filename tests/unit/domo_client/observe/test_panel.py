"""What an operator sees of a silo: the panel, the lines above it, and how a terminal is left."""

import io
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from domo.run_config import RunConfig
from domo.stages.now import begin, in_stage
from domo_client.loop.connect import connect
from domo_client.loop.heartbeat import Progress
from domo_client.loop.silo import Silo
from domo_client.observe import panel as panel_module
from domo_client.observe.live import LONGEST, Board, _Above
from domo_client.observe.messages import certificate_note
from domo_client.observe.panel import Panel
from domo_client.rpc.offer import Offer
from domo_proto.channel import TlsFiles
from tests.support.certificates import Authority
from tests.support.live.coordinator import coordinator

CONFIG = RunConfig(task="digits", method="DOMO", num_rounds=15, num_silos=4)
OFFER = Offer("1-domo", "domo", "digits", CONFIG)


@pytest.fixture(scope="module")
def silo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Silo]:
    folder = tmp_path_factory.mktemp("panel")
    begin("round")  # as a simulation leaves it
    with (
        coordinator(folder, report_interval_s=30.0) as server,
        connect(server.address, "site-a", state_dir=folder / "silo") as joined,
    ):
        yield joined


class Drawn:
    """A panel over a silo that says what it is told to, on a clock of its own."""

    def __init__(self, silo: Silo, monkeypatch: pytest.MonkeyPatch, columns: int = 80):
        self.counts, self.address = silo.connection.counts, silo.connection.session.address
        self.now = self.counts.heard_at or 0.0
        self.silo, self.written = silo, io.StringIO()
        self.counts.bytes_sent = self.counts.bytes_received = 0
        silo._reporter.waits_for, silo._reporter.progress = "", Progress()
        self.console = Console(
            file=self.written, width=columns, force_terminal=True, color_system=None
        )
        monkeypatch.setattr(panel_module, "console", self.console)
        self.panel = Panel(silo, clock=lambda: self.now)

    def after(self, seconds: float, **progress: object) -> list[str]:
        """The panel's lines a while later."""
        self.now += seconds
        if progress:
            self.silo._reporter.progress = Progress(**progress)  # type: ignore[arg-type]
        self.written.seek(0)
        self.written.truncate()
        self.console.print(self.panel)
        assert max(map(len, self.written.getvalue().splitlines())) <= self.console.width
        return [" ".join(line.split()) for line in self.written.getvalue().splitlines()]


def test_a_silo_that_loads_its_data_is_not_called_stuck(
    silo: Silo, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Drawn(silo, monkeypatch)
    with in_stage("train-data"):
        assert re.fullmatch(r"loading its training data, for \d s", shown.after(0.0)[1])


def test_a_round_in_the_panel(silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Drawn(silo, monkeypatch)
    lines = shown.after(0.0)
    assert lines[:3] == [
        f"site-a: connected to {shown.address}",
        "waiting for a run, for 0 s",
        "sent 0 B, received 0 B",
    ]
    shown.panel.offer = OFFER
    run = {"run_id": "1-domo", "round_index": 3}
    silo._reporter.waits_for = "round 4 has updates of 1 of its 4 silos"
    shown.after(0.1, phase="waiting", **run)
    lines = shown.after(90.0)
    assert lines[1] == "1-domo: DOMO on digits, round 4 of 15"
    assert lines[2:4] == ["waiting for the coordinator, for 1 min 30 s", silo.waits_for]
    shown.counts.bytes_received = 3_000_000
    assert lines != shown.after(1.0)
    shown.counts.bytes_received = 6_000_000
    assert shown.after(1.0)[2] == "downloading 6.0 MB, 3.0 MB/s"
    shown.after(0.1, phase="training", num_steps=12, step=0, **run)
    lines = shown.after(4.0, phase="training", num_steps=12, step=4, **run)
    assert re.fullmatch(r"training \S+ step 4 of 12, about 8 s left", lines[2])
    shown.after(0.1, phase="uploading", loss=0.25, **run)
    shown.counts.bytes_sent = 2_000_000
    lines = shown.after(1.0)
    assert lines[2] == "uploading 2.0 MB, 2.0 MB/s"
    assert lines[3] == "sent 2.0 MB, received 6.0 MB; loss 0.2500"
    assert shown.panel.goodbye().startswith("round 4 of 1-domo: the update is kept here")
    silo._outbox.has_unsaved = True
    assert shown.panel.goodbye().startswith("round 4 of 1-domo: the update is not on disk yet")
    silo._outbox.has_unsaved = False
    shown.counts.updates.update(accepted=1, refused=2)
    shown.after(0.1, phase="waiting", loss=0.25, **run)
    shown.counts.updates.clear()
    shown.after(0.1, phase="uploading", **run)
    shown.counts.bytes_sent = 3_000_000
    assert re.fullmatch(r"uploading \S+ 1.0 MB of about 2.0 MB, \S+ MB/s", shown.after(1.0)[2])


@pytest.mark.parametrize("columns", [40, 120])
def test_trouble_in_the_panel(silo: Silo, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    shown = Drawn(silo, monkeypatch, columns)
    shown.counts.updates.update(accepted=3, stale=1, refused=2)
    shown.panel.offer, shown.panel.trouble = OFFER, "connection \x1b[2Jrefused"
    lines = shown.after(200.0, phase="training", run_id="1-domo", round_index=3, num_steps=12)
    shown.counts.updates.clear()
    assert lines[0].startswith(f"site-a: no answer from {shown.address}"[:38])
    assert any(line.startswith("training step 0 of 12") for line in lines)
    assert any("updates: 3 counted, 1 too late, 2 refused"[: columns - 2] in line for line in lines)
    assert "\x1b[2J" not in shown.written.getvalue()
    assert "what was trained of this round is lost" in shown.panel.goodbye()


def test_a_certificate_that_ends_soon(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca", days=(-1, 400))
    soon, later = authority.sign("site-a", days=(-30, 5.5)), authority.sign("site-b")
    short = authority.sign("site-c", days=(-1, 5.5))  # it is renewed at half of its time
    said = certificate_note(TlsFiles(None, soon.cert, soon.key))
    assert said.startswith("this silo's certificate expires in 5 days, on ")
    for good in (later, short):
        assert certificate_note(TlsFiles(None, good.cert, good.key)) == ""
    assert certificate_note(None) == ""


def test_lines_from_many_threads_stand_above_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    console = Console(file=written, width=60, force_terminal=True, color_system=None)
    board = Board(console, Text("the panel"))
    board.start()

    def talk(name: str) -> None:
        for i in range(50):
            (print if i % 2 else board.say)(f"{name} {i}")

    threads = [threading.Thread(target=talk, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    board.stop()
    assert sys.stdout is written
    lines = [re.sub(r"\x1b\[[0-9;?]*\w|\r", "", line) for line in written.getvalue().splitlines()]
    for name in "abc":
        said = [re.sub(r"^(the panel)+", "", line) for line in lines]
        assert [line for line in said if line.startswith(f"{name} ")] == [
            f"{name} {i}" for i in range(50)
        ]
    assert [line for line in lines if line][-1].endswith("the panel")


def test_a_progress_bar_is_kept_short_and_shown_once_it_ends() -> None:
    said: list[str] = []
    stream = _Above(io.StringIO(), said.append)
    for i in range(10_000):
        stream.write(f"\rstep {i}" if i else "step 0")
    assert len(stream._begun) < 20
    stream.write("\nnext\r")
    stream.write("\n")
    assert said == ["step 9999", "next"]
    for _ in range(2 * LONGEST):
        stream.write(".")
    assert len(stream._begun) <= LONGEST
    assert "".join(said[2:]) + stream._begun == "." * 2 * LONGEST
