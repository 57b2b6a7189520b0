"""What an operator sees: a line for whatever happens, and below them a live panel on a terminal."""

import shlex
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from domo.errors import ConfigError
from domo.metrics.names import main_names
from domo.metrics.numbers import numbers_of
from domo.names import one_line
from domo.ops.console import CURES, complain, console, in_words, say
from domo.ops.folder_checks import human_size
from domo.ops.words import counted
from domo.training.local_round import LocalRound
from domo.training.task_errors import told
from domo_client.identity.kept import is_enrolled
from domo_client.loop.faults import Faults
from domo_client.loop.outbox import REFUSED
from domo_client.loop.outcome import Outcome
from domo_client.loop.silo import Silo
from domo_client.observe.live import Board
from domo_client.observe.panel import Panel
from domo_client.rpc.offer import Offer
from domo_proto.certificates import check_dates, read_certificates
from domo_proto.channel import TlsFiles

LATE = 4
"""A certificate that should have been renewed by itself is worth a word in the last quarter."""


class Ui:
    """Prints; knows nothing of the protocol. A context manager that ends the panel.

    Args:
        command: The command line that was typed, for the commands that are proposed.
        certificate_note: That the silo's certificate ends soon, as it is now; empty: it does not.
    """

    def __init__(self, command: list[str], certificate_note: Callable[[], str] = lambda: ""):
        self._command, self._certificate_note = command, certificate_note
        self._panel: Panel | None = None
        self._board: Board | None = None
        self._began, self._not_ready = 0.0, ""
        self._silo: Silo | None = None
        self._bytes = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The panel stays as it was last, and the cursor comes back."""
        if self._panel is not None:
            self._panel.ended = "stopped" if error else "done"
        if self._board is not None:
            self._board.stop()
            self._board = None

    def joined(self, silo: Silo, address: str, shared: str) -> None:
        """The coordinator has answered; `shared` is what it sees of this silo."""
        say(f"{silo.connection.session.silo_id}: connected to {address}")
        say(shared)
        say(f"policy: {silo.policy.source} (domo-client policy explain)")
        self._silo = silo
        silo.on_sent, silo.on_wait = self._sent, self._no_place
        silo.on_short = lambda r, error: self.failed(r, error, silo.faults)
        self._panel = Panel(silo, self._certificate_note)
        if console.is_terminal and not console.is_dumb_terminal:
            self._board = Board(console, self._panel)
            self._board.start()
        elif note := self._certificate_note():
            complain(note, "yellow")

    def _say(self, text: str, style: str | None = None) -> None:
        """A line; above the panel while there is one."""
        (say if self._board is None else self._board.say)(text, style)

    def _warn(self, text: str, style: str) -> None:
        """A line on standard error; above the panel while there is one."""
        (complain if self._board is None else self._board.say)(text, style)

    def trouble(self, text: str) -> None:
        """The network failed and the call will be made again."""
        if self._panel is not None:
            self._panel.trouble = text
        self._warn(one_line(f"network: {text}", None), "yellow")

    def stuck(self, text: str) -> None:
        """What is the user's does not move on, or does again."""
        self._warn(text, "yellow")

    def waiting(self) -> None:
        """Nothing to do."""
        if self._panel is not None:
            self._panel.offer = None
        if self._board is None:
            say("waiting for a run; Ctrl-C stops this silo")

    def _no_place(self, text: str) -> None:
        """The run under way is not for this silo."""
        self._warn(one_line(f"connected, and waiting: {text}", None), "yellow")

    def stopped(self, silo_id: str) -> None:
        """Ctrl-C or SIGTERM: say what becomes of the work in hand, and how to go on."""
        say(f"{silo_id}: stopped")
        if self._panel is not None:
            say(self._panel.goodbye())
            say(f"to go on: {shlex.join(self._command)}")

    def offered(self, offer: Offer) -> None:
        """A run wants this silo."""
        c = offer.config
        if self._panel is not None:
            self._panel.offer = offer
        self._say(
            f"run {offer.run_id}: {c.method} on {offer.task}, {counted(c.num_rounds, 'round')}"
        )

    def prepared(self, offer: Offer, samples: int, tests: int) -> None:
        """Data and model are loaded."""
        self._say(
            f"run {offer.run_id}: {samples} training and {counted(tests, 'test sample')} here; "
            "enrolling"
        )

    def needs_data(self, offer: Offer, hint: str, is_public: bool) -> None:
        """No data was given: say what to type."""
        command = shlex.join(self._command)
        text = (
            f"run {offer.run_id} needs data of the task {offer.task!r}: {hint}\n"
            f"Start this silo again with its data:\n  {command} --data DIR"
        )
        if is_public:
            text += (
                "\nor, to try the federation on a part of the public dataset:\n"
                f"  {command} --shard 0/{offer.config.expected_silos}"
            )
        self._warn(text, "yellow")

    def not_ready(self, offer: Offer, reason: str, again_s: float) -> None:
        """This silo cannot take part yet; a reason is said when it is new, or the pause longer."""
        text = (
            f"not ready for {offer.run_id}: {reason} (looking again every {again_s:.0f} s; Ctrl-C "
            "stops this silo)"
        )
        if text != self._not_ready:
            self._not_ready = text
            self._warn(text, "yellow")

    def lost(self, text: str) -> None:
        """The coordinator has lost the run."""
        self._warn(f"error: {text}", "red")

    def declined(self, run_id: str, reason: str) -> None:
        """This silo cannot take part."""
        text = f"error: this silo takes no part in {run_id}: {reason}"
        self._warn(text, "red")

    def round_begins(self, rnd: LocalRound) -> None:
        """A round is in hand."""
        self._began = time.monotonic()

    def round_done(self, rnd: LocalRound) -> None:
        """A round was computed here; a training round is now sent."""
        if not rnd.num_steps and rnd.evaluation:
            self._say(f"model {rnd.round_index} of {rnd.numbers.num_rounds}: {self._tested(rnd)}")

    def _tested(self, rnd: LocalRound) -> str:
        means = numbers_of([rnd.evaluation])
        parts = [
            f"{k} {100 * v:.1f} %" if k == "accuracy" else f"{k} {v:.4g}"
            for k, v in ((name, means[name]) for name in main_names(means))
        ]
        return "here: " + ", ".join(parts) if parts else ""

    def _sent(self, rnd: LocalRound, state: str, text: str) -> None:
        took = time.monotonic() - self._began
        line = f"round {rnd.round_index + 1} of {rnd.numbers.num_rounds}: "
        loss = rnd.metrics.get("loss")
        pieces = [f"{counted(rnd.num_steps, 'step')} in {took:.1f} s"]
        if loss is not None:
            pieces.append(f"train loss {loss:.4f}")
        if rnd.evaluation:
            pieces.append(self._tested(rnd))
        if self._silo is not None:
            counts = self._silo.connection.counts
            now = (counts.bytes_sent, counts.bytes_received)
            sent, got = now[0] - self._bytes[0], now[1] - self._bytes[1]
            self._bytes = now
            pieces.append(f"received {human_size(got)}, sent {human_size(sent)}")
        if state == REFUSED:
            pieces.append(f"was refused: {text}")
        elif state != "ACCEPTED":
            pieces.append(f"came too late: {text}" if text else "came too late")
        self._say(line + ", ".join(pieces))

    def failed(self, round_index: int, error: BaseException, faults: Faults) -> None:
        """This silo's round failed, or what domo does for it; `faults`: with those before it."""
        what = told(error)
        if isinstance(error, OSError) and error.errno in CURES:
            what = f"this machine says: {in_words(error)}"
        text = f"error: round {round_index + 1} failed here"
        if faults.lasts:
            text += (
                f" {faults.times} times with the same fault, and it will not pass by itself: "
                f"{what}. Mend it and start domo-client again; until then it is tried again, "
                f"next in {faults.pause_s:.0f} s"
            )
        elif faults.times > 1:
            text += (
                f" {faults.times} times: {what} (reported to the coordinator; it is tried again, "
                f"next in {faults.pause_s:.0f} s)"
            )
        else:
            text += f": {what} (reported to the coordinator; it is tried again)"
        self._warn(text, "red")

    def ended(self, outcome: Outcome) -> None:
        """A run is over."""
        style = None if outcome.state == "FINISHED" else "yellow"
        self._say(
            f"run {outcome.run_id}: {outcome.state.lower()} after "
            f"{counted(outcome.num_rounds, 'round')}: "
            f"{outcome.text}",
            style=style,
        )


def certificate_note(tls: TlsFiles | None) -> str:
    """That the silo's own certificate ends soon, and when; empty: it does not, or there is none."""
    if tls is None or tls.cert is None:
        return ""
    try:
        cert = read_certificates(tls.cert, "certificate")[0]
    except ConfigError as error:  # it is said where it is used
        return str(error)
    begin, end = cert.not_valid_before_utc.timestamp(), cert.not_valid_after_utc.timestamp()
    if is_enrolled(tls) and end - time.time() > (end - begin) / LATE:
        return ""  # it is renewed by itself
    found = check_dates(cert, "this silo's certificate", "have it renewed", time.time())
    return "" if found.state == "ok" else f"{found.text}; {found.mend}"
