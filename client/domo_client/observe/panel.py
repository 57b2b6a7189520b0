"""The live panel of a silo: a few calm lines below the log, drawn from what the silo knows."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from domo.names import one_line
from domo.ops.console import console
from domo.ops.folder_checks import human_size
from domo.ops.words import duration
from domo.stages.table import STAGES
from domo.stages.watch import in_words
from domo_client.loop.silo import Silo
from domo_client.rpc.offer import Offer
from domo_client.telemetry.counts import LOST_BEATS, LOST_S

RATE_S = 3.0
"""Rates are of the last so many seconds."""
MOST_BAR = 30
"""Columns of a bar, at most."""
NEXT = {
    "preparing": "enrols in the run",
    "idle": "takes part in the next run that its tasks and data allow",
    "enrolled": "trains once the run begins",
    "waiting": "trains when the next round opens",
    "downloading": "trains on the model that is coming",
    "evaluating": "trains, or waits for the next round",
    "training": "sends the update, and waits for the next round",
    "uploading": "waits for the next round",
}
KEPT = {
    "training": "what was trained of this round is lost; the round is made again, or left out",
    "evaluating": "this test is made again",
    "downloading": "what was received is kept",
    "uploading": "the update is kept here, and is sent when this silo is back",
}
"""What becomes of the work in hand when a silo is stopped, by phase."""
UNSAVED = "the update is not on disk yet and is lost; the round is made again, or left out"
"""The same while an update is made, or waits for room on the disk."""


NOTED_S = 10.0
"""How often the certificate is looked at: it may be renewed."""


class Panel:
    """What is going on, as a renderable; it may be drawn from any thread.

    Args:
        silo: Joined.
        certificate_note: That its own certificate ends soon, as it is now; empty: it does not.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        silo: Silo,
        certificate_note: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ):
        self._silo, self._clock = silo, clock
        self._certificate_note, self._noted = certificate_note, ("", -NOTED_S)
        self.offer: Offer | None = None
        self.trouble = ""
        self.ended = ""
        self._key: tuple[object, ...] = ()
        self._since = self._clock()
        self._at_start = (0, 0)
        self._last_bytes = {"uploading": 0, "downloading": 0}
        self._samples: deque[tuple[float, int]] = deque()

    def _note(self) -> str:
        if self._clock() - self._noted[1] >= NOTED_S:
            self._noted = self._certificate_note(), self._clock()
        return self._noted[0]

    # what is seen

    @property
    def phase(self) -> str:
        """The silo's phase; the wait for a round is `downloading` once its model is coming."""
        phase = self._silo.progress.phase
        moved = self._silo.connection.counts.bytes_received - self._at_start[1]
        return "downloading" if phase == "waiting" and moved > 0 else phase

    def look(self) -> None:
        """Notice what has changed since it was last drawn."""
        progress, counts = self._silo.progress, self._silo.connection.counts
        now, moved = self._clock(), (counts.bytes_sent, counts.bytes_received)
        key = (progress.phase, progress.run_id, progress.round_index)
        if key != self._key:
            if self._key:
                old = str(self._key[0])
                done = (moved[0] - self._at_start[0], moved[1] - self._at_start[1])
                which = {"uploading": ("uploading", done[0]), "waiting": ("downloading", done[1])}
                if old in which and which[old][1]:
                    self._last_bytes[which[old][0]] = which[old][1]
            self._key, self._since, self._at_start = key, now, moved
            self._samples.clear()
        self._samples.append((now, sum(moved)))
        while self._samples[0][0] < now - RATE_S:
            self._samples.popleft()

    def _rate(self) -> float:
        (t0, b0), (t1, b1) = self._samples[0], self._samples[-1]
        return (b1 - b0) / (t1 - t0) if t1 > t0 else 0.0

    # how it looks

    def __rich__(self) -> RenderableType:
        """The lines, none longer than the terminal is wide."""
        self.look()
        width = console.width
        lines: list[RenderableType] = [self._line(*self._connected(), width)]
        run = self._run()
        lines += [self._line(run, "", width)] if run else []
        lines += [self._line(self.ended, "", width)] if self.ended else self._doing(width)
        lines += self._flow(self._so_far(), "", width)
        lines += self._flow([self._note()], "yellow", width)
        if not self.ended:
            ready = self.phase != "idle" or self.offer is None
            step = NEXT[self.phase if ready else "preparing"]
            lines += self._flow([f"next: {step}", "Ctrl-C stops this silo"], "dim", width)
            lines.append(Text(""))  # what the terminal echoes of keys goes there
        return Group(*lines)

    @classmethod
    def _flow(cls, parts: Sequence[str], style: str, width: int) -> list[RenderableType]:
        """Parts one after another; a new line where the next one has no room."""
        lines: list[str] = []
        for part in filter(None, parts):
            if lines and len(lines[-1]) + len(part) + 3 < width:
                lines[-1] += f"; {part}"
            else:
                lines.append(part)
        return [cls._line(line, style, width) for line in lines]

    @staticmethod
    def _line(text: str, style: str, width: int) -> Text:
        line = Text(one_line(text, None), style=style, no_wrap=True)
        line.truncate(max(1, width - 1), overflow="ellipsis")
        return line

    def _connected(self) -> tuple[str, str]:
        line, heard = self._silo.connection.session, self._silo.connection.counts.heard_at
        if self.ended:
            return f"{line.silo_id}: has left {line.address}", ""
        longest = max(LOST_S, LOST_BEATS * line.report_interval_s)
        silent = None if heard is None else self._clock() - heard
        if silent is not None and silent < longest:
            self.trouble = ""
            return f"{line.silo_id}: connected to {line.address}", "green"
        since = "" if silent is None else f" for {duration(silent)}"
        why = f": {self.trouble}" if self.trouble else ""
        return f"{line.silo_id}: no answer from {line.address}{since}{why}", "yellow"

    def _run(self) -> str:
        if self.offer is None:
            return ""
        c, progress = self.offer.config, self._silo.progress
        rounds = f"round {min(progress.round_index + 1, c.num_rounds)} of {c.num_rounds}"
        return f"{self.offer.run_id}: {c.method} on {self.offer.task}, {rounds}"

    def _doing(self, width: int) -> list[RenderableType]:
        progress, phase, doing = self._silo.progress, self.phase, self._silo.doing
        took = self._clock() - self._since
        if doing is not None and doing.stuck:
            return self._flow(in_words(doing).split(": ", 1), "yellow", width)
        if doing is not None and phase == "idle":
            return [self._line(f"{STAGES[doing.stage]}, for {duration(doing.for_s)}", "", width)]
        if phase == "training" and progress.num_steps:
            left = took * (progress.num_steps - progress.step) / max(1, progress.step)
            text = f"step {progress.step} of {progress.num_steps}"
            text += f", about {duration(left)} left" if progress.step and left >= 1 else ""
            return [self._bar("training", progress.step, progress.num_steps, text, width)]
        counts = self._silo.connection.counts
        if phase in ("uploading", "downloading"):
            way = 0 if phase == "uploading" else 1
            done = (counts.bytes_sent, counts.bytes_received)[way] - self._at_start[way]
            usual = self._last_bytes[phase]
            of = f" of about {human_size(usual)}" if usual else ""
            text = f"{human_size(done)}{of}, {human_size(int(self._rate()))}/s"
            return [self._bar(phase, min(done, usual), usual, text, width)]
        if phase == "evaluating":
            return [self._line(f"testing the model, for {duration(took)}", "", width)]
        if self.offer is None:
            return [self._line(f"waiting for a run, for {duration(took)}", "", width)]
        waits = f"waiting for the coordinator, for {duration(took)}"
        return self._flow([waits, self._silo.waits_for], "", width)

    def _bar(self, what: str, done: int, total: int, text: str, width: int) -> RenderableType:
        room = min(MOST_BAR, width - len(what) - len(text) - 4)
        if not total or room < 8:
            return self._line(f"{what} {text}", "", width)
        grid = Table.grid(padding=(0, 1))
        for _ in range(3):
            grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(what, ProgressBar(total, done, width=room), text)
        return grid

    def _so_far(self) -> list[str]:
        counts, loss = self._silo.connection.counts, self._silo.progress.loss
        sent, received = human_size(counts.bytes_sent), human_size(counts.bytes_received)
        parts, updates = [f"sent {sent}, received {received}"], counts.updates
        told = {"counted": updates["accepted"], "too late": updates["stale"]}
        told["refused"] = updates["refused"]
        shown = [f"{n} {word}" for word, n in told.items() if n or word == "counted"]
        if counts.rounds or updates.total():
            parts.append("updates: " + ", ".join(shown))
        if loss is not None:
            parts.append(f"loss {loss:.4f}")
        return parts

    # the end

    def goodbye(self) -> str:
        """What becomes of the work in hand, and what left this site."""
        progress, phase = self._silo.progress, self.phase
        sent = human_size(self._silo.connection.counts.bytes_sent)
        work = "no work was in hand"
        if phase in KEPT and progress.run_id:
            lost = phase == "uploading" and self._silo.has_unsaved
            kept = UNSAVED if lost else KEPT[phase]
            work = f"round {progress.round_index + 1} of {progress.run_id}: {kept}"
        return f"{work}. This site has sent {sent} of updates in this session"
