"""What an operator sees: one progress bar and one line a round; plain lines if not a terminal."""

import shlex
import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from domo.console import console, err_console, say
from domo.folders import human_size
from domo.training import LocalRound
from domo_client.connection import Offer
from domo_client.outbox import REFUSED
from domo_client.session import Outcome, Silo


class Ui:
    """Prints; knows nothing of the protocol.

    Args:
        command: The command line that was typed, for the commands that are proposed.
    """

    def __init__(self, command: list[str]):
        self._command = command
        self._progress: Progress | None = None
        self._began = 0.0
        self._silo: Silo | None = None
        self._bytes = (0, 0)

    def joined(self, silo: Silo, address: str) -> None:
        """The coordinator has answered."""
        say(f"{silo.connection.silo_id}: connected to {address}")
        self._silo = silo
        silo.on_step = self._step
        silo.on_sent = self._sent

    def trouble(self, text: str) -> None:
        """The network failed and the call will be made again."""
        err_console.print(f"network: {text}", style="yellow", markup=False, soft_wrap=True)

    def waiting(self) -> None:
        """Nothing to do."""
        say("waiting for a run; Ctrl-C stops this silo")

    def offered(self, offer: Offer) -> None:
        """A run wants this silo."""
        c = offer.config
        say(f"run {offer.run_id}: {c.method} on {offer.task}, {c.num_rounds} rounds")

    def prepared(self, offer: Offer, samples: int, tests: int) -> None:
        """Data and model are loaded."""
        say(f"run {offer.run_id}: {samples} training and {tests} test samples here; enrolling")

    def needs_data(self, offer: Offer, hint: str) -> None:
        """No data was given: say what to type."""
        command = shlex.join(self._command)
        err_console.print(
            f"run {offer.run_id} needs data of the task {offer.task!r}: {hint}\n"
            "Start this silo again with its data:\n"
            f"  {command} --data DIR\n"
            "or, to try the federation on a part of the public dataset:\n"
            f"  {command} --shard 0/{offer.config.expected_silos}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )

    def declined(self, offer: Offer, reason: str) -> None:
        """This silo cannot take part."""
        text = f"error: this silo takes no part in {offer.run_id}: {reason}"
        err_console.print(text, style="red", markup=False, soft_wrap=True)

    def round_begins(self, rnd: LocalRound) -> None:
        """A round is in hand."""
        self._began = time.monotonic()
        if console.is_terminal and rnd.num_steps:
            self._progress = Progress(
                TextColumn(f"round {rnd.round_index + 1} of {rnd.numbers.num_rounds}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("steps"),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._progress.add_task("steps", total=rnd.num_steps)
            self._progress.start()

    def _step(self, rnd: LocalRound, done: int) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done)

    def _stop_bar(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def round_done(self, rnd: LocalRound) -> None:
        """A round was computed here; a training round is now sent."""
        self._stop_bar()
        if not rnd.num_steps and rnd.evaluation:
            say(f"model {rnd.round_index} of {rnd.numbers.num_rounds}: {self._tested(rnd)}")

    def _tested(self, rnd: LocalRound) -> str:
        means = {k: s.total / s.num for k, s in rnd.evaluation.items() if s.num}
        parts = [
            f"{k} {100 * v:.1f} %" if k == "accuracy" else f"{k} {v:.4g}" for k, v in means.items()
        ]
        return "here: " + ", ".join(parts) if parts else ""

    def _sent(self, rnd: LocalRound, state: str, text: str) -> None:
        took = time.monotonic() - self._began
        line = f"round {rnd.round_index + 1} of {rnd.numbers.num_rounds}: "
        loss = rnd.metrics.get("loss")
        pieces = [f"{rnd.num_steps} steps in {took:.1f} s"]
        if loss is not None:
            pieces.append(f"train loss {loss:.4f}")
        if rnd.evaluation:
            pieces.append(self._tested(rnd))
        if self._silo is not None:
            now = (self._silo.connection.bytes_sent, self._silo.connection.bytes_received)
            sent, got = now[0] - self._bytes[0], now[1] - self._bytes[1]
            self._bytes = now
            pieces.append(f"received {human_size(got)}, sent {human_size(sent)}")
        if state == REFUSED:
            pieces.append(f"was refused: {text}")
        elif state != "ACCEPTED":
            pieces.append(f"came too late: {text}" if text else "came too late")
        say(line + ", ".join(pieces))

    def failed(self, rnd: LocalRound, error: Exception) -> None:
        """This silo's round failed."""
        self._stop_bar()
        text = (
            f"error: round {rnd.round_index + 1} failed here: {type(error).__name__}: {error} "
            "(reported to the coordinator; it is tried again)"
        )
        err_console.print(text, style="red", markup=False, soft_wrap=True)

    def ended(self, outcome: Outcome) -> None:
        """A run is over."""
        style = None if outcome.state == "FINISHED" else "yellow"
        say(
            f"run {outcome.run_id}: {outcome.state.lower()} after {outcome.num_rounds} rounds: "
            f"{outcome.text}",
            style=style,
        )
